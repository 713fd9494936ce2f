//! The stub server, independent of its transport.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::scenario::{Scenario, Step};

/// Output for one request: the standard output, or the response to its POST.
pub(crate) type Output = mpsc::UnboundedSender<Vec<u8>>;

/// State of the server.
pub(crate) struct Server {
    pub(crate) scenario: Scenario,
    tools: Mutex<Vec<Value>>,
    calls: Mutex<HashMap<String, usize>>,
    cancelled: Mutex<HashMap<String, CancellationToken>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next_question: AtomicU64,
    reversed: Mutex<Vec<oneshot::Sender<oneshot::Sender<()>>>>,
    record: Option<Mutex<std::fs::File>>,
    pub(crate) output_closed: Notify,
}

/// The values of `$...` in texts.
struct Variables<'a> {
    id: &'a Value,
    token: Value,
    arguments: Value,
    answer: Value,
}

impl Server {
    pub(crate) fn new(scenario: Scenario) -> anyhow::Result<Self> {
        let record = match &scenario.record {
            Some(path) => {
                let mut file = std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(path)?;
                writeln!(file, "\"started {}\"", std::process::id())?;
                Some(Mutex::new(file))
            }
            None => None,
        };
        Ok(Self {
            tools: Mutex::new(scenario.tools.clone()),
            scenario,
            calls: Mutex::default(),
            cancelled: Mutex::default(),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1000),
            reversed: Mutex::default(),
            record,
            output_closed: Notify::new(),
        })
    }

    pub(crate) async fn greet(&self, output: &Output) -> anyhow::Result<()> {
        let words = Variables {
            id: &Value::Null,
            token: Value::Null,
            arguments: Value::Null,
            answer: Value::Null,
        };
        self.run(&self.scenario.greeting, words, output).await
    }

    /// Appends a line to the record file.
    pub(crate) fn record(&self, what: &Value) -> anyhow::Result<()> {
        if let Some(record) = &self.record {
            let mut file = record.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
            file.write_all(format!("{what}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Handles one message from the client.
    pub(crate) async fn handle(
        self: Arc<Self>,
        message: Value,
        output: Output,
    ) -> anyhow::Result<()> {
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let id = message
                .get("id")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            if let Some(question) = lock(&self.questions).remove(&id) {
                let _ = question.send(message);
            }
            return Ok(());
        };
        let params = message.get("params").cloned().unwrap_or_default();
        let Some(id) = message.get("id") else {
            if method == "notifications/cancelled" {
                self.cancellation(&params["requestId"]).cancel();
            }
            return Ok(());
        };
        let words = Variables {
            id,
            token: params
                .pointer("/_meta/progressToken")
                .cloned()
                .unwrap_or_default(),
            arguments: params
                .get("arguments")
                .cloned()
                .unwrap_or_else(|| json!({})),
            answer: Value::Null,
        };
        let steps = match self.scenario.methods.get(method) {
            Some(None) => return Ok(()),
            Some(Some(steps)) => steps.clone(),
            None => self.usual(method, &params),
        };
        self.run(&steps, words, &output).await
    }

    fn usual(&self, method: &str, params: &Value) -> Vec<Step> {
        let info = json!({"name": "stub", "version": "1"});
        let capabilities = self
            .scenario
            .capabilities
            .clone()
            .unwrap_or_else(|| json!({"tools": {"listChanged": true}}));
        match method {
            "initialize" if !self.scenario.modern => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let version = self.scenario.version.as_deref().unwrap_or(asked);
                vec![Step::Result(
                    json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}),
                )]
            }
            "server/discover" if self.scenario.modern => vec![Step::Result(
                json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": info}),
            )],
            "ping" => vec![Step::Result(json!({}))],
            "tools/list" => vec![Step::Result(self.page(params))],
            "tools/call" => self.call(params["name"].as_str().unwrap_or_default()),
            "subscriptions/listen" if self.scenario.modern => vec![Step::UntilCancelled],
            _ => vec![Step::Error(
                json!({"code": -32601, "message": format!("{method}: no such method")}),
            )],
        }
    }

    fn page(&self, params: &Value) -> Value {
        let tools = lock(&self.tools);
        let from = params["cursor"]
            .as_str()
            .and_then(|cursor| cursor.parse().ok())
            .unwrap_or(0)
            .min(tools.len());
        let to = self
            .scenario
            .page
            .map_or(tools.len(), |page| (from + page).min(tools.len()));
        let mut result = json!({"tools": tools[from..to]});
        if to < tools.len() {
            result["nextCursor"] = to.to_string().into();
        }
        result
    }

    fn call(&self, tool: &str) -> Vec<Step> {
        let Some(lists) = self.scenario.calls.get(tool) else {
            return vec![Step::Echo];
        };
        let mut calls = lock(&self.calls);
        let count = calls.entry(tool.to_owned()).or_default();
        let list = lists
            .get(*count)
            .or(lists.last())
            .cloned()
            .unwrap_or_default();
        *count += 1;
        list
    }

    fn cancellation(&self, id: &Value) -> CancellationToken {
        lock(&self.cancelled)
            .entry(id.to_string())
            .or_default()
            .clone()
    }

    async fn run(
        &self,
        steps: &[Step],
        mut words: Variables<'_>,
        output: &Output,
    ) -> anyhow::Result<()> {
        for step in steps {
            match step {
                Step::Result(result) => {
                    let message =
                        json!({"jsonrpc": "2.0", "id": words.id, "result": words.fill(result)});
                    send(output, &message);
                }
                Step::Error(error) => {
                    send(
                        output,
                        &json!({"jsonrpc": "2.0", "id": words.id, "error": words.fill(error)}),
                    );
                }
                Step::Echo => {
                    let result = json!({"content": [], "structuredContent": words.arguments});
                    send(
                        output,
                        &json!({"jsonrpc": "2.0", "id": words.id, "result": result}),
                    );
                }
                Step::Big(bytes) => {
                    let result = json!({"content": [{"type": "text", "text": "x".repeat(*bytes)}]});
                    send(
                        output,
                        &json!({"jsonrpc": "2.0", "id": words.id, "result": result}),
                    );
                }
                Step::Raw(text) => drop(output.send(words.fill_text(text).into_bytes())),
                Step::RawBase64(text) => {
                    drop(output.send(base64::engine::general_purpose::STANDARD.decode(text)?));
                }
                Step::Flood(bytes) => drop(output.send(vec![b'x'; *bytes])),
                Step::StderrFlood(bytes) => {
                    complain("0123456789abcde\n".repeat(bytes / 16)).await?;
                }
                Step::Stderr(text) => complain(words.fill_text(text)).await?,
                Step::SleepMs(time) => tokio::time::sleep(Duration::from_millis(*time)).await,
                Step::Gate(path) => {
                    let mut gate = tokio::net::UnixStream::connect(path).await?;
                    gate.read_to_end(&mut Vec::new()).await?;
                }
                Step::UntilCancelled => {
                    self.cancellation(words.id).cancelled().await;
                    self.record(&json!({"cancelled": words.id}))?;
                }
                Step::Reverse(count) => self.reverse(*count).await?,
                Step::Exit(code) => quit(*code),
                Step::Signal(signal) => {
                    let signal =
                        rustix::process::Signal::from_named_raw(*signal).context("signal")?;
                    rustix::process::kill_process(rustix::process::getpid(), signal)?;
                    std::future::pending::<()>().await;
                }
                Step::CloseOutput => {
                    self.output_closed.notify_one();
                    std::future::pending::<()>().await;
                }
                Step::Spawn(command, file) => {
                    let mut process = std::process::Command::new(&command[0]);
                    let process = process
                        .args(&command[1..])
                        .stdin(Stdio::inherit())
                        .spawn()?;
                    std::fs::write(file, process.id().to_string())?;
                }
                Step::Notify(method, params) => {
                    send(
                        output,
                        &json!({"jsonrpc": "2.0", "method": method, "params": words.fill(params)}),
                    );
                }
                Step::Ask(method, params) => {
                    words.answer = self.ask(method, params, output).await?;
                }
                Step::Tools(tools) => lock(&self.tools).clone_from(tools),
            }
        }
        Ok(())
    }

    async fn ask(&self, method: &str, params: &Value, output: &Output) -> anyhow::Result<Value> {
        let id = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.questions).insert(id, sender);
        send(
            output,
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
        );
        let mut answer = answer.await?;
        Ok(answer
            .get_mut("result")
            .or(None)
            .map(Value::take)
            .unwrap_or_else(|| answer["error"].take()))
    }

    /// Waits for `count` calls; each goes on when the one that arrived after it is done.
    async fn reverse(&self, count: usize) -> anyhow::Result<()> {
        let (sender, turn) = oneshot::channel::<oneshot::Sender<()>>();
        let all = {
            let mut reversed = lock(&self.reversed);
            reversed.push(sender);
            (reversed.len() == count).then(|| std::mem::take(&mut *reversed))
        };
        if let Some(all) = all {
            tokio::spawn(async move {
                for waiting in all.into_iter().rev() {
                    let (done, is_done) = oneshot::channel();
                    let _ = waiting.send(done);
                    let _ = is_done.await;
                }
            });
        }
        let done = turn.await?;
        // The answer is queued before the next waiting task can run.
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            let _ = done.send(());
        });
        Ok(())
    }
}

impl Variables<'_> {
    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.as_str() {
                "$id" => self.id.clone(),
                "$token" => self.token.clone(),
                "$arguments" => self.arguments.clone(),
                "$answer" => self.answer.clone(),
                text => self.fill_text(text).into(),
            },
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(object) => Value::Object(
                object
                    .iter()
                    .map(|(key, item)| (key.clone(), self.fill(item)))
                    .collect::<Map<_, _>>(),
            ),
            other => other.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> String {
        let mut text = text.replace("$id", &self.id.to_string());
        if let Some((before, name)) = text.split_once("$env:") {
            let end =
                name.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
            let (name, after) = name.split_at(end.unwrap_or(name.len()));
            text = format!(
                "{before}{}{after}",
                std::env::var(name).unwrap_or_else(|_| "(unset)".to_owned())
            );
        }
        text
    }
}

fn send(output: &Output, message: &Value) {
    let _ = output.send(format!("{message}\n").into_bytes());
}

async fn complain(text: String) -> std::io::Result<()> {
    let mut stderr = tokio::io::stderr();
    stderr.write_all(text.as_bytes()).await?;
    stderr.flush().await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[expect(clippy::exit, reason = "this is what the step is for")]
fn quit(code: i32) -> ! {
    std::process::exit(code)
}
