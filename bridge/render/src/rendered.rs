//! One answer, cut to its room and put into words; it borrows the outcome that it is made of.

use std::borrow::Cow;

use super::excerpt::{self, Excerpt, Extent, Whole};
use super::resource::{display_uri, file_uri};
use super::words;
use bridge_common::media;
use bridge_session::{
    Content, Display, Displays, Ending, OutFile, Reaction, Reason, RunOutcome, State, Status,
};

/// A document may take this part of an answer's text; a larger one is left out, for half of one is
/// of no use.
const DOCUMENT_PART: usize = 4;

/// The answer to one call of `run_python`.
#[derive(Debug)]
pub struct Rendered<'a> {
    pub(crate) news: News<'a>,
    /// `None` where nothing was run, for a reason that is not the run's own.
    pub(crate) run: Option<RunView<'a>>,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct News<'a> {
    pub(crate) status: AnswerStatus,
    /// What happened, in one line.
    pub(crate) summary: String,
    /// What went wrong: a traceback, or a message.
    pub(crate) error: Option<Cow<'a, str>>,
    /// A stable word for an error that is not an exception of the code, such as `memory_limit` or
    /// `E0`.
    pub(crate) reason: Option<&'a str>,
}

/// How a call ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerStatus {
    /// There is a run.
    Run(Status),
    /// The arguments of the call are wrong.
    Invalid,
    /// The bridge could not take the call.
    Refused,
}

impl AnswerStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Run(Status::Success) => "success",
            Self::Run(Status::Error) | Self::Refused => "error",
            Self::Run(Status::Timeout) => "timeout",
            Self::Run(Status::Cancelled) => "cancelled",
            Self::Run(Status::Running) => "running",
            Self::Invalid => "validation_error",
        }
    }
}

/// What is shown of a run besides its news.
#[derive(Debug)]
pub(crate) struct RunView<'a> {
    pub(crate) outcome: &'a RunOutcome,
    /// The call named its session.
    pub(crate) is_named: bool,
    pub(crate) stdout: Excerpt<'a>,
    pub(crate) stderr: Excerpt<'a>,
    pub(crate) result: Option<Cow<'a, str>>,
    pub(crate) displays: Vec<Shown<'a>>,
    /// Displays that could not be shown.
    pub(crate) displays_left_out: u64,
    pub(crate) files: Vec<File>,
    pub(crate) note: Option<String>,
}

/// Something shown, and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The picture or document.
    pub display: &'a Display,
    session: &'a str,
    cell: u64,
    number: usize,
}

impl Shown<'_> {
    /// An address that names the display; its content is in the answer and nowhere else.
    pub fn uri(&self) -> String {
        display_uri(self.session, self.cell, self.number)
    }
}

/// A file that can be read as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path of the file below `/workspace/out`.
    pub name: String,
    /// Address at which the file can be read.
    pub uri: String,
    /// Media type, by the file's name.
    pub mime: &'static str,
    /// Size of the file in bytes.
    pub size: u64,
}

impl File {
    /// A file that a session offers.
    pub fn of(session: &str, file: &OutFile) -> Self {
        Self {
            uri: file_uri(session, &file.path),
            mime: media::by_name(&file.path),
            size: file.size,
            name: file.path.clone(),
        }
    }
}

impl<'a> Rendered<'a> {
    /// The answer about a run. `is_named` says whether the call named its session; output, result
    /// and error share `text_bytes`.
    pub fn of_run(outcome: &'a RunOutcome, is_named: bool, text_bytes: u64) -> Self {
        let room = usize::try_from(text_bytes).unwrap_or(usize::MAX);
        Self::new(outcome, is_named, room, true)
    }

    /// The whole answer about a run whose session ends with it, so that nothing is said of its
    /// variables.
    pub fn of_only_run(outcome: &'a RunOutcome) -> Self {
        Self::new(outcome, false, usize::MAX, false)
    }

    fn new(outcome: &'a RunOutcome, is_named: bool, room: usize, session_goes_on: bool) -> Self {
        let identity = &outcome.identity;
        let output = &outcome.output;
        let status = outcome.status();
        let extent = match (status, &identity.run) {
            (Status::Running, _) => Extent::SoFar,
            // Only the rest may be here, whose lines have other numbers in the whole.
            (_, Some(_)) => Extent::Rest,
            (_, None) => Extent::All,
        };
        let is_lost = outcome.state() == State::Lost;
        let whole = |name| {
            (!is_lost).then_some(Whole {
                name,
                cell: identity.cell,
                extent,
            })
        };
        // The smaller stream is not cut for the larger one's sake.
        let bytes = |total: u64| usize::try_from(total).unwrap_or(usize::MAX);
        let (out, err) = (bytes(output.stdout.total()), bytes(output.stderr.total()));
        let err_room = room.saturating_sub(out).max(room / 4);
        let out_room = room.saturating_sub(err_room.min(err));
        let (displays, displays_left_out) = shown(outcome, room);
        let files = output.files.iter();
        let result = outcome.ending.result();
        Self {
            news: news(outcome, room, session_goes_on),
            run: Some(RunView {
                outcome,
                is_named,
                stdout: excerpt::stream(&output.stdout, out_room, whole("runtime.last_output")),
                stderr: excerpt::stream(
                    &output.stderr,
                    err_room,
                    whole("runtime.last_output.stderr"),
                ),
                result: result.map(|result| excerpt::text(result.into(), room / 2)),
                displays,
                displays_left_out,
                files: files
                    .map(|file| File::of(&identity.session, file))
                    .collect(),
                note: words::notes(&outcome.notes),
            }),
        }
    }

    /// The answer to a call whose arguments are wrong; nothing was run.
    pub fn invalid(message: &'a str) -> Self {
        Self::without_run(AnswerStatus::Invalid, None, message)
    }

    /// The answer to a call that nothing was run for, for a reason that is not its own. `reason` is
    /// one of `doctor`'s codes, or a word.
    pub fn refused(reason: &'a str, message: &'a str) -> Self {
        Self::without_run(AnswerStatus::Refused, Some(reason), message)
    }

    fn without_run(status: AnswerStatus, reason: Option<&'a str>, message: &'a str) -> Self {
        Self {
            news: News {
                status,
                summary: first_line(message),
                error: Some(message.into()),
                reason,
            },
            run: None,
        }
    }

    /// Whether the client is told of an error. A run that goes on is not one.
    pub fn is_error(&self) -> bool {
        !matches!(
            self.news.status,
            AnswerStatus::Run(Status::Success | Status::Running)
        )
    }

    /// What went wrong: a traceback, or a message.
    pub fn error(&self) -> Option<&str> {
        self.news.error.as_deref()
    }

    /// A stable word for an error that is not an exception of the code.
    pub fn reason(&self) -> Option<&str> {
        self.news.reason
    }

    /// What is told before all else.
    pub fn note(&self) -> Option<&str> {
        self.run.as_ref()?.note.as_deref()
    }

    /// Pictures and documents, which follow the text.
    pub fn displays(&self) -> &[Shown<'a>] {
        self.run.as_ref().map_or(&[], |run| &run.displays)
    }

    /// Files that are new in `/workspace/out`.
    pub fn files(&self) -> &[File] {
        self.run.as_ref().map_or(&[], |run| &run.files)
    }

    /// What became of tool calls, where that is worth a line. Calls of code that went well are its
    /// own business, unless something became of them that it may not have noticed.
    pub fn tool_call_news(&self) -> Option<String> {
        let outcome = self.run.as_ref()?.outcome;
        let calls = &outcome.calls;
        let went_well = outcome.status() == Status::Success;
        let is_news = !went_well || calls.is_cut_off() || calls.failed() > 0;
        (is_news && !calls.is_empty()).then(|| calls.to_string())
    }
}

/// How a run ended, as a reader wants it.
fn news(outcome: &RunOutcome, room: usize, session_goes_on: bool) -> News<'_> {
    let identity = &outcome.identity;
    let ending = &outcome.ending;
    let exit = ending.exit_code().map(|code| format!("exit {code}"));
    let (summary, error): (String, Option<Cow<'_, str>>) = match ending {
        Ending::Success { .. } => ("success".to_owned(), None),
        Ending::Running => {
            let seconds = identity.elapsed.as_secs();
            (format!("running for {seconds} s"), None)
        }
        Ending::Exit { code } => (format!("exit {code}"), None),
        Ending::Failed => {
            let line = "error: the code failed; why is not known";
            (line.to_owned(), Some(line.into()))
        }
        Ending::Raised { exception, .. } => {
            let line = match (exception.class.as_str(), exception.message.as_str()) {
                ("", message) => message.to_owned(),
                (class, "") => class.to_owned(),
                (class, message) => format!("{class}: {message}"),
            };
            let traceback = exception.traceback.trim_end_matches('\n');
            let summary = first_line(&line);
            let shown = if traceback.is_empty() {
                line.into()
            } else {
                traceback.into()
            };
            (summary, Some(shown))
        }
        Ending::Stopped { .. } | Ending::Died { .. } | Ending::NotStarted { .. } => {
            let message = words::message(ending, identity.timeout, session_goes_on);
            let message = message.unwrap_or_default();
            let summary = first_line(&message);
            let traceback = match ending {
                Ending::Stopped {
                    reaction: Reaction::Finished { traceback, .. },
                    ..
                } => traceback.trim_end_matches('\n'),
                _ => "",
            };
            let shown = if traceback.is_empty() {
                message
            } else {
                format!("{message}\n{traceback}")
            };
            (summary, Some(shown.into()))
        }
    };
    News {
        status: AnswerStatus::Run(outcome.status()),
        summary: if summary.is_empty() {
            exit.unwrap_or_default()
        } else {
            summary
        },
        error: error.map(|error| excerpt::text(error, room / 2)),
        reason: ending.reason().map(Reason::as_str),
    }
}

/// The displays that fit, and how many there are besides.
fn shown(outcome: &RunOutcome, room: usize) -> (Vec<Shown<'_>>, u64) {
    let Displays {
        shown, left_out, ..
    } = &outcome.output.displays;
    let fits = |display: &&Display| match &display.content {
        Content::Image(_) => true,
        Content::Text(text) => text.len() <= room / DOCUMENT_PART,
    };
    let fitting = shown.iter().filter(fits).enumerate();
    let fitting: Vec<Shown<'_>> = fitting
        .map(|(index, display)| Shown {
            display,
            session: &outcome.identity.session,
            cell: outcome.identity.cell,
            number: index + 1,
        })
        .collect();
    let too_large = (shown.len() - fitting.len()) as u64;
    (fitting, left_out.saturating_add(too_large))
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}
