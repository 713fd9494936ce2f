//! Runs that belong to no session, for tests of what stands before the sessions.

use std::sync::Arc;

use super::super::name::SessionName;
use super::super::{Error, Run, RunOutcome, RunRequest};
use crate::guest::StreamKind;

impl Run {
    /// One that whoever makes it writes and ends.
    pub(crate) fn alone(request: &RunRequest) -> Arc<Self> {
        let name = SessionName::parse(request.session.as_deref()).unwrap();
        Self::new(name, request, Arc::default())
    }

    /// Writes to its standard output.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.with_output(|output| output.push(StreamKind::Stdout, bytes, u64::MAX));
    }

    /// Ends it.
    pub(crate) fn end(&self, result: Result<RunOutcome, Error>) {
        self.finish(result);
    }
}
