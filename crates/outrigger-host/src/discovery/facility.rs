//! The host's own tools. They are declared like those of a server called [`HOST`], with names that no
//! server's tool can have, since those all begin with `mcp__`.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::catalog::{self, CatalogTool};

/// Under whose name the host's own tools are recorded.
pub const HOST: &str = "outrigger";

/// A tool of the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facility {
    /// Finds tools by words.
    Search,
    /// Shows definitions.
    Describe,
    /// Calls a tool that is not declared.
    Call,
    /// Lists servers.
    List,
    /// Starts one.
    Connect,
}

static TOOLS: LazyLock<Vec<(Facility, Arc<CatalogTool>)>> = LazyLock::new(|| {
    let tool = |facility: Facility| {
        let tool = catalog::own(HOST, facility.name(), &facility.definition())?;
        Some((facility, Arc::new(tool)))
    };
    Facility::ALL.into_iter().filter_map(tool).collect()
});

impl Facility {
    /// All of them, in the order in which they are declared.
    pub const ALL: [Self; 5] = [
        Self::Search,
        Self::Describe,
        Self::Call,
        Self::List,
        Self::Connect,
    ];
    /// Those that get at tools which are not declared.
    pub const TOOLS: [Self; 3] = [Self::Search, Self::Describe, Self::Call];
    /// Those that are about servers.
    pub const SERVERS: [Self; 2] = [Self::List, Self::Connect];

    /// What a model calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Search => "search_tools",
            Self::Describe => "describe_tool",
            Self::Call => "call_tool",
            Self::List => "list_servers",
            Self::Connect => "connect_server",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|facility| facility.name() == name)
    }

    /// The declarations, in order.
    pub fn tools() -> impl Iterator<Item = &'static Arc<CatalogTool>> {
        TOOLS.iter().map(|(_, tool)| tool)
    }

    /// Its declaration.
    pub fn tool(self) -> Option<&'static Arc<CatalogTool>> {
        let mut tools = TOOLS.iter();
        tools
            .find(|(facility, _)| *facility == self)
            .map(|(_, tool)| tool)
    }

    fn definition(self) -> Value {
        let (description, properties, required): (_, _, &[&str]) = match self {
            Self::Search => (
                "Finds tools by what they do. Ask for one capability per query, in a few words \
                 (\"create calendar event\"), and ask again for each further one. Answers with names, \
                 one line about each, and parameters.",
                json!({
                    "query": {"type": "string", "description": "What the tool has to do, or its name. Empty with `server`: all of that server."},
                    "server": {"type": "string", "description": "Only tools of this server."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "How many; 8 by default."},
                }),
                &["query"],
            ),
            Self::Describe => (
                "Shows tools as their servers define them: description and input schema. Takes several \
                 names at once. A long answer comes in parts.",
                json!({
                    "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 20, "description": "Names of tools."},
                    "part": {"type": "integer", "minimum": 1, "description": "Which part of a long answer; the first by default."},
                }),
                &["names"],
            ),
            Self::Call => (
                "Calls a tool that is not declared here, by its name. What comes back is what the tool \
                 returns.",
                json!({
                    "name": {"type": "string", "description": "The tool's name, as `search_tools` gives it."},
                    "arguments": {"type": "object", "description": "Arguments that fit the tool's input schema."},
                }),
                &["name"],
            ),
            Self::List => (
                "Lists the tool servers that are configured: what they are for, and whether they are started.",
                json!({}),
                &[],
            ),
            Self::Connect => (
                "Starts a tool server that is not started yet. Its tools can be used from the next turn.",
                json!({
                    "server": {"type": "string", "description": "The server's name, as `list_servers` gives it."},
                }),
                &["server"],
            ),
        };
        json!({
            "name": self.name(),
            "description": description,
            "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
            "annotations": {"readOnlyHint": true},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_declared_and_cost_little() {
        assert_eq!(Facility::tools().count(), Facility::ALL.len());
        for facility in Facility::ALL {
            let tool = facility.tool().unwrap();
            assert_eq!(tool.name.as_str(), facility.name());
            assert_eq!(Facility::named(tool.name.as_str()), Some(facility));
        }
        let tokens: u64 = Facility::tools().map(|tool| tool.tokens).sum();
        assert!(tokens < 700, "{tokens}");
    }
}
