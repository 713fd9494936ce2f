//! The Debian mirrors of this machine, from apt's configuration. No server is named in this
//! program.

use std::process::{Command, Stdio};

/// The URLs of the configured mirrors, without a slash at the end; none without apt.
pub(crate) fn configured() -> Vec<String> {
    let format = "$(REPO_URI) $(ORIGIN) $(LABEL)";
    mirrors(&command_output(&[
        "apt-get",
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))
}

/// What a program prints; nothing if it is missing or fails.
pub(super) fn command_output(command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => String::new(),
    }
}

/// The repositories that call themselves Debian's. Before the first `apt-get update` their names
/// are unknown: then all but those with security updates are taken. A wrong guess costs one
/// request, as files are checked by SHA-256.
fn mirrors(listing: &str) -> Vec<String> {
    let mut named = Vec::new();
    let mut unnamed = Vec::new();
    for line in listing.lines() {
        let mut words = line.split(' ');
        let (Some(address), Some(origin), Some(label)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let address = address.trim_end_matches('/').to_owned();
        if !address.starts_with("http://") && !address.starts_with("https://") {
            continue;
        }
        if origin == "Debian" && label == "Debian" {
            named.push(address);
        } else if (origin.is_empty() || origin.starts_with('$')) && !address.contains("security") {
            unnamed.push(address);
        }
    }
    let mut mirrors = if named.is_empty() { unnamed } else { named };
    let mut seen = std::collections::BTreeSet::new();
    mirrors.retain(|address| seen.insert(address.clone()));
    mirrors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debians_own_repositories_are_mirrors() {
        let listing = "http://mirror.example/debian/ Debian Debian\n\
            http://mirror.example/debian/ Debian Debian\n\
            http://mirror.example/debian-security/ Debian Debian-Security\n\
            https://other.example/apt/ Other Other\n\
            file:/srv/debian/ Debian Debian\n";
        assert_eq!(mirrors(listing), ["http://mirror.example/debian"]);
    }

    #[test]
    fn unnamed_repositories_are_mirrors_before_the_first_update() {
        let listing = "http://mirror.example/debian/ $(ORIGIN) $(LABEL)\nhttp://mirror.example/debian-security/ $(ORIGIN) $(LABEL)\n\
            http://mirror.example/unnamed/  \n";
        assert_eq!(
            mirrors(listing),
            [
                "http://mirror.example/debian",
                "http://mirror.example/unnamed"
            ]
        );
        assert_eq!(mirrors(""), Vec::<String>::new());
    }
}
