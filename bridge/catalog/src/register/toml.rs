//! Edits of TOML: one table changes, every other character stays.
//!
//! The library counts a comment to whatever follows it. So a new table goes behind the last comment
//! of the file, and of an old one its own lines are taken out of the text, no others.

use std::ops::Range;

use serde_json::Value as Json;
use toml_edit::{
    Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value,
};

use super::{Change, Client, EditError};

/// The text with the change made.
pub(super) fn edit(
    text: &str,
    client: &Client,
    name: &str,
    change: &Change<'_>,
) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse().map_err(|error| syntax(&error))?;
    let is_empty = document.is_empty();
    let key = client.roots.last().and_then(|path| path.first()).copied();
    let key = key.ok_or(EditError::Unsafe)?;
    let not_a_table = || EditError::NotAnObject(format!("{key:?}"));
    match change {
        Change::Add(entry) => {
            let fields = client.form.entry(entry.command, entry.args);
            if let Some(after) = appended(text, key, name, &fields) {
                return Ok(after);
            }
            let servers = document.entry(key).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            let inline = servers.is_inline_table();
            let servers = servers.as_table_like_mut().ok_or_else(not_a_table)?;
            servers.insert(name, new_entry(&fields, inline, is_empty));
        }
        Change::Replace(entry) => {
            let fields = client.form.entry(entry.command, entry.args);
            let servers = document.get_mut(key).ok_or_else(not_a_table)?;
            let inline = servers.is_inline_table();
            let servers = servers.as_table_like_mut().ok_or_else(not_a_table)?;
            let old = servers.get_mut(name).ok_or(EditError::Unsafe)?;
            let mut new = new_entry(&fields, inline, is_empty);
            if let (Some(old), Some(new)) = (old.as_table(), new.as_table_mut()) {
                *new.decor_mut() = old.decor().clone();
                new.set_position(old.position());
            }
            *old = new;
        }
        Change::Update(entry) => {
            let servers = document.get_mut(key).and_then(Item::as_table_like_mut);
            let old = servers.and_then(|servers| servers.get_mut(name));
            let old = old
                .and_then(Item::as_table_like_mut)
                .ok_or(EditError::Unsafe)?;
            set(old, "command", entry.command.into());
            if !entry.args.is_empty() {
                set(old, "args", entry.args.iter().collect::<Array>().into());
            }
        }
        Change::Remove => {
            if let Some(after) = without_lines(text, key, name) {
                return Ok(after);
            }
            if let Some(servers) = document.get_mut(key).and_then(Item::as_table_like_mut) {
                servers.remove(name);
            }
        }
    }
    with_line_ends_of(text, document.to_string())
}

fn syntax(error: &TomlError) -> EditError {
    EditError::Syntax(error.message().to_owned())
}

/// The text with a table for the entry at its end; `None` where the servers are not tables.
fn appended(text: &str, key: &str, name: &str, fields: &Json) -> Option<String> {
    let mut servers = Table::new();
    servers.set_implicit(true);
    servers.insert(name, new_entry(fields, false, true));
    let mut alone = DocumentMut::new();
    alone.insert(key, Item::Table(servers));
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let before = text.trim_end_matches(['\r', '\n']);
    let gap = if before.is_empty() {
        String::new()
    } else {
        end.repeat(2)
    };
    let after = format!("{before}{gap}{}", alone.to_string().replace('\n', end));
    after.parse::<DocumentMut>().is_ok().then_some(after)
}

/// The text without the lines of the entry's tables; `None` where the entry is not a table.
fn without_lines(text: &str, key: &str, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let entry = document.get(key)?.get(name)?.as_table()?;
    let mut spans = Vec::new();
    lines_of(entry, &mut spans)?;
    spans.sort_by_key(|span| std::cmp::Reverse(span.start));
    let mut after = text.to_owned();
    for span in spans {
        let start = after[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let end = after[span.end..]
            .find('\n')
            .map_or(after.len(), |at| span.end + at + 1);
        let end = end + blank_lines(&after[end..]);
        after.replace_range(start..end, "");
    }
    Some(after)
}

/// Where a table and those within it are; `None` where one of them has no header of its own.
fn lines_of(table: &Table, spans: &mut Vec<Range<usize>>) -> Option<()> {
    let header = table.span()?;
    spans.push(header.start..end_of_values(table, header.end)?);
    for (_, item) in table {
        match item {
            Item::Table(table) if !table.is_dotted() => lines_of(table, spans)?,
            Item::ArrayOfTables(_) => return None,
            _ => {}
        }
    }
    Some(())
}

/// The end of the last value below a header that ends at `end`.
fn end_of_values(table: &Table, mut end: usize) -> Option<usize> {
    for (_, item) in table {
        match item {
            Item::Value(value) => end = end.max(value.span()?.end),
            Item::Table(table) if table.is_dotted() => end = end_of_values(table, end)?,
            _ => {}
        }
    }
    Some(end)
}

/// Bytes of the blank lines at the beginning.
fn blank_lines(text: &str) -> usize {
    let lines = text.split_inclusive('\n');
    let blank = lines.take_while(|line| line.trim().is_empty() && line.ends_with('\n'));
    blank.map(str::len).sum()
}

/// The library writes plain line feeds; a file with the line ends of Windows keeps them.
fn with_line_ends_of(before: &str, after: String) -> Result<String, EditError> {
    let windows = before.matches("\r\n").count();
    if windows == 0 {
        return Ok(after);
    }
    if windows == before.matches('\n').count() && !after.contains('\r') {
        return Ok(after.replace('\n', "\r\n"));
    }
    Err(EditError::Unsafe)
}

/// A value in place of another, with the comment behind it kept.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn new_entry(fields: &Json, inline: bool, first: bool) -> Item {
    let fields = fields.as_object().into_iter().flatten();
    let fields = fields.filter_map(|(key, value)| Some((key.as_str(), value_of(value)?)));
    if inline {
        return Item::Value(Value::InlineTable(fields.collect::<InlineTable>()));
    }
    let mut table = Table::new();
    for (key, value) in fields {
        table.insert(key, Item::Value(value));
    }
    if !first {
        table.decor_mut().set_prefix("\n");
    }
    Item::Table(table)
}

/// What entries are made of: texts, switches and lists of texts.
fn value_of(value: &Json) -> Option<Value> {
    match value {
        Json::String(text) => Some(text.as_str().into()),
        Json::Bool(value) => Some((*value).into()),
        Json::Array(values) => Some(values.iter().filter_map(value_of).collect::<Array>().into()),
        _ => None,
    }
}
