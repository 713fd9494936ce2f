//! Edits of TOML: one table changes, every other character stays.

use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{Change, Client, EditError};

/// The text with the change made.
pub(super) fn edit(
    text: &str,
    client: &Client,
    name: &str,
    change: &Change<'_>,
) -> Result<String, EditError> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| EditError::Syntax(error.message().to_owned()))?;
    let is_empty = document.is_empty();
    let key = client.roots.last().and_then(|path| path.first()).copied();
    let key = key.ok_or(EditError::Unsafe)?;
    let not_a_table = || EditError::NotAnObject(format!("{key:?}"));
    match change {
        Change::Add(entry) => {
            let fields = client.form.entry(entry.command, entry.args);
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
            if let Some(servers) = document.get_mut(key).and_then(Item::as_table_like_mut) {
                servers.remove(name);
            }
        }
    }
    with_line_ends_of(text, document.to_string())
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
