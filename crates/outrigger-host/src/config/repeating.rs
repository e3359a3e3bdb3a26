//! What local configuration says about making a call once more.
//!
//! Leaves out the statement that a tool only reads, which policy knows as well.

use crate::policy::glob;

/// How often a call that may be repeated is, where nothing is configured.
const RETRIES: u32 = 1;
/// More than this many is a mistake.
pub(crate) const MOST_RETRIES: u32 = 10;

/// Which calls of a server may be made once more, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeating {
    /// The person's statement that a call made twice does what it does once.
    pub idempotent: bool,
    /// How often a call that only reads, or is idempotent, is made again by itself.
    pub retries: u32,
    /// What is said about single tools.
    pub tools: Vec<ToolRepeating>,
}

/// The same about those tools of a server whose own names match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRepeating {
    /// A glob over the server's own names for its tools.
    pub glob: String,
    /// As for the server, or the contrary.
    pub idempotent: Option<bool>,
    /// The argument by which the server knows a repeated call.
    pub idempotency_key: Option<String>,
}

impl Default for Repeating {
    fn default() -> Self {
        Self {
            idempotent: false,
            retries: RETRIES,
            tools: Vec::new(),
        }
    }
}

impl Repeating {
    /// Whether a tool is idempotent. A `false` about one tool takes back what is said about more.
    pub fn is_idempotent(&self, raw_tool: &str) -> bool {
        let mut said = self.about(raw_tool).filter_map(|tool| tool.idempotent);
        let taken_back = said.clone().any(|idempotent| !idempotent);
        !taken_back && (self.idempotent || said.any(|idempotent| idempotent))
    }

    /// The argument that holds a tool's idempotency key; the first that is written counts.
    pub fn idempotency_key<'s>(&'s self, raw_tool: &'s str) -> Option<&'s str> {
        self.about(raw_tool)
            .find_map(|tool| tool.idempotency_key.as_deref())
    }

    fn about<'s>(&'s self, raw_tool: &'s str) -> impl Iterator<Item = &'s ToolRepeating> + Clone {
        self.tools
            .iter()
            .filter(move |tool| tool.is_about(raw_tool))
    }
}

impl ToolRepeating {
    /// Whether a tool is meant, by its server's own name for it.
    pub(crate) fn is_about(&self, raw_tool: &str) -> bool {
        glob(&self.glob).is_ok_and(|glob| glob.is_match(raw_tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(glob: &str, idempotent: Option<bool>, key: Option<&str>) -> ToolRepeating {
        ToolRepeating {
            glob: glob.to_owned(),
            idempotent,
            idempotency_key: key.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn one_tool_may_differ_from_its_server() {
        let mut repeating = Repeating {
            tools: vec![
                tool("put_*", Some(true), None),
                tool("put_money", Some(false), Some("request_id")),
                tool("put_*", None, Some("key")),
            ],
            ..Repeating::default()
        };
        let said = |repeating: &Repeating| {
            ["put_file", "put_money", "other"].map(|tool| repeating.is_idempotent(tool))
        };
        assert_eq!(said(&repeating), [true, false, false]);
        repeating.idempotent = true;
        assert_eq!(said(&repeating), [true, false, true]);
        assert_eq!(
            ["put_file", "put_money", "other"].map(|tool| repeating.idempotency_key(tool)),
            [Some("key"), Some("request_id"), None]
        );
    }
}
