//! The words of all tools, each with the tools it stands in and how much it counts there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ServerName;
use crate::tools::{ServerTools, Tool};
use crate::words::{joined, words};

/// How much a word counts, by where it stands.
const NAME: f32 = 4.0;
const TITLE: f32 = 2.0;
const SERVER: f32 = 2.0;
const PARAMETER: f32 = 1.0;
const DESCRIPTION: f32 = 1.0;

/// BM25: how soon repetition stops to count, and how much long texts are held back.
pub(super) const SATURATION: f32 = 1.4;
const LENGTH: f32 = 0.5;

/// Bounds of what is indexed.
const TOOLS: usize = 100_000;
const DESCRIPTION_BYTES: usize = 4000;
const PARAMETERS: usize = 100;

/// All tools, by their words.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) servers: Vec<(ServerName, String, Arc<ServerTools>)>,
    pub(super) tools: Vec<Indexed>,
    /// Every word once, sorted, with the tools it stands in and its weight there.
    pub(super) words: Vec<(String, Vec<(u32, f32)>)>,
    /// Words by first letter and length, for typos.
    pub(super) by_start: HashMap<(char, usize), Vec<u32>>,
}

/// A tool in the index.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) server: u32,
    /// Its place in the server's list.
    pub(super) at: u32,
    /// Its name in one word.
    pub(super) joined: String,
    /// How much its length holds it back.
    pub(super) held_back: f32,
}

impl Index {
    pub(crate) fn new(shelves: &[(String, String, Arc<ServerTools>)]) -> Self {
        let mut vocabulary: HashMap<String, Vec<(u32, f32)>> = HashMap::new();
        let mut tools: Vec<Indexed> = Vec::new();
        for (number, (name, alias, list)) in shelves.iter().enumerate() {
            let server_words: Vec<String> = words(name).into_iter().chain(words(alias)).collect();
            for (at, tool) in list
                .tools
                .iter()
                .enumerate()
                .take(TOOLS.saturating_sub(tools.len()))
            {
                let id = index(tools.len());
                let mut weight = 0.0;
                let weights = weigh(tool, &server_words);
                for (word, count) in weights {
                    weight += count;
                    vocabulary.entry(word).or_default().push((id, count));
                }
                // For now the weight of all its words.
                tools.push(Indexed {
                    server: index(number),
                    at: index(at),
                    joined: joined(&tool.name),
                    held_back: weight,
                });
            }
        }
        let mut words: Vec<(String, Vec<(u32, f32)>)> = vocabulary.into_iter().collect();
        words.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut by_start: HashMap<(char, usize), Vec<u32>> = HashMap::new();
        for (id, (word, _)) in words.iter().enumerate() {
            let key = (
                word.chars().next().unwrap_or_default(),
                word.chars().count(),
            );
            by_start.entry(key).or_default().push(index(id));
        }
        let total: f32 = tools.iter().map(|tool| tool.held_back).sum();
        let mean = (total / count(tools.len())).max(1.0);
        for tool in &mut tools {
            tool.held_back = SATURATION * (1.0 - LENGTH + LENGTH * tool.held_back / mean);
        }
        let servers = shelves
            .iter()
            .map(|(name, alias, list)| (ServerName(name.clone()), alias.clone(), Arc::clone(list)))
            .collect();
        Self {
            servers,
            tools,
            words,
            by_start,
        }
    }

    pub(super) fn name(&self, id: u32) -> (&ServerName, &str) {
        let Indexed { server, at, .. } = self.tools[id as usize];
        let (name, _, list) = &self.servers[server as usize];
        (name, &list.tools[at as usize].name)
    }
}

/// How much each word counts for a tool.
fn weigh(tool: &Tool, server: &[String]) -> BTreeMap<String, f32> {
    let mut weights: BTreeMap<String, f32> = BTreeMap::new();
    let mut add = |words: Vec<String>, weight: f32| {
        for word in words {
            *weights.entry(word).or_default() += weight;
        }
    };
    let name = words(&tool.name);
    if name.len() > 1 {
        add(vec![joined(&tool.name)], NAME);
    }
    add(name, NAME);
    add(words(tool.title.as_deref().unwrap_or_default()), TITLE);
    add(server.to_vec(), SERVER);
    for (name, _) in tool.parameters().take(PARAMETERS) {
        add(words(name), PARAMETER);
    }
    let description = tool.description.as_deref().unwrap_or_default();
    add(words(start(description, DESCRIPTION_BYTES)), DESCRIPTION);
    weights
}

/// The first `most` bytes of a text, or a few less so that no character is cut.
pub(super) fn start(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Places in the index; bounded by [`TOOLS`] and what those can hold of words.
pub(super) fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts for a ranking")]
pub(super) fn count(number: usize) -> f32 {
    number as f32
}
