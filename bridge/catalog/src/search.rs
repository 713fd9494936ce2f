//! Ranked search over tools: BM25 over name, title, parameters, server and description, forgiving typos.
//!
//! The index is built once per change of what is known; a query over thousands of tools takes well under 5 ms.

mod index;

use std::sync::Arc;

use super::definition::Definition;
use super::tools::{Detail, ServerTools, Tool, ToolDoc};
use super::words::{joined, words};
use super::{ServerName, similar};
pub(super) use index::Index;
use index::{Indexed, SATURATION, count, index, start};

/// A found word that is not quite the one asked for counts less.
const PREFIX: f32 = 0.7;
const ONE_EDIT: f32 = 0.5;
const TWO_EDITS: f32 = 0.3;

/// Bounds of what is asked.
const QUERY_BYTES: usize = 1000;
const QUERY_WORDS: usize = 16;

/// Words of a query that say nothing, as long as others are there.
const EMPTY_WORDS: [&str; 24] = [
    "a", "an", "and", "are", "at", "by", "can", "do", "for", "from", "how", "i", "in", "is", "it",
    "me", "my", "of", "on", "or", "the", "to", "with", "tool",
];

/// What a search found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Servers whose tools are not known because they have never been started; those that the query fits first.
    pub not_started: Vec<ServerName>,
}

/// A tool that fits the query.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Its server.
    pub server: ServerName,
    /// Its server's name in Python.
    pub server_alias: String,
    /// How well it fits; only good for comparing hits of one search.
    pub score: f32,
    tools: Arc<ServerTools>,
    at: usize,
}

impl Hit {
    /// The tool.
    pub fn tool(&self) -> &Tool {
        &self.tools.tools[self.at]
    }

    /// Its name in Python.
    pub fn alias(&self) -> &str {
        &self.tools.aliases[self.at]
    }

    /// What user code reads about it.
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
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        unknown: &[&Arc<Definition>],
    ) -> Findings {
        let asked = asked(query);
        // Dense: a common word stands in every tool.
        let mut scores = vec![(0.0_f32, 0_u16); self.tools.len()];
        let mut best = vec![0.0_f32; self.tools.len()];
        for word in &asked {
            best.fill(0.0);
            for (id, quality) in self.resembling(word) {
                let postings = &self.words[id as usize].1;
                let rarity = (1.0 + count(self.tools.len()) / count(postings.len())).ln();
                for (tool, weight) in postings {
                    let score = quality * rarity * weight * (SATURATION + 1.0)
                        / (weight + self.tools[*tool as usize].held_back);
                    // Of the words of a tool that resemble the one asked for, the best counts.
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
                // Half of the words found is worth less than half.
                let share = f32::from(*matched) / count(asked.len());
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
            not_started: not_started(&asked, unknown),
        }
    }

    /// Words of the index that may be meant, and how surely.
    fn resembling(&self, word: &str) -> Vec<(u32, f32)> {
        let start = self
            .words
            .partition_point(|(known, _)| known.as_str() < word);
        let following = self.words[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(word));
        let long = word.chars().count() >= 3;
        let mut found: Vec<(u32, f32)> = following
            .enumerate()
            .filter(|(_, (known, _))| long || known == word)
            .map(|(at, (known, _))| (index(start + at), if known == word { 1.0 } else { PREFIX }))
            .collect();
        let length = word.chars().count();
        let most = match length {
            0..=3 => 0,
            4..=6 => 1,
            _ => 2,
        };
        let mut starts = word.chars();
        let starts = [starts.next(), starts.next()];
        for (start, length) in starts
            .iter()
            .flatten()
            .flat_map(|start| (length - most..=length + most).map(move |l| (*start, l)))
        {
            for id in self.by_start.get(&(start, length)).into_iter().flatten() {
                match similar::distance(word, &self.words[*id as usize].0, most) {
                    Some(1) => found.push((*id, ONE_EDIT)),
                    Some(2) => found.push((*id, TWO_EDITS)),
                    _ => {}
                }
            }
        }
        found
    }

    fn hit(&self, id: u32, score: f32) -> Hit {
        let Indexed { server, at, .. } = self.tools[id as usize];
        let (name, alias, list) = &self.servers[server as usize];
        Hit {
            server: name.clone(),
            server_alias: alias.clone(),
            score,
            tools: Arc::clone(list),
            at: at as usize,
        }
    }
}

/// The words of a query, without those that say nothing.
fn asked(query: &str) -> Vec<String> {
    let mut all = words(start(query, QUERY_BYTES));
    if all.iter().any(|word| !EMPTY_WORDS.contains(&word.as_str())) {
        all.retain(|word| !EMPTY_WORDS.contains(&word.as_str()));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|word| seen.insert(word.clone()));
    all.truncate(QUERY_WORDS);
    all
}

/// Servers whose tools nobody has seen: first those whose name or description has a word of the query.
fn not_started(asked: &[String], unknown: &[&Arc<Definition>]) -> Vec<ServerName> {
    let fits = |definition: &Definition| {
        let description = definition.description.as_deref().unwrap_or_default();
        let own: Vec<String> = words(&definition.name.0)
            .into_iter()
            .chain(words(description))
            .collect();
        asked.iter().filter(|word| own.contains(word)).count()
    };
    let mut servers: Vec<(usize, &ServerName)> = unknown
        .iter()
        .map(|definition| (fits(definition), &definition.name))
        .collect();
    servers.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    servers.into_iter().map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests;
