//! The run of a call's code on the guest that is there: what the code is given, how it ends, and
//! what it leaves.

use std::sync::Arc;

use super::Actor;
use super::call::ActiveCall;
use crate::guest::changes::Collection;
use crate::guest::death::Disconnect;
use crate::guest::execution::{Execution, ExecutionEnd};
use crate::guest::servers::ServerCards;
use crate::run::Run;
use crate::run::capture::Capture;
use crate::run::ending::{Ending, Exception, Reaction, Stop};
use crate::run::notes::{Loss, Note};
use crate::run::outcome::RunEnd;
use bridge_broker::RunContext;
use bridge_store::Origin;
use bridge_wire::{ChangedFiles, DoneError, DoneStatus, ExecutionDone};

/// Bytes kept of a class name or a place in the code.
const WORD_LIMIT: usize = 256;
/// Bytes kept of an exception's message.
const MESSAGE_LIMIT: usize = 16 << 10;
/// Bytes kept of a traceback.
const TRACEBACK_LIMIT: usize = 64 << 10;

impl Actor {
    /// Runs the code. What it writes goes into `run`.
    pub(super) async fn execute(
        &mut self,
        call: &ActiveCall<'_>,
        run: &Run,
        cards: ServerCards,
    ) -> RunEnd {
        let output_bytes = self.shared.limits.output_bytes;
        let loss = self.loss.take();
        run.with_output(|output| {
            *output = std::mem::take(&mut self.idle_output);
            output.cut(output_bytes);
        });
        let mut execution = self.execution(call, &cards);
        let (mut end, stopped) = match self.guest.as_mut() {
            Some(guest) => execution.run(guest, run, call.stop(true)).await,
            None => (ExecutionEnd::Dead(Disconnect::Ended), None),
        };
        let calls = execution.end();
        let mut notes: Vec<Note> = loss.iter().cloned().map(Note::FreshSession).collect();
        notes.extend(cards.notes());
        let cell_number = self.guest.as_ref().map_or(0, |guest| guest.cells);
        let mut disconnect = None;
        let mut files = Vec::new();
        if let ExecutionEnd::Reported(done) = &mut end {
            disconnect = self.bring_changes(done.projects.take(), run).await.err();
            notes.extend(self.project_notes());
            if done.more_files > 0 {
                notes.push(Note::MoreFiles(done.more_files));
            }
            let listed = std::mem::take(&mut done.files);
            files = self.shared.output_files.put(&self.name, listed);
        }
        let ending = self.conclude(end, stopped).await;
        if let Some(disconnect) = disconnect {
            self.reap(disconnect).await;
            notes.push(Note::SandboxEndedAfterRun);
        }
        if stopped == Some(Stop::Cancelled) && self.loss.is_none() {
            // Nobody reads this answer: the next one still has to say it.
            self.loss = loss;
        }
        RunEnd {
            cell: cell_number,
            servers: cards.loaded(&self.scope),
            ending,
            files,
            notes,
            calls,
        }
    }

    fn execution<'a>(&mut self, call: &ActiveCall<'a>, cards: &'a ServerCards) -> Execution<'a> {
        self.executions += 1;
        let (requests, outcomes) = self.scope.run(RunContext {
            // The run ends all of its calls itself, and then knows which they were.
            deadline: None,
            cancel: call.request.cancel.clone(),
            interact: Arc::clone(&call.interact),
            origin: self.origin(),
        });
        Execution {
            id: self.executions,
            code: &call.request.code,
            output_bytes: self.shared.limits.output_bytes,
            open_files: self.shared.limits.open_files,
            text_bytes: call.request.text_bytes,
            grace: self.shared.settings.grace,
            given: cards,
            requests,
            outcomes,
            calls: None,
        }
    }

    /// Whom the store notes as the writer of what this run writes.
    fn origin(&self) -> Origin {
        Origin {
            session: self.name.as_str().to_owned(),
            run: self.executions,
        }
    }

    /// Brings what the run left below `/projects` to the host. An error says that the guest went
    /// away meanwhile.
    async fn bring_changes(
        &mut self,
        changed: Option<ChangedFiles>,
        run: &Run,
    ) -> Result<(), Disconnect> {
        let origin = self.origin();
        let (Some(guest), Some(changed)) = (self.guest.as_mut(), changed) else {
            return Ok(());
        };
        let output_bytes = self.shared.limits.output_bytes;
        let mut late_output = Capture::default();
        let collection = Collection {
            store: self.shared.broker.store(),
            origin,
            late_output: &mut late_output,
            output_bytes,
        };
        let brought = collection.bring(guest, changed).await;
        run.with_output(|output| output.add(late_output, output_bytes));
        brought
    }

    fn project_notes(&mut self) -> Vec<Note> {
        let notes = self.guest.as_mut().map(|guest| guest.sync.take_notes());
        let notes = notes.into_iter().flatten();
        notes.map(Note::Projects).collect()
    }

    /// What the end of the execution comes to. A guest that is dead is reaped; one that does not
    /// react is killed.
    async fn conclude(&mut self, end: ExecutionEnd, stopped: Option<Stop>) -> Ending {
        match end {
            ExecutionEnd::Reported(done) => {
                let limit = self.shared.limits.output_bytes;
                ending_of(*done, stopped, usize::try_from(limit).unwrap_or(usize::MAX))
            }
            ExecutionEnd::Dead(disconnect) => Ending::Died {
                death: self.reap(disconnect).await,
                stopped,
            },
            ExecutionEnd::Unresponsive(by) => {
                self.kill(Loss::Stopped(by)).await;
                let grace = self.shared.settings.grace;
                Ending::Stopped {
                    by,
                    reaction: Reaction::Killed { grace },
                }
            }
        }
    }
}

/// What the guest's report comes to, bounded: most of it is user code's.
fn ending_of(done: ExecutionDone, stopped: Option<Stop>, result_bytes: usize) -> Ending {
    let ExecutionDone {
        status,
        exit_code,
        error,
        place,
        ..
    } = done;
    let result = done.result.map(|result| cut(result, result_bytes));
    if let Some(by) = stopped {
        let reaction = if status == DoneStatus::Interrupted {
            let place = place.map(|place| one_line(cut(place, WORD_LIMIT)));
            Reaction::Interrupted { place }
        } else {
            let traceback = error.map(|error| cut(error.traceback, TRACEBACK_LIMIT));
            Reaction::Finished {
                traceback: traceback.unwrap_or_default(),
                result,
                exit_code,
            }
        };
        return Ending::Stopped { by, reaction };
    }
    match (status, error.map(bounded), exit_code) {
        (DoneStatus::Success, _, exit_code) => Ending::Success { result, exit_code },
        // `sys.exit(3)`: the status says it all, and a message was printed already.
        (DoneStatus::Error, None, Some(code)) => Ending::Exit { code },
        (DoneStatus::Error, Some(exception), Some(code)) if exception.class == "SystemExit" => {
            Ending::Exit { code }
        }
        (DoneStatus::Error, None, None) => Ending::Failed,
        (DoneStatus::Error | DoneStatus::Interrupted, Some(exception), _) => {
            Ending::Raised { exception, result }
        }
        (DoneStatus::Interrupted, None, _) => Ending::Raised {
            exception: Exception {
                class: "KeyboardInterrupt".to_owned(),
                message: String::new(),
                traceback: String::new(),
            },
            result,
        },
    }
}

fn bounded(raised: DoneError) -> Exception {
    Exception {
        class: one_line(cut(raised.kind, WORD_LIMIT)),
        message: cut(raised.message, MESSAGE_LIMIT),
        traceback: cut(raised.traceback, TRACEBACK_LIMIT),
    }
}

/// The first `limit` bytes of a text, and how much is missing.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let end = (0..=limit)
        .rfind(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    let missing = text.len() - end;
    text.truncate(end);
    text + &format!("... ({missing} bytes left out)")
}

fn one_line(text: String) -> String {
    if text.contains(char::is_control) {
        text.replace(char::is_control, " ")
    } else {
        text
    }
}
