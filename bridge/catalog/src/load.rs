//! From search paths to a catalog: reads every file, lets the first usable definition of a name win, and collects the
//! problems.

mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::candidates::Candidate;
use super::definition::ServerName;
use super::document::{self, Lines};
use super::entry::Context;
use super::expand::Variables;
use super::identity::Identity;
use super::problem::{Problem, Reason, Severity};
use super::read::{self, Fingerprint};
use super::search_paths::SearchPaths;
use super::{Catalog, CatalogEntry, Considered, FileState, Of, Outcome, alias, dialect};

/// The most definition files of one folder.
const FILES: usize = 256;
/// The most entries of a folder that are examined.
const FOLDER_ENTRIES: usize = 10_000;

pub(super) fn load(search_paths: Arc<SearchPaths>) -> Catalog {
    let search_path = search_paths
        .environment
        .get("PATH")
        .map_or("", String::as_str);
    let mut loader = Loader {
        context: Context {
            variables: Variables {
                environment: &search_paths.environment,
                home: &search_paths.home,
                workspace: &search_paths.cwd,
                dialect: &dialect::GENERIC,
            },
            identity: Identity::new(
                search_paths.executable.as_deref(),
                search_path,
                &search_paths.cwd,
            ),
            search_path,
            allow_self: search_paths.allow_self,
            watched: Vec::new(),
        },
        here: search_paths.here(),
        entries: BTreeMap::new(),
        files: Vec::new(),
        problems: Vec::new(),
        seen: BTreeSet::new(),
    };
    for candidate in search_paths.candidates() {
        loader.consider(&candidate);
    }
    let Loader {
        mut entries,
        files,
        problems,
        context,
        ..
    } = loader;
    let watched = context.watched;
    name(&mut entries);
    Catalog {
        search_paths,
        entries,
        files,
        problems,
        watched,
    }
}

/// Gives every entry, usable or not, its alias, so that mending or breaking one does not change the alias of another.
fn name(entries: &mut BTreeMap<ServerName, CatalogEntry>) {
    let names: Vec<ServerName> = entries.keys().cloned().collect();
    let aliases = alias::aliases(names.iter().map(|name| name.0.as_str()), Of::Server);
    for known in entries.values_mut() {
        let Some(alias) = aliases.get(known.name.0.as_str()) else {
            continue;
        };
        known.alias.clone_from(alias);
        if let Outcome::Ready(definition) = &mut known.outcome {
            Arc::make_mut(definition).alias.clone_from(alias);
        }
    }
}

struct Loader<'a> {
    context: Context<'a>,
    here: Vec<String>,
    entries: BTreeMap<ServerName, CatalogEntry>,
    files: Vec<Considered>,
    problems: Vec<Problem>,
    /// Files read, with the dialect of each.
    seen: BTreeSet<(u64, u64, usize)>,
}

/// A file that is being read.
struct File<'f> {
    candidate: &'f Candidate,
    path: &'f Path,
    lines: Lines<'f>,
}

impl Loader<'_> {
    fn consider(&mut self, candidate: &Candidate) {
        if let Some(why) = candidate.never {
            if candidate.path.exists() {
                self.report(candidate, &candidate.path, FileState::Ignored(why));
            }
        } else if candidate.is_folder {
            self.folder(candidate);
        } else {
            self.file(candidate, &candidate.path);
        }
    }

    fn report(&mut self, candidate: &Candidate, path: &Path, state: FileState) {
        self.files.push(Considered {
            client: candidate.dialect.client,
            path: path.to_owned(),
            state,
        });
    }

    fn fail(&mut self, candidate: &Candidate, path: &Path, place: (usize, usize), reason: Reason) {
        self.report(candidate, path, FileState::Failed(reason.clone()));
        let (line, column) = place;
        let path = path.to_owned();
        self.problems.push(Problem {
            severity: Severity::Error,
            server: None,
            path,
            line,
            column,
            reason,
        });
    }

    /// Every `*.json` of a folder, in alphabetical order.
    fn folder(&mut self, candidate: &Candidate) {
        self.context
            .watched
            .push((candidate.path.clone(), Fingerprint::take(&candidate.path)));
        let pattern = candidate.path.join("*.json");
        let listing = match std::fs::read_dir(&candidate.path) {
            Ok(listing) => listing,
            Err(error) if read::is_absent(&error) => {
                return self.report(candidate, &pattern, FileState::Absent);
            }
            Err(error) => {
                return self.fail(
                    candidate,
                    &candidate.path,
                    (0, 0),
                    Reason::Unreadable(read::plain(&error)),
                );
            }
        };
        let mut paths: Vec<PathBuf> = listing
            .take(FOLDER_ENTRIES)
            .filter_map(|item| Some(item.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .filter(|path| {
                !path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            })
            .collect();
        paths.sort();
        if paths.is_empty() {
            return self.report(candidate, &pattern, FileState::Absent);
        }
        if paths.len() > FILES {
            self.fail(
                candidate,
                &candidate.path,
                (0, 0),
                Reason::TooManyFiles(FILES),
            );
        }
        for path in paths.into_iter().take(FILES) {
            self.file(candidate, &path);
        }
    }

    fn file(&mut self, candidate: &Candidate, path: &Path) {
        let before = Fingerprint::take(path);
        let (text, fingerprint) = match read::text(path, candidate.limit) {
            Ok(Some((text, fingerprint))) => (text, Some(fingerprint)),
            Ok(None) => {
                self.context.watched.push((path.to_owned(), None));
                if candidate.must_exist {
                    return self.fail(
                        candidate,
                        path,
                        (0, 0),
                        Reason::Unreadable("it does not exist".to_owned()),
                    );
                }
                return self.report(candidate, path, FileState::Absent);
            }
            Err(reason) => {
                self.context.watched.push((path.to_owned(), before));
                return self.fail(candidate, path, (0, 0), reason);
            }
        };
        self.context.watched.push((path.to_owned(), fingerprint));
        if let Some((device, inode)) = fingerprint.map(Fingerprint::identity)
            && !self
                .seen
                .insert((device, inode, candidate.dialect.roots.as_ptr().addr()))
        {
            return self.report(
                candidate,
                path,
                FileState::Ignored("is the same file as one above"),
            );
        }
        let lines = Lines::of(&text);
        let root = match document::parse(&text, candidate.syntax) {
            Ok(Some(root)) => root,
            Ok(None) => return self.report(candidate, path, FileState::Read { servers: 0 }),
            Err((at, reason)) => return self.fail(candidate, path, lines.place(at), reason),
        };
        if root.fields().is_none() {
            let reason = Reason::WrongType {
                what: "the file".to_owned(),
                expected: "an object",
                found: root.kind(),
            };
            return self.fail(candidate, path, lines.place(root.at), reason);
        }
        let file = File {
            candidate,
            path,
            lines,
        };
        let servers = self.servers(&file, &root);
        self.report(candidate, path, FileState::Read { servers });
    }
}
