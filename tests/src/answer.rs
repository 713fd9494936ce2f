//! An answer of `run_python`, read as a client reads it.

use serde_json::Value;

/// The result of one `tools/call`.
#[derive(Debug, Clone)]
pub struct Answer(pub Value);

impl Answer {
    /// The text blocks, joined: what the model reads.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks = self.0["content"].as_array().cloned().unwrap_or_default();
        blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// A field of the structured content; null if it is missing.
    #[must_use]
    pub fn field(&self, name: &str) -> &Value {
        &self.0["structuredContent"][name]
    }

    fn string(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// `success`, `error`, `timeout`, `cancelled` or `validation_error`.
    #[must_use]
    pub fn status(&self) -> &str {
        self.string("status")
    }

    /// What the code wrote to its standard output.
    #[must_use]
    pub fn stdout(&self) -> &str {
        self.string("stdout")
    }

    /// What the code wrote to its standard error.
    #[must_use]
    pub fn stderr(&self) -> &str {
        self.string("stderr")
    }

    /// The error's text; empty without an error.
    #[must_use]
    pub fn error(&self) -> String {
        match self.field("error") {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// `kept` or `lost`, if the answer says so.
    #[must_use]
    pub fn state(&self) -> &str {
        self.string("state")
    }

    /// Asserts success and returns standard output.
    ///
    /// # Panics
    /// On anything but success, with the whole answer.
    #[track_caller]
    pub fn succeeded(&self) -> &str {
        assert!(
            self.status() == "success" && self.0["isError"] != Value::Bool(true),
            "no success: {:#}",
            self.0
        );
        self.stdout()
    }

    /// Asserts a status, which must not be success, and that the model can read a piece of text.
    ///
    /// # Panics
    /// If that is not so, with the whole answer.
    #[track_caller]
    pub fn failed(&self, status: &str, telling: &str) -> &Self {
        assert_eq!(self.status(), status, "status of {:#}", self.0);
        assert_eq!(
            self.0["isError"],
            Value::Bool(true),
            "isError of {:#}",
            self.0
        );
        assert!(
            self.text().contains(telling),
            "{telling:?} is missing in: {}",
            self.text()
        );
        self
    }
}
