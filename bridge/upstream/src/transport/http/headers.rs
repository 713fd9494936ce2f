//! The headers of requests: those of the definition, and those that revisions from 2026-07-28 on
//! want, so that what stands between client and server can route without reading bodies.

use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::EndpointError;
use crate::message::Params;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAMETER_PREFIX: &str = "mcp-param-";
/// Marks a property of a tool's input whose value goes into a header.
const ANNOTATION: &str = "x-mcp-header";
/// Around values that headers cannot have as they are.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The headers of a definition. Their values are kept out of logs.
pub(super) fn configured(
    headers: &BTreeMap<String, SecretString>,
) -> Result<HeaderMap, EndpointError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed =
            HeaderName::try_from(name).map_err(|_| EndpointError::HeaderName(name.clone()))?;
        let mut value = HeaderValue::try_from(value.expose_secret())
            .map_err(|_| EndpointError::HeaderValue(name.clone()))?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

/// Whether some header is meant to say who asks.
pub(super) fn have_credentials(headers: &BTreeMap<String, SecretString>) -> bool {
    const SIGNS: [&str; 5] = ["auth", "key", "token", "secret", "cookie"];
    headers
        .keys()
        .map(|name| name.to_ascii_lowercase())
        .any(|name| SIGNS.iter().any(|sign| name.contains(sign)))
}

/// Whether `protocol` wants the headers of [`standard`].
pub(super) fn are_standard_in(protocol: &str) -> bool {
    protocol >= ProtocolVersion::STANDARD_HEADERS.as_str()
}

/// The headers that repeat what a message says: its method, what it is about, and arguments.
pub(super) fn standard(
    method: &str,
    params: Option<&Params>,
    parameters: Option<&[Parameter]>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::from_str(method).map(|method| (METHOD, method)));
    let Some(params) = params else { return headers };
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return headers,
    };
    let name = params.fields.get(key).and_then(Value::as_str);
    headers.extend(name.and_then(encoded).map(|name| (NAME, name)));
    if let (Some(parameters), Some(("arguments", arguments))) =
        (parameters.filter(|all| !all.is_empty()), &params.payload)
    {
        let arguments = arguments.value();
        for parameter in parameters {
            headers.extend(parameter.header(&arguments));
        }
    }
    headers
}

/// An argument that goes into a header.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    /// Names of properties, from the arguments to the value.
    path: Vec<String>,
    header: HeaderName,
}

impl Parameter {
    fn header(&self, arguments: &Value) -> Option<(HeaderName, HeaderValue)> {
        let value = self
            .path
            .iter()
            .try_fold(arguments, |value, key| value.get(key))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((self.header.clone(), encoded(&text)?))
    }

    /// The annotated properties of a tool's input schema; where an annotation is invalid, why. Such
    /// a tool may not be offered.
    pub(super) fn all_of(schema: &Value) -> Result<Vec<Self>, String> {
        let Value::Object(schema) = schema else {
            return Ok(Vec::new());
        };
        if schema.contains_key(ANNOTATION) {
            return Err(format!("{ANNOTATION} must annotate a property"));
        }
        if is_annotated_elsewhere(schema, true) {
            return Err(format!(
                "{ANNOTATION} must be reached through \"properties\" only"
            ));
        }
        let mut parameters = Vec::new();
        collect(schema, &mut Vec::new(), &mut parameters)?;
        let mut seen = HashSet::new();
        match parameters
            .iter()
            .find(|parameter| !seen.insert(&parameter.header))
        {
            Some(twice) => Err(format!("{ANNOTATION} {} is used twice", twice.header)),
            None => Ok(parameters),
        }
    }
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    parameters: &mut Vec<Parameter>,
) -> Result<(), String> {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Ok(());
    };
    for (name, property) in properties {
        let Value::Object(property) = property else {
            continue;
        };
        path.push(name.clone());
        if let Some(header) = property.get(ANNOTATION) {
            let header = header
                .as_str()
                .filter(|header| !header.is_empty())
                .and_then(|header| HeaderName::try_from(format!("{PARAMETER_PREFIX}{header}")).ok())
                .ok_or_else(|| {
                    format!("{ANNOTATION} of {} is not a header name", path.join("."))
                })?;
            let kind = property.get("type").and_then(Value::as_str);
            if !matches!(kind, Some("string" | "integer" | "boolean")) {
                return Err(format!(
                    "{ANNOTATION} of {} needs the type string, integer or boolean",
                    path.join(".")
                ));
            }
            let path = path.clone();
            parameters.push(Parameter { path, header });
        }
        collect(property, path, parameters)?;
        path.pop();
    }
    Ok(())
}

/// Whether a schema is annotated at a place that no chain of `properties` leads to.
fn is_annotated_elsewhere(schema: &Map<String, Value>, on_chain: bool) -> bool {
    schema.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !on_chain,
        "properties" => any_schema(value, on_chain),
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
            any_schema(value, false)
        }
        // Data and names of properties, not schemas.
        "default" | "const" | "enum" | "examples" | "dependentRequired" => false,
        _ => in_subschema(value, false),
    })
}

fn any_schema(schemas: &Value, on_chain: bool) -> bool {
    schemas
        .as_object()
        .is_some_and(|map| map.values().any(|schema| in_subschema(schema, on_chain)))
}

fn in_subschema(value: &Value, on_chain: bool) -> bool {
    match value {
        Value::Object(schema) => is_annotated_elsewhere(schema, on_chain),
        Value::Array(items) => items.iter().any(|item| in_subschema(item, false)),
        _ => false,
    }
}

/// A text as the value of a header; in base64 where headers cannot have it as it is.
fn encoded(text: &str) -> Option<HeaderValue> {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let (start, end) = ENCODED;
    let looks_encoded = text.starts_with(start) && text.ends_with(end);
    let has_edges = edge(bytes.first()) || edge(bytes.last());
    let is_printable = bytes.iter().all(|byte| (0x20..=0x7e).contains(byte));
    if is_printable && !has_edges && !looks_encoded {
        HeaderValue::from_str(text).ok()
    } else {
        HeaderValue::try_from(format!("{start}{}{end}", BASE64_STANDARD.encode(text))).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::payload::Payload;

    fn params(fields: Value, arguments: &Value) -> Params {
        let Value::Object(fields) = fields else {
            panic!()
        };
        Params {
            fields,
            payload: Some(("arguments", Payload::of(arguments))),
        }
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
            "missing": {"type": "boolean", "x-mcp-header": "Missing"},
        }});
        let parameters = Parameter::all_of(&schema).unwrap();
        let params = params(
            json!({"name": "wo"}),
            &json!({"region": "Zürich", "deep": {"count": 3}}),
        );
        let headers = standard("tools/call", Some(&params), Some(&parameters));
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "wo");
        assert_eq!(headers["mcp-param-region"], "=?base64?WsO8cmljaA==?=");
        assert_eq!(headers["mcp-param-count"], "3");
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn invalid_annotations_are_told() {
        let text = json!({"type": "string", "x-mcp-header": "A"});
        for schema in [
            json!({"x-mcp-header": "A"}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": 1}}}),
            json!({"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": text, "b": {"type": "string", "x-mcp-header": "a"}}}),
            json!({"properties": {"a": {"items": text}}}),
            json!({"$defs": {"a": text}}),
        ] {
            assert!(Parameter::all_of(&schema).is_err(), "{schema}");
        }
        for schema in [
            json!({}),
            json!(true),
            json!({"properties": {"a": {"default": {"x-mcp-header": "A"}}}}),
        ] {
            assert_eq!(Parameter::all_of(&schema), Ok(Vec::new()), "{schema}");
        }
    }

    #[test]
    fn values_that_headers_cannot_have_are_encoded() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("", ""),
            (" edge", "=?base64?IGVkZ2U=?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encoded(text).unwrap(), expected, "{text:?}");
        }
    }
}
