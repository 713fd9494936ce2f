//! The documentation of a tool as user code reads it.

use bridge_catalog::ServerName;
use serde::Serialize;
use serde_json::Value;

use crate::Tool;

/// How much the documentation of a tool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// One line of description.
    #[default]
    Summary,
    /// The whole description and the schema of the arguments.
    Full,
}

impl std::str::FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "summary" => Ok(Self::Summary),
            "full" => Ok(Self::Full),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(format!(
                    "detail must be \"summary\" or \"full\", not {shown:?}"
                ))
            }
        }
    }
}

/// The documentation of one tool, as user code reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDoc {
    /// The server's name as written in its definition.
    pub server: String,
    /// The server's name in Python.
    pub server_alias: String,
    /// The name that the protocol uses.
    pub tool: String,
    /// The tool's name in Python.
    pub tool_alias: String,
    /// The description: a line of it in a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments; left out of a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the structured result, if the server sent one; left out of a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl ToolDoc {
    /// Documents one tool of a server.
    pub fn new(
        server: &ServerName,
        server_alias: &str,
        tool: &Tool,
        tool_alias: &str,
        detail: Detail,
    ) -> Self {
        let full = detail == Detail::Full;
        Self {
            server: server.0.clone(),
            server_alias: server_alias.to_owned(),
            tool: tool.name.clone(),
            tool_alias: tool_alias.to_owned(),
            description: if full {
                tool.description.clone().or_else(|| tool.title.clone())
            } else {
                tool.summary()
            },
            input_schema: full.then(|| tool.input_schema.clone()),
            output_schema: tool.output_schema.clone().filter(|_| full),
        }
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
            output_schema: Some(json!({"properties": {"result": {"type": "integer"}}})),
        }
    }

    #[test]
    fn schemas_are_only_in_the_full_documentation() {
        let doc = |detail| {
            ToolDoc::new(
                &"git-hub".into(),
                "git_hub",
                &tool("One\n\nMore."),
                "a_b",
                detail,
            )
        };
        assert_eq!(
            serde_json::to_value(doc(Detail::Summary)).unwrap(),
            json!({"server": "git-hub", "serverAlias": "git_hub", "tool": "a.b", "toolAlias": "a_b", "description": "One"})
        );
        let full = serde_json::to_value(doc(Detail::Full)).unwrap();
        assert_eq!(full["description"], "One\n\nMore.");
        assert_eq!(full["inputSchema"], tool("").input_schema);
        assert_eq!(
            full["outputSchema"]["properties"]["result"]["type"],
            "integer"
        );
        assert_eq!("full".parse(), Ok(Detail::Full));
        assert!(
            "fu\nll"
                .parse::<Detail>()
                .is_err_and(|error| error.contains("summary"))
        );
    }
}
