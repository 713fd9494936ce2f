//! Entries that are reached over HTTP: address, headers, tokens.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::super::definition::Transport;
use super::super::document::Node;
use super::super::problem::Reason;
use super::{Context, Entry, Raw, expanded, pairs, scalar, wrong_type};

pub(super) fn http(
    address: &Node,
    raw: &Raw<'_>,
    context: &mut Context<'_>,
    entry: &mut Entry,
) -> Option<Transport> {
    let Some(text) = address.text() else {
        entry.error(address.at, wrong_type("\"url\"", "a text", address));
        return None;
    };
    let url = expanded(address, text.trim(), "url", context, entry);
    let headers = headers(raw, context, entry);
    let url = url?;
    if let Err(reason) = check_address(&url) {
        entry.error(address.at, reason);
        return None;
    }
    secrets_of_address(&url, entry);
    Some(Transport::Http { url, headers })
}

fn check_address(url: &str) -> Result<(), Reason> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Reason::NotAnAddress);
    };
    let is_scheme =
        scheme.len() <= 20 && !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphabetic());
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https"
            if !rest.is_empty()
                && url
                    .parse::<http::Uri>()
                    .is_ok_and(|uri| uri.host().is_some()) =>
        {
            Ok(())
        }
        "ws" | "wss" => Err(Reason::WebSocket),
        "http" | "https" => Err(Reason::NotAnAddress),
        other if is_scheme => Err(Reason::UnsupportedScheme(other.to_owned())),
        _ => Err(Reason::NotAnAddress),
    }
}

/// Credentials and the values of the query.
fn secrets_of_address(url: &str, entry: &mut Entry) {
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .for_each(|(_, value)| entry.secret(value));
    let authority = before
        .split("://")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default();
    if let Some((credentials, _)) = authority.rsplit_once('@') {
        credentials.split(':').for_each(|part| entry.secret(part));
        entry.secret(credentials);
    }
}

fn headers(
    raw: &Raw<'_>,
    context: &Context<'_>,
    entry: &mut Entry,
) -> BTreeMap<String, SecretString> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for block in &raw.headers {
        for (name, node) in pairs(block, "\"headers\"", entry) {
            if let Some(value) = scalar(node, &format!("headers.{name}"), context, entry) {
                add_header(name, &value, node, &mut headers, entry);
            }
        }
    }
    let variable = |name: &str, field: &str| {
        let missing = || Reason::UnsetVariable {
            variable: name.chars().take(64).collect(),
            field: field.to_owned(),
        };
        context
            .variables
            .environment
            .get(name)
            .cloned()
            .ok_or_else(missing)
    };
    for (name, node) in raw
        .header_variables
        .map(|block| pairs(block, "\"env_http_headers\"", entry))
        .unwrap_or_default()
    {
        match variable(node.text().unwrap_or_default(), "env_http_headers") {
            Ok(value) => add_header(name, &value, node, &mut headers, entry),
            Err(reason) => entry.error(node.at, reason),
        }
    }
    let bearer = match (raw.bearer_variable, raw.bearer) {
        (Some(node), _) => Some((
            node,
            variable(node.text().unwrap_or_default(), "bearer_token_env_var"),
        )),
        (None, Some(node)) => {
            scalar(node, "bearer_token", context, entry).map(|value| (node, Ok(value)))
        }
        (None, None) => None,
    };
    match bearer {
        Some((node, Err(reason))) => entry.error(node.at, reason),
        Some((node, Ok(token)))
            if !headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization")) =>
        {
            add_header(
                "Authorization",
                &format!("Bearer {}", token.trim()),
                node,
                &mut headers,
                entry,
            );
        }
        _ => {}
    }
    headers
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn add_header(
    name: &str,
    value: &str,
    node: &Node,
    headers: &mut BTreeMap<String, String>,
    entry: &mut Entry,
) {
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return entry.error(
            node.at,
            Reason::BadHeaderName(name.chars().filter(|c| !c.is_control()).take(60).collect()),
        );
    }
    let value = value.trim();
    if http::HeaderValue::from_str(value).is_err() {
        return entry.error(node.at, Reason::BadHeaderValue(name.to_owned()));
    }
    entry.secret(value);
    // "Bearer x": the token alone is as secret as the whole.
    if let Some((_, token)) = value.split_once(' ') {
        entry.secret(token);
    }
    headers.insert(name.to_owned(), value.to_owned());
}
