//! Ranked search over tools: BM25 over name, title, parameters, server and description, forgiving typos.
//!
//! The index is built once per change of what is known; a query over thousands of tools takes well under 5 ms.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::definition::Definition;
use super::tools::{Detail, ServerTools, Tool, ToolDoc};
use super::words::{joined, words};
use super::{ServerName, similar};

/// How much a word counts, by where it stands.
const NAME: f32 = 4.0;
const TITLE: f32 = 2.0;
const SERVER: f32 = 2.0;
const PARAMETER: f32 = 1.0;
const DESCRIPTION: f32 = 1.0;

/// A found word that is not quite the one asked for counts less.
const PREFIX: f32 = 0.7;
const ONE_EDIT: f32 = 0.5;
const TWO_EDITS: f32 = 0.3;

/// BM25: how soon repetition stops to count, and how much long texts are held back.
const SATURATION: f32 = 1.4;
const LENGTH: f32 = 0.5;

/// Bounds of what is indexed and asked.
const TOOLS: usize = 100_000;
const DESCRIPTION_BYTES: usize = 4000;
const PARAMETERS: usize = 100;
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

/// All tools, by their words.
#[derive(Debug)]
pub(super) struct Index {
    servers: Vec<(ServerName, String, Arc<ServerTools>)>,
    tools: Vec<Indexed>,
    /// Every word once, sorted, with the tools it stands in and its weight there.
    words: Vec<(String, Vec<(u32, f32)>)>,
    /// Words by first letter and length, for typos.
    by_start: HashMap<(char, usize), Vec<u32>>,
}

/// A tool in the index.
#[derive(Debug)]
struct Indexed {
    server: u32,
    /// Its place in the server's list.
    at: u32,
    /// Its name in one word.
    joined: String,
    /// How much its length holds it back.
    held_back: f32,
}

impl Index {
    pub(super) fn new(shelves: &[(String, String, Arc<ServerTools>)]) -> Self {
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

    fn name(&self, id: u32) -> (&ServerName, &str) {
        let Indexed { server, at, .. } = self.tools[id as usize];
        let (name, _, list) = &self.servers[server as usize];
        (name, &list.tools[at as usize].name)
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

/// The first `most` bytes of a text, or a few less so that no character is cut.
fn start(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Places in the index; bounded by [`TOOLS`] and what those can hold of words.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts for a ranking")]
fn count(number: usize) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, parameters: &[&str]) -> Tool {
        let properties: serde_json::Map<String, serde_json::Value> = parameters
            .iter()
            .map(|name| ((*name).to_owned(), json!({})))
            .collect();
        Tool {
            name: name.to_owned(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: json!({"type": "object", "properties": properties}),
            output_schema: None,
        }
    }

    fn shelf(server: &str, tools: Vec<Tool>) -> (String, String, Arc<ServerTools>) {
        let aliases = tools.iter().map(|tool| tool.name.clone()).collect();
        (
            server.to_owned(),
            server.to_owned(),
            Arc::new(ServerTools { tools, aliases }),
        )
    }

    fn example() -> Index {
        Index::new(&[
            shelf(
                "github",
                vec![
                    tool(
                        "create_issue",
                        "Create a new issue in a repository",
                        &["owner", "repo", "title", "body"],
                    ),
                    tool(
                        "list_issues",
                        "List the issues of a repository",
                        &["owner", "repo", "state"],
                    ),
                    tool(
                        "getFileContents",
                        "Read a file from a repository",
                        &["owner", "repo", "path"],
                    ),
                    tool(
                        "delete_repo",
                        "Delete a repository for ever",
                        &["owner", "repo"],
                    ),
                ],
            ),
            shelf(
                "weather",
                vec![tool(
                    "forecast",
                    "Weather for a place on the next days",
                    &["latitude", "longitude"],
                )],
            ),
            shelf(
                "jira",
                vec![tool(
                    "create_ticket",
                    "Create an issue",
                    &["project", "summary"],
                )],
            ),
        ])
    }

    fn found(index: &Index, query: &str) -> Vec<String> {
        let findings = index.search(query, 5, &[]);
        findings
            .hits
            .iter()
            .map(|hit| format!("{}.{}", hit.server, hit.tool().name))
            .collect()
    }

    #[test]
    fn the_tool_that_is_meant_comes_first() {
        let index = example();
        for (query, expected) in [
            ("create issue", "github.create_issue"),
            ("create_issue", "github.create_issue"),
            ("createIssue", "github.create_issue"),
            ("createissue", "github.create_issue"),
            ("issues", "github.list_issues"),
            ("jira issue", "jira.create_ticket"),
            ("how do I read a file", "github.getFileContents"),
            ("latitude", "weather.forecast"),
            ("github delete", "github.delete_repo"),
            ("contents", "github.getFileContents"),
            // Typos.
            ("craete isue", "github.create_issue"),
            ("forcast", "weather.forecast"),
            ("wether", "weather.forecast"),
            ("reposiotry delete", "github.delete_repo"),
            // Beginnings.
            ("fore", "weather.forecast"),
            ("del", "github.delete_repo"),
        ] {
            assert_eq!(
                found(&index, query).first().map(String::as_str),
                Some(expected),
                "{query}"
            );
        }
    }

    #[test]
    fn what_fits_nothing_finds_nothing() {
        let index = example();
        for query in ["", "   ", "!?", "zzzzqqq", "x"] {
            assert_eq!(found(&index, query), Vec::<String>::new(), "{query}");
        }
        assert_eq!(found(&Index::new(&[]), "issue"), Vec::<String>::new());
        assert!(found(&index, &"issue ".repeat(100_000)).len() <= 5);
    }

    #[test]
    fn equal_hits_keep_one_order_and_the_limit_holds() {
        let tools = || {
            (0..50)
                .map(|n| tool(&format!("same{n:02}"), "alike", &[]))
                .collect::<Vec<_>>()
        };
        let index = Index::new(&[shelf("b", tools()), shelf("a", tools())]);
        let first = found(&index, "alike");
        assert_eq!(
            first,
            ["a.same00", "a.same01", "a.same02", "a.same03", "a.same04"]
        );
        assert_eq!(first, found(&index, "alike"));
    }

    /// 5,000 tools of 100 servers with texts as long as real ones.
    fn large() -> Index {
        let verbs = [
            "create", "list", "get", "update", "delete", "search", "export", "import", "merge",
            "archive",
        ];
        let nouns = [
            "issue",
            "repository",
            "ticket",
            "document",
            "calendar",
            "invoice",
            "customer",
            "message",
            "branch",
            "report",
        ];
        let shelves: Vec<_> = (0..100)
            .map(|server| {
                let tools = (0..50)
                    .map(|number| {
                        let (verb, noun) = (verbs[number % 10], nouns[(number / 5 + server) % 10]);
                        let name = format!("{verb}_{noun}_{number}");
                        let description = format!(
                            "{verb} one {noun} of workspace{server} and answer with its fields{number}. Use this where unit{} \
                             of department{} asks for it; see also the other tools about {noun} and page{}.",
                            number * 7 + server, server * 13 + number, number * server
                        );
                        tool(&name, &description, &["workspace_id", "page_size", "filter", "sort_order"])
                    })
                    .collect();
                shelf(&format!("server{server}"), tools)
            })
            .collect();
        Index::new(&shelves)
    }

    #[test]
    fn a_query_over_five_thousand_tools_is_quick() {
        let index = large();
        assert_eq!(index.tools.len(), 5000);
        let queries = [
            "create issue",
            "serch docment page_size",
            "customer invoice export server42",
            "workspace department unit",
        ];
        let mut best = std::time::Duration::MAX;
        for _ in 0..5 {
            let started = std::time::Instant::now();
            for query in queries {
                assert_eq!(index.search(query, 5, &[]).hits.len(), 5, "{query}");
            }
            best = best.min(started.elapsed() / 4);
        }
        // The goal is 5 ms in a release build; unoptimised code on a busy machine is given ten times as long.
        let limit = std::time::Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 });
        assert!(best < limit, "{best:?} for one query");
    }

    proptest::proptest! {
        #[test]
        fn no_query_makes_it_panic(query in "(?s).{0,60}") {
            example().search(&query, 20, &[]);
        }
    }
}
