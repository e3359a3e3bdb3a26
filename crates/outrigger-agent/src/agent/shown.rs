//! What the model of a conversation has been shown of the tools. It is only ever added to: the
//! system message and the declarations stay as they were first sent, byte for byte, so that a
//! provider's cache of the prompt holds. What changes meanwhile is told where it happened, as a note
//! in the conversation; a tool that is gone stays declared, and calling it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use outrigger_host::Digest;
use outrigger_host::catalog::CatalogTool;
use outrigger_host::toolset::Toolset;
use outrigger_host::words::named;
use outrigger_model::{Message, Part, ToolDeclaration};

use super::prompt;

/// Names of tools that one note lists.
const NAMES: usize = 20;
/// Bytes of the definitions that one note repeats.
const DEFINITIONS: usize = 16 << 10;

/// What was shown so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    /// The system message; `None` before the first turn.
    system: Option<String>,
    declared: Arc<[ToolDeclaration]>,
    /// The names among them.
    names: BTreeSet<String>,
    /// Estimated tokens of the declarations.
    tokens: u64,
    /// All tools that could be called with the last turn, and how they were defined.
    tools: BTreeMap<String, Digest>,
    missing: BTreeSet<String>,
    /// Whether the tools that find others are declared.
    discovers: bool,
    /// The servers whose words about their tools were shown.
    instructed: BTreeSet<String>,
    revision: u64,
}

impl Shown {
    /// Follows a toolset, for a model that reads `context` tokens. Returns what the model has to be
    /// told of the change.
    pub(super) fn follow(&mut self, toolset: &Toolset, context: u64) -> Option<String> {
        let missing: BTreeSet<String> = toolset
            .missing()
            .iter()
            .map(|missing| named(missing.server.as_str()))
            .collect();
        if self.system.is_some() && self.revision == toolset.revision() && self.missing == missing {
            return None;
        }
        let exposure = toolset.exposure(context);
        let note = if self.system.is_none() {
            self.system = Some(prompt::system(toolset, exposure.index.as_deref()));
            None
        } else {
            self.note(toolset, &missing, exposure.index.as_deref())
        };
        self.discovers |= exposure.index.is_some();
        self.declare(&exposure.tools);
        self.tools = toolset
            .tools()
            .iter()
            .map(|tool| (tool.name.to_string(), tool.digest))
            .collect();
        let instructions = toolset.instructions().iter();
        self.instructed
            .extend(instructions.map(|(server, _)| server.to_string()));
        self.missing = missing;
        self.revision = toolset.revision();
        note
    }

    /// The system message.
    pub(super) fn system(&self) -> String {
        self.system.clone().unwrap_or_default()
    }

    /// The declarations.
    pub(super) fn declared(&self) -> Arc<[ToolDeclaration]> {
        Arc::clone(&self.declared)
    }

    /// Estimated tokens of the declarations.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Adds those that are not declared yet, at the end.
    fn declare(&mut self, tools: &[Arc<CatalogTool>]) {
        let mut added = Vec::new();
        for tool in tools {
            if self.names.insert(tool.name.to_string()) {
                self.tokens += tool.tokens;
                added.push(prompt::declare(tool));
            }
        }
        if !added.is_empty() {
            self.declared = self.declared.iter().cloned().chain(added).collect();
        }
    }

    /// What is different from what was shown, in words.
    fn note(
        &self,
        toolset: &Toolset,
        missing: &BTreeSet<String>,
        index: Option<&str>,
    ) -> Option<String> {
        let now: BTreeMap<&str, &Arc<CatalogTool>> = toolset
            .tools()
            .iter()
            .map(|tool| (tool.name.as_str(), tool))
            .collect();
        let new = now.keys().filter(|name| !self.tools.contains_key(**name));
        let gone = self
            .tools
            .keys()
            .filter(|name| !now.contains_key(name.as_str()));
        let changed: Vec<_> = now
            .values()
            .filter(|tool| {
                let known = self.tools.get(tool.name.as_str());
                known.is_some_and(|known| *known != tool.digest)
            })
            .collect();
        let mut text = String::new();
        line(&mut text, "New tools", new.copied());
        line(&mut text, "No longer there", gone.map(String::as_str));
        line(
            &mut text,
            "Defined anew",
            changed.iter().map(|tool| tool.name.as_str()),
        );
        for tool in &changed {
            // What is declared cannot be taken back; what is found shows itself as it is.
            let definition = definition(tool);
            if self.names.contains(tool.name.as_str())
                && text.len() + definition.len() <= DEFINITIONS
            {
                let _ = write!(text, "\n{definition}");
            }
        }
        self.servers_line(&mut text, missing);
        for (server, instructions) in toolset.instructions() {
            if !self.instructed.contains(server.as_str()) {
                prompt::quote(&mut text, server.as_str(), instructions);
            }
        }
        if let Some(index) = index.filter(|_| !self.discovers) {
            let _ = write!(text, "\n{index}");
        }
        (!text.is_empty()).then(|| format!("{NOTE}{text}"))
    }

    fn servers_line(&self, text: &mut String, missing: &BTreeSet<String>) {
        let left = missing.difference(&self.missing);
        line(text, "Servers not available now", left.map(String::as_str));
        let back = self.missing.difference(missing);
        line(text, "Servers available again", back.map(String::as_str));
    }
}

/// How a note of ours begins.
const NOTE: &str = "[note of this program, not of the user: the tools have changed]";

fn line<'n>(text: &mut String, what: &str, names: impl Iterator<Item = &'n str>) {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return;
    }
    let more = names.len().saturating_sub(NAMES);
    let _ = write!(text, "\n{what}: {}", names[..names.len() - more].join(", "));
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text.push('.');
}

fn definition(tool: &CatalogTool) -> String {
    serde_json::json!({
        "name": tool.name.as_str(),
        "description": tool.description,
        "inputSchema": tool.input_schema,
    })
    .to_string()
}

/// Puts a note where the model reads it next: behind the person's words, or as words of its own after
/// results, which end with data of servers.
pub(super) fn tell(messages: &mut Vec<Message>, note: String) {
    if let Some(Message::User { content }) = messages.last_mut() {
        content.push(Part::text(note));
    } else {
        messages.push(Message::user(note));
    }
}
