//! Whether a definition would start this bridge again: directly, through a wrapper script, a shell or a package runner.
//!
//! What this overlooks is caught by `depth`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bridge_common::programs;

use super::read;

/// Names under which this bridge, or its predecessor, is installed.
const NAMES: [&str; 4] = [
    "mcp-code-bridge",
    "mcp_code_bridge",
    "mcp-server-code-execution-mode",
    "mcp_server_code_execution_mode",
];

/// The largest file that is read as a wrapper script, in bytes.
const SCRIPT_LIMIT: u64 = 64 * 1024;

/// Wrappers in wrappers are followed this far.
const DEEPEST: usize = 4;

/// Recognises the running program.
pub(super) struct Identity<'a> {
    own: Option<(u64, u64)>,
    search_path: &'a str,
    base: &'a Path,
    /// Results for programs already examined: many definitions share their command.
    seen: HashMap<String, bool>,
}

impl<'a> Identity<'a> {
    pub(super) fn new(executable: Option<&Path>, search_path: &'a str, base: &'a Path) -> Self {
        let own = executable
            .and_then(read::Fingerprint::take)
            .map(read::Fingerprint::identity);
        Self {
            own,
            search_path,
            base,
            seen: HashMap::new(),
        }
    }

    /// How the command would start the bridge again; `None` if it does not.
    pub(super) fn recursion(&mut self, program: &str, arguments: &[String]) -> Option<String> {
        self.recursion_at(program, arguments, 0)
    }

    fn recursion_at(
        &mut self,
        program: &str,
        arguments: &[String],
        depth: usize,
    ) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        let name = file_name(program);
        if NAMES.contains(&name) || self.is_bridge(program) {
            return Some("its command is the bridge".to_owned());
        }
        let through = |found: bool| found.then(|| format!("through {name}"));
        match name {
            "sh" | "bash" | "dash" | "zsh" | "ksh" | "fish" | "cmd" => {
                let words = arguments.iter().flat_map(|argument| {
                    argument
                        .split(|c: char| c.is_whitespace() || "'\"`;&|()<>$={}".contains(c))
                        .filter(|word| !word.is_empty())
                });
                through(words.into_iter().any(|word| self.is_named(word)))
            }
            "env" | "sudo" | "doas" | "nohup" | "nice" | "time" | "timeout" | "exec" | "setsid"
            | "stdbuf" | "direnv" | "systemd-run" | "mise" | "xvfb-run" => {
                // Options and their values come first; the command is the first word that is a program.
                let at = arguments.iter().position(|word| {
                    !word.starts_with('-')
                        && !word.contains('=')
                        && (NAMES.contains(&file_name(word))
                            || programs::find(word, self.search_path.as_ref(), self.base).is_some())
                })?;
                self.recursion_at(&arguments[at], &arguments[at + 1..], depth + 1)
                    .map(|_| format!("through {name}"))
            }
            "docker" | "podman" | "nerdctl" => {
                let image = |argument: &String| {
                    !argument.starts_with(['-', '/', '.', '~'])
                        && NAMES.contains(&package(argument))
                };
                through(arguments.iter().any(image))
            }
            "uvx" | "uv" | "pipx" | "npx" | "npm" | "bunx" | "bun" | "pnpm" | "yarn" | "nix"
            | "nix-shell" | "cargo" | "python" | "python3" | "node" | "deno" => {
                through(runs_package(name, arguments))
            }
            _ => None,
        }
    }

    /// A word in a shell's command that is the bridge's name or path.
    fn is_named(&mut self, word: &str) -> bool {
        (NAMES.contains(&file_name(word)) && !self.base.join(word).is_dir()) || self.is_bridge(word)
    }

    /// A file that a path names, or a program on the search path. What a shell is told to read need not be executable.
    fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(self.base.join(program)).filter(|path| path.is_file());
        }
        programs::find(program, self.search_path.as_ref(), self.base)
    }

    /// Whether the program found under this name is the running one, or a script that names it.
    fn is_bridge(&mut self, program: &str) -> bool {
        if let Some(known) = self.seen.get(program) {
            return *known;
        }
        let result = self.find(program).is_some_and(|path| {
            let path = path.canonicalize().unwrap_or(path);
            let own = self.own.is_some()
                && read::Fingerprint::take(&path).map(read::Fingerprint::identity) == self.own;
            own || NAMES.contains(&file_name(&path.to_string_lossy())) || is_wrapper(&path)
        });
        self.seen.insert(program.to_owned(), result);
        result
    }
}

/// A small script that has the bridge's name as a word outside comments.
fn is_wrapper(path: &Path) -> bool {
    let Ok(Some((text, _))) = read::text(path, SCRIPT_LIMIT) else {
        return false;
    };
    text.starts_with("#!")
        && text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .any(|line| {
                line.split(|c: char| c.is_whitespace() || "'\"`;&|()".contains(c))
                    .any(|word| NAMES.contains(&file_name(word)) && !Path::new(word).is_dir())
            })
}

/// Whether a package runner is told to run the bridge: by an option that names packages, or as its first word.
fn runs_package(runner: &str, arguments: &[String]) -> bool {
    const VERBS: [&str; 10] = [
        "run", "exec", "x", "tool", "dlx", "shell", "develop", "--", "install", "runpip",
    ];
    /// Options whose value is not a package but may be a folder with the same name.
    const OTHER: [&str; 16] = [
        "--directory",
        "--project",
        "--cwd",
        "--dir",
        "-C",
        "--prefix",
        "--workspace",
        "--python",
        "--cache-dir",
        "--index",
        "--index-url",
        "--registry",
        "--env-file",
        "--require",
        "-r",
        "--import",
    ];
    const NAMING: [&str; 11] = [
        "--from",
        "--package",
        "-p",
        "--with",
        "--spec",
        "-m",
        "--bin",
        "-c",
        "--command",
        "--script",
        "--run",
    ];
    let is_interpreter = matches!(runner, "python" | "python3" | "node" | "deno");
    let mut names_next = false;
    let mut skips_next = false;
    for argument in arguments {
        if std::mem::take(&mut skips_next) {
            continue;
        }
        if names_next {
            // After `python -m x` come the arguments of x.
            if NAMES.contains(&package(argument)) || is_interpreter {
                return NAMES.contains(&package(argument));
            }
            names_next = false;
        } else if let Some((option, value)) = argument
            .split_once('=')
            .filter(|(option, _)| NAMING.contains(option))
        {
            if !option.is_empty() && NAMES.contains(&package(value)) {
                return true;
            }
        } else if argument.starts_with('-') && argument != "--" {
            names_next = NAMING.contains(&argument.as_str());
            skips_next = OTHER.contains(&argument.as_str());
        } else if !VERBS.contains(&argument.as_str()) {
            return NAMES.contains(&package(argument))
                || (runner == "cargo" && NAMES.contains(&argument.as_str()));
        }
    }
    false
}

/// `github:owner/name#output`, `name@1.2`, `registry/name:tag`, `name==1`, `name.py` as `name`.
fn package(text: &str) -> &str {
    let text = text.split(['#', '?']).next().unwrap_or_default();
    let text = file_name(text.strip_suffix(".git").unwrap_or(text));
    let text = text
        .split(['@', '=', '[', '<', '>', '~', ' '])
        .next()
        .unwrap_or_default();
    let text = text.rsplit_once(':').map_or(text, |(before, after)| {
        if NAMES.contains(&after) {
            after
        } else {
            before
        }
    });
    text.strip_suffix(".py").unwrap_or(text)
}

fn file_name(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn check(identity: &mut Identity<'_>, line: &str) -> bool {
        let words = shlex::split(line).unwrap();
        identity.recursion(&words[0], &words[1..]).is_some()
    }

    #[test]
    fn definitions_that_start_the_bridge_again_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(base.join(name), text).unwrap();
            std::fs::set_permissions(base.join(name), std::fs::Permissions::from_mode(0o755))
                .unwrap();
        };
        write("program", "\u{7f}ELF");
        write(
            "wrapper",
            "#!/bin/sh\n# a wrapper\nexec /opt/bin/mcp-code-bridge \"$@\"\n",
        );
        write("innocent", "#!/bin/sh\n# not mcp-code-bridge\nexec other\n");
        std::os::unix::fs::symlink(base.join("program"), base.join("linked")).unwrap();
        std::fs::hard_link(base.join("program"), base.join("copied")).unwrap();
        std::fs::create_dir_all(base.join("src/mcp-code-bridge")).unwrap();
        let here = base.display();
        let search_path = base.to_str().unwrap();
        let executable = base.join("program");
        let mut identity = Identity::new(Some(&executable), search_path, &base);

        for line in [
            "mcp-code-bridge".to_owned(),
            "/usr/local/bin/mcp-code-bridge serve".to_owned(),
            "program".to_owned(),
            "./program".to_owned(),
            format!("{here}/linked"),
            "copied".to_owned(),
            "wrapper".to_owned(),
            "sh -c 'exec program'".to_owned(),
            format!("sh -c 'exec {here}/linked'"),
            "bash -lc 'cd /x && A=1 mcp-code-bridge'".to_owned(),
            format!("bash {here}/wrapper"),
            "env A=1 mcp-code-bridge".to_owned(),
            "env -i nohup sh -c program".to_owned(),
            "timeout 5 program".to_owned(),
            "uvx mcp-code-bridge".to_owned(),
            "uvx --from mcp-code-bridge==1.0 bridge".to_owned(),
            "uvx --from git+https://example.com/x/mcp-server-code-execution-mode.git thing run"
                .to_owned(),
            "uv tool run mcp-code-bridge@latest".to_owned(),
            "npx -y mcp-code-bridge@1".to_owned(),
            "nix run github:owner/mcp-code-bridge#default -- serve".to_owned(),
            format!("nix run {here}/src/mcp-code-bridge"),
            "python3 /x/mcp_server_code_execution_mode.py".to_owned(),
            "docker run -i --rm ghcr.io/x/mcp-code-bridge:latest".to_owned(),
            "cargo run --bin mcp-code-bridge".to_owned(),
            "python3 -m mcp_code_bridge".to_owned(),
            format!("uv --directory {here} run mcp-code-bridge"),
        ] {
            assert!(check(&mut identity, &line), "{line}");
        }
        for line in [
            "npx -y @modelcontextprotocol/server-filesystem /src/mcp-code-bridge".to_owned(),
            format!("uvx mcp-server-git --repository {here}/src/mcp-code-bridge"),
            format!("sh -c 'cd {here}/src/mcp-code-bridge && exec other'"),
            format!("uv --directory {here}/src/mcp-code-bridge run other"),
            format!("python3 -m other --root {here}/src/mcp-code-bridge"),
            format!("python3 -m other {here}/src/mcp-code-bridge"),
            "npm --prefix /src/mcp-code-bridge exec other".to_owned(),
            "innocent".to_owned(),
            "docker run -v /src/mcp-code-bridge:/x other".to_owned(),
            "my-mcp-code-bridge-client".to_owned(),
            "absent --flag mcp-code-bridge".to_owned(),
            "uvx".to_owned(),
            "sh".to_owned(),
        ] {
            assert!(!check(&mut identity, &line), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_panics(program in ".{0,12}", arguments in proptest::collection::vec(r"[-a-z=:#@/. ]{0,12}", 0..5)) {
            let base = Path::new("/");
            let mut identity = Identity::new(None, "", base);
            for wrapper in [program.as_str(), "sh", "env", "docker", "uvx"] {
                let _ = identity.recursion(wrapper, &arguments);
            }
        }
    }
}
