//! What each turn's request costs: the declarations of each server, and all of it, counted beside the
//! wait for the model's answer, to stand next to what the provider reports.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use outrigger_host::tokens::Scale;
use outrigger_host::toolset::Toolset;
use outrigger_journal::{Counted, Event, ServerTokens};
use outrigger_model::{Message, ModelRequest, Part, ToolDeclaration};
use tokio::task::JoinHandle;

use super::{Agent, Progress};
use crate::tokens::Vocabulary;

/// What the requests of a toolset say of its tools.
pub(super) struct Declared {
    tools: Arc<[ToolDeclaration]>,
    /// By server; those of no server have an empty name.
    servers: BTreeMap<String, Vec<Line>>,
    counted: OnceLock<Vec<OfServer>>,
    estimated: OnceLock<Vec<OfServer>>,
}

/// Something that a request says of a server's tools.
struct Line {
    /// The tool that is left to the provider's search, where it is about one.
    deferred: Option<String>,
    /// Whether it is a tool, and not what stands for several.
    is_tool: bool,
    text: String,
}

/// What a server's declarations cost.
struct OfServer {
    server: String,
    tools: u64,
    /// Those that are in each request.
    tokens: u64,
    /// Those that are read once they were found.
    deferred: BTreeMap<String, u64>,
}

impl Declared {
    fn counted(&self, by: Vocabulary) -> &[OfServer] {
        let known = if by.is_known() {
            &self.counted
        } else {
            &self.estimated
        };
        known.get_or_init(|| {
            let servers = self.servers.iter();
            servers
                .map(|(name, lines)| OfServer::of(name, lines, by))
                .collect()
        })
    }

    /// Tokens of each server's declarations in a request in which these tools were found before.
    fn read(&self, by: Vocabulary, found: &HashSet<&str>) -> Vec<ServerTokens> {
        let servers = self.counted(by).iter();
        let read = |server: &OfServer| {
            let there = server.deferred.iter();
            let there = there.filter(|(tool, _)| found.contains(tool.as_str()));
            let (count, tokens) = there.fold((0, 0), |(count, sum), (_, tokens)| {
                (count + 1, sum + tokens)
            });
            ServerTokens {
                server: server.server.clone(),
                tools: server.tools,
                deferred: server.deferred.len() as u64 - count,
                tokens: server.tokens + tokens,
            }
        };
        servers.map(read).collect()
    }
}

impl OfServer {
    fn of(server: &str, lines: &[Line], by: Vocabulary) -> Self {
        let mut of = Self {
            server: server.to_owned(),
            tools: lines.iter().filter(|line| line.is_tool).count() as u64,
            tokens: 0,
            deferred: BTreeMap::new(),
        };
        for line in lines {
            let tokens = by.count(&line.text);
            match &line.deferred {
                Some(tool) => drop(of.deferred.insert(tool.clone(), tokens)),
                None => of.tokens += tokens,
            }
        }
        of
    }
}

/// What a request costs, and, where a report of it says how good estimates are, what is estimated.
pub(super) type Count = (Counted, Option<u64>);

impl Agent {
    /// What a request says of these tools, looked at once for each toolset. Tools that the model's
    /// provider is not told of are recorded with the reason.
    pub(super) fn declared(
        &self,
        toolset: &Toolset,
        tools: &Arc<[ToolDeclaration]>,
        progress: &mut Progress<'_>,
    ) -> Arc<Declared> {
        if let Some(known) = progress
            .declared
            .as_ref()
            .filter(|known| Arc::ptr_eq(&known.tools, tools))
        {
            return Arc::clone(known);
        }
        let mut servers: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        for declared in self.model.declared(tools) {
            let tool = toolset.get(&declared.tool);
            match (declared.said, tool) {
                (Ok(text), tool) => {
                    let server = tool.map(|tool| tool.server.to_string()).unwrap_or_default();
                    servers.entry(server).or_default().push(Line {
                        deferred: declared.deferred.then_some(declared.tool),
                        is_tool: true,
                        text,
                    });
                }
                (Err(reason), Some(tool)) if progress.left_out.insert(declared.tool) => {
                    let model = self.model.id();
                    self.run.record(Event::ToolSetAside {
                        server: tool.server.to_string(),
                        tool: tool.raw_name.clone(),
                        reason: format!("`{model}` is not told of it: {reason}"),
                    });
                }
                _ => {}
            }
        }
        for (server, text) in self.groups(toolset, tools) {
            servers.entry(server).or_default().push(Line {
                deferred: None,
                is_tool: false,
                text,
            });
        }
        let fresh = Arc::new(Declared {
            tools: Arc::clone(tools),
            servers,
            counted: OnceLock::new(),
            estimated: OnceLock::new(),
        });
        progress.declared = Some(Arc::clone(&fresh));
        fresh
    }

    /// The groups of deferred tools that the model is shown, each with its server.
    fn groups(
        &self,
        toolset: &Toolset,
        tools: &Arc<[ToolDeclaration]>,
    ) -> BTreeMap<String, String> {
        let mut groups = BTreeMap::new();
        if !self
            .model
            .tool_search()
            .is_ok_and(|search| search.shows_groups)
        {
            return groups;
        }
        let mut seen = HashSet::new();
        for tool in tools.iter() {
            if let Some(deferred) = &tool.deferred
                && let Some(known) = toolset.get(&tool.name)
                && seen.insert(&deferred.group)
            {
                let text: &mut String = groups.entry(known.server.to_string()).or_default();
                text.push_str(&deferred.group);
                text.push_str(&deferred.about);
            }
        }
        groups
    }

    /// Begins to count a request, on a thread of its own.
    pub(super) fn count(
        &self,
        request: &ModelRequest,
        declared: Arc<Declared>,
    ) -> JoinHandle<Count> {
        let vocabulary = Vocabulary::of_model(self.model.id());
        let learned = self.estimates.of(self.model.id());
        let messages = request.messages.clone();
        tokio::task::spawn_blocking(move || {
            let found = found(&messages);
            let input = |by: Vocabulary| {
                let servers = declared.read(by, &found);
                let declarations: u64 = servers.iter().map(|server| server.tokens).sum();
                (
                    declarations + by.count_messages(&messages),
                    declarations,
                    servers,
                )
            };
            let estimate = input(Vocabulary::Unknown);
            let teaches = teaches(&messages).then_some(estimate.0);
            let (scale, (input, declarations, mut servers)) = if vocabulary.is_known() {
                (Scale::NONE, input(vocabulary))
            } else {
                (learned.scale(), estimate)
            };
            servers.retain(|server| !server.server.is_empty());
            for server in &mut servers {
                server.tokens = scale.tokens(server.tokens);
            }
            let counted = Counted {
                by: vocabulary.name().to_owned(),
                exact: vocabulary.is_known(),
                corrected_by: if vocabulary.is_known() {
                    0
                } else {
                    learned.requests
                },
                input: scale.tokens(input),
                declarations: scale.tokens(declarations),
                servers,
            };
            (counted, teaches)
        })
    }
}

/// The tools that the provider's search has found in a conversation, as far as it reads them still.
fn found(messages: &[Message]) -> HashSet<&str> {
    let turns = messages.iter().filter_map(|message| match message {
        Message::Assistant(turn) if turn.carry.is_some() => Some(&turn.found),
        _ => None,
    });
    turns.flatten().map(String::as_str).collect()
}

/// Whether a report of this request says how good estimates of text are: there is nothing in it but
/// text that this side can read.
fn teaches(messages: &[Message]) -> bool {
    let plain = |parts: &[Part]| parts.iter().all(|part| matches!(part, Part::Text { .. }));
    messages.iter().all(|message| match message {
        Message::System { .. } => true,
        Message::User { content } => plain(content),
        Message::Assistant(turn) => turn.carry.is_none(),
        Message::ToolResults { results } => results.iter().all(|result| plain(&result.content)),
    })
}
