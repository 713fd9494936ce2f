//! Ranked search over tools: BM25 over name, title, parameters, server and description, forgiving typos.
//!
//! The index is built once per change of what is known; a query over thousands of tools takes well under 5 ms.

mod index;

use std::sync::Arc;

use bridge_catalog::{Definition, ServerName};
use bridge_common::similar;

use crate::tokens::{joined, tokens};
use crate::{Detail, ServerTools, Tool, ToolDoc};
pub(crate) use index::{Index, IndexedServer};
use index::{IndexedTool, SATURATION, count, index, start};

// A token that is not quite the one asked for counts less.
const PREFIX: f32 = 0.7;
const ONE_EDIT: f32 = 0.5;
const TWO_EDITS: f32 = 0.3;

// Bounds of a query.
const QUERY_BYTES: usize = 1000;
const QUERY_TOKENS: usize = 16;

/// Tokens that are ignored as long as the query has others.
const STOP_WORDS: [&str; 24] = [
    "a", "an", "and", "are", "at", "by", "can", "do", "for", "from", "how", "i", "in", "is", "it",
    "me", "my", "of", "on", "or", "the", "to", "with", "tool",
];

/// What a search found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The best hit comes first.
    pub hits: Vec<Hit>,
    /// Servers whose tools are not known because they have never been started; those that match the query come first.
    pub not_started: Vec<ServerName>,
}

/// A tool that matches the query.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The server that offers the tool.
    pub server: ServerName,
    /// The server's name in Python.
    pub server_alias: String,
    /// How well the tool matches: comparable within one search only.
    pub score: f32,
    tools: Arc<ServerTools>,
    at: usize,
}

impl Hit {
    /// The tool as its server describes it.
    pub fn tool(&self) -> &Tool {
        &self.tools.tools[self.at]
    }

    /// The tool's name in Python.
    pub fn alias(&self) -> &str {
        &self.tools.aliases[self.at]
    }

    /// The documentation that user code reads.
    pub fn doc(&self, detail: Detail) -> ToolDoc {
        ToolDoc::new(
            &self.server,
            &self.server_alias,
            self.tool(),
            self.alias(),
            detail,
        )
    }
}

impl Index {
    pub(crate) fn search(
        &self,
        query: &str,
        limit: usize,
        unknown: &[&Arc<Definition>],
    ) -> Findings {
        let query_tokens = query_tokens(query);
        // Dense: a common token occurs in every tool.
        let mut scores = vec![(0.0_f32, 0_u16); self.tools.len()];
        let mut best = vec![0.0_f32; self.tools.len()];
        for token in &query_tokens {
            best.fill(0.0);
            for (id, quality) in self.resembling(token) {
                let postings = &self.tokens[id as usize].1;
                let rarity = (1.0 + count(self.tools.len()) / count(postings.len())).ln();
                for (tool, weight) in postings {
                    let score = quality * rarity * weight * (SATURATION + 1.0)
                        / (weight + self.tools[*tool as usize].length_penalty);
                    // Of a tool's tokens that resemble the one asked for, only the best counts.
                    let known = &mut best[*tool as usize];
                    *known = known.max(score);
                }
            }
            for (sum, score) in scores
                .iter_mut()
                .zip(&best)
                .filter(|(_, score)| **score > 0.0)
            {
                *sum = (sum.0 + score, sum.1 + 1);
            }
        }
        let whole = joined(query);
        let mut ranked: Vec<(f32, u32)> = scores
            .iter()
            .enumerate()
            .filter(|(_, (_, matched))| *matched > 0)
            .map(|(tool, (score, matched))| {
                // A tool that has half of the tokens is worth less than half.
                let share = f32::from(*matched) / count(query_tokens.len());
                let exact = if self.tools[tool].joined == whole {
                    2.0
                } else {
                    1.0
                };
                (score * share * exact, index(tool))
            })
            .collect();
        let order = |one: &(f32, u32), other: &(f32, u32)| {
            other
                .0
                .total_cmp(&one.0)
                .then_with(|| self.name(one.1).cmp(&self.name(other.1)))
        };
        if limit < ranked.len() {
            ranked.select_nth_unstable_by(limit, order);
            ranked.truncate(limit);
        }
        ranked.sort_unstable_by(order);
        Findings {
            hits: ranked
                .into_iter()
                .map(|(score, tool)| self.hit(tool, score))
                .collect(),
            not_started: not_started(&query_tokens, unknown),
        }
    }

    /// Tokens of the index that may be meant, and how much each counts.
    fn resembling(&self, token: &str) -> Vec<(u32, f32)> {
        let start = self
            .tokens
            .partition_point(|(known, _)| known.as_str() < token);
        let following = self.tokens[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(token));
        let long = token.chars().count() >= 3;
        let mut found: Vec<(u32, f32)> = following
            .enumerate()
            .filter(|(_, (known, _))| long || known == token)
            .map(|(at, (known, _))| (index(start + at), if known == token { 1.0 } else { PREFIX }))
            .collect();
        let length = token.chars().count();
        let most = match length {
            0..=3 => 0,
            4..=6 => 1,
            _ => 2,
        };
        let mut starts = token.chars();
        let starts = [starts.next(), starts.next()];
        for (start, length) in starts
            .iter()
            .flatten()
            .flat_map(|start| (length - most..=length + most).map(move |l| (*start, l)))
        {
            for id in self.by_start.get(&(start, length)).into_iter().flatten() {
                match similar::distance(token, &self.tokens[*id as usize].0, most) {
                    Some(1) => found.push((*id, ONE_EDIT)),
                    Some(2) => found.push((*id, TWO_EDITS)),
                    _ => {}
                }
            }
        }
        found
    }

    fn hit(&self, id: u32, score: f32) -> Hit {
        let IndexedTool { server, at, .. } = self.tools[id as usize];
        let server = &self.servers[server as usize];
        Hit {
            server: server.name.clone(),
            server_alias: server.alias.clone(),
            score,
            tools: Arc::clone(&server.tools),
            at: at as usize,
        }
    }
}

/// The tokens of a query, without stop words.
fn query_tokens(query: &str) -> Vec<String> {
    let mut all = tokens(start(query, QUERY_BYTES));
    if all
        .iter()
        .any(|token| !STOP_WORDS.contains(&token.as_str()))
    {
        all.retain(|token| !STOP_WORDS.contains(&token.as_str()));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|token| seen.insert(token.clone()));
    all.truncate(QUERY_TOKENS);
    all
}

/// Servers whose tools are not known, first those whose name or description has a token of the query.
fn not_started(query: &[String], unknown: &[&Arc<Definition>]) -> Vec<ServerName> {
    let matches = |definition: &Definition| {
        let description = definition.description.as_deref().unwrap_or_default();
        let own: Vec<String> = tokens(&definition.name.0)
            .into_iter()
            .chain(tokens(description))
            .collect();
        query.iter().filter(|token| own.contains(token)).count()
    };
    let mut servers: Vec<(usize, &ServerName)> = unknown
        .iter()
        .map(|definition| (matches(definition), &definition.name))
        .collect();
    servers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    servers.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests;
