//! The lower bound for comparison: containers made through the engine's own API, with as little as
//! possible between the call and Python.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{AttachContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use futures_util::StreamExt;
use integration_tests::{EngineUnderTest, engine};
use tokio::io::{AsyncWrite, AsyncWriteExt};

type Output = Pin<
    Box<
        dyn futures_util::Stream<
                Item = Result<bollard::container::LogOutput, bollard::errors::Error>,
            > + Send,
    >,
>;

/// A started container with its streams.
pub(crate) struct Container<'a> {
    engine: &'a EngineUnderTest,
    id: String,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    output: Output,
    rest: Vec<u8>,
    /// When its start was requested.
    pub(crate) started: Instant,
}

/// The request for a hardened container of the locked image, with a command instead of the
/// entrypoint if there is one.
fn body(image: String, command: Option<Vec<String>>, limits: bool) -> ContainerCreateBody {
    let tmpfs = |size: &str| format!("rw,noexec,nosuid,nodev,size={size},mode=1777");
    let host = HostConfig {
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        memory: limits.then_some(512 << 20),
        memory_swap: limits.then_some(512 << 20),
        pids_limit: limits.then_some(128),
        auto_remove: Some(true),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        tmpfs: Some(HashMap::from([
            ("/tmp".to_owned(), tmpfs("64m")),
            ("/workspace".to_owned(), tmpfs("128m")),
            ("/projects".to_owned(), tmpfs("64m")),
        ])),
        ..Default::default()
    };
    let (entrypoint, cmd) = match command {
        Some(mut command) => {
            let arguments = command.split_off(1);
            (Some(command), Some(arguments))
        }
        None => (None, None),
    };
    ContainerCreateBody {
        image: Some(image),
        user: Some("65534:65534".to_owned()),
        entrypoint,
        cmd,
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        stop_timeout: Some(0),
        host_config: Some(host),
        ..Default::default()
    }
}

fn image_id(engine: &EngineUnderTest) -> String {
    let digests = engine::image_digests();
    let known = |id: &String| engine.block(engine.client.inspect_image(id)).is_ok();
    [digests.config, digests.manifest]
        .into_iter()
        .find(known)
        .expect("the image is loaded")
}

impl<'a> Container<'a> {
    /// Creates, attaches and starts a container.
    pub(crate) fn start(engine: &'a EngineUnderTest, command: Option<&[&str]>) -> Self {
        let image = image_id(engine);
        let command = command.map(|command| command.iter().map(|&part| part.to_owned()).collect());
        let body = body(image, command, engine.enforces_limits());
        engine.block(async {
            let client = &engine.client;
            let begun = Instant::now();
            let id = client
                .create_container(None, body)
                .await
                .expect("the engine creates a container")
                .id;
            let options = AttachContainerOptionsBuilder::new()
                .stdin(true)
                .stdout(true)
                .stderr(true)
                .stream(true)
                .build();
            let attached = client
                .attach_container(&id, Some(options))
                .await
                .expect("the engine attaches");
            client
                .start_container(&id, None)
                .await
                .expect("the engine starts the container");
            Self {
                engine,
                id,
                input: attached.input,
                output: attached.output,
                rest: Vec::new(),
                started: begun,
            }
        })
    }

    /// Sends a line and reads the line that follows.
    pub(crate) fn exchange(&mut self, line: &[u8]) -> Duration {
        let engine = self.engine;
        engine.block(async {
            let begun = Instant::now();
            self.input
                .write_all(line)
                .await
                .expect("the container reads");
            self.input.flush().await.expect("the container reads");
            self.line_of().await;
            begun.elapsed()
        })
    }

    /// Reads the next line.
    pub(crate) fn line(&mut self) -> Vec<u8> {
        let engine = self.engine;
        engine.block(self.line_of())
    }

    async fn line_of(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return std::mem::replace(&mut self.rest, rest);
            }
            let piece = self
                .output
                .next()
                .await
                .expect("the container goes on")
                .expect("the engine passes output on");
            self.rest.extend_from_slice(&piece.into_bytes());
        }
    }

    /// Reads until the end of the output.
    pub(crate) fn finish(mut self) {
        let engine = self.engine;
        engine.block(async { while self.output.next().await.is_some() {} });
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        let _ = self
            .engine
            .block(self.engine.client.remove_container(&self.id, Some(options)));
    }
}
