//! What the host's own tools answer: text for a model, made from the allowed tools alone.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::facility::Facility;
use super::finder::{Finder, Wish};
use super::text::{one_line, signature};
use crate::catalog::CatalogTool;
use crate::result::ToolResult;
use crate::text::shorten;
use crate::toolset::{KnownServer, ServerStanding, Toolset};
use crate::words::named;

/// How many tools a search names unless it is told otherwise.
const HITS: usize = 8;
/// Bytes of the line about a found tool.
const LINE: usize = 200;
/// Bytes of one part of a description; about 3,000 tokens.
const PART: usize = 12 << 10;
/// Bytes of a name that is said back.
const NAME: usize = 100;

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    server: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct DescribeArguments {
    names: Vec<String>,
    part: Option<usize>,
}

/// Text, and whether it tells of something that went wrong.
type Told = (String, bool);

impl Finder {
    /// Answers a call of one of the host's own tools. The arguments fit its schema.
    pub(crate) fn answer(
        &self,
        toolset: &Toolset,
        facility: Facility,
        arguments: &RawValue,
    ) -> Option<ToolResult> {
        let (text, is_error) = match facility {
            Facility::Search => self.found(toolset, &serde_json::from_str(arguments.get()).ok()?),
            Facility::Describe => {
                self.described(toolset, &serde_json::from_str(arguments.get()).ok()?)
            }
            Facility::List => (servers(toolset), false),
            // Answered by the host, which starts it.
            Facility::Connect => return None,
            Facility::Call => {
                let text = "`call_tool` calls tools of servers; it does not call itself.";
                (text.to_owned(), true)
            }
        };
        told(&text, is_error)
    }

    fn found(&self, toolset: &Toolset, wish: &SearchArguments) -> Told {
        let SearchArguments {
            query,
            server,
            limit,
        } = wish;
        let server = server.as_deref().filter(|server| !server.is_empty());
        let limit = limit.unwrap_or(HITS);
        if let Some(server) = server
            && !toolset
                .tools()
                .iter()
                .any(|tool| tool.server.as_str() == server)
        {
            return (no_such_server(toolset, server), true);
        }
        let wish = Wish {
            query,
            server,
            limit,
        };
        let hits: Vec<Arc<CatalogTool>> = match server {
            Some(server) if query.trim().is_empty() => {
                let of_server = |tool: &&Arc<CatalogTool>| tool.server.as_str() == server;
                toolset
                    .sorted()
                    .iter()
                    .filter(of_server)
                    .take(limit)
                    .cloned()
                    .collect()
            }
            _ => {
                let meant = toolset.resolve(query).cloned();
                let meant = meant.filter(|tool| server.is_none_or(|s| tool.server.as_str() == s));
                let mut hits = self.search(toolset, &wish);
                hits.retain(|hit| meant.as_ref().is_none_or(|tool| tool.name != hit.name));
                meant.into_iter().chain(hits).take(limit).collect()
            }
        };
        if hits.is_empty() {
            let text = "No tool has any of these words. Other words may find one; ask for one capability at a time.";
            return (text.to_owned(), false);
        }
        let mut text = String::new();
        for tool in &hits {
            let _ = write!(text, "{}({})", tool.name, signature(&tool.input_schema));
            match one_line(tool, LINE) {
                line if line.is_empty() => text.push('\n'),
                line => {
                    let _ = writeln!(text, ": {line}");
                }
            }
        }
        text.push_str("`call_tool` calls one of them; `describe_tool` shows whole definitions.");
        (text, false)
    }

    fn described(&self, toolset: &Toolset, wish: &DescribeArguments) -> Told {
        let mut known = false;
        let mut text = String::new();
        for name in &wish.names {
            let facility = Facility::named(name).and_then(Facility::tool);
            if let Some(tool) = facility.or_else(|| toolset.resolve(name)) {
                known = true;
                describe(&mut text, tool);
            } else {
                text.push_str(&self.unknown(toolset, name));
                text.push('\n');
            }
        }
        let parts = parts(&text);
        let part = wish.part.unwrap_or(1);
        let Some(shown) = parts.get(part - 1) else {
            let text = format!("There is no part {part}; there are {}.", parts.len());
            return (text, true);
        };
        let shown = if parts.len() == 1 {
            (*shown).trim_end().to_owned()
        } else if part < parts.len() {
            let next = part + 1;
            format!(
                "{shown}\n[part {part} of {}; `part`: {next} goes on]",
                parts.len()
            )
        } else {
            format!("{shown}\n[part {part} of {}, the last]", parts.len())
        };
        (shown, !known)
    }

    fn unknown(&self, toolset: &Toolset, name: &str) -> String {
        let name = shorten(name, NAME);
        let near = self.suggest(toolset, &name);
        let near: Vec<_> = near.iter().map(|tool| format!("`{}`", tool.name)).collect();
        if near.is_empty() {
            format!("There is no tool `{name}`.")
        } else {
            format!(
                "There is no tool `{name}`. Did you mean {}?",
                near.join(" or ")
            )
        }
    }
}

/// Text as the result of a call.
pub(crate) fn told(text: &str, is_error: bool) -> Option<ToolResult> {
    let raw = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    ToolResult::read(serde_json::value::to_raw_value(&raw).ok()?).ok()
}

/// A line about each server.
fn servers(toolset: &Toolset) -> String {
    let mut text = String::new();
    for KnownServer {
        server,
        description,
        standing,
    } in toolset.servers()
    {
        let of_server = |tool: &&Arc<CatalogTool>| tool.server == *server;
        let count = toolset.tools().iter().filter(of_server).count();
        let standing = match standing {
            ServerStanding::Ready => format!("ready, {count} tools"),
            ServerStanding::Idle if count > 0 => {
                format!("not started; {count} tools when it was last seen")
            }
            ServerStanding::Idle => "not started".to_owned(),
            ServerStanding::Unavailable => "not available now".to_owned(),
        };
        let about = description.as_deref().unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "{}: {standing}", named(server.as_str()));
        if !about.is_empty() {
            let _ = write!(text, ". {}", shorten(&about, LINE));
        }
        text.push('\n');
    }
    text.push_str(
        "`connect_server` starts one that is not started; so does a call of one of its tools.",
    );
    text
}

fn no_such_server(toolset: &Toolset, server: &str) -> String {
    let mut servers: Vec<&str> = toolset
        .tools()
        .iter()
        .map(|tool| tool.server.as_str())
        .collect();
    servers.dedup();
    let near = crate::config::nearest(server, &servers);
    let hint = near.map_or_else(String::new, |near| {
        format!(" Did you mean `{}`?", named(near))
    });
    format!("There is no server `{}` with tools.{hint}", named(server))
}

fn describe(text: &mut String, tool: &CatalogTool) {
    let _ = writeln!(text, "# {}", tool.name);
    let description = tool.description.trim();
    if !description.is_empty() {
        let _ = writeln!(text, "{description}");
    }
    let compact = tool.input_schema.to_string();
    let schema = if compact.len() > PART {
        by_lines(&tool.input_schema)
    } else {
        compact
    };
    let _ = writeln!(text, "Input schema: {schema}\n");
}

/// A large schema with one member a line, so that it can be cut between them.
fn by_lines(schema: &Value) -> String {
    serde_json::to_string_pretty(schema)
        .unwrap_or_default()
        .lines()
        .map(str::trim_start)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A text in parts of at most [`PART`] bytes, cut at line ends where there are any. Never empty.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > PART {
        let end = rest.floor_char_boundary(PART);
        let end = rest[..end].rfind('\n').map_or(end, |at| at + 1);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    if parts.is_empty() || !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_the_whole_and_none_is_too_large(lines in proptest::collection::vec("\\PC{0,3000}", 0..12)) {
            let text = lines.join("\n");
            let parts = parts(&text);
            prop_assert_eq!(&parts.concat(), &text);
            prop_assert!(!parts.is_empty());
            prop_assert!(parts.iter().all(|part| part.len() <= PART));
        }
    }
}
