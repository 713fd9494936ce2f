//! `user_tools.py` in parts: sections between marks, and what its owner wrote around them.

use std::fmt;

use super::check;
use super::marks::{BEGIN, END};

/// The head of a new file.
const HEADING: &str = "\
# Tools that are there in every session of mcp-code-bridge. Sections between marks are written by save_tool and
# `mcp-code-bridge tools`; everything else is yours and stays as it is.
";

/// A saved tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Section {
    pub(super) name: String,
    /// The words in the mark.
    pub(super) saved: String,
    pub(super) session: String,
    /// The source; it ends with a line end.
    pub(super) source: String,
}

impl Section {
    /// The line that defines the tool.
    pub(super) fn signature(&self) -> String {
        let words = ["def ", "async def ", "class "];
        let mut lines = self.source.lines();
        let line = lines.find(|line| {
            words.iter().any(|word| line.starts_with(word)) && line.contains(&self.name)
        });
        line.unwrap_or(&self.name).trim_end_matches(':').to_owned()
    }
}

impl fmt::Display for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            saved,
            session,
            source,
        } = self;
        writeln!(
            formatter,
            "{BEGIN}{name} (saved {saved} by session {session})"
        )?;
        formatter.write_str(source)?;
        writeln!(formatter, "{END}{name}")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Own(String),
    Tool(Section),
}

/// The file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    parts: Vec<Part>,
    problems: Vec<String>,
}

impl Book {
    /// Parses any text. Marks that do not belong together count as the owner's text, and as a problem.
    pub(super) fn parse(text: &str) -> Self {
        let mut book = Self::default();
        let mut own = String::new();
        let mut open: Option<(Section, String)> = None;
        for line in text.split_inclusive('\n') {
            let begins = begin(line);
            let ends = line.strip_prefix(END).map(str::trim_end);
            match (&mut open, begins, ends) {
                (Some((section, _)), _, Some(name)) if section.name == name => {
                    if !own.is_empty() {
                        book.parts.push(Part::Own(std::mem::take(&mut own)));
                    }
                    if let Some((section, _)) = open.take() {
                        // Of several with the same name the last one counts, as in Python.
                        book.parts.push(Part::Tool(section));
                    }
                }
                (_, Some(section), _) => {
                    book.give_up(open.take(), &mut own);
                    open = Some((section, line.to_owned()));
                }
                (Some((section, raw)), None, _) => {
                    section.source.push_str(line);
                    raw.push_str(line);
                }
                (None, None, Some(name)) => {
                    let shown: String = name.chars().take(40).collect();
                    book.problems.push(format!(
                        "user_tools.py: the end of a tool {shown:?} has no beginning"
                    ));
                    own.push_str(line);
                }
                (None, None, None) => own.push_str(line),
            }
        }
        book.give_up(open.take(), &mut own);
        if !own.is_empty() {
            book.parts.push(Part::Own(own));
        }
        book
    }

    /// Handles a section without an end.
    fn give_up(&mut self, open: Option<(Section, String)>, own: &mut String) {
        if let Some((section, raw)) = open {
            let name = section.name;
            self.problems
                .push(format!("user_tools.py: the tool {name} has no end (a line `{END}{name}`); it counts as your own text"));
            own.push_str(&raw);
        }
    }

    /// The saved tools; of several with the same name the last one.
    pub(super) fn sections(&self) -> impl Iterator<Item = &Section> {
        let sections = self
            .parts
            .iter()
            .enumerate()
            .filter_map(|(index, part)| match part {
                Part::Tool(section) => Some((index, section)),
                Part::Own(_) => None,
            });
        sections
            .filter(|(index, section)| {
                !self.parts[index + 1..]
                    .iter()
                    .any(|part| is(part, &section.name))
            })
            .map(|(_, section)| section)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Section> {
        self.sections().find(|section| section.name == name)
    }

    /// What the owner wrote, joined.
    pub(super) fn own(&self) -> String {
        let own = self.parts.iter().map(|part| match part {
            Part::Own(text) => text.as_str(),
            Part::Tool(_) => "",
        });
        let own: String = own.collect();
        // A comment defines nothing.
        let says_something = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        if own.lines().any(says_something) {
            own
        } else {
            String::new()
        }
    }

    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Replaces the tool of that name, or appends it.
    pub(super) fn put(&mut self, section: Section) {
        if self.parts.is_empty() {
            self.parts.push(Part::Own(HEADING.to_owned()));
        }
        let place = self.parts.iter().rposition(|part| is(part, &section.name));
        let Some(place) = place else {
            if let Some(Part::Own(text)) = self.parts.last_mut()
                && !text.ends_with('\n')
            {
                text.push('\n');
            }
            self.parts.push(Part::Own("\n\n".to_owned()));
            self.parts.push(Part::Tool(section));
            return;
        };
        self.parts[place] = Part::Tool(section.clone());
        self.forget(&section.name, place);
    }

    /// Removes a tool, with the blank lines that were put before it.
    pub(super) fn remove(&mut self, name: &str) -> Option<Section> {
        let found = self.get(name).cloned()?;
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in self.parts.drain(..) {
            if is(&part, name) {
                if let Some(Part::Own(text)) = parts.last_mut() {
                    let kept = text.strip_suffix("\n\n").map(str::len);
                    text.truncate(kept.unwrap_or(text.len()));
                }
            } else {
                parts.push(part);
            }
        }
        self.parts = parts;
        Some(found)
    }

    /// Of several tools with the same name, leaves only the one at `place`.
    fn forget(&mut self, name: &str, place: usize) {
        let mut index = 0;
        self.parts.retain(|part| {
            index += 1;
            index - 1 == place || !is(part, name)
        });
    }
}

impl fmt::Display for Book {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Own(text) => formatter.write_str(text)?,
                Part::Tool(section) => section.fmt(formatter)?,
            }
        }
        Ok(())
    }
}

fn is(part: &Part, name: &str) -> bool {
    matches!(part, Part::Tool(section) if section.name == name)
}

/// The first mark of a section: `# >>> tool name (saved 2026-11-29T21:57:00Z by session default)`.
fn begin(line: &str) -> Option<Section> {
    let rest = line.strip_prefix(BEGIN)?.trim_end();
    let (name, told) = rest.split_once(' ').unwrap_or((rest, ""));
    if !check::is_name(name) {
        return None;
    }
    let told = told.trim_start_matches('(').trim_end_matches(')');
    let told = told.strip_prefix("saved ").unwrap_or(told);
    let (saved, session) = told.split_once(" by session ").unwrap_or((told, ""));
    Some(Section {
        name: name.to_owned(),
        saved: saved.to_owned(),
        session: session.to_owned(),
        source: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn section(name: &str, source: &str) -> Section {
        Section {
            name: name.to_owned(),
            saved: "2026-11-29T21:57:00Z".to_owned(),
            session: "default".to_owned(),
            source: source.to_owned(),
        }
    }

    #[test]
    fn tools_are_replaced_in_their_place_and_the_owners_text_stays() {
        let own = "import re\r\n\ndef mine(): return 1";
        let mut book = Book::parse(own);
        book.put(section("f", "def f(): return 1\n"));
        book.put(section("g", "def g(): return 2\n"));
        book.put(section("f", "def f(): return 3\n"));
        let text = book.to_string();
        insta::assert_snapshot!(text);
        let again = Book::parse(&text);
        assert_eq!(again.to_string(), text);
        assert_eq!(again.get("f"), Some(&section("f", "def f(): return 3\n")));
        assert_eq!(again.problems(), [""; 0]);
        let mut again = again;
        assert!(
            again.remove("f").is_some()
                && again.remove("g").is_some()
                && again.remove("g").is_none()
        );
        assert_eq!(again.to_string(), format!("{own}\n"));
    }

    #[test]
    fn of_two_tools_of_one_name_the_last_counts_and_saving_leaves_one() {
        let twice = format!(
            "{}x = 1\n{}",
            section("f", "def f(): 1\n"),
            section("f", "def f(): 2\n")
        );
        let mut book = Book::parse(&twice);
        assert_eq!(book.sections().count(), 1);
        assert_eq!(book.get("f").unwrap().source, "def f(): 2\n");
        book.put(section("f", "def f(): 3\n"));
        assert_eq!(
            book.to_string(),
            format!("x = 1\n{}", section("f", "def f(): 3\n"))
        );
    }

    #[test]
    fn a_damaged_section_is_the_owners_text_and_named() {
        let text = "# >>> tool f (saved x by session y)\ndef f(): 1\n# >>> tool g (saved x by session y)\ndef g(): 1\n# <<< tool g\n# <<< tool h\n";
        let book = Book::parse(text);
        assert_eq!(book.to_string(), text);
        assert_eq!(
            book.sections()
                .map(|section| section.name.as_str())
                .collect::<Vec<_>>(),
            ["g"]
        );
        assert!(book.own().contains("def f(): 1"));
        assert_eq!(book.problems().len(), 2);
        assert!(
            book.problems()[0].contains("tool f has no end"),
            "{:?}",
            book.problems()
        );
    }

    proptest! {
        #[test]
        fn any_file_comes_out_as_it_went_in(lines in proptest::collection::vec("(# >>> tool [a-c]( \\(saved x by session y\\))?|# <<< tool [a-c]|def [a-c]\\(\\): 1|# >>> tool|.{0,10})\r?", 0..12)) {
            let text = lines.join("\n");
            let book = Book::parse(&text);
            let marks_without_words = book.to_string();
            // Marks without words get some; everything else is the same.
            prop_assert_eq!(Book::parse(&marks_without_words).to_string(), marks_without_words.clone());
            prop_assert_eq!(Book::parse(&marks_without_words).own(), book.own());
        }

        #[test]
        fn what_was_put_is_there_and_nothing_else_changed(text in "(.|\n){0,80}", twice in any::<bool>()) {
            let mut book = Book::parse(&text);
            let before: Vec<Section> = book.sections().cloned().collect();
            if twice {
                book.put(section("f", "def f(): 0\n"));
            }
            book.put(section("f", "def f(): 1\n"));
            let after = Book::parse(&book.to_string());
            prop_assert_eq!(after.get("f").map(|section| section.source.as_str()), Some("def f(): 1\n"));
            prop_assert_eq!(after.sections().count(), before.len() + 1);
            prop_assert!(after.to_string().starts_with(&text) || text.is_empty());
        }
    }
}
