//! Progress for people: a bar on a terminal, plain lines or nothing elsewhere.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal;
use bridge_common::Mutex;
use bridge_session as session;

/// Shows the progress of one phase at a time.
pub(super) struct Bars {
    style: Style,
}

enum Style {
    Silent,
    /// Prints each phase once, as a line.
    Lines(Mutex<BTreeSet<String>>),
    Bar(ProgressBar),
}

impl Bars {
    /// A bar on a terminal, else nothing: for commands whose stderr belongs to the code they run.
    pub(super) fn on_terminal() -> Self {
        let style = if std::io::stderr().is_terminal() {
            bar()
        } else {
            Style::Silent
        };
        Self { style }
    }

    /// A bar on a terminal, else lines.
    pub(super) fn or_lines() -> Self {
        let style = if std::io::stderr().is_terminal() {
            bar()
        } else {
            Style::Lines(Mutex::default())
        };
        Self { style }
    }

    /// Removes the bar from the terminal.
    pub(super) fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }

    fn show(&self, message: &str, done: u64, total: Option<u64>) {
        match &self.style {
            Style::Silent => {}
            Style::Lines(said) => {
                let mut said = said.lock();
                if said.insert(message.to_owned()) {
                    terminal::say(message);
                }
            }
            Style::Bar(bar) => {
                bar.set_style(template(total.is_some()));
                bar.set_message(message.to_owned());
                if let Some(total) = total {
                    bar.set_length(total);
                    bar.set_position(done);
                }
                bar.tick();
            }
        }
    }
}

fn bar() -> Style {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar.set_style(template(false));
    Style::Bar(bar)
}

fn template(counted: bool) -> ProgressStyle {
    let template = if counted {
        "{msg} {wide_bar} {percent}%"
    } else {
        "{spinner} {msg}"
    };
    // Both templates are valid; the default is there to avoid a panic.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl session::Progress for Bars {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        self.show(message, done, total);
    }
}

impl guest_image::Progress for Bars {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        self.show(message, done, total);
    }

    fn warn(&self, message: &str) {
        match &self.style {
            Style::Bar(bar) => bar.suspend(|| terminal::say(message)),
            Style::Silent | Style::Lines(_) => terminal::say(message),
        }
    }
}
