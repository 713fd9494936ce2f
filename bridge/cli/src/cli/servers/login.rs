//! `servers login` and `servers logout`: OAuth tokens for servers that are reached over HTTP.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use secrecy::ExposeSecret;

use super::super::{block_on, exit, terminal};
use crate::report;
use bridge_catalog::{Catalog, Definition, Transport};
use bridge_upstream::Redactor;
use bridge_upstream::oauth::Tokens;

#[derive(Debug, Args)]
pub(super) struct Login {
    /// Name of the server.
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct Logout {
    /// Name of the server.
    name: String,
}

impl Login {
    pub(super) fn run(&self, catalog: &Catalog, folder: Option<PathBuf>) -> ExitCode {
        let (definition, url, tokens) = match find(catalog, &self.name, folder) {
            Ok(found) => found,
            Err(problem) => return wrong(&problem),
        };
        let show = |address: &str| {
            terminal::say(&format!(
                "open this address in a browser to log in:\n{}",
                report::clean(address)
            ));
        };
        match block_on(tokens.login(&url, show)) {
            Ok(Ok(())) => {
                terminal::say(&format!("logged in to {}", report::clean(&self.name)));
                ExitCode::SUCCESS
            }
            Ok(Err(error)) => {
                terminal::say(&report::clean(&without_secrets(
                    &error.to_string(),
                    &definition,
                )));
                exit::FAILED.into()
            }
            Err(code) => code,
        }
    }
}

impl Logout {
    pub(super) fn run(&self, catalog: &Catalog, folder: Option<PathBuf>) -> ExitCode {
        let tokens = match find(catalog, &self.name, folder) {
            Ok((_, _, tokens)) => tokens,
            Err(problem) => return wrong(&problem),
        };
        if !tokens.exist() {
            terminal::say("nothing to delete: not logged in");
            return ExitCode::SUCCESS;
        }
        match tokens.remove() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                terminal::say(&format!("cannot delete the token: {error}"));
                exit::FAILED.into()
            }
        }
    }
}

fn wrong(problem: &str) -> ExitCode {
    terminal::say(&report::clean(problem));
    exit::USAGE.into()
}

/// An error text without the secrets of the server's definition and address.
fn without_secrets(text: &str, definition: &Definition) -> String {
    let redactor = Redactor::new(definition.secrets().iter().map(ExposeSecret::expose_secret));
    let text = match &definition.transport {
        Transport::Http { url, .. } => text.replace(url.as_str(), &definition.transport.shown()),
        Transport::Stdio { .. } => text.to_owned(),
    };
    redactor.text(&text).into_owned()
}

/// Finds a server's definition, its address and its tokens.
fn find(
    catalog: &Catalog,
    name: &str,
    folder: Option<PathBuf>,
) -> Result<(Arc<Definition>, String, Tokens), String> {
    let definition = catalog
        .definition(name)
        .map_err(|error| error.to_string())?;
    let Transport::Http { url, .. } = &definition.transport else {
        return Err(format!(
            "cannot log in to server {name:?}: it is a program, and only servers with a URL need a login"
        ));
    };
    let folder = folder.ok_or("cannot find the folder of tokens: HOME is not set")?;
    Ok((
        Arc::clone(definition),
        url.clone(),
        Tokens::of(&folder, url),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_catalog::SearchPaths;

    #[test]
    fn only_servers_with_a_url_have_a_login() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_path_buf();
        let text = r#"{"mcpServers": {"program": {"command": "x"}, "web": {"url": "http://127.0.0.1:9/mcp"},
            "keyed": {"url": "http://127.0.0.1:9/s/path-key?k=key-of-the-user"}}}"#;
        std::fs::write(root.join("a.json"), text).unwrap();
        let catalog = Catalog::load(SearchPaths::new(
            root.join("home"),
            root.join("here"),
            root.clone(),
            [].into(),
        ));
        let problem = |name: &str, tokens: Option<PathBuf>| find(&catalog, name, tokens).err();
        assert_eq!(problem("web", Some(root.clone())), None);
        assert!(
            problem("program", Some(root.clone()))
                .is_some_and(|text| text.contains("it is a program"))
        );
        assert!(
            problem("wob", Some(root.clone()))
                .is_some_and(|text| text.contains("did you mean web?"))
        );
        let keyed = find(&catalog, "keyed", Some(root.clone())).unwrap();
        let text = without_secrets(
            &format!("no answer from {} (key key-of-the-user)", keyed.1),
            &keyed.0,
        );
        assert_eq!(text, "no answer from http://127.0.0.1:9 (key [redacted])");
        assert!(problem("web", None).is_some_and(|text| text.contains("HOME")));
    }
}
