//! Runs without a session, for tests of the crates that stand before the sessions.

use std::sync::Arc;

use crate::name::SessionName;
use crate::{Error, Run, RunOutcome, RunRequest};
use bridge_wire::StreamKind;

impl Run {
    /// A run that its maker writes to and ends.
    ///
    /// # Panics
    ///
    /// When the request names an invalid session.
    pub fn alone(request: &RunRequest) -> Arc<Self> {
        let name = SessionName::parse(request.session.as_deref()).expect("a valid session name");
        Self::new(name, request, Arc::default())
    }

    /// Writes to its standard output.
    pub fn write(&self, bytes: &[u8]) {
        self.with_output(|output| output.push(StreamKind::Stdout, bytes, u64::MAX));
    }

    /// Ends it.
    pub fn end(&self, result: Result<RunOutcome, Error>) {
        self.finish(result);
    }
}
