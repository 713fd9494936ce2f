//! Which mirror of Debian this machine uses: asked of apt, written nowhere here.

use std::process::{Command, Stdio};

/// Addresses of the mirrors that apt is configured with, without a slash at the end; none where there is no apt.
pub(crate) fn configured() -> Vec<String> {
    let format = "$(REPO_URI) $(ORIGIN) $(LABEL)";
    mirrors(&asked(&[
        "apt-get",
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))
}

/// What a program prints; nothing where it is not there or fails.
pub(super) fn asked(command: &[&str]) -> String {
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

/// Takes repositories that say they are Debian's; before the first `apt-get update` none says anything, and all count
/// but those that serve security updates. A wrong guess costs a request: files are checked by their sum.
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
    fn takes_debians_own_repositories() {
        let listing = "http://mirror.example/debian/ Debian Debian\n\
            http://mirror.example/debian/ Debian Debian\n\
            http://mirror.example/debian-security/ Debian Debian-Security\n\
            https://other.example/apt/ Other Other\n\
            file:/srv/debian/ Debian Debian\n";
        assert_eq!(mirrors(listing), ["http://mirror.example/debian"]);
    }

    #[test]
    fn guesses_before_the_first_update() {
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
