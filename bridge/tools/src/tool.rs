//! A tool as its server describes it, and the tools of one server with their names in Python.

use bridge_catalog::{Definition, Of, aliases};
use bridge_common::similar;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name that the protocol uses.
    pub name: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments, as sent.
    #[serde(default)]
    pub input_schema: Value,
    /// JSON Schema of its structured result, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl Tool {
    /// The parameters in the order of the schema, each with whether it is required.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, bool)> {
        let required = self.input_schema.get("required").and_then(Value::as_array);
        let properties = self
            .input_schema
            .get("properties")
            .and_then(Value::as_object);
        properties.into_iter().flatten().map(move |(name, _)| {
            let must = required
                .is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)));
            (name.as_str(), must)
        })
    }

    /// A short form of how the tool is called: `create_issue(owner, repo, title, body=…)`.
    pub fn signature(&self, alias: &str) -> String {
        const MOST: usize = 8;
        let (must, may): (Vec<_>, Vec<_>) = self.parameters().partition(|(_, must)| *must);
        let all = must.len() + may.len();
        let mut shown: Vec<String> = must
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .chain(may.into_iter().map(|(name, _)| format!("{name}=…")))
            .take(MOST)
            .collect();
        if all > MOST {
            shown.push("…".to_owned());
        }
        format!("{alias}({})", shown.join(", "))
    }

    /// The first paragraph of the description (or the title) as one line, cut at 300 characters.
    pub fn summary(&self) -> Option<String> {
        const LONGEST: usize = 300;
        let text = self
            .description
            .as_deref()
            .filter(|text| !text.trim().is_empty())
            .or(self.title.as_deref())?;
        let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", line[..end].trim_end()),
            None => line,
        })
    }
}

/// The tools of one server with their names in Python.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTools {
    /// The tools in the server's order.
    pub tools: Vec<Tool>,
    /// The name of each tool in Python; no two are the same.
    pub aliases: Vec<String>,
}

impl ServerTools {
    /// Gives names to the tools that the definition lets through.
    pub fn new(definition: &Definition, mut tools: Vec<Tool>) -> Self {
        tools.retain(|tool| definition.tools.lets_through(&tool.name));
        let named = aliases(tools.iter().map(|tool| tool.name.as_str()), Of::Tool);
        let aliases = tools
            .iter()
            .map(|tool| named.get(tool.name.as_str()).cloned().unwrap_or_default())
            .collect();
        Self { tools, aliases }
    }

    /// The tool with this name or else with this alias, together with its alias.
    pub fn get(&self, name: &str) -> Option<(&Tool, &str)> {
        let at = self
            .tools
            .iter()
            .position(|tool| tool.name == name)
            .or_else(|| self.aliases.iter().position(|alias| alias == name))?;
        Some((&self.tools[at], &self.aliases[at]))
    }

    /// The name of the tool that was most likely meant.
    pub fn closest(&self, name: &str) -> Option<&str> {
        similar::closest(name, self.tools.iter().map(|tool| tool.name.as_str()))
    }

    /// All tools with their aliases.
    pub fn iter(&self) -> impl Iterator<Item = (&Tool, &str)> {
        self.tools
            .iter()
            .zip(self.aliases.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(description: &str) -> Tool {
        Tool {
            name: "a.b".to_owned(),
            title: Some("Title".to_owned()),
            description: Some(description.to_owned()),
            input_schema: json!({"properties": {"body": {}, "owner": {}, "n": {}}, "required": ["owner", 7]}),
            output_schema: None,
        }
    }

    #[test]
    fn summary_is_one_line() {
        assert_eq!(
            tool("One\n  two.\n\nMore.").summary().as_deref(),
            Some("One two.")
        );
        assert_eq!(tool(" ").summary().as_deref(), Some("Title"));
        assert!(
            tool(&"ä".repeat(5000))
                .summary()
                .is_some_and(|line| line.chars().count() == 303)
        );
    }

    #[test]
    fn signature_has_required_parameters_first() {
        assert_eq!(tool("").signature("a_b"), "a_b(owner, body=…, n=…)");
        let empty = Tool {
            input_schema: json!(true),
            ..tool("")
        };
        assert_eq!(empty.signature("x"), "x()");
    }
}
