//! Lists that a server gives out in pages, read to the end, and its tools decoded one by one: a bad
//! tool costs only itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::connection::{Connection, RequestContext};
use super::failure::Failure;
use super::message::{code, start_of};
use super::payload::{Payload, is_deeper_than};
use super::tool_list::ToolList;
use bridge_tools::Tool;

/// The most pages of a list that are asked for.
const MOST_PAGES: usize = 512;
/// The most entries of a list that are kept, and the most bytes of all together.
const MOST_ENTRIES: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes of a good entry.
const LARGEST_ENTRY: usize = 512 * 1024;
/// The most levels of nesting in a good entry.
const DEEPEST_ENTRY: usize = 100;

/// Decodes the entries of a tool list, each on its own.
pub(super) fn read_tools(entries: Vec<Value>, incomplete: Option<String>) -> ToolList {
    let mut list = ToolList {
        incomplete,
        ..ToolList::default()
    };
    let mut names = HashSet::new();
    for (place, entry) in entries.into_iter().enumerate() {
        match read_tool(entry) {
            Ok(tool) if names.insert(tool.name.clone()) => list.tools.push(tool),
            Ok(tool) => {
                list.skipped.insert(
                    format!("{} (entry {})", tool.name, place + 1),
                    "the name is used twice".to_owned(),
                );
            }
            Err((name, reason)) => {
                list.skipped.insert(
                    name.unwrap_or_else(|| format!("entry {}", place + 1)),
                    reason,
                );
            }
        }
    }
    list
}

fn read_tool(entry: Value) -> Result<Tool, (Option<String>, String)> {
    let Value::Object(mut tool) = entry else {
        return Err((
            None,
            format!("is not an object but {}", start_of(&entry.to_string())),
        ));
    };
    let name = match tool.shift_remove("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        Some(Value::String(_)) => return Err((None, "has an empty name".to_owned())),
        Some(other) => {
            return Err((
                None,
                format!("has {} as its name", start_of(&other.to_string())),
            ));
        }
        None => return Err((None, "has no name".to_owned())),
    };
    let input_schema = match tool.shift_remove("inputSchema") {
        Some(schema @ Value::Object(_)) => schema,
        // Servers say so that a tool takes nothing, or anything.
        None | Some(Value::Null | Value::Bool(true)) => json!({"type": "object"}),
        Some(other) => {
            return Err((
                Some(name),
                format!(
                    "inputSchema is not an object but {}",
                    start_of(&other.to_string())
                ),
            ));
        }
    };
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    Ok(Tool {
        name,
        title: text(tool.shift_remove("title")),
        description: text(tool.shift_remove("description")),
        input_schema,
        output_schema: tool.shift_remove("outputSchema").filter(Value::is_object),
    })
}

/// The entries of a list, and why they are not all, where they are not.
pub(super) type Pages = (Vec<Value>, Option<String>);

/// All entries of a paged list. The list of a server that does not know the method is empty.
pub(super) async fn pages<'a>(
    connection: &Arc<Connection>,
    method: &'static str,
    key: &str,
    context: impl Fn() -> RequestContext<'a>,
) -> Result<Pages, Failure> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut cursors = HashSet::new();
    let mut cursor: Option<Value> = None;
    for _ in 0..MOST_PAGES {
        let mut params = Map::new();
        if let Some(cursor) = &cursor {
            params.insert("cursor".to_owned(), cursor.clone());
        }
        let page = match connection.request(method, params, context()).await {
            Err(Failure::Rpc(error))
                if error.code == code::METHOD_NOT_FOUND && cursor.is_none() =>
            {
                break;
            }
            // The pages so far are better than nothing.
            Err(Failure::Rpc(error)) if cursor.is_some() => {
                return Ok((
                    entries,
                    Some(format!("a later page failed: {}", start_of(&error.message))),
                ));
            }
            page => page?,
        };
        let (more, next) = read_page(method, key, &page)?;
        for entry in more {
            bytes += entry.get().len();
            if entries.len() >= MOST_ENTRIES || bytes > MOST_BYTES {
                let incomplete = format!("it has more than {} entries", entries.len());
                return Ok((entries, Some(incomplete)));
            }
            entries.push(read_entry(entry));
        }
        match next {
            // Some servers end a list with an empty cursor.
            Value::Null => return Ok((entries, None)),
            Value::String(next) if next.is_empty() => return Ok((entries, None)),
            next if !cursors.insert(next.to_string()) => {
                return Ok((
                    entries,
                    Some(format!(
                        "its pages repeat (cursor {})",
                        start_of(&next.to_string())
                    )),
                ));
            }
            next => cursor = Some(next),
        }
    }
    let incomplete = cursor.map(|_| format!("it has more than {MOST_PAGES} pages"));
    Ok((entries, incomplete))
}

/// The entries of a page, and the cursor of the next one.
fn read_page<'p>(
    method: &str,
    key: &str,
    page: &'p Payload,
) -> Result<(Vec<&'p RawValue>, Value), Failure> {
    let malformed = || {
        Failure::Malformed(format!(
            "{method} without a list of {key}: {}",
            start_of(page.get())
        ))
    };
    let fields: HashMap<String, &RawValue> =
        serde_json::from_str(page.get()).map_err(|_| malformed())?;
    let entries = fields
        .get(key)
        // An empty list is null in some languages.
        .and_then(|list| serde_json::from_str::<Option<Vec<_>>>(list.get()).ok())
        .map(Option::unwrap_or_default)
        .ok_or_else(malformed)?;
    let cursor = fields
        .get("nextCursor")
        .map(|cursor| cursor.get())
        .filter(|cursor| cursor.len() <= LARGEST_ENTRY);
    Ok((
        entries,
        cursor
            .and_then(|cursor| serde_json::from_str(cursor).ok())
            .unwrap_or_default(),
    ))
}

/// Reads an entry. A large or deep one keeps its name only, which makes it a bad one.
fn read_entry(entry: &RawValue) -> Value {
    let what = if entry.get().len() > LARGEST_ENTRY {
        format!("a description of {} bytes", entry.get().len())
    } else if is_deeper_than(DEEPEST_ENTRY, entry.get()) {
        "a description that is nested too deeply".to_owned()
    } else {
        return serde_json::from_str(entry.get()).unwrap_or_default();
    };
    let fields: HashMap<String, &RawValue> = serde_json::from_str(entry.get()).unwrap_or_default();
    let name = fields
        .get("name")
        .map(|name| name.get())
        .filter(|name| name.len() <= 1000);
    let name: Value = name
        .and_then(|name| serde_json::from_str(name).ok())
        .unwrap_or_default();
    json!({"name": name, "inputSchema": what})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_list_is_treated_as_empty() {
        let page = |text: &str| Payload::new(RawValue::from_string(text.to_owned()).unwrap());
        let null = page(r#"{"tools":null,"nextCursor":null}"#);
        let (entries, next) = read_page("tools/list", "tools", &null).unwrap();
        assert!(entries.is_empty() && next.is_null());
        assert!(read_page("tools/list", "tools", &page(r#"{"tools":{}}"#)).is_err());
        assert!(read_page("tools/list", "tools", &page("{}")).is_err());
    }

    #[test]
    fn one_tool_that_is_nested_too_deeply_cost_them_all() {
        let schema = (0..300).fold("{}".to_owned(), |inner, _| {
            format!(r#"{{"properties":{{"x":{inner}}}}}"#)
        });
        let page = format!(
            r#"{{"tools":[{{"name":"deep","inputSchema":{schema}}},{{"name":"good","inputSchema":{{}}}}]}}"#
        );
        let page = Payload::new(RawValue::from_string(page).unwrap());
        let (entries, _) = read_page("tools/list", "tools", &page).unwrap();
        let list = read_tools(entries.into_iter().map(read_entry).collect(), None);
        assert!(list.get("good").is_some() && list.tools.len() == 1);
        assert!(
            list.skipped["deep"].contains("nested too deeply"),
            "{list:?}"
        );
    }

    #[test]
    fn a_bad_tool_costs_only_itself() {
        let list = read_tools(
            vec![
                json!({"name": "good", "inputSchema": {"type": "object", "x-y": 1}, "description": "d", "title": 5}),
                json!({"name": "bare"}),
                json!({"name": "null", "inputSchema": null}),
                json!({"name": "typed", "inputSchema": "object"}),
                json!({"inputSchema": {}}),
                json!({"name": "", "inputSchema": {}}),
                json!("tool"),
                json!({"name": "good", "inputSchema": {}}),
                json!({"name": "also-good", "inputSchema": {}, "outputSchema": null, "annotations": {"readOnlyHint": true}}),
            ],
            None,
        );
        let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "bare", "null", "also-good"]);
        assert_eq!(list.tools[1].input_schema, json!({"type": "object"}));
        assert_eq!(
            list.tools[0].input_schema,
            json!({"type": "object", "x-y": 1})
        );
        assert_eq!(list.tools[0].title, None);
        let skipped: Vec<(&str, &str)> = list
            .skipped
            .iter()
            .map(|(name, why)| (name.as_str(), why.as_str()))
            .collect();
        assert_eq!(
            skipped,
            [
                ("entry 5", "has no name"),
                ("entry 6", "has an empty name"),
                ("entry 7", "is not an object but \"tool\""),
                ("good (entry 8)", "the name is used twice"),
                ("typed", "inputSchema is not an object but \"object\""),
            ]
        );
    }
}
