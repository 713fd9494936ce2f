//! The MCP face: one tool, and resources, over stdio, for clients of both protocol eras.
//!
//! Checks arguments, hands runs to a [`Runner`] and renders what comes back. A mistake in a call is a tool result that the
//! model can read; only a request that is no call of ours is a protocol error.

mod arguments;
mod capabilities;
mod line;
mod progress;
mod resources;
mod runner;
mod serve;
mod tool;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::render::Payload;
use crate::session::{FileError, OutFile, Progress, RunOutcome, RunRequest};
use crate::settings::{OutputMode, Settings};

use arguments::Arguments;

/// Room in an answer that is not cut.
pub const WHOLE: u64 = 1 << 32;

/// Runs code in sessions.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    /// One run. It ends soon after `request.cancel` fires.
    async fn run(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<RunOutcome, Refused>;

    /// Files that sessions offer.
    fn files(&self) -> Vec<(String, Vec<OutFile>)>;

    /// The content of one.
    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError>;
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
    /// Tokens of text in an answer, where the call does not say.
    pub output_tokens: u64,
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
            output_tokens: settings.output_tokens,
            capabilities: capabilities::write(settings).into(),
        }
    }
}

/// The MCP server of one connection.
#[derive(Clone)]
pub struct Server {
    runner: Arc<dyn Runner>,
    face: Face,
    closing: CancellationToken,
}

impl Server {
    /// A server that runs code with `runner`. When `closing` fires, runs are given up.
    pub fn new(runner: Arc<dyn Runner>, face: Face, closing: CancellationToken) -> Self {
        Self {
            runner,
            face,
            closing,
        }
    }

    /// One call, from arguments to payload.
    async fn run(&self, arguments: Arguments, context: &RequestContext<RoleServer>) -> Payload {
        let cancel = self.closing.child_token();
        // Covers the case that this future is dropped.
        let _given_up = cancel.clone().drop_guard();
        let named = arguments.session.is_some();
        let text_bytes = arguments.text_bytes;
        let request = arguments.into_request(cancel.clone());
        let (reporter, mut reports) = progress::channel(context);
        let mut run = std::pin::pin!(self.runner.run(request, Arc::new(reporter)));
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut run => break outcome,
                () = context.ct.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                notification = reports.next() => reports.send(notification).await,
            }
        };
        match outcome {
            Ok(outcome) => Payload::of_run(outcome, named, text_bytes),
            Err(refused) => refused.into_payload(),
        }
    }

    fn answer(&self, payload: Payload) -> CallToolResult {
        let text = ContentBlock::text(payload.text(self.face.output_mode));
        let content = [text].into_iter().chain(resources::blocks(&payload));
        let content = content.collect();
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
        let payload = match Arguments::parse(request.arguments.unwrap_or_default(), &self.face) {
            Ok(arguments) => self.run(arguments, &context).await,
            Err(message) => Payload::invalid(message),
        };
        Ok(self.answer(payload).into())
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
        Ok(resources::list(&*self.runner))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&*self.runner, &request.uri, &self.face.capabilities);
        Ok(read.await?.into())
    }
}

fn unknown_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(100).collect();
    ErrorData::invalid_params(
        format!("no tool {name:?}; the one tool is {}", tool::NAME),
        None,
    )
}

/// A run with these arguments, checked as the tool checks its own. Its answer may be as long as it is.
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
    Ok(RunRequest {
        text_bytes: WHOLE,
        ..Arguments::parse(given, face)?.into_request(cancel)
    })
}

#[cfg(test)]
mod tests;
