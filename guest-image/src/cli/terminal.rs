//! Progress on stderr: a bar on a terminal, otherwise one line for each stage.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;

use guest_image::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows progress and warnings to a person.
pub(super) struct Terminal {
    bar: Option<ProgressBar>,
    stage: Mutex<String>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(ProgressBar::new_spinner);
        Self {
            bar,
            stage: Mutex::new(String::new()),
        }
    }

    /// Prints a line above the bar.
    pub(super) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            // A closed stderr must not fail the build.
            None => {
                let _ = writeln!(io::stderr(), "{text}");
            }
        }
    }
}

impl Progress for Terminal {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        let Ok(mut stage) = self.stage.lock() else {
            return;
        };
        let new = *stage != message;
        if new {
            message.clone_into(&mut stage);
        }
        let Some(bar) = &self.bar else {
            drop(stage);
            if new {
                self.line(message);
            }
            return;
        };
        if new {
            let template = match total {
                Some(total) if total > 1 << 20 => "{msg} [{bar:30}] {bytes}/{total_bytes}",
                Some(_) => "{msg} [{bar:30}] {pos}/{len}",
                None => "{spinner} {msg}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(message.to_owned());
        }
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(done);
    }

    fn warn(&self, message: &str) {
        self.line(&format!("warning: {message}"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
