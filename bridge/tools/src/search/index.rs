//! The inverted index: the tokens of all tools, each with the tools it occurs in and its weight there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bridge_catalog::ServerName;

use crate::tokens::{joined, tokens};
use crate::{ServerTools, Tool};

/// How much a token counts, by where it occurs.
const NAME: f32 = 4.0;
const TITLE: f32 = 2.0;
const SERVER: f32 = 2.0;
const PARAMETER: f32 = 1.0;
const DESCRIPTION: f32 = 1.0;

/// BM25's k1: how soon repetition stops counting.
pub(super) const SATURATION: f32 = 1.4;
/// BM25's b: how much long texts are held back.
const LENGTH: f32 = 0.5;

// Bounds of what is indexed.
const TOOLS: usize = 100_000;
const DESCRIPTION_BYTES: usize = 4000;
const PARAMETERS: usize = 100;

/// A server with its tools, as the index holds it.
#[derive(Debug, Clone)]
pub(crate) struct IndexedServer {
    pub(crate) name: ServerName,
    /// The server's name in Python.
    pub(crate) alias: String,
    pub(crate) tools: Arc<ServerTools>,
}

impl PartialEq for IndexedServer {
    /// Equal as long as nothing about the server changed: a new list is a new `Arc`.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.alias == other.alias
            && Arc::ptr_eq(&self.tools, &other.tools)
    }
}

/// All tools, by their tokens.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) servers: Vec<IndexedServer>,
    pub(super) tools: Vec<IndexedTool>,
    /// Every token once, sorted, with the tools it occurs in and its weight there.
    pub(super) tokens: Vec<(String, Vec<(u32, f32)>)>,
    /// Tokens by first letter and length, for typos.
    pub(super) by_start: HashMap<(char, usize), Vec<u32>>,
}

/// A tool in the index.
#[derive(Debug)]
pub(super) struct IndexedTool {
    /// Position of its server in [`Index::servers`].
    pub(super) server: u32,
    /// Position in the server's list.
    pub(super) at: u32,
    /// The tool's name as one token.
    pub(super) joined: String,
    /// BM25's length normalisation.
    pub(super) length_penalty: f32,
}

impl Index {
    pub(crate) fn new(servers: &[IndexedServer]) -> Self {
        let mut vocabulary: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        let mut tools: Vec<IndexedTool> = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let mut server_tokens = tokens(&server.name.0);
            server_tokens.extend(tokens(&server.alias));
            for (at, tool) in server
                .tools
                .tools
                .iter()
                .enumerate()
                .take(TOOLS.saturating_sub(tools.len()))
            {
                let id = index(tools.len());
                let mut weight = 0.0;
                let weights = weigh(tool, &server_tokens);
                for (token, count) in weights {
                    weight += count;
                    vocabulary.entry(token).or_default().push((id, count));
                }
                // The length in the first place; normalised below.
                tools.push(IndexedTool {
                    server: index(number),
                    at: index(at),
                    joined: joined(&tool.name),
                    length_penalty: weight,
                });
            }
        }
        let mut tokens: Vec<(String, Vec<(u32, f32)>)> = vocabulary.into_iter().collect();
        tokens.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut by_start: HashMap<(char, usize), Vec<u32>> = HashMap::new();
        for (id, (token, _)) in tokens.iter().enumerate() {
            let key = (
                token.chars().next().unwrap_or_default(),
                token.chars().count(),
            );
            by_start.entry(key).or_default().push(index(id));
        }
        let total: f32 = tools.iter().map(|tool| tool.length_penalty).sum();
        let mean = (total / count(tools.len())).max(1.0);
        for tool in &mut tools {
            tool.length_penalty = SATURATION * (1.0 - LENGTH + LENGTH * tool.length_penalty / mean);
        }
        Self {
            servers: servers.to_vec(),
            tools,
            tokens,
            by_start,
        }
    }

    /// The names of a tool's server and of the tool.
    pub(super) fn name(&self, id: u32) -> (&ServerName, &str) {
        let IndexedTool { server, at, .. } = self.tools[id as usize];
        let server = &self.servers[server as usize];
        (&server.name, &server.tools.tools[at as usize].name)
    }
}

/// How much each token counts for a tool.
fn weigh(tool: &Tool, server: &[String]) -> BTreeMap<String, f32> {
    let mut weights: BTreeMap<String, f32> = BTreeMap::new();
    let mut add = |tokens: Vec<String>, weight: f32| {
        for token in tokens {
            *weights.entry(token).or_default() += weight;
        }
    };
    let name = tokens(&tool.name);
    if name.len() > 1 {
        add(vec![joined(&tool.name)], NAME);
    }
    add(name, NAME);
    add(tokens(tool.title.as_deref().unwrap_or_default()), TITLE);
    add(server.to_vec(), SERVER);
    for (name, _) in tool.parameters().take(PARAMETERS) {
        add(tokens(name), PARAMETER);
    }
    let description = tool.description.as_deref().unwrap_or_default();
    add(tokens(start(description, DESCRIPTION_BYTES)), DESCRIPTION);
    weights
}

/// The first `most` bytes of a text, or a few fewer so that no character is cut.
pub(super) fn start(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A position in the index; [`TOOLS`] bounds the tools, and their text the tokens.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts for a ranking")]
pub(super) fn count(number: usize) -> f32 {
    number as f32
}
