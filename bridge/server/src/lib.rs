//! The MCP server: the tool `run_python`, its resources and its tasks, for clients of both protocol
//! eras, over stdio and HTTP.
//!
//! This crate owns everything a client sees: the tool's definition and argument checks, results,
//! progress, questions that go on to the client, and the two transports. It must never know how a
//! session, a container engine or a server behind the bridge works: it hands a
//! [`bridge_session::RunRequest`] to a [`Runner`] and `bridge-render` words the outcome. A mistake
//! in a call is a tool result that the model can read; only a request that is not a call of
//! `run_python` is answered with a protocol error.
//!
//! Entry points: [`Server::serve_streams`] serves one client over a pair of streams, [`serve_http`]
//! serves [`Clients`] over HTTP, [`request`] makes the run of a command line, and [`tool`] is the
//! definition of `run_python`.

mod arguments;
mod call;
mod capabilities;
mod http;
mod inbox;
mod line;
mod passthrough;
mod progress;
mod questions;
mod relay;
mod resources;
mod runner;
mod serve;
mod suspended;
mod tasks;
mod tickets;
mod tool;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CustomRequest, CustomResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use bridge_render::Rendered;
use bridge_session::{Client, RunRequest};
use bridge_settings::{OutputMode, Settings};

use arguments::{Arguments, Given, GivenArguments};
use suspended::SuspendedRuns;

pub use self::http::{Clients, PATH as HTTP_PATH, Token, TokenError, serve_http};
pub use self::runner::{Rejected, Runner};
pub use self::tool::definition as tool;

/// `text_bytes` of an answer that is never cut.
pub const UNCUT: u64 = 1 << 32;

/// Defaults and limits of a call, from the settings.
#[derive(Debug, Clone)]
pub struct CallDefaults {
    /// Time limit of a call without `timeout`.
    pub timeout: Duration,
    /// The longest `timeout` of a call.
    pub max_timeout: Duration,
    /// The longest `timeout` of a run that may be left running.
    pub max_run: Duration,
    /// Whether answers are compact or TOON.
    pub output_mode: OutputMode,
    /// Tokens of text in an answer to a call without `max_output_tokens`.
    pub output_tokens: u64,
    /// Text of the capabilities resource.
    pub capabilities: Arc<str>,
}

impl CallDefaults {
    /// Takes them from the settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            timeout: settings.session.timeout,
            max_timeout: settings.session.max_timeout,
            max_run: settings.session.max_run,
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
    defaults: CallDefaults,
    suspended: Arc<SuspendedRuns>,
    /// Whether the client can call again with answers to questions that a result asks.
    asks_in_answers: bool,
    closing: CancellationToken,
}

impl Server {
    /// Makes a server that runs code with `runner`. Its runs are cancelled when `closing` fires.
    pub fn new(
        runner: Arc<dyn Runner>,
        defaults: CallDefaults,
        closing: CancellationToken,
    ) -> Self {
        Self {
            runner,
            defaults,
            suspended: Arc::default(),
            asks_in_answers: true,
            closing,
        }
    }

    /// Makes this a server of one HTTP request: a later call reaches another server, so questions
    /// cannot be asked in answers.
    fn for_one_request(self) -> Self {
        Self {
            asks_in_answers: false,
            ..self
        }
    }

    fn answer(&self, answer: &Rendered<'_>) -> CallToolResult {
        let text = ContentBlock::text(answer.text(self.defaults.output_mode));
        let content = [text].into_iter().chain(resources::blocks(answer));
        let content = content.collect();
        let mut result = if answer.is_error() {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
        result.structured_content = Some(answer.structured());
        result
    }

    /// Like [`Self::answer`], as JSON, for protocol types that cannot hold a tool's result.
    fn answer_json(&self, answer: &Rendered<'_>) -> Result<JsonObject, ErrorData> {
        match serde_json::to_value(self.answer(answer)) {
            Ok(Value::Object(result)) => Ok(result),
            Ok(_) | Err(_) => Err(ErrorData::internal_error(
                "the answer cannot be written as JSON",
                None,
            )),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_tasks()
            .build();
        let mut information = Implementation::new("mcp-code-bridge", env!("CARGO_PKG_VERSION"));
        information.title = Some("MCP code bridge".to_owned());
        ServerConfig::new(capabilities).with_server_info(information)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.runner
            .open()
            .map_err(|rejected| ErrorData::internal_error(rejected.to_string(), None))?;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
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
        match self.call(request, context).await {
            Ok(response) => Ok(response),
            Err(rejected) => Ok(self.answer(&rejected.to_rendered()).into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&request.task_id)
    }

    /// The tasks of this server never ask for input, so there is nothing to update.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.find_task(&request.task_id).map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(&request.task_id)
    }

    /// Handles unknown methods, and requests whose parameters do not fit their method.
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
                let answer = Rendered::invalid(
                    "arguments must be an object such as {\"code\": \"print(1)\"}",
                );
                self.answer_json(&answer)
                    .map(|result| CustomResult::new(result.into()))
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
        let read = resources::read(&*self.runner, &request.uri, &self.defaults.capabilities);
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

/// Makes the request of a run from a command line, checked as a tool call's arguments are. Its
/// answer is never cut.
pub fn request(
    code: String,
    session: Option<String>,
    timeout: Option<Duration>,
    servers: Vec<String>,
    defaults: &CallDefaults,
    cancel: CancellationToken,
) -> Result<RunRequest, String> {
    let timeout = match timeout {
        None => Given::Absent,
        Some(time) if time.subsec_nanos() == 0 => Given::Value(time.as_secs()),
        Some(time) => Given::Malformed(time.as_secs_f64().to_string()),
    };
    let given = GivenArguments {
        code: Given::Value(code),
        session: session.map_or(Given::Absent, Given::Value),
        servers: Given::Value(servers.into_iter().map(Ok).collect()),
        timeout,
        ..GivenArguments::default()
    };
    Ok(RunRequest {
        text_bytes: UNCUT,
        ..Arguments::check(given, defaults)?.into_request(Client::default(), cancel)
    })
}

#[cfg(test)]
mod tests;
