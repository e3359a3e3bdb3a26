//! What the model of a conversation has been shown of the tools. It is only ever added to: the
//! system message and the declarations stay as they were first sent, byte for byte, so that a
//! provider's cache of the prompt holds. What changes meanwhile is told where it happened, as a note
//! in the conversation; a tool that is gone stays declared, and calling it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use outrigger_host::Digest;
use outrigger_host::catalog::CatalogTool;
use outrigger_host::discovery::{Audience, Exposure};
use outrigger_host::toolset::Toolset;
use outrigger_host::words::named;
use outrigger_model::{Deferred, Message, Part, ToolDeclaration};

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
    /// The groups of tools that are left to the provider's search.
    groups: BTreeSet<String>,
    /// How many of the tools these are.
    deferred: u64,
    /// Estimated tokens of the other declarations.
    tokens: u64,
    /// All tools that could be called with the last turn, and how they were defined.
    tools: BTreeMap<String, Digest>,
    missing: BTreeSet<String>,
    /// Who the model was told finds other tools.
    told: BTreeSet<Finder>,
    /// Why the provider's search is not used, as it was said.
    not_searched: BTreeSet<String>,
    /// The servers whose words about their tools were shown.
    instructed: BTreeSet<String>,
    revision: u64,
}

/// Who finds tools that are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Finder {
    Host,
    Provider,
}

/// What is to be told of a change.
#[derive(Debug, Default)]
pub(super) struct News {
    /// To the model.
    pub(super) note: Option<String>,
    /// To the person: why the provider's search is not used.
    pub(super) not_searched: Option<String>,
}

impl Shown {
    /// Follows a toolset, for a model of which this is known. Returns what has to be told of the change.
    pub(super) fn follow(&mut self, toolset: &Toolset, mut audience: Audience) -> News {
        let missing: BTreeSet<String> = toolset
            .missing()
            .iter()
            .map(|missing| named(missing.server.as_str()))
            .collect();
        if self.system.is_some() && self.revision == toolset.revision() && self.missing == missing {
            return News::default();
        }
        audience.declared = self.declared.len();
        let exposure = toolset.exposure_to(&audience);
        let finder = if exposure.deferred.is_empty() {
            Finder::Host
        } else {
            Finder::Provider
        };
        let note = if self.system.is_none() {
            self.system = Some(prompt::system(toolset, exposure.index.as_deref()));
            None
        } else {
            let index = exposure.index.as_deref();
            let index = index.filter(|_| !self.told.contains(&finder));
            self.note(toolset, &missing, index)
        };
        if exposure.index.is_some() {
            self.told.insert(finder);
        }
        self.declare(&exposure);
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
        let why = exposure.not_searched;
        News {
            note,
            not_searched: why.filter(|why| self.not_searched.insert(why.clone())),
        }
    }

    /// The system message.
    pub(super) fn system(&self) -> String {
        self.system.clone().unwrap_or_default()
    }

    /// The declarations.
    pub(super) fn declared(&self) -> Arc<[ToolDeclaration]> {
        Arc::clone(&self.declared)
    }

    /// How many of them are left to the provider's search.
    pub(super) fn deferred(&self) -> u64 {
        self.deferred
    }

    /// Estimated tokens of the others.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Adds those that are not declared yet, at the end.
    fn declare(&mut self, exposure: &Exposure) {
        let mut added = Vec::new();
        for tool in &exposure.tools {
            if self.names.insert(tool.name.to_string()) {
                self.tokens += tool.tokens;
                added.push(prompt::declare(tool, None));
            }
        }
        for group in &exposure.deferred {
            let new = group.tools.iter();
            let new = new.filter(|tool| self.names.insert(tool.name.to_string()));
            let new: Vec<_> = new.cloned().collect();
            if new.is_empty() {
                continue;
            }
            self.deferred += new.len() as u64;
            let deferred = Deferred {
                group: self.group(&group.name),
                about: group.about(&new),
            };
            let declare = |tool| prompt::declare(tool, Some(deferred.clone()));
            added.extend(new.iter().map(|tool| declare(tool)));
        }
        if !added.is_empty() {
            self.declared = self.declared.iter().cloned().chain(added).collect();
        }
    }

    /// A name that no group has yet. What was said of a group stays as it is, so tools that come later
    /// are one of their own.
    fn group(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let free = names.find(|name| !self.groups.contains(name));
        let free = free.unwrap_or_else(|| name.to_owned());
        self.groups.insert(free.clone());
        free
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
        if let Some(index) = index {
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
