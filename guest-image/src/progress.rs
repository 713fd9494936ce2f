//! How long-running work reports its progress.

/// Receives progress and warnings, from several threads at once.
pub trait Progress: Send + Sync {
    /// The stage that `message` describes is at `done` of `total`, where there is something to
    /// count.
    fn report(&self, message: &str, done: u64, total: Option<u64>);

    /// A problem that does not stop the work but that a person should know about.
    fn warn(&self, message: &str);
}

/// Discards all progress and warnings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _message: &str, _done: u64, _total: Option<u64>) {}

    fn warn(&self, _message: &str) {}
}
