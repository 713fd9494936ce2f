//! What user code can find out about servers and tools without starting anything that it may not
//! use.

use std::sync::Arc;

use serde_json::{Value, json};

use super::context::ActiveRun;
use super::load::tool_cards;
use super::params::{DocsQuery, Search, object};
use super::{GuestError, Kind};
use bridge_catalog::{Catalog, CatalogEntry, Definition, Outcome};
use bridge_tools::{Detail, ServerTools, ToolDoc};
use bridge_upstream::{CallContext, Status};

/// Most hits of one search.
const MOST_HITS: usize = 20;
const USUAL_HITS: usize = 5;
/// Most names of servers that were never started in one answer.
const MOST_NAMES: usize = 50;

impl ActiveRun {
    /// Every known server, loaded or not, with what is wrong with it.
    pub(super) fn discovered(&self, catalog: &Catalog) -> Value {
        catalog.entries().map(|known| self.entry(known)).collect()
    }

    fn entry(&self, known: &CatalogEntry) -> Value {
        let loaded = self.scope.is_allowed(&known.name);
        let (status, problem) = match &known.outcome {
            Outcome::Disabled => ("disabled", None),
            Outcome::Broken(reason) => ("broken", Some(reason.to_string())),
            Outcome::Ready(_) => match self.scope.broker.upstreams.status(&known.name) {
                Status::NotRunning => ("not running", None),
                Status::Starting(_) => ("starting", None),
                Status::Running { .. } => ("running", None),
                Status::Failed(error) => ("failed", Some(error.to_string())),
            },
        };
        let tools = match &known.outcome {
            Outcome::Ready(definition) => self
                .scope
                .broker
                .book
                .tools(definition)
                .map(|tools| tools.tools.len()),
            _ => None,
        };
        object([
            ("name", known.name.0.clone().into()),
            ("alias", known.alias.clone().into()),
            ("description", known.description.clone().into()),
            ("loaded", loaded.into()),
            ("status", status.into()),
            ("problem", problem.into()),
            ("tools", tools.into()),
        ])
    }

    /// One server with its tools, as far as they are known.
    pub(super) fn describe(&self, catalog: &Catalog, server: &str) -> Result<Value, GuestError> {
        let definition = catalog
            .definition(server)
            .map_err(|error| GuestError::new(Kind::Name, error.to_string()))?;
        let known = catalog.get(&definition.name.0);
        let mut entry = known.map_or_else(|| json!({}), |known| self.entry(known));
        if let Some(tools) = self.scope.broker.book.tools(definition) {
            entry["tools"] = serde_json::to_value(tool_cards(&tools)).unwrap_or_default();
        }
        if let Status::Running { peer, .. } = self.scope.broker.upstreams.status(&definition.name) {
            entry["serverInfo"] = peer.info;
            entry["protocol"] = peer.protocol.into();
            if let Some(instructions) = peer.instructions {
                entry["instructions"] = instructions.into();
            }
        }
        Ok(entry)
    }

    /// Docs of a server's tools, or of one: from the server where it is loaded, else from what is
    /// remembered of it.
    pub(super) async fn docs(
        &self,
        catalog: &Catalog,
        query: &DocsQuery,
        context: &CallContext,
    ) -> Result<Value, GuestError> {
        let detail = detail(query.detail.as_deref())?;
        let found = catalog.definition(&query.server);
        let definition = found.map_err(|error| GuestError::new(Kind::Name, error.to_string()))?;
        let tools = match self.scope.definition(catalog, &query.server) {
            Ok(definition) => self.scope.broker.tools(definition, context).await?,
            Err(refusal) => self.scope.broker.book.tools(definition).ok_or(refusal)?,
        };
        match &query.tool {
            None => Ok(all_docs(definition, &tools, detail)),
            Some(name) => {
                let Some((tool, alias)) = tools.get(name) else {
                    let closest = tools
                        .closest(name)
                        .map(|name| format!(" (did you mean {name}?)"));
                    let shown: String = name.chars().take(100).collect();
                    let message = format!(
                        "server \"{}\" has no tool {shown:?}{}",
                        definition.name,
                        closest.unwrap_or_default()
                    );
                    return Err(GuestError::new(Kind::Name, message).of_server(&definition.name));
                };
                let doc = ToolDoc::new(&definition.name, &definition.alias, tool, alias, detail);
                Ok(json!([doc_json(&doc, &tool.signature(alias), true)]))
            }
        }
    }

    /// Ranked docs over all servers whose tools are known; the names of the others come along.
    pub(super) async fn search(
        &self,
        catalog: &Arc<Catalog>,
        search: Search,
    ) -> Result<Value, GuestError> {
        let detail = detail(search.detail.as_deref())?;
        let limit = search.limit.unwrap_or(USUAL_HITS).clamp(1, MOST_HITS);
        let (broker, catalog) = (Arc::clone(&self.scope.broker), Arc::clone(catalog));
        // The first search after a change builds the index, which takes a moment.
        let findings =
            tokio::task::spawn_blocking(move || broker.book.search(&catalog, &search.query, limit))
                .await;
        let findings =
            findings.map_err(|_| GuestError::new(Kind::Mcp, "the search failed").because("bug"))?;
        let results: Vec<Value> = findings
            .hits
            .iter()
            .map(|hit| {
                let loaded = self.scope.is_allowed(&hit.server);
                doc_json(&hit.doc(detail), &hit.tool().signature(hit.alias()), loaded)
            })
            .collect();
        let names = findings
            .not_started
            .iter()
            .take(MOST_NAMES)
            .map(|name| name.0.clone());
        Ok(json!({"results": results, "notStarted": names.collect::<Vec<_>>()}))
    }
}

fn all_docs(definition: &Definition, tools: &ServerTools, detail: Detail) -> Value {
    let docs = tools.iter().map(|(tool, alias)| {
        let doc = ToolDoc::new(&definition.name, &definition.alias, tool, alias, detail);
        doc_json(&doc, &tool.signature(alias), true)
    });
    docs.collect()
}

/// A doc with how the tool is called, and, where it cannot be called yet, what to do first.
fn doc_json(doc: &ToolDoc, signature: &str, loaded: bool) -> Value {
    let mut json = serde_json::to_value(doc).unwrap_or_default();
    json["signature"] = signature.into();
    if !loaded {
        json["loaded"] = false.into();
    }
    json
}

fn detail(text: Option<&str>) -> Result<Detail, GuestError> {
    text.map_or(Ok(Detail::Summary), str::parse)
        .map_err(|message| GuestError::new(Kind::Type, message))
}
