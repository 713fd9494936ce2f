//! The run of a call's code on the guest that is there: what it is given, how it ends, and what its answer says.

use std::sync::Arc;
use std::time::Duration;

use super::super::answer::Answer;
use super::super::capture::Capture;
use super::super::ending::{Death, Ending};
use super::super::execution::{Execution, Stop, Verdict};
use super::super::files::OutFile;
use super::super::servers::ServerCards;
use super::super::{Run, RunOutcome, State, Status};
use super::Actor;
use super::caller::Caller;
use bridge_broker::RunContext;
use bridge_store::Origin;
use bridge_wire::ExecutionDone;

impl Actor {
    /// Runs the code. What it writes goes into `run`.
    pub(super) async fn execute(
        &mut self,
        caller: &Caller<'_>,
        run: &Run,
        given: ServerCards,
    ) -> RunOutcome {
        let timeout = caller.request.timeout;
        let output_bytes = self.shared.limits.output_bytes;
        let loss = self.loss.take();
        let mut notes: Vec<String> = loss.iter().map(Ending::note).collect();
        notes.extend(given.notes());
        run.with_output(|output| {
            *output = std::mem::take(&mut self.idle_output);
            output.cut(output_bytes);
        });
        let mut execution = self.execution(caller, &given);
        let (mut verdict, stopped) = match self.guest.as_mut() {
            Some(live) => execution.run(live, run, caller.stop(true)).await,
            None => (Verdict::Dead(Death::Ended), None),
        };
        let calls = execution.end();
        let cell = self.guest.as_ref().map_or(0, |live| live.cells);
        let carried = match &mut verdict {
            Verdict::Done(done) => self.carry(done, run, &mut notes).await,
            Verdict::Dead(_) | Verdict::Unresponsive(_) => Ok(()),
        };
        if let Verdict::Done(done) = &verdict
            && done.more_files > 0
        {
            let more = done.more_files;
            notes.push(format!(
                "{more} more new files in /workspace/out are not listed; many are better packed into one"
            ));
        }
        let (answer, files) = self.conclude(verdict, stopped, timeout).await;
        let mut outcome = answer.outcome(&self.name, None, timeout);
        if let Err(death) = carried {
            self.bury(death).await;
            outcome.state = State::Lost;
            notes.push(
                "the sandbox ended right after this run; what it left below /projects is not kept"
                    .to_owned(),
            );
        }
        if outcome.status == Status::Cancelled && self.loss.is_none() {
            // Nobody reads this answer: the next one still has to say it.
            self.loss = loss;
        }
        RunOutcome {
            cell,
            calls,
            files,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            servers: given.loaded(&self.scope),
            ..outcome
        }
    }

    fn execution<'a>(&mut self, caller: &Caller<'a>, given: &'a ServerCards) -> Execution<'a> {
        self.executions += 1;
        let (requests, responses) = self.scope.run(RunContext {
            // The run ends all of its calls itself, and then knows which they were.
            deadline: None,
            cancel: caller.request.cancel.clone(),
            interact: Arc::clone(&caller.interact),
            origin: self.origin(),
        });
        Execution {
            id: self.executions,
            code: &caller.request.code,
            output_bytes: self.shared.limits.output_bytes,
            open_files: self.shared.limits.open_files,
            text_bytes: caller.request.text_bytes,
            grace: self.shared.settings.grace,
            given,
            requests,
            responses,
            calls: None,
        }
    }

    /// Who writes what this run writes.
    fn origin(&self) -> Origin {
        Origin {
            session: self.name.as_str().to_owned(),
            run: self.executions,
        }
    }

    /// Brings what the run left below `/projects` to the host. An error says that the guest died meanwhile.
    async fn carry(
        &mut self,
        done: &mut ExecutionDone,
        run: &Run,
        notes: &mut Vec<String>,
    ) -> Result<(), Death> {
        let origin = self.origin();
        let Some(live) = self.guest.as_mut() else {
            return Ok(());
        };
        let mut carried = Ok(());
        if let Some(changed) = done.projects.take() {
            let output_bytes = self.shared.limits.output_bytes;
            let store = self.shared.broker.store();
            let mut late = Capture::default();
            carried = live
                .carry(changed, store, origin, &mut late, output_bytes)
                .await;
            run.with_output(|output| output.add(late, output_bytes));
        }
        notes.extend(live.known.notes());
        carried
    }

    /// The answer and the files that the verdict comes to. A guest that is dead is buried; one that is deaf is killed.
    async fn conclude(
        &mut self,
        verdict: Verdict,
        stopped: Option<Stop>,
        timeout: Duration,
    ) -> (Answer, Vec<OutFile>) {
        let answer = match verdict {
            Verdict::Done(mut done) => {
                let files = std::mem::take(&mut done.files);
                let files = self.shared.shelf.put(&self.name, files);
                let output_bytes = self.shared.limits.output_bytes;
                return (Answer::done(*done, stopped, timeout, output_bytes), files);
            }
            Verdict::Dead(death) => Answer::dead(&self.bury(death).await, stopped, timeout),
            Verdict::Unresponsive(stop) => {
                self.kill(match stop {
                    Stop::Timeout => Ending::TimeLimit,
                    Stop::Cancelled => Ending::Cancelled,
                })
                .await;
                Answer::killed(stop, timeout, self.shared.settings.grace)
            }
        };
        (answer, Vec::new())
    }
}
