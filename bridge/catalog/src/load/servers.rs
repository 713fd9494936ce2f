//! From one file's tree to its servers: which objects hold them, and which of two with the same name counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::definition::{Definition, ServerName, Source};
use super::super::document::{Field, Node, Value};
use super::super::entry::{self, Entry};
use super::super::problem::{Problem, Reason, Severity};
use super::super::{CatalogEntry, Outcome, dialect};
use super::{File, Loader};

/// The most definitions of one file.
const SERVERS: usize = 1000;
/// The most problems of one entry.
const FINDINGS: usize = 20;

impl Loader<'_> {
    /// Reads all servers of a file and says how many there are.
    pub(super) fn servers(&mut self, file: &File<'_>, root: &Node) -> usize {
        let dialect = file.candidate.dialect;
        self.context.variables.dialect = dialect;
        let description = root
            .get("description")
            .and_then(Node::text)
            .map(str::trim)
            .filter(|text| !text.is_empty());
        let description = description.map(|text| text.chars().take(2000).collect::<String>());
        self.duplicates(file, root);
        let groups = dialect.servers(root, &self.here);
        if groups.is_empty() && dialect.flat {
            return self.flat(file, root, description.as_deref());
        }
        let mut count = 0;
        for group in groups {
            match &group.value {
                Value::Map(fields) => count += self.group(file, fields, description.as_deref()),
                Value::List(entries) if entries.iter().all(|entry| entry.fields().is_some()) => {
                    let named: Vec<Field> = entries.iter().map(by_name).collect();
                    count += self.group(file, &named, description.as_deref());
                }
                Value::Null => {}
                _ => {
                    let what = "the servers".to_owned();
                    let reason = Reason::WrongType {
                        what,
                        expected: "an object with names, or a list of objects",
                        found: group.kind(),
                    };
                    self.problem(file, None, group.at, Severity::Error, reason);
                }
            }
        }
        count
    }

    /// If a key occurs twice in a file, the last one counts, and the servers under the other are lost.
    fn duplicates(&mut self, file: &File<'_>, root: &Node) {
        let fields = root.fields().unwrap_or_default();
        let lost = fields.iter().enumerate().filter(|(at, field)| {
            matches!(field.node.value, Value::Map(_) | Value::List(_))
                && fields[at + 1..].iter().any(|other| other.key == field.key)
        });
        for (_, field) in lost.take(FINDINGS) {
            let reason = Reason::DuplicateKey(field.key.chars().take(60).collect());
            self.problem(file, None, field.key_at, Severity::Warning, reason);
        }
    }

    /// A file that is one server, called like the file, or servers by name without a key above them.
    fn flat(&mut self, file: &File<'_>, root: &Node, description: Option<&str>) -> usize {
        if dialect::is_entry(root) {
            let key = file
                .path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let field = Field {
                key,
                key_at: root.at,
                node: root.clone(),
            };
            return self.group(file, &[field], description);
        }
        let fields = root.fields().unwrap_or_default();
        let servers: Vec<Field> = fields
            .iter()
            .filter(|field| dialect::is_entry(&field.node))
            .cloned()
            .collect();
        self.group(file, &servers, description)
    }

    fn group(&mut self, file: &File<'_>, fields: &[Field], description: Option<&str>) -> usize {
        // If a name occurs twice, the last one counts, as in the client itself.
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, field) in fields.iter().enumerate() {
            if let Some(earlier) = last.insert(&field.key, index) {
                let at = fields[earlier].key_at;
                let name = ServerName(field.key.clone());
                self.problem(
                    file,
                    Some(name),
                    at,
                    Severity::Warning,
                    Reason::DuplicateKey(field.key.clone()),
                );
            }
        }
        if last.len() > SERVERS {
            let at = fields.first().map_or(0, |field| field.key_at);
            self.problem(
                file,
                None,
                at,
                Severity::Error,
                Reason::TooManyServers(SERVERS),
            );
        }
        for (_, field) in fields
            .iter()
            .enumerate()
            .filter(|(index, field)| last[field.key.as_str()] == *index)
            .take(SERVERS)
        {
            self.server(file, field, description);
        }
        last.len().min(SERVERS)
    }

    fn server(&mut self, file: &File<'_>, field: &Field, description: Option<&str>) {
        let name = ServerName(field.key.chars().take(200).collect());
        if let Err(reason) = entry::check_name(&field.key) {
            return self.problem(file, Some(name), field.key_at, Severity::Error, reason);
        }
        let mut entry = entry::read(&field.node, &mut self.context);
        let failure = entry.failure().cloned();
        for (at, severity, reason) in entry.findings.drain(..).take(FINDINGS) {
            self.problem(file, Some(name.clone()), at, severity, reason);
        }
        let (line, column) = file.lines.place(field.key_at);
        let source = Source {
            client: file.candidate.dialect.client,
            path: file.path.to_owned(),
            line,
            column,
        };
        let description = entry
            .description
            .take()
            .or_else(|| description.map(str::to_owned));
        let outcome = if entry.disabled {
            Outcome::Disabled
        } else {
            outcome(&name, &source, description.as_deref(), entry, failure)
        };
        self.keep(CatalogEntry {
            alias: String::new(),
            passed_over: Vec::new(),
            name,
            description,
            source,
            outcome,
        });
    }

    /// Adds a definition: the first one of a name wins, unless it cannot be used and a later one can.
    fn keep(&mut self, mut known: CatalogEntry) {
        match self.entries.get_mut(&known.name) {
            None => {
                self.entries.insert(known.name.clone(), known);
            }
            Some(first)
                if matches!(
                    (&first.outcome, &known.outcome),
                    (Outcome::Broken(_), Outcome::Ready(_))
                ) =>
            {
                known.passed_over = std::mem::take(&mut first.passed_over);
                known.passed_over.push(first.source.clone());
                *first = known;
            }
            Some(first) => first.passed_over.push(known.source),
        }
    }

    fn problem(
        &mut self,
        file: &File<'_>,
        server: Option<ServerName>,
        at: usize,
        severity: Severity,
        reason: Reason,
    ) {
        let (line, column) = file.lines.place(at);
        self.problems.push(Problem {
            severity,
            server,
            path: file.path.to_owned(),
            line,
            column,
            reason,
        });
    }
}

/// A server of a list, which has its name among its fields.
fn by_name(entry: &Node) -> Field {
    let name = entry.get("name").or_else(|| entry.get("id"));
    Field {
        key: name.and_then(Node::text).unwrap_or_default().to_owned(),
        key_at: entry.at,
        node: entry.clone(),
    }
}

fn outcome(
    name: &ServerName,
    source: &Source,
    description: Option<&str>,
    entry: Entry,
    failure: Option<Reason>,
) -> Outcome {
    match (failure, entry.transport) {
        (Some(reason), _) => Outcome::Broken(reason),
        (None, None) => Outcome::Broken(Reason::ExtensionServer),
        (None, Some(transport)) => Outcome::Ready(Arc::new(Definition {
            name: name.clone(),
            alias: String::new(),
            hash: transport.hash(),
            transport,
            description: description.map(str::to_owned),
            source: source.clone(),
            start_timeout: entry.start_timeout,
            call_timeout: entry.call_timeout,
            tools: entry.tools,
            secrets: entry.secrets,
        })),
    }
}
