//! Definition files as trees: JSON with comments and TOML, each value with its position in the text.
//!
//! Clients' files are parsed into one shape, so that everything after this knows neither syntax.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use toml::de::{DeTable, DeValue};

use super::problem::Reason;

/// Deeper trees are refused; no client nests its servers more than a handful of levels.
const DEEPEST: usize = 64;

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// A value and where it starts, as a byte offset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) value: Value,
}

/// A value of either syntax.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As written; it is never used as a float.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, duplicates included.
    Map(Vec<Field>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) key_at: usize,
    pub(super) node: Node,
}

impl Node {
    /// The kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }

    /// The fields of an object.
    pub(super) fn fields(&self) -> Option<&[Field]> {
        match &self.value {
            Value::Map(fields) => Some(fields),
            _ => None,
        }
    }

    /// A field of an object; the last one of that name, as JavaScript reads it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.fields()?
            .iter()
            .rev()
            .find(|field| field.key == key)
            .map(|field| &field.node)
    }

    /// The text, if the value is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses a file; `None` if it is empty. An error has its position in the text.
pub(super) fn parse(text: &str, syntax: Syntax) -> Result<Option<Node>, (usize, Reason)> {
    match syntax {
        Syntax::Json => parse_json(text),
        Syntax::Toml => parse_toml(text),
    }
}

/// JSON with comments and trailing commas, and nothing else.
pub(super) fn json_options() -> jsonc_parser::ParseOptions {
    jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse_json(text: &str) -> Result<Option<Node>, (usize, Reason)> {
    let options = json_options();
    let parsed =
        jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options)
            .map_err(|error| {
                (
                    error.range().start,
                    Reason::Syntax(error.kind().to_string().to_lowercase()),
                )
            })?;
    parsed.value.map(|value| from_json(value, 0)).transpose()
}

fn from_json(value: ast::Value<'_>, depth: usize) -> Result<Node, (usize, Reason)> {
    let at = value.range().start;
    if depth > DEEPEST {
        return Err((at, Reason::TooDeep(DEEPEST)));
    }
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::NumberLit(literal) => Value::Number(literal.value.to_owned()),
        ast::Value::StringLit(literal) => Value::Text(literal.value.into_owned()),
        ast::Value::Array(array) => Value::List(
            array
                .elements
                .into_iter()
                .map(|element| from_json(element, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        ast::Value::Object(object) => Value::Map(
            object
                .properties
                .into_iter()
                .map(|property| {
                    let key_at = property.name.range().start;
                    let node = from_json(property.value, depth + 1)?;
                    Ok(Field {
                        key: property.name.into_string(),
                        key_at,
                        node,
                    })
                })
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Node { at, value })
}

fn parse_toml(text: &str) -> Result<Option<Node>, (usize, Reason)> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        // The parser's message speaks of syntax only; what it quotes of the file are single characters.
        (
            at,
            Reason::Syntax(
                error
                    .message()
                    .lines()
                    .next()
                    .unwrap_or("is not TOML")
                    .to_owned(),
            ),
        )
    })?;
    let at = table.span().start;
    Ok(Some(Node {
        at,
        value: from_table(table.get_ref(), 0)?,
    }))
}

fn from_table(table: &DeTable<'_>, depth: usize) -> Result<Value, (usize, Reason)> {
    let mut fields = table
        .iter()
        .map(|(key, value)| {
            let node = Node {
                at: value.span().start,
                value: from_toml(value.get_ref(), value.span().start, depth + 1)?,
            };
            Ok(Field {
                key: key.get_ref().to_string(),
                key_at: key.span().start,
                node,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    // The parser's table is sorted by name; the file's order decides here.
    fields.sort_by_key(|field| field.key_at);
    Ok(Value::Map(fields))
}

fn from_toml(value: &DeValue<'_>, at: usize, depth: usize) -> Result<Value, (usize, Reason)> {
    if depth > DEEPEST {
        return Err((at, Reason::TooDeep(DEEPEST)));
    }
    Ok(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Number(number.to_string()),
        DeValue::Float(number) => Value::Number(number.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Array(array) => Value::List(
            array
                .iter()
                .map(|element| {
                    let at = element.span().start;
                    Ok(Node {
                        at,
                        value: from_toml(element.get_ref(), at, depth + 1)?,
                    })
                })
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => from_table(table, depth)?,
    })
}

/// Columns beyond this are counted in bytes.
const LONG_LINE: usize = 4096;

/// Byte offsets as lines and columns.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self { text, starts }
    }

    /// Line and column of an offset, both from 1, the column in characters.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let before = &self.text.as_bytes()[start..at.clamp(start, self.text.len())];
        if before.len() > LONG_LINE {
            // A program wrote the whole file in one line: nobody counts characters there, and counting them for each
            // entry takes time.
            return (line.max(1), before.len() + 1);
        }
        // Continuation bytes of a character are not columns of their own.
        let column = before.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() + 1;
        (line.max(1), column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str, syntax: Syntax) -> (usize, usize, String) {
        let (at, reason) = parse(text, syntax).expect_err("must not parse");
        let (line, column) = Lines::of(text).place(at);
        (line, column, reason.to_string())
    }

    #[test]
    fn comments_and_trailing_commas_are_read() {
        let node = parse(
            "{ // c\n \"mcpServers\": {\"a\":{\"command\":\"x\"},}, /* d */ }",
            Syntax::Json,
        )
        .unwrap()
        .unwrap();
        let servers = node.get("mcpServers").unwrap();
        assert_eq!(
            servers.get("a").unwrap().get("command").unwrap().text(),
            Some("x")
        );
    }

    #[test]
    fn syntax_errors_have_their_position() {
        assert_eq!(failure("{\n  \"a\": {\"b\": }\n}", Syntax::Json).0, 2);
        assert_eq!(failure("a = 1\nb = = 2\n", Syntax::Toml).0, 2);
        assert_eq!(failure("{'a': 1}", Syntax::Json).1, 2);
    }

    #[test]
    fn depth_is_bounded_in_both_syntaxes() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(failure(&deep(100), Syntax::Json).2.contains("nested"));
        assert!(parse(&deep(100_000), Syntax::Json).is_err());
        assert!(parse(&format!("a = {}", deep(70)), Syntax::Toml).is_err());
        assert!(parse(&format!("a = {}", deep(100_000)), Syntax::Toml).is_err());
        assert!(parse(&deep(DEEPEST), Syntax::Json).is_ok());
    }

    #[test]
    fn empty_file_is_not_an_error() {
        assert_eq!(parse("", Syntax::Json), Ok(None));
        assert_eq!(parse(" // nothing\n", Syntax::Json), Ok(None));
        assert_eq!(
            parse("", Syntax::Toml)
                .unwrap()
                .unwrap()
                .fields()
                .unwrap()
                .len(),
            0
        );
    }

    #[test]
    fn columns_count_characters() {
        let text = "ä\nöü x";
        assert_eq!(Lines::of(text).place(text.find('x').unwrap()), (2, 4));
        assert_eq!(Lines::of("").place(0), (1, 1));
        assert_eq!(Lines::of("a").place(99), (1, 2));
    }

    #[test]
    fn toml_keeps_the_order_of_the_file() {
        let node = parse("[s.z]\nx=1\n[s.a]\nx=0x10\n", Syntax::Toml)
            .unwrap()
            .unwrap();
        let keys: Vec<_> = node
            .get("s")
            .unwrap()
            .fields()
            .unwrap()
            .iter()
            .map(|field| field.key.as_str())
            .collect();
        assert_eq!(keys, ["z", "a"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(?s).{0,200}") {
            for syntax in [Syntax::Json, Syntax::Toml] {
                if let Err((at, _)) = parse(&text, syntax) {
                    Lines::of(&text).place(at);
                }
            }
        }

        #[test]
        fn no_json_like_text_makes_the_parser_panic(text in r#"[\[\]{}:,"\\/*a0 \n-]{0,120}"#) {
            let _ = parse(&text, Syntax::Json);
        }
    }
}
