//! Progress for a person: bars on a terminal, plain lines where asked for, else nothing.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal;
use bridge_session as session;

/// Shows one phase at a time.
pub(super) struct Bars {
    way: Way,
}

enum Way {
    Silent,
    /// Each phase once, as a line.
    Lines(Mutex<BTreeSet<String>>),
    Bar(ProgressBar),
}

impl Bars {
    /// Bars on a terminal, else nothing: for commands whose stderr is not their own.
    pub(super) fn on_terminal() -> Self {
        let way = if std::io::stderr().is_terminal() {
            bar()
        } else {
            Way::Silent
        };
        Self { way }
    }

    /// Bars on a terminal, else lines.
    pub(super) fn or_lines() -> Self {
        let way = if std::io::stderr().is_terminal() {
            bar()
        } else {
            Way::Lines(Mutex::default())
        };
        Self { way }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Way::Bar(bar) = &self.way {
            bar.finish_and_clear();
        }
    }

    fn show(&self, message: &str, done: u64, total: Option<u64>) {
        match &self.way {
            Way::Silent => {}
            Way::Lines(said) => {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                if said.insert(message.to_owned()) {
                    terminal::say(message);
                }
            }
            Way::Bar(bar) => {
                bar.set_style(style(total.is_some()));
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

fn bar() -> Way {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar.set_style(style(false));
    Way::Bar(bar)
}

fn style(counted: bool) -> ProgressStyle {
    let template = if counted {
        "{msg} {wide_bar} {percent}%"
    } else {
        "{spinner} {msg}"
    };
    // The templates are ours and right; should they not be, the default will do.
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
        match &self.way {
            Way::Bar(bar) => bar.suspend(|| terminal::say(message)),
            Way::Silent | Way::Lines(_) => terminal::say(message),
        }
    }
}
