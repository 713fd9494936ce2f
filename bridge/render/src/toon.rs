//! The TOON mode: the whole answer as one fenced block of Token-Oriented Object Notation.

use std::borrow::Cow;

use serde_json::{Value, json};
use toon_format::ToonError;

use super::rendered::Rendered;
use super::visible::visible;

/// New lines inside values are escaped by the notation, so no value can close the fence.
pub(super) fn write(answer: &Rendered<'_>) -> String {
    let mut structured = answer.structured();
    each(&mut structured, &show);
    match encode(&structured) {
        Ok(body) => format!("```toon\n{body}\n```"),
        // Should the encoder refuse, JSON says it too.
        Err(error) => {
            tracing::warn!(%error, "answer not encoded as toon");
            format!("```json\n{structured}\n```")
        }
    }
}

/// Field by field, as the notation does it but for objects of objects, which an answer does not
/// have.
fn encode(structured: &Value) -> Result<String, ToonError> {
    let fields = structured.as_object().into_iter().flatten();
    let lines: Vec<String> = fields
        .map(|(name, value)| line(name, value))
        .collect::<Result<_, _>>()?;
    Ok(lines.join("\n"))
}

/// Text of many lines may be a megabyte, which the encoder copies eight times. It has to be quoted
/// (section 7.2), and of JSON's escapes only those that both notations write alike (7.1) are left
/// once it is shown.
fn line(name: &str, value: &Value) -> Result<String, ToonError> {
    match value {
        Value::String(text) if text.contains('\n') => Ok(format!("{name}: {value}")),
        _ => toon_format::encode_default(&json!({ name: value })),
    }
}

/// What the notation leaves to us. It escapes ASCII's controls only: what else turns or hides text
/// reads as in the compact mode. And the encoder holds numbers in 64 bits: what does not fit
/// becomes text, as the specification allows, for another number would be wrong.
fn show(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = visible(text) {
                *text = shown;
            }
        }
        Value::Number(number) => {
            let text = number.to_string();
            let is_integer = !text.contains(['.', 'e', 'E']);
            let fits = number.is_i64() || number.is_u64();
            // Integers, and what would be rounded to nothing or to infinity.
            if is_integer && !fits || number.as_f64().is_none_or(f64::is_infinite) {
                *value = Value::String(text);
            }
        }
        _ => {}
    }
}

/// Changes every value that holds no others.
fn each(value: &mut Value, change: &impl Fn(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each(field, change)),
        _ => change(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(json: &str, expected: &str) {
        let mut value = serde_json::from_str(json).expect("JSON");
        each(&mut value, &show);
        assert_eq!(encode(&value).expect("encoded"), expected, "{json}");
    }

    #[test]
    fn cases_of_the_specification() {
        check(
            r#"{"id":123,"name":"Ada","active":true,"none":null}"#,
            "id: 123\nname: Ada\nactive: true\nnone: null",
        );
        check(r#"{"user":{"id":1}}"#, "user:\n  id: 1");
        check(
            r#"{"tags":["reading","gaming"]}"#,
            "tags[2]: reading,gaming",
        );
        check(
            r#"{"items":[{"sku":"A1","qty":2,"price":9.99},{"sku":"B2","qty":1,"price":14.5}]}"#,
            "items[2]{sku,qty,price}:\n  A1,2,9.99\n  B2,1,14.5",
        );
        check(
            r#"{"items":[1,{"a":1},"text"]}"#,
            "items[3]:\n  - 1\n  - a: 1\n  - text",
        );
    }

    #[test]
    fn strings_that_could_be_something_else_are_quoted() {
        for plain in ["hello", "a b", "café", "👋", "a_b-c", "TRUE"] {
            check(&json!({ "v": plain }).to_string(), &format!("v: {plain}"));
        }
        for odd in [
            "", " a", "a ", "true", "null", "42", "-3.14", "1e-6", "05", "a:b", "a,b", "- x", "-",
            "[3]", "{k}",
        ] {
            check(&json!({ "v": odd }).to_string(), &format!("v: \"{odd}\""));
        }
        for escaped in [r#""a\n\r\n\t\"\\b""#, r#""a\t\"\\b""#] {
            check(&format!("{{\"v\":{escaped}}}"), &format!("v: {escaped}"));
        }
    }

    #[test]
    fn odd_keys_are_quoted() {
        for plain in ["a", "_x9", "a.b"] {
            check(&json!({ plain: 1 }).to_string(), &format!("{plain}: 1"));
        }
        for odd in ["", "my key", "order:id", "9a", "-a", "[x]", "a,b"] {
            check(&json!({ odd: 1 }).to_string(), &format!("\"{odd}\": 1"));
        }
    }

    #[test]
    fn numbers_are_exact_or_text() {
        for (number, expected) in [
            ("9007199254740993", "9007199254740993"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "\"18446744073709551616\""),
            (
                "123456789012345678901234567890",
                "\"123456789012345678901234567890\"",
            ),
            ("1e400", "\"1e+400\""),
            ("1.50", "1.5"),
            ("-0.0", "0"),
            ("1e6", "1000000"),
            ("1e-6", "0.000001"),
        ] {
            check(&format!("{{\"n\":{number}}}"), &format!("n: {expected}"));
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "[\\[\\]{}:,\"\\\\ \n\t0-9e.-]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z:. \"0-9-]{0,5}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_reads_back(value in proptest::collection::btree_map("[a-z]{1,5}", any_value(), 1..4)) {
            let value = Value::Object(value.into_iter().collect());
            let text = encode(&value).expect("encoded");
            let read: Value = toon_format::decode_default(&text).expect("decodes");
            prop_assert_eq!(read, value, "{}", text);
        }

        #[test]
        fn text_of_many_lines_is_written_as_the_encoder_writes_it(text in "(.|[\\x00-\\x20\\x7f-\\xa0\"\\\\:,#-]){0,40}\n(.|[\\x00-\\x20\"\\\\]){0,40}") {
            let mut value = Value::from(text);
            show(&mut value);
            let expected = toon_format::encode_default(&json!({ "stdout": value }));
            prop_assert_eq!(line("stdout", &value).ok(), expected.ok());
        }
    }
}
