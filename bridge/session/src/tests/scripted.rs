//! Guests that do what a test tells them, in memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::super::{Guest, Launch, LaunchError, Progress};
use bridge_engine::{self as engine, Attached, Exit, Output};
use bridge_wire::GuestReport;

/// What a guest does, from its start to its end.
type Script = Box<dyn Fn(Puppet) -> BoxFuture<'static, ()> + Send + Sync>;
/// What happens before a guest is there.
type Before = Box<
    dyn Fn(
            usize,
            &dyn Progress,
        ) -> Pin<Box<dyn Future<Output = Result<(), LaunchError>> + Send + '_>>
        + Send
        + Sync,
>;

/// Output that makes the session's task panic.
pub(super) const PANIC: &str = "panic!";

/// Launches puppets and counts them.
pub(super) struct Stage {
    script: Script,
    before: Option<Before>,
    pub(super) launched: AtomicUsize,
    pub(super) living: Arc<AtomicUsize>,
    pub(super) killed: Arc<AtomicUsize>,
    pub(super) labels: Mutex<Vec<Option<String>>>,
}

impl Stage {
    /// All guests follow `script`; [`Puppet::number`] tells them apart.
    pub(super) fn new<F, R>(script: F) -> Arc<Self>
    where
        F: Fn(Puppet) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self::bare(script))
    }

    /// Likewise; `before` runs first in each launch.
    pub(super) fn with_before<F, R>(before: Before, script: F) -> Arc<Self>
    where
        F: Fn(Puppet) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Arc::new(Self {
            before: Some(before),
            ..Self::bare(script)
        })
    }

    fn bare<F, R>(script: F) -> Self
    where
        F: Fn(Puppet) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self {
            script: Box::new(move |puppet| Box::pin(script(puppet))),
            before: None,
            launched: AtomicUsize::new(0),
            living: Arc::default(),
            killed: Arc::default(),
            labels: Mutex::default(),
        }
    }

    pub(super) fn launched(&self) -> usize {
        self.launched.load(Ordering::SeqCst)
    }

    pub(super) fn living(&self) -> usize {
        self.living.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Launch for Stage {
    async fn launch(
        &self,
        session: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Guest>, LaunchError> {
        let number = self.launched.fetch_add(1, Ordering::SeqCst) + 1;
        self.labels.lock().unwrap().push(session.map(str::to_owned));
        if let Some(before) = &self.before {
            before(number, progress).await?;
        }
        let (input, host_frames) = tokio::io::duplex(64 << 10);
        let (said, output) = mpsc::channel(16);
        let (exit, exited) = watch::channel(None);
        let puppet = Puppet {
            number,
            said,
            heard: BufReader::new(host_frames).lines(),
            exit,
        };
        self.living.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Strings {
            attached: Some(Attached {
                input: Box::pin(input),
                output: stream::unfold(output, async |mut output| {
                    let piece = output.recv().await?;
                    assert!(!matches!(&piece, Ok(Output::Stdout(bytes)) if bytes == PANIC));
                    Some((piece, output))
                })
                .boxed(),
            }),
            task: tokio::spawn((self.script)(puppet)),
            exited,
            living: Arc::clone(&self.living),
            killed: Arc::clone(&self.killed),
        }))
    }
}

/// The guest as the session sees it.
struct Strings {
    attached: Option<Attached>,
    task: JoinHandle<()>,
    exited: watch::Receiver<Option<Result<Exit, ()>>>,
    living: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
}

#[async_trait]
impl Guest for Strings {
    fn attach(&mut self) -> Option<Attached> {
        self.attached.take()
    }

    fn check(&self, report: &GuestReport) -> Result<(), LaunchError> {
        if report.uid == 0 {
            return Err(LaunchError {
                code: "L0",
                message: "the guest runs as root".into(),
            });
        }
        Ok(())
    }

    async fn exit(&mut self) -> Result<Exit, engine::Error> {
        let told = self.exited.wait_for(Option::is_some).await;
        match told.ok().and_then(|exit| *exit) {
            Some(exit) => exit.map_err(|()| gone()),
            // It has not ended as far as anybody knows.
            None => std::future::pending().await,
        }
    }

    async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.killed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Strings {
    fn drop(&mut self) {
        self.task.abort();
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an engine says that has gone away.
pub(super) fn gone() -> engine::Error {
    engine::Error::Gone {
        engine: bridge_settings::EngineKind::Podman,
        endpoint: "unix:///engine.sock".to_owned(),
        act: "wait for the guest's end",
        reason: "connection closed".to_owned(),
    }
}

/// The guest as a script sees it.
pub(super) struct Puppet {
    /// 1 for the first that was launched.
    pub(super) number: usize,
    said: mpsc::Sender<Result<Output, engine::Error>>,
    heard: Lines<BufReader<DuplexStream>>,
    exit: watch::Sender<Option<Result<Exit, ()>>>,
}

impl Puppet {
    /// Raw bytes on its standard output.
    pub(super) async fn write(&self, bytes: impl Into<Bytes>) {
        let _ = self.said.send(Ok(Output::Stdout(bytes.into()))).await;
    }

    /// Raw bytes on its standard error.
    pub(super) async fn complain(&self, bytes: &'static str) {
        let _ = self.said.send(Ok(Output::Stderr(bytes.into()))).await;
    }

    /// The engine loses it.
    pub(super) async fn lose(&self) {
        self.exit.send_replace(Some(Err(())));
        let _ = self.said.send(Err(gone())).await;
    }

    /// Goes on, and does nothing.
    pub(super) async fn hold(self) {
        std::future::pending::<()>().await;
    }

    /// Goes on without an input.
    pub(super) async fn close_input(self) {
        let Self {
            said, exit, heard, ..
        } = self;
        drop(heard);
        std::future::pending::<()>().await;
        drop((said, exit));
    }

    /// Goes on without an output.
    pub(super) async fn close_output(self) {
        let Self { said, exit, .. } = self;
        drop(said);
        std::future::pending::<()>().await;
        drop(exit);
    }

    /// Sends one frame to the host.
    pub(super) async fn say(&self, frame: Value) {
        self.write(format!("{frame}\n")).await;
    }

    /// The `ready` of a well confined guest.
    pub(super) async fn ready(&self) {
        self.say(ready_frame()).await;
    }

    /// The next frame of the host; never returns where there is none.
    pub(super) async fn receive(&mut self) -> Value {
        match self.heard.next_line().await {
            Ok(Some(line)) => serde_json::from_str(&line).unwrap(),
            _ => std::future::pending().await,
        }
    }

    /// Sends `execution_done` with success.
    pub(super) async fn done(&self, id: &Value) {
        self.say(json!({"type": "execution_done", "id": id, "status": "success"}))
            .await;
    }

    /// Ends as a real one does.
    pub(super) async fn end(self, code: i64, out_of_memory: bool) {
        self.say(json!({"type": "exit", "code": code})).await;
        self.end_silently(code, out_of_memory);
    }

    /// Ends without a word.
    pub(super) fn end_silently(self, code: i64, out_of_memory: bool) {
        self.exit.send_replace(Some(Ok(Exit {
            code,
            out_of_memory,
        })));
    }

    /// Answers every execution with its own code as standard output.
    pub(super) async fn echo(mut self) {
        self.ready().await;
        loop {
            let frame = self.receive().await;
            if frame["type"] == "execute" {
                self.say(json!({"type": "stdout", "data": frame["code"]}))
                    .await;
                self.done(&frame["id"]).await;
            }
        }
    }
}

pub(super) fn ready_frame() -> Value {
    json!({
        "type": "ready", "protocol": 1, "python": "3.14.10", "pid": 7,
        "report": {
            "cap_eff": "0000000000000000", "cap_bnd": "0000000000000000", "no_new_privs": true, "seccomp": 2,
            "uid": 65534, "gid": 65534, "memory_max": 512 << 20, "pids_max": 128,
        },
        "timings": {"start_ms": 12.3},
    })
}
