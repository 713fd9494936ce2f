//! Runs without a session, for tests of the crates above this one.

use std::sync::Arc;

use crate::api::{Error, RunRequest};
use crate::name::SessionName;
use crate::run::Run;
use crate::run::outcome::RunEnd;
use crate::run::queue::Queue;
use bridge_wire::StreamKind;

impl Run {
    /// A run that its maker writes to and ends.
    ///
    /// # Panics
    ///
    /// When the request names an invalid session, or the system has no random bytes.
    pub fn alone(request: &RunRequest) -> Arc<Self> {
        let name = SessionName::parse(request.session.as_deref()).expect("a valid session name");
        Self::new(name, request, Queue::default().slot()).expect("random bytes for a name")
    }

    /// Writes to the run's standard output.
    pub fn write(&self, bytes: &[u8]) {
        self.with_output(|output| output.push(StreamKind::Stdout, bytes, u64::MAX));
    }

    /// Ends the run with this result.
    pub fn end(&self, result: Result<RunEnd, Error>) {
        self.finish(result);
    }
}
