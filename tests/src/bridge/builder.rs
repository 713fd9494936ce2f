//! How a bridge under test is started: its engine, variables, arguments and home.

use std::collections::HashMap;
use std::process::Stdio;

use super::{Bridge, binary, collect, read_lines};
use crate::engine::{EngineUnderTest, image_archive, image_lock};
use crate::home::Home;

/// Collects how a bridge is started.
pub struct Builder<'a> {
    engine: Option<&'a EngineUnderTest>,
    variables: Vec<(String, String)>,
    home: Home,
    arguments: Vec<String>,
}

impl<'a> Builder<'a> {
    /// A bridge for an engine, or one that can find none.
    #[must_use]
    pub fn new(engine: Option<&'a EngineUnderTest>) -> Self {
        let home = Home::new(engine.and_then(|engine| engine.user));
        let mut builder = Self {
            engine,
            variables: Vec::new(),
            home,
            arguments: Vec::new(),
        };
        if let Some(engine) = engine {
            builder.variables.extend(engine.environment());
            builder = builder.variable(
                "MCP_BRIDGE_IMAGE_ARCHIVE",
                image_archive().display().to_string(),
            );
            if !engine.enforces_limits() {
                builder = builder.variable("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids");
            }
        }
        if let Some(lock) = image_lock() {
            builder = builder.variable("MCP_BRIDGE_IMAGE_LOCK", lock.display().to_string());
        }
        builder
    }

    /// Sets a variable; the last value of a name counts, and an empty one unsets the variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Adds an argument to the command line.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The home that the bridge will have.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The command that would be run, and the home that it needs.
    #[must_use]
    pub fn command(self) -> (std::process::Command, Home) {
        let mut command = self.home.command(binary());
        for (name, value) in &self.variables {
            if value.is_empty() {
                command.env_remove(name);
            } else {
                command.env(name, value);
            }
        }
        command.args(&self.arguments);
        (command, self.home)
    }

    /// Starts the bridge without a handshake.
    ///
    /// # Panics
    /// If the bridge cannot be started.
    #[must_use]
    pub fn spawn(self) -> Bridge {
        let engine_kept = self.engine.is_some();
        let (mut command, home) = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .expect("the bridge can be started; `cargo build --workspace` builds it");
        let lines = read_lines(child.stdout.take().expect("its standard output is a pipe"));
        let stderr = collect(child.stderr.take().expect("its standard error is a pipe"));
        Bridge {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            home,
            next_id: 1,
            responses: HashMap::new(),
            notifications: Vec::new(),
            engine_kept,
        }
    }

    /// Starts the bridge and makes the handshake of the 2025 protocol.
    #[must_use]
    pub fn start(self) -> Bridge {
        let mut bridge = self.spawn();
        bridge.initialize("2025-11-25");
        bridge
    }
}
