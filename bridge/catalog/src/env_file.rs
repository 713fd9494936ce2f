//! `envFile`: lines of `NAME=value`, as VS Code and Cursor read them.
//!
//! Values are taken as written, without expansion; a line of another form is reported by its number alone.

/// Variables in the order of the file, and the numbers of lines of another form.
pub(super) fn parse(text: &str) -> (Vec<(String, String)>, Vec<usize>) {
    let mut variables = Vec::new();
    let mut bad = Vec::new();
    let mut rest = text;
    let mut line_number = 0;
    while !rest.is_empty() {
        line_number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let Some((name, value)) = line
            .split_once('=')
            .map(|(name, value)| (name.trim_end(), value.trim_start()))
        else {
            bad.push(line_number);
            continue;
        };
        if !super::expand::is_name(name) {
            bad.push(line_number);
            continue;
        }
        let Some(quote) = value
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''))
        else {
            // A comment begins at a `#` after a blank.
            let end = value
                .find(" #")
                .or_else(|| value.find("\t#"))
                .unwrap_or(value.len());
            variables.push((name.to_owned(), value[..end].trim_end().to_owned()));
            continue;
        };
        // A quoted value may go on over several lines.
        let mut quoted = value[1..].to_owned();
        let started = line_number;
        let mut ahead = rest;
        let mut end = close(&quoted, quote);
        while end.is_none() && !ahead.is_empty() {
            let (line, after) = ahead.split_once('\n').unwrap_or((ahead, ""));
            quoted.push('\n');
            let from = quoted.len();
            quoted.push_str(line.trim_end_matches('\r'));
            ahead = after;
            line_number += 1;
            end = close(&quoted[from..], quote).map(|at| from + at);
        }
        if let Some(end) = end {
            rest = ahead;
            variables.push((name.to_owned(), unescape(&quoted[..end], quote)));
        } else {
            line_number = started;
            bad.push(started);
        }
    }
    (variables, bad)
}

/// Where the quote ends.
fn close(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let ends = character == quote && !escaped;
        escaped = quote == '"' && character == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn unescape(text: &str, quote: char) -> String {
    if quote == '\'' {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => result.push('\n'),
                Some('r') => result.push('\r'),
                Some('t') => result.push('\t'),
                Some(other @ ('"' | '\\' | '$')) => result.push(other),
                Some(other) => result.extend(['\\', other]),
                None => result.push('\\'),
            },
            (character, false) => result.push(character),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_line() {
        let text = "# c\n\nA=1\nexport B = two words # c\nC='x # y'\nD=\"a\\nb\"\nE=\"one\ntwo\"\nF=\nG=a#b\r\nnonsense\n1X=2\nH=\"open\nI=9\n";
        let (variables, bad) = parse(text);
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            variables,
            [
                ("A", "1"),
                ("B", "two words"),
                ("C", "x # y"),
                ("D", "a\nb"),
                ("E", "one\ntwo"),
                ("F", ""),
                ("G", "a#b"),
                ("I", "9"),
            ]
        );
        assert_eq!(bad, [11, 12, 13]);
    }

    #[test]
    fn many_open_quotes_are_read_in_linear_time() {
        let text = "A=\"x\n".repeat(20_000);
        let started = std::time::Instant::now();
        assert_eq!(
            parse(&text).0.len(),
            10_000,
            "each quote ends at the next one"
        );
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest::proptest! {
        #[test]
        fn no_file_makes_it_panic(text in r#"(?s)[A=\n"'\\# é]{0,80}"#) {
            let _ = parse(&text);
        }
    }
}
