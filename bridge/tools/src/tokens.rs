//! Text as the tokens that search compares: `createIssue` and `create_issue` both become "create" and "issue".

/// The tokens of a text: split at everything but letters and digits and between lower and upper case, in lower case,
/// plurals as singulars. Scripts without spaces between words are split into characters.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut last = Kind::Other;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let kind = Kind::of(character);
        let starts = match (last, kind) {
            // The last capital of a run belongs to what follows: `HTTPServer`.
            (Kind::Upper, Kind::Upper) => characters
                .peek()
                .is_some_and(|next| Kind::of(*next) == Kind::Lower),
            (_, Kind::Whole | Kind::Other)
            | (Kind::Whole, _)
            | (Kind::Lower | Kind::Digit, Kind::Upper) => true,
            _ => false,
        };
        if starts {
            finish(&mut word, &mut tokens);
        }
        if kind != Kind::Other {
            word.extend(character.to_lowercase());
        }
        last = kind;
    }
    finish(&mut word, &mut tokens);
    tokens
}

/// All letters and digits of a name as one token: `create_issue` as `createissue`.
pub(crate) fn joined(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    /// A token of its own, such as a Chinese character.
    Whole,
    Other,
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => {
                Self::Whole
            }
            _ if character.is_uppercase() => Self::Upper,
            _ if character.is_alphanumeric() => Self::Lower,
            _ => Self::Other,
        }
    }
}

fn finish(word: &mut String, tokens: &mut Vec<String>) {
    const LONGEST: usize = 40;
    if !word.is_empty() {
        let mut whole = std::mem::take(word);
        if let Some((end, _)) = whole.char_indices().nth(LONGEST) {
            whole.truncate(end);
        }
        tokens.push(singular(whole));
    }
}

fn singular(mut word: String) -> String {
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.len() > 3
        && word.ends_with('s')
        && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_style_become_the_same_tokens() {
        for (text, expected) in [
            ("create_issue", "create issue"),
            ("createIssue", "create issue"),
            ("CreateIssues", "create issue"),
            ("create-issue.v2", "create issue v2"),
            ("HTTPServer", "http server"),
            ("getUserByID", "get user by id"),
            ("repositories, status; glass", "repository status glass"),
            ("  ", ""),
            ("naïveÜber", "naïve über"),
            ("検索tool", "検 索 tool"),
        ] {
            assert_eq!(tokens(text).join(" "), expected, "{text}");
        }
        assert_eq!(joined("create_Issue-2"), "createissue2");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_or_gives_an_empty_token(text in "(?s).{0,200}") {
            for token in tokens(&text) {
                proptest::prop_assert!(!token.is_empty());
            }
        }
    }
}
