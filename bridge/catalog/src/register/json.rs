//! Edits of JSON with comments: one entry changes, every other character stays.

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::{Change, Client, EditError};
use crate::document::json_options;

/// The text with the change made.
pub(super) fn edit(
    text: &str,
    client: &Client,
    name: &str,
    change: &Change<'_>,
) -> Result<String, EditError> {
    let root = CstRootNode::parse(text, &json_options())
        .map_err(|error| EditError::Syntax(error.to_string()))?;
    let top = root
        .object_value_or_create()
        .ok_or(EditError::NotAnObject("the file".to_owned()))?;
    match change {
        Change::Add(entry) => {
            let servers = servers(&top, client)?;
            servers.append(name, input(&client.form.entry(entry.command, entry.args)));
        }
        Change::Update(entry) => {
            if let Some(old) = find(&top, client, name) {
                update(&old, entry.command, entry.args)?;
            }
        }
        Change::Replace(entry) => {
            if let Some(servers) = existing(&top, client)
                && let Some(old) = servers.get(name)
            {
                old.set_value(input(&client.form.entry(entry.command, entry.args)));
            }
        }
        Change::Remove => {
            if let Some(servers) = existing(&top, client)
                && let Some(old) = servers.get(name)
            {
                old.remove();
            }
        }
    }
    Ok(root.to_string())
}

/// The object with the client's servers, if the file has one.
fn existing(top: &CstObject, client: &Client) -> Option<CstObject> {
    client.roots.iter().find_map(|path| {
        path.iter()
            .try_fold(top.clone(), |object, key| object.object_value(key))
    })
}

fn find(top: &CstObject, client: &Client, name: &str) -> Option<CstObject> {
    existing(top, client)?.object_value(name)
}

/// The same; made where it is missing.
fn servers(top: &CstObject, client: &Client) -> Result<CstObject, EditError> {
    if let Some(found) = existing(top, client) {
        return Ok(found);
    }
    let path = client.roots.last().copied().unwrap_or_default();
    path.iter().try_fold(top.clone(), |object, key| {
        object
            .object_value_or_create(key)
            .ok_or_else(|| EditError::NotAnObject(format!("{key:?}")))
    })
}

/// Another program in an entry; whatever else the user wrote there stays.
fn update(entry: &CstObject, command: &str, args: &[String]) -> Result<(), EditError> {
    let property = entry.get("command").ok_or(EditError::Unsafe)?;
    match property.value() {
        Some(CstNode::Container(value)) => {
            if let Some(list) = value.as_array() {
                let elements = list.elements();
                if let Some(first) = elements.first().and_then(CstNode::as_string_lit) {
                    first.replace_with(command.into());
                }
                if !args.is_empty() {
                    for element in elements.into_iter().skip(1) {
                        element.remove();
                    }
                    for arg in args {
                        list.append(arg.as_str().into());
                    }
                }
                return Ok(());
            }
            let path = value.as_object().and_then(|object| object.get("path"));
            path.ok_or(EditError::Unsafe)?.set_value(command.into());
        }
        _ => property.set_value(command.into()),
    }
    if !args.is_empty() {
        let args = CstInputValue::Array(args.iter().map(|arg| arg.as_str().into()).collect());
        match entry.get("args") {
            Some(old) => old.set_value(args),
            None => {
                entry.append("args", args);
            }
        }
    }
    Ok(())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields
                .iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}
