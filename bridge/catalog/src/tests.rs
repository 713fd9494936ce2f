//! Whole catalogs: one fixture for each dialect, and a test for every reported fault of configurations.

mod dialects;
mod entries;
mod files;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

/// A home and a project folder of their own.
struct World {
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    platform: Platform,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home/MCPs", "project", "bin"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let bin = folder.path().join("bin").display().to_string();
        let environment = [("PATH", bin.as_str()), ("T", "token-of-the-user")];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        Self {
            folder,
            environment,
            platform: Platform::Linux,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// `CWD` in the text is the project folder.
    fn write(&self, path: &str, text: &str) -> PathBuf {
        let full = self.root().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(
            &full,
            text.replace("CWD", &self.root().join("project").display().to_string()),
        )
        .unwrap();
        full
    }

    fn program(&self, path: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let full = self.write(path, text);
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(0o755)).unwrap();
        full
    }

    fn search_paths(&self) -> SearchPaths {
        let root = self.root();
        let home = root.join("home");
        let state = home.join("MCPs");
        SearchPaths {
            platform: self.platform,
            ..SearchPaths::new(home, root.join("project"), state, self.environment.clone())
        }
    }

    fn load(&self) -> Catalog {
        Catalog::load(self.search_paths())
    }

    /// The catalog of one file in the state folder.
    fn of(&self, text: &str) -> Catalog {
        self.write("home/MCPs/servers.json", text);
        self.load()
    }

    /// Everything about a catalog, values included, with this world's folder as `/w`.
    fn described(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        for known in catalog.entries() {
            let place = catalog.place(&known.source);
            let _ = writeln!(
                text,
                "{} = {}  [{} {place}]",
                known.name, known.alias, known.source.client
            );
            if let Some(description) = &known.description {
                let _ = writeln!(text, "  description: {description}");
            }
            match &known.outcome {
                Outcome::Disabled => text.push_str("  disabled\n"),
                Outcome::Broken(reason) => drop(writeln!(text, "  broken: {reason}")),
                Outcome::Ready(definition) => describe(definition, &mut text),
            }
            for source in &known.passed_over {
                let _ = writeln!(
                    text,
                    "  passed over: {} {}",
                    source.client,
                    catalog.place(source)
                );
            }
        }
        for problem in catalog.problems() {
            let _ = writeln!(text, "{:?}: {problem}", problem.severity);
        }
        text.replace(&self.root().display().to_string(), "/w")
    }
}

fn describe(definition: &Definition, text: &mut String) {
    let values = |map: &BTreeMap<String, SecretString>| {
        map.iter()
            .map(|(name, value)| format!("{name}={}", value.expose_secret()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let _ = match &definition.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } => {
            let cwd = cwd
                .as_ref()
                .map(|cwd| format!(" in {}", cwd.display()))
                .unwrap_or_default();
            writeln!(
                text,
                "  stdio: {command} {args:?}{cwd}\n  env: {}",
                values(env)
            )
        }
        Transport::Http { url, headers } => {
            writeln!(text, "  http: {url}\n  headers: {}", values(headers))
        }
    };
    if definition.start_timeout.is_some() || definition.call_timeout.is_some() {
        let _ = writeln!(
            text,
            "  limits: start {:?}, call {:?}",
            definition.start_timeout, definition.call_timeout
        );
    }
    if definition.tools != ToolFilter::default() {
        let _ = writeln!(text, "  tools: {:?}", definition.tools);
    }
    if !definition.secrets().is_empty() {
        let secrets: Vec<&str> = definition
            .secrets()
            .iter()
            .map(ExposeSecret::expose_secret)
            .collect();
        let _ = writeln!(text, "  secret: {secrets:?}");
    }
}

fn stdio(catalog: &Catalog, name: &str) -> (String, Vec<String>, BTreeMap<String, String>) {
    match &catalog.definition(name).unwrap().transport {
        Transport::Stdio {
            command, args, env, ..
        } => {
            let env = env
                .iter()
                .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                .collect();
            (command.clone(), args.clone(), env)
        }
        Transport::Http { .. } => panic!("{name} is not a stdio server"),
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog
        .definitions()
        .map(|definition| definition.name.0.as_str())
        .collect()
}
