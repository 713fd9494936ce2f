//! Asks an engine for its containers without bollard, whose types do not know all states of podman.
//! Docker's own list may hold containers that are gone.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::EngineUnderTest;
use crate::wait::{limit, until};

impl EngineUnderTest {
    /// IDs of the containers, in any state, that carry a label.
    ///
    /// # Panics
    /// If the engine does not list them.
    #[must_use]
    pub fn containers(&self, label: &str) -> Vec<String> {
        let mut filters = String::new();
        for byte in format!("{{\"label\":[\"{label}\"]}}").bytes() {
            let _ = write!(filters, "%{byte:02X}");
        }
        let path = format!("/v1.40/containers/json?all=true&filters={filters}");
        // Podman fails the whole list if a container disappears meanwhile.
        let list = until(limit(10), "the engine to list containers", || {
            let (_, body) = self.ask(&path).expect("the engine answers");
            match serde_json::from_slice(&body).expect("it speaks JSON") {
                Value::Array(list) => Some(list),
                _ => None,
            }
        });
        let listed = list.iter().filter_map(|container| container["Id"].as_str());
        listed
            .filter(|id| self.knows(id))
            .map(str::to_owned)
            .collect()
    }

    /// Docker 20.10 lists a container as "removing" for ever if its start and its removal
    /// coincided.
    fn knows(&self, id: &str) -> bool {
        let answer = self.ask(&format!("/v1.40/containers/{id}/json"));
        let (status, _) = answer.expect("the engine answers");
        status != 404
    }

    /// Sends a GET and returns the status and body of the answer.
    fn ask(&self, path: &str) -> std::io::Result<(u16, Vec<u8>)> {
        let socket = self
            .address
            .strip_prefix("unix://")
            .expect("the suite's engines listen on unix sockets");
        let mut connection = UnixStream::connect(socket)?;
        connection.set_read_timeout(Some(limit(20)))?;
        // HTTP/1.0, so that the answer is not chunked and the connection is closed.
        connection.write_all(format!("GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n").as_bytes())?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let body = answer.split_off(end.map_or(answer.len(), |end| end + 4));
        let head = String::from_utf8_lossy(&answer);
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        Ok((status.parse().unwrap_or_default(), body))
    }

    /// IDs of the containers that the bridge with this process ID owns.
    #[must_use]
    pub fn containers_of(&self, bridge: u32) -> Vec<String> {
        self.containers(&format!("io.mcp-code-bridge.owner-pid={bridge}"))
    }

    /// Asserts that a bridge that has ended leaves no container within 5 s.
    pub fn assert_nothing_left_of(&self, bridge: u32) {
        until(limit(5), "the bridge's containers to be gone", || {
            self.containers_of(bridge).is_empty().then_some(())
        });
    }
}
