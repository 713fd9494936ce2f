//! Variables in definitions: `${VAR}`, `${VAR:-default}`, `${env:VAR}` and what each client adds to that.
//!
//! A variable that is not set and has no default is an error that names it. A value that came from the environment is
//! remembered as a secret, and no message contains one.

use std::collections::BTreeMap;
use std::path::Path;

use super::dialect::{Dialect, FileVariable};
use super::problem::Reason;
use super::read;

/// How deep variables may be nested in defaults.
const DEEPEST: usize = 8;
/// The longest expanded value, in bytes.
const LONGEST: usize = 256 * 1024;
/// Size of a file that `${file:...}` may name.
const FILE_LIMIT: u64 = 64 * 1024;

/// Warnings about one entry.
const WARNINGS: usize = 16;

/// Variables that name locations and hold no secret.
const ORDINARY: [&str; 10] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "LANG",
    "TMPDIR",
    "CLAUDE_PROJECT_DIR",
    "CREDENTIALS_DIRECTORY",
];

/// Where values come from.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a> {
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) home: &'a Path,
    pub(super) workspace: &'a Path,
    pub(super) dialect: &'a Dialect,
}

/// What was found while values were expanded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) warnings: Vec<Reason>,
    /// Values of variables that may be secret.
    pub(super) secrets: Vec<String>,
}

impl Variables<'_> {
    /// Expands all variables in the value of `field`.
    pub(super) fn expand(
        &self,
        text: &str,
        field: &str,
        found: &mut Found,
    ) -> Result<String, Reason> {
        self.expand_at(text, field, found, 0)
    }

    /// Replaces a leading `~` by the home folder, for programs and paths, as shells and clients do.
    pub(super) fn tilde(&self, text: &str) -> String {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", self.home.display())
            }
            _ => text.to_owned(),
        }
    }

    fn expand_at(
        &self,
        text: &str,
        field: &str,
        found: &mut Found,
        depth: usize,
    ) -> Result<String, Reason> {
        if depth > DEEPEST {
            return Err(Reason::VariableTooDeep(field.to_owned()));
        }
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            result.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$${") {
                result.push_str("${");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let end = closing(after).ok_or_else(|| Reason::OpenVariable(field.to_owned()))?;
                result.push_str(&self.reference(&after[..end], field, found, depth)?);
                rest = &after[end + 1..];
            } else if let Some((name, after)) =
                braced(rest, "{env:").filter(|(name, _)| is_name(name))
            {
                result.push_str(&self.variable(name, None, field, found, depth)?);
                rest = after;
            } else if let Some((path, after)) =
                braced(rest, "{file:").filter(|_| self.dialect.files == FileVariable::Braces)
            {
                result.push_str(&self.file(path, field, found)?);
                rest = after;
            } else if let Some((name, after)) =
                bare(rest).filter(|(name, _)| self.expands_bare(name))
            {
                result.push_str(&self.variable(name, None, field, found, depth)?);
                rest = after;
            } else {
                // Both characters are one byte long.
                result.push_str(&rest[..1]);
                rest = &rest[1..];
            }
            if result.len() > LONGEST {
                return Err(Reason::VariableTooDeep(field.to_owned()));
            }
        }
        result.push_str(rest);
        Ok(result)
    }

    /// Expands `$NAME`, if the client does. A name in lower case that is not set is more likely part of a password.
    fn expands_bare(&self, name: &str) -> bool {
        let upper = name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        self.dialect.bare_dollar && (upper || self.environment.contains_key(name))
    }

    /// Expands what is between `${` and `}`.
    fn reference(
        &self,
        inside: &str,
        field: &str,
        found: &mut Found,
        depth: usize,
    ) -> Result<String, Reason> {
        let inside = inside.trim();
        if let Some(value) = self.predefined(inside) {
            return Ok(value);
        }
        let plain = inside.strip_prefix("env:").unwrap_or(inside);
        let (name, default) = match plain.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (plain, None),
        };
        if is_name(name) {
            return self.variable(name, default, field, found, depth);
        }
        match inside.split_once(':') {
            Some(("input", id)) => Err(Reason::Input(short(id))),
            Some((kind @ ("command" | "config" | "extensionInstallFolder"), _)) => {
                Err(Reason::EditorVariable(kind.to_owned(), field.to_owned()))
            }
            Some(("file", path)) if self.dialect.files == FileVariable::Dollar => {
                let path = self.expand_at(path, field, found, depth + 1)?;
                self.file(&path, field, found)
            }
            _ => {
                // Only the name is shown; what follows may be anything.
                let name: String = inside
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                let shown = format!("{}...", short(&name));
                // In a command line it is parameter expansion of a shell script, most likely: `sh -c 'echo ${x%.*}'`.
                // Elsewhere the server would be given these very characters for a token, say.
                if !matches!(field, "command" | "args") {
                    return Err(Reason::UnknownForm(shown, field.to_owned()));
                }
                let warning = Reason::UnknownVariable(shown, field.to_owned());
                if found.warnings.len() < WARNINGS && !found.warnings.contains(&warning) {
                    found.warnings.push(warning);
                }
                Ok(format!("${{{inside}}}"))
            }
        }
    }

    fn predefined(&self, name: &str) -> Option<String> {
        Some(match name {
            "workspaceFolder" | "workspaceRoot" | "cwd" => self.workspace.display().to_string(),
            "workspaceFolderBasename" => self.workspace.file_name()?.to_string_lossy().into_owned(),
            "userHome" => self.home.display().to_string(),
            "pathSeparator" | "/" => "/".to_owned(),
            "CLAUDE_PROJECT_DIR" if !self.environment.contains_key(name) => {
                self.workspace.display().to_string()
            }
            "HOME" if !self.environment.contains_key(name) => self.home.display().to_string(),
            _ => return None,
        })
    }

    fn variable(
        &self,
        name: &str,
        default: Option<&str>,
        field: &str,
        found: &mut Found,
        depth: usize,
    ) -> Result<String, Reason> {
        match (self.environment.get(name), default) {
            // As in a shell, `:-` also replaces an empty value.
            (Some(value), Some(default)) if value.is_empty() => {
                self.expand_at(default, field, found, depth + 1)
            }
            (Some(value), _) => {
                if !ORDINARY.contains(&name) {
                    found.secrets.push(value.clone());
                }
                Ok(value.clone())
            }
            (None, Some(default)) => self.expand_at(default, field, found, depth + 1),
            (None, None) => Err(Reason::UnsetVariable {
                variable: short(name),
                field: field.to_owned(),
            }),
        }
    }

    fn file(&self, path: &str, field: &str, found: &mut Found) -> Result<String, Reason> {
        let path = self.workspace.join(self.tilde(path.trim()));
        let failure = |why: String| Reason::VariableFile(field.to_owned(), why);
        match read::text(&path, FILE_LIMIT) {
            Ok(Some((text, _))) => {
                let text = text.trim_end_matches(['\n', '\r']).to_owned();
                found.secrets.push(text.clone());
                Ok(text)
            }
            Ok(None) => Err(failure("it does not exist".to_owned())),
            Err(reason) => Err(failure(format!("it {reason}"))),
        }
    }
}

/// Where the `}` is that closes a `${` before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut previous = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' if previous == b'$' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
        previous = byte;
    }
    None
}

/// `{env:NAME}rest` as `(NAME, rest)`.
fn braced<'t>(text: &'t str, opening: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(opening)?.split_once('}')
}

/// `$NAME rest` as `(NAME, " rest")`.
fn bare(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('$')?;
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    is_name(name).then_some((name, rest))
}

/// Whether this can be the name of an environment variable in a reference.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Names are shown up to a length that fits a line.
fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
