//! What a guest can ask for, and the way of each request to its answer.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::context::ActiveRun;
use super::load::tool_cards;
use super::params::{DocsQuery, Search, fields};
use super::state::StateRequest;
use super::{GuestError, Kind};
use bridge_catalog::{Catalog, Definition};
use bridge_upstream::{CallContext, Payload};

/// A request, with parameters of the right types.
#[derive(Debug)]
pub(super) enum Request {
    CallTool {
        server: String,
        tool: String,
        arguments: Payload,
    },
    ListTools(String),
    DescribeServer(String),
    ListServers,
    DiscoveredServers,
    QueryToolDocs(DocsQuery),
    SearchToolDocs(Search),
    ListResources {
        server: String,
        templates: bool,
    },
    ReadResource {
        server: String,
        uri: String,
    },
    ListPrompts(String),
    GetPrompt {
        server: String,
        name: String,
        arguments: Payload,
    },
    State(StateRequest),
}

#[derive(Deserialize)]
struct Server {
    server: String,
}

#[derive(Deserialize)]
struct Tool {
    server: String,
    tool: String,
}

#[derive(Deserialize)]
struct Resources {
    server: String,
    #[serde(default)]
    templates: bool,
}

#[derive(Deserialize)]
struct Resource {
    server: String,
    uri: String,
}

#[derive(Deserialize)]
struct Prompt {
    server: String,
    name: String,
}

impl Request {
    /// Whether the request is about what there is now, and not about what the run was given.
    pub(super) fn looks_around(&self) -> bool {
        matches!(
            self,
            Self::DescribeServer(_)
                | Self::DiscoveredServers
                | Self::QueryToolDocs(_)
                | Self::SearchToolDocs(_)
        )
    }

    /// Reads a request. An error is a fault of the guest's runtime, or of user code that went
    /// around the runtime.
    pub(super) fn read(method: &str, mut params: Value) -> Result<Self, GuestError> {
        if let Some(request) = StateRequest::read(method, &mut params) {
            return request.map(Self::State);
        }
        // Arguments are taken out first, and kept as text from here on: they may hold anything, and
        // pass unchanged.
        let arguments = params
            .as_object_mut()
            .and_then(|params| params.shift_remove("arguments"));
        let arguments = match arguments.unwrap_or_default() {
            Value::Null => Payload::of(&Map::new()),
            arguments @ Value::Object(_) => Payload::of(&arguments),
            _ => {
                return Err(GuestError::new(
                    Kind::Type,
                    format!("{method}: arguments must be an object"),
                ));
            }
        };
        Ok(match method {
            "call_tool" => {
                let Tool { server, tool } = fields(method, params)?;
                Self::CallTool {
                    server,
                    tool,
                    arguments,
                }
            }
            "list_tools" => Self::ListTools(fields::<Server>(method, params)?.server),
            "describe_server" => Self::DescribeServer(fields::<Server>(method, params)?.server),
            "list_servers" => Self::ListServers,
            "discovered_servers" => Self::DiscoveredServers,
            "query_tool_docs" => Self::QueryToolDocs(fields(method, params)?),
            "search_tool_docs" => Self::SearchToolDocs(fields(method, params)?),
            "list_resources" => {
                let Resources { server, templates } = fields(method, params)?;
                Self::ListResources { server, templates }
            }
            "read_resource" => {
                let Resource { server, uri } = fields(method, params)?;
                Self::ReadResource { server, uri }
            }
            "list_prompts" => Self::ListPrompts(fields::<Server>(method, params)?.server),
            "get_prompt" => {
                let Prompt { server, name } = fields(method, params)?;
                Self::GetPrompt {
                    server,
                    name,
                    arguments,
                }
            }
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(GuestError::new(
                    Kind::Type,
                    format!("unknown method {shown:?}"),
                ));
            }
        })
    }
}

impl ActiveRun {
    /// Answers a request.
    pub(super) async fn answer(
        &self,
        call: u64,
        request: Request,
        catalog: &Arc<Catalog>,
        context: &CallContext,
    ) -> Result<Payload, GuestError> {
        let upstreams = &self.scope.broker.upstreams;
        let value = match request {
            Request::CallTool {
                server,
                tool,
                arguments,
            } => {
                let definition = self.scope.definition(catalog, &server)?;
                return self
                    .call_tool(call, definition, &tool, arguments, context)
                    .await;
            }
            Request::State(request) => return self.state(request).await,
            Request::ReadResource { server, uri } => {
                let definition = self.scope.definition(catalog, &server)?;
                return Ok(upstreams.read_resource(definition, &uri, context).await?);
            }
            Request::GetPrompt {
                server,
                name,
                arguments,
            } => {
                let definition = self.scope.definition(catalog, &server)?;
                return Ok(upstreams
                    .prompt(definition, &name, arguments, context)
                    .await?);
            }
            Request::ListTools(server) => {
                let definition = self.scope.definition(catalog, &server)?;
                let tools = self.scope.broker.tools(definition, context).await?;
                return Ok(Payload::of(&tool_cards(&tools)));
            }
            Request::DescribeServer(server) => self.describe(catalog, &server)?,
            Request::ListServers => self
                .scope
                .allowed()
                .into_iter()
                .map(|name| name.0)
                .collect(),
            Request::DiscoveredServers => self.discovered(catalog),
            Request::QueryToolDocs(query) => self.docs(catalog, &query, context).await?,
            Request::SearchToolDocs(search) => self.search(catalog, search).await?,
            Request::ListResources { server, templates } => {
                let definition = self.scope.definition(catalog, &server)?;
                upstreams
                    .resources(definition, templates, context)
                    .await?
                    .into()
            }
            Request::ListPrompts(server) => {
                let definition = self.scope.definition(catalog, &server)?;
                upstreams.prompts(definition, context).await?.into()
            }
        };
        Ok(Payload::of(&value))
    }

    async fn call_tool(
        &self,
        call: u64,
        definition: &Arc<Definition>,
        tool: &str,
        arguments: Payload,
        context: &CallContext,
    ) -> Result<Payload, GuestError> {
        let name = self.offered(definition, tool, context).await?;
        self.calls.lock().set_started(call);
        let result = self
            .scope
            .broker
            .upstreams
            .call(definition, &name, arguments, context)
            .await;
        result.map_err(|error| GuestError::from(error).of_tool(&name))
    }

    /// The server's own name of a tool that the server offers, or why it does not offer it.
    async fn offered(
        &self,
        definition: &Arc<Definition>,
        tool: &str,
        context: &CallContext,
    ) -> Result<String, GuestError> {
        let broker = &self.scope.broker;
        let server = &definition.name;
        let list = broker.upstreams.tools(definition, context).await?;
        let tools = broker.name_tools(definition, &list);
        if let Some((tool, _)) = tools.get(tool) {
            return Ok(tool.name.clone());
        }
        let refuse = |kind, message: String| {
            Err(GuestError::new(kind, message)
                .of_server(server)
                .of_tool(tool))
        };
        if !definition.tools.lets_through(tool) {
            return refuse(
                Kind::Permission,
                format!("{server}.{tool} is left out by the definition of the server"),
            );
        }
        // The tool's description is bad, or did not arrive; the tool itself may work.
        if list.skipped.contains_key(tool) || list.incomplete.is_some() {
            return Ok(tool.to_owned());
        }
        if list.gone.contains(tool) {
            return refuse(
                Kind::Name,
                format!("server \"{server}\" no longer offers a tool {tool:?}"),
            );
        }
        let closest = tools
            .closest(tool)
            .map(|name| format!(" (did you mean {name}?)"))
            .unwrap_or_default();
        let shown: String = tool.chars().take(100).collect();
        refuse(
            Kind::Name,
            format!("server \"{server}\" has no tool {shown:?}{closest}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_checked_before_anything_is_done() {
        let refused =
            |method: &str, params: Value| Request::read(method, params).unwrap_err().message;
        assert_eq!(refused("rm", json!({})), "unknown method \"rm\"");
        assert_eq!(
            refused("call_tool", json!({"server": "s"})),
            "call_tool: missing field `tool`"
        );
        assert_eq!(
            refused(
                "call_tool",
                json!({"server": "s", "tool": "t", "arguments": [1]})
            ),
            "call_tool: arguments must be an object"
        );
        assert!(refused("list_tools", json!(5)).starts_with("list_tools: invalid type"));
    }

    #[test]
    fn arguments_are_not_touched() {
        let arguments: Value =
            serde_json::from_str(r#"{"b":123456789012345678901234567890,"a":1.10}"#).unwrap();
        let params = json!({"server": "s", "tool": "t", "arguments": arguments});
        let Ok(Request::CallTool {
            arguments: read, ..
        }) = Request::read("call_tool", params)
        else {
            panic!()
        };
        assert_eq!(read.get(), arguments.to_string());
    }
}
