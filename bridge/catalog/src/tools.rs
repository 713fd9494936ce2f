//! Tools that are known, whether or not their server runs: their names in Python, their docs, and finding them.
//!
//! What a server lists is told to [`ToolBook::learn`]; the book keeps it in memory and in the cache on disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::search::{Findings, Index};
use super::tool_cache::ToolCache;
use super::{Catalog, Definition, Of, ServerName, alias};

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name on the wire.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments, as sent.
    #[serde(default)]
    pub input_schema: Value,
    /// JSON Schema of its structured result, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl Tool {
    /// Its parameters in the order of the schema, and whether each must be given.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, bool)> {
        let required = self.input_schema.get("required").and_then(Value::as_array);
        let properties = self
            .input_schema
            .get("properties")
            .and_then(Value::as_object);
        properties.into_iter().flatten().map(move |(name, _)| {
            let must = required
                .is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)));
            (name.as_str(), must)
        })
    }

    /// How it is called, in short: `create_issue(owner, repo, title, body=…)`.
    pub fn signature(&self, alias: &str) -> String {
        const MOST: usize = 8;
        let (must, may): (Vec<_>, Vec<_>) = self.parameters().partition(|(_, must)| *must);
        let all = must.len() + may.len();
        let mut shown: Vec<String> = must
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .chain(may.into_iter().map(|(name, _)| format!("{name}=…")))
            .take(MOST)
            .collect();
        if all > MOST {
            shown.push("…".to_owned());
        }
        format!("{alias}({})", shown.join(", "))
    }

    /// The first paragraph of its description (or its title) as one line, cut at a length that fits a list.
    pub fn summary(&self) -> Option<String> {
        const LONGEST: usize = 300;
        let text = self
            .description
            .as_deref()
            .filter(|text| !text.trim().is_empty())
            .or(self.title.as_deref())?;
        let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", line[..end].trim_end()),
            None => line,
        })
    }
}

/// The tools of one server with their names in Python.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTools {
    /// In the server's order.
    pub tools: Vec<Tool>,
    /// The name of each in Python; no two are the same.
    pub aliases: Vec<String>,
}

impl ServerTools {
    /// Names the tools that the definition lets through.
    pub fn new(definition: &Definition, mut tools: Vec<Tool>) -> Self {
        tools.retain(|tool| definition.tools.lets_through(&tool.name));
        let named = alias::aliases(tools.iter().map(|tool| tool.name.as_str()), Of::Tool);
        let aliases = tools
            .iter()
            .map(|tool| named.get(tool.name.as_str()).cloned().unwrap_or_default())
            .collect();
        Self { tools, aliases }
    }

    /// The tool of this name or, where none is called that, this alias; with its alias.
    pub fn get(&self, name: &str) -> Option<(&Tool, &str)> {
        let at = self
            .tools
            .iter()
            .position(|tool| tool.name == name)
            .or_else(|| self.aliases.iter().position(|alias| alias == name))?;
        Some((&self.tools[at], &self.aliases[at]))
    }

    /// The tool's name that was most likely meant.
    pub fn closest(&self, name: &str) -> Option<&str> {
        super::similar::closest(name, self.tools.iter().map(|tool| tool.name.as_str()))
    }

    /// All tools with their aliases.
    pub fn iter(&self) -> impl Iterator<Item = (&Tool, &str)> {
        self.tools
            .iter()
            .zip(self.aliases.iter().map(String::as_str))
    }
}

/// How much a doc says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// One line.
    #[default]
    Summary,
    /// The whole description and the schema of the arguments.
    Full,
}

impl std::str::FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "summary" => Ok(Self::Summary),
            "full" => Ok(Self::Full),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(format!(
                    "detail must be \"summary\" or \"full\", not {shown:?}"
                ))
            }
        }
    }
}

/// What user code reads about a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDoc {
    /// Its server's name as written.
    pub server: String,
    /// Its server's name in Python.
    pub server_alias: String,
    /// Its name on the wire.
    pub tool: String,
    /// Its name in Python.
    pub tool_alias: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments; only in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
}

impl ToolDoc {
    /// Describes one tool of a server.
    pub fn new(
        server: &ServerName,
        server_alias: &str,
        tool: &Tool,
        tool_alias: &str,
        detail: Detail,
    ) -> Self {
        let full = detail == Detail::Full;
        Self {
            server: server.0.clone(),
            server_alias: server_alias.to_owned(),
            tool: tool.name.clone(),
            tool_alias: tool_alias.to_owned(),
            description: if full {
                tool.description.clone().or_else(|| tool.title.clone())
            } else {
                tool.summary()
            },
            input_schema: full.then(|| tool.input_schema.clone()),
        }
    }
}

/// Every tool list that is known, by the hash of its server's definition.
#[derive(Debug)]
pub struct ToolBook {
    cache: Option<ToolCache>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: the cache was asked and has none.
    lists: HashMap<String, Option<Arc<ServerTools>>>,
    index: Option<(Vec<Shelf>, Arc<Index>)>,
}

/// A server whose tools are in an index; equal as long as nothing about them changed.
type Shelf = (String, String, Arc<ServerTools>);

impl ToolBook {
    /// An empty book over a cache.
    pub fn new(cache: Option<ToolCache>) -> Self {
        Self {
            cache,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only whole values are ever put in: nothing is half done after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a server lists. Writes the cache when that is news.
    pub fn learn(&self, definition: &Definition, tools: Vec<Tool>) -> Arc<ServerTools> {
        let known = self.tools(definition);
        let list = ServerTools::new(definition, tools);
        if let Some(known) = known.filter(|known| **known == list) {
            return known;
        }
        let list = Arc::new(list);
        if let Some(cache) = &self.cache {
            cache.store(definition, &list.tools);
        }
        self.state()
            .lists
            .insert(definition.hash.clone(), Some(Arc::clone(&list)));
        list
    }

    /// What is known of a server's tools, from memory or the cache.
    pub fn tools(&self, definition: &Definition) -> Option<Arc<ServerTools>> {
        if let Some(list) = self.state().lists.get(&definition.hash) {
            return list.clone();
        }
        let tools = self.cache.as_ref().and_then(|cache| cache.read(definition));
        let list = tools.map(|tools| Arc::new(ServerTools::new(definition, tools)));
        let mut state = self.state();
        if state.lists.len() >= LISTS {
            state.lists.clear();
        }
        // Somebody may have learned better since the look above.
        state
            .lists
            .entry(definition.hash.clone())
            .or_insert(list)
            .clone()
    }

    /// Ranks all known tools of all servers.
    pub fn search(&self, catalog: &Catalog, query: &str, limit: usize) -> Findings {
        let mut shelves = Vec::new();
        let mut unknown = Vec::new();
        for definition in catalog.definitions() {
            match self.tools(definition) {
                Some(tools) => {
                    shelves.push((definition.name.0.clone(), definition.alias.clone(), tools));
                }
                None => unknown.push(definition),
            }
        }
        let index = self.index(shelves);
        index.search(query, limit, &unknown)
    }

    fn index(&self, shelves: Vec<Shelf>) -> Arc<Index> {
        if let Some((known, index)) = &self.state().index
            && same(known, &shelves)
        {
            return Arc::clone(index);
        }
        let index = Arc::new(Index::new(&shelves));
        self.state().index = Some((shelves, Arc::clone(&index)));
        index
    }
}

/// Lists remembered; more definitions than that come only from endless edits.
const LISTS: usize = 4096;

fn same(one: &[Shelf], other: &[Shelf]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.0 == other.0 && one.1 == other.1 && Arc::ptr_eq(&one.2, &other.2)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(description: &str) -> Tool {
        Tool {
            name: "a.b".to_owned(),
            title: Some("Title".to_owned()),
            description: Some(description.to_owned()),
            input_schema: json!({"properties": {"body": {}, "owner": {}, "n": {}}, "required": ["owner", 7]}),
            output_schema: None,
        }
    }

    #[test]
    fn a_summary_is_one_line() {
        assert_eq!(
            tool("One\n  two.\n\nMore.").summary().as_deref(),
            Some("One two.")
        );
        assert_eq!(tool(" ").summary().as_deref(), Some("Title"));
        assert!(
            tool(&"ä".repeat(5000))
                .summary()
                .is_some_and(|line| line.chars().count() == 303)
        );
    }

    #[test]
    fn a_signature_has_what_must_be_given_first() {
        assert_eq!(tool("").signature("a_b"), "a_b(owner, body=…, n=…)");
        let empty = Tool {
            input_schema: json!(true),
            ..tool("")
        };
        assert_eq!(empty.signature("x"), "x()");
    }

    #[test]
    fn a_doc_has_its_schema_only_in_full() {
        let doc = |detail| {
            ToolDoc::new(
                &"git-hub".into(),
                "git_hub",
                &tool("One\n\nMore."),
                "a_b",
                detail,
            )
        };
        assert_eq!(
            serde_json::to_value(doc(Detail::Summary)).unwrap(),
            json!({"server": "git-hub", "serverAlias": "git_hub", "tool": "a.b", "toolAlias": "a_b", "description": "One"})
        );
        let full = serde_json::to_value(doc(Detail::Full)).unwrap();
        assert_eq!(full["description"], "One\n\nMore.");
        assert_eq!(full["inputSchema"], tool("").input_schema);
        assert_eq!("full".parse(), Ok(Detail::Full));
        assert!(
            "fu\nll"
                .parse::<Detail>()
                .is_err_and(|error| error.contains("summary"))
        );
    }
}
