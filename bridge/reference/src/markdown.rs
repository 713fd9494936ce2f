//! The little Markdown that the pages are made of.

use std::fmt::Write as _;

/// Says where a page comes from, for whoever opens the file to edit it.
pub(crate) const MADE: &str =
    "<!-- Made from the code by `make reference`; change the code instead. -->\n\n";

/// A table with a heading row. Cells are text, in which `|` and `<` mean themselves.
pub(crate) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.map(|cell| escape(&cell));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// As inline code; empty text stays empty.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

/// Outside of inline code `<` would begin a tag; `|` ends a cell everywhere.
fn escape(cell: &str) -> String {
    let mut escaped = String::with_capacity(cell.len());
    let mut in_code = false;
    for character in cell.chars() {
        match character {
            '`' => {
                in_code = !in_code;
                escaped.push('`');
            }
            '|' => escaped.push_str("\\|"),
            '<' if !in_code => escaped.push_str("&lt;"),
            '\n' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_bars_and_angle_brackets() {
        let page = table(["a", "b"], [["x|y".to_owned(), "<z> `<w>`".to_owned()]]);
        assert_eq!(page, "| a | b |\n|---|---|\n| x\\|y | &lt;z> `<w>` |\n");
    }
}
