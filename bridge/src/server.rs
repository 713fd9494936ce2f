//! The MCP face: one tool, one resource, over stdio, for clients of both protocol eras.
//!
//! Checks arguments, hands runs to a [`Runner`] and renders what comes back. A mistake in a call is a tool result that the
//! model can read; only a request that is no call of ours is a protocol error.

mod arguments;
mod capabilities;
mod exact;
mod held;
mod line;
mod progress;
mod questions;
mod relay;
mod runner;
mod serve;
mod tool;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, InputRequiredResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::render::Payload;
use crate::session::{Client, Progress, RunOutcome, RunRequest};
use crate::settings::{OutputMode, Settings};

use arguments::Arguments;
use held::{Held, Running};
use progress::{Reports, Steps};
use relay::Relay;

/// Runs code in sessions.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    /// One run. It ends soon after `request.cancel` fires.
    async fn run(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<RunOutcome, Refused>;
}

/// Why nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The call itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// There is no sandbox.
    #[error("{message}")]
    NoSandbox {
        /// A stable code, the same as doctor's.
        code: &'static str,
        /// What happened and how to mend it.
        message: String,
    },
    /// The bridge cannot take the call now.
    #[error("{message}")]
    Busy {
        /// A stable word.
        reason: &'static str,
        /// What to do.
        message: String,
    },
}

impl Refused {
    /// As answered.
    pub fn into_payload(self) -> Payload {
        match self {
            Self::Invalid(message) => Payload::invalid(message),
            Self::NoSandbox { code, message } => Payload::refused(code, message),
            Self::Busy { reason, message } => Payload::refused(reason, message),
        }
    }
}

/// What the face needs to know of the settings.
#[derive(Debug, Clone)]
pub struct Face {
    /// Time limit of a call that names none.
    pub timeout: Duration,
    /// The longest time limit.
    pub max_timeout: Duration,
    /// How answers are written.
    pub output_mode: OutputMode,
    /// Bytes kept of each stream, for the line that says so.
    pub output_bytes: u64,
    /// The capabilities resource.
    pub capabilities: Arc<str>,
}

impl Face {
    /// From the settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            timeout: settings.session.timeout,
            max_timeout: settings.session.max_timeout,
            output_mode: settings.output_mode,
            output_bytes: settings.limits.output_bytes,
            capabilities: capabilities::write(settings).into(),
        }
    }
}

/// The MCP server of one connection.
#[derive(Clone)]
pub struct Server {
    runner: Arc<dyn Runner>,
    face: Face,
    held: Arc<Held>,
    closing: CancellationToken,
}

/// How far a request has brought a run.
enum Turn {
    Done(Box<Result<RunOutcome, Refused>>),
    /// A server has asked something that the client is asked in the answer.
    Asks(InputRequiredResult),
}

impl Server {
    /// A server that runs code with `runner`. When `closing` fires, runs are given up.
    pub fn new(runner: Arc<dyn Runner>, face: Face, closing: CancellationToken) -> Self {
        Self {
            runner,
            face,
            held: Arc::default(),
            closing,
        }
    }

    /// One request: begins a run, or goes on with one that the client comes back to.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, String> {
        let arguments = Arguments::parse(request.arguments.unwrap_or_default(), &self.face)?;
        let named = arguments.session.is_some();
        let run = match request.request_state {
            None => self.begin(arguments, context),
            Some(state) => {
                let run = self.held.take(&state, &arguments)?;
                run.inbox
                    .answer(request.input_responses.unwrap_or_default());
                run
            }
        };
        match self.follow(run, context).await {
            Turn::Asks(questions) => Ok(questions.into()),
            Turn::Done(outcome) => {
                let payload = match *outcome {
                    Ok(outcome) => Payload::of_run(outcome, named, self.face.output_bytes),
                    Err(refused) => refused.into_payload(),
                };
                Ok(self.answer(payload).into())
            }
        }
    }

    fn begin(&self, arguments: Arguments, context: &RequestContext<RoleServer>) -> Running {
        self.held.make_way(arguments.session.as_deref());
        let cancel = self.closing.child_token();
        let steps = Steps::default();
        let (relay, inbox) = Relay::new(context, steps.clone());
        let request = arguments
            .clone()
            .into_request(Client(relay), cancel.clone());
        let (runner, progress) = (Arc::clone(&self.runner), Arc::new(steps.clone()));
        Running {
            outcome: Box::pin(async move { runner.run(request, progress).await }),
            arguments,
            inbox,
            steps,
            _given_up: cancel.clone().drop_guard(),
            cancel,
        }
    }

    /// Waits for the outcome, or until a server asks something that goes into the answer.
    async fn follow(&self, mut run: Running, context: &RequestContext<RoleServer>) -> Turn {
        let mut reports = Reports::new(context, &run.steps);
        let cancel = run.cancel.clone();
        loop {
            tokio::select! {
                biased;
                outcome = &mut run.outcome => return Turn::Done(Box::new(outcome)),
                () = context.ct.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = run.inbox.asked(), if !cancel.is_cancelled() => break,
                notification = reports.next() => reports.send(notification).await,
            }
        }
        let questions = run.inbox.show();
        Turn::Asks(exact::asking(questions, self.held.keep(run)))
    }

    fn answer(&self, payload: Payload) -> CallToolResult {
        let content = vec![ContentBlock::text(payload.text(self.face.output_mode))];
        let mut result = if payload.is_error() {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
        result.structured_content = Some(payload.into_structured());
        result
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let mut information = Implementation::new("mcp-code-bridge", env!("CARGO_PKG_VERSION"));
        information.title = Some("MCP code bridge".to_owned());
        ServerConfig::new(capabilities).with_server_info(information)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool::definition()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != tool::NAME {
            return Err(unknown_tool(&request.name));
        }
        match self.call(request, &context).await {
            Ok(response) => Ok(response),
            Err(message) => Ok(self.answer(Payload::invalid(message)).into()),
        }
    }

    /// Requests whose parameters do not have the shape of their method end here too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let name = request
            .params
            .as_ref()
            .and_then(|params| params.get("name"))
            .and_then(Value::as_str);
        match (request.method.as_str(), name) {
            ("tools/call", Some(tool::NAME)) => {
                let payload = Payload::invalid(
                    "arguments must be an object such as {\"code\": \"print(1)\"}".to_owned(),
                );
                serde_json::to_value(self.answer(payload))
                    .map(CustomResult::new)
                    .map_err(|error| {
                        ErrorData::internal_error(format!("answer not written: {error}"), None)
                    })
            }
            ("tools/call", Some(name)) => Err(unknown_tool(name)),
            ("initialize" | "tools/call" | "resources/read", _) => {
                let message = format!("the parameters of {} are malformed", request.method);
                Err(ErrorData::invalid_params(message, None))
            }
            (method, _) => {
                let method: String = method.chars().take(100).collect();
                Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    format!("no method {method}"),
                    None,
                ))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![
            capabilities::resource(),
        ]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri == capabilities::URI {
            return Ok(capabilities::contents(&self.face.capabilities).into());
        }
        let uri: String = request.uri.chars().take(200).collect();
        let message = format!(
            "no resource {uri}; the one resource is {}",
            capabilities::URI
        );
        Err(ErrorData::resource_not_found(message, None))
    }
}

fn unknown_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(100).collect();
    ErrorData::invalid_params(
        format!("no tool {name:?}; the one tool is {}", tool::NAME),
        None,
    )
}

/// A run with these arguments, checked as the tool checks its own.
pub fn request(
    code: String,
    session: Option<String>,
    timeout: Option<Duration>,
    servers: Vec<String>,
    face: &Face,
    cancel: CancellationToken,
) -> Result<RunRequest, String> {
    let mut given = rmcp::model::JsonObject::new();
    given.insert("code".to_owned(), code.into());
    given.insert("session".to_owned(), session.into());
    given.insert("servers".to_owned(), servers.into());
    let whole = |timeout: Duration| timeout.subsec_nanos() == 0;
    let timeout = timeout.map_or(Value::Null, |timeout| {
        if whole(timeout) {
            timeout.as_secs().into()
        } else {
            timeout.as_secs_f64().into()
        }
    });
    given.insert("timeout".to_owned(), timeout);
    Ok(Arguments::parse(given, face)?.into_request(Client::default(), cancel))
}

#[cfg(test)]
mod tests;
