//! A whole command line where a program belongs: `"command": "docker run -i --rm x"`.
//!
//! If a program really has that name, it wins; otherwise the text is split as a shell would, with a warning that shows
//! how to write it. Words that may be secrets are masked in the warning.

/// The fields as they should be written, shown in the warning.
pub(super) fn corrected(command: Option<&str>, arguments: &[String]) -> String {
    let mut hidden_next = false;
    let shown: Vec<String> = arguments
        .iter()
        .map(|word| {
            let hide = hidden_next && !word.starts_with('-');
            hidden_next = word.starts_with('-') && names_a_secret(word);
            if hide { "...".to_owned() } else { masked(word) }
        })
        .collect();
    let list = serde_json::Value::from(shown);
    match command {
        Some(command) => format!(
            "\"command\": {}, \"args\": {list}",
            serde_json::Value::from(command)
        ),
        None => format!("\"args\": {list}"),
    }
}

fn names_a_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["key", "token", "secret", "pass", "auth", "header", "cred"]
        .iter()
        .any(|part| word.contains(part))
}

/// Hides the value of `NAME=value`, and words that look like a token.
fn masked(word: &str) -> String {
    if let Some((name, _)) = word.split_once('=') {
        return format!("{name}=...");
    }
    if word.contains("${") {
        return word.to_owned();
    }
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(char::is_ascii_alphabetic).count();
    let token = word.len() >= 16 && digits >= 2 && letters >= 2 && !word.contains(['/', '@', '.']);
    if token || word.contains("://") && (word.contains('@') || word.contains('?')) {
        return "...".to_owned();
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        for (line, expected) in [
            (
                "docker run -i --rm x",
                Some(vec!["docker", "run", "-i", "--rm", "x"]),
            ),
            ("  a\t b\n", Some(vec!["a", "b"])),
            ("a 'b c' \"d e\"f", Some(vec!["a", "b c", "d ef"])),
            (r"a\ b c", Some(vec!["a b", "c"])),
            (r#"a "x\"y\n""#, Some(vec!["a", r#"x"y\n"#])),
            ("a ''", Some(vec!["a", ""])),
            ("", Some(vec![])),
            ("a 'b", None),
            ("a \"b\\", None),
        ] {
            assert_eq!(
                shlex::split(line),
                expected.map(|words| words.into_iter().map(str::to_owned).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn corrected_line_shows_no_secret() {
        let words = shlex::split(
            "run -e GH=ghp_1 --api-key hunter22 ghp_16C7e42F292c6912E7 server ${TOKEN} pkg@1.2.3",
        )
        .unwrap();
        assert_eq!(
            corrected(Some("docker"), &words),
            r#""command": "docker", "args": ["run","-e","GH=...","--api-key","...","...","server","${TOKEN}","pkg@1.2.3"]"#
        );
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_splitting_panic(line in r#"[a '"\\é]{0,40}"#) {
            let _ = shlex::split(&line).map(|words| corrected(None, &words));
        }

        #[test]
        fn plain_words_come_back(words in proptest::collection::vec("[a-z-]{1,6}", 0..8)) {
            proptest::prop_assert_eq!(shlex::split(&words.join(" ")), Some(words));
        }
    }
}
