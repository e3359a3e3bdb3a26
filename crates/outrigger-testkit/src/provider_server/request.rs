//! A request as it was received, with the questions that tests ask of it.

use serde::Serialize;
use serde_json::Value;

use super::dialect::{Protocol, dialect};

/// One request for a turn.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedRequest {
    /// The protocol that its path belongs to.
    pub protocol: Protocol,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
    /// The body as it was written, every digit of it.
    pub text: String,
}

impl RecordedRequest {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }

    /// The texts of the tool results that the request ends with, in order. Notes may stand behind them.
    pub fn results(&self) -> Vec<String> {
        dialect(self.protocol).results(&self.body)
    }

    /// The last text that the person said.
    pub fn question(&self) -> Option<String> {
        dialect(self.protocol).question(&self.body)
    }

    /// The names of the tools that were offered.
    pub fn tools(&self) -> Vec<String> {
        let list = match self.protocol {
            Protocol::Gemini => self.body.pointer("/tools/0/functionDeclarations"),
            _ => self.body.get("tools"),
        };
        let name = |tool: &Value| {
            tool.get("name")
                .or_else(|| tool.pointer("/function/name"))?
                .as_str()
                .map(str::to_owned)
        };
        let all = list.and_then(Value::as_array).into_iter().flatten();
        // The tools of a namespace, else the tool itself.
        let each = |tool: &'_ Value| match tool.get("tools").and_then(Value::as_array) {
            Some(tools) => tools.iter().filter_map(name).collect::<Vec<_>>(),
            None => name(tool).into_iter().collect(),
        };
        all.flat_map(each).collect()
    }
}
