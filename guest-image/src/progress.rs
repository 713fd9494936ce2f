//! Words and counts for whoever waits.

/// Told of what takes long. Called from several threads.
pub trait Progress: Send + Sync {
    /// `message` is for people; `done` of `total` where there is a count.
    fn report(&self, message: &str, done: u64, total: Option<u64>);

    /// Something that a person should know though the work goes on.
    fn warn(&self, message: &str);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _message: &str, _done: u64, _total: Option<u64>) {}

    fn warn(&self, _message: &str) {}
}
