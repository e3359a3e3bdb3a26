//! What each turn's request costs: the declarations of each server, and all of it, counted beside the
//! wait for the model's answer, to stand next to what the provider reports.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use outrigger_host::toolset::Toolset;
use outrigger_journal::{Counted, Event, ServerTokens};
use outrigger_model::{ModelRequest, ToolDeclaration};
use tokio::task::JoinHandle;

use super::{Agent, Progress};
use crate::tokens::Vocabulary;

/// What the requests of a toolset say of its tools.
pub(super) struct Declared {
    tools: Arc<[ToolDeclaration]>,
    /// Declarations by server; those of no server have an empty name.
    texts: BTreeMap<String, Vec<String>>,
    counted: OnceLock<Vec<ServerTokens>>,
}

impl Declared {
    fn counted(&self, vocabulary: Vocabulary) -> &[ServerTokens] {
        self.counted.get_or_init(|| {
            let count = |(server, texts): (&String, &Vec<String>)| ServerTokens {
                server: server.clone(),
                tools: texts.len() as u64,
                tokens: texts.iter().map(|text| vocabulary.count(text)).sum(),
            };
            self.texts.iter().map(count).collect()
        })
    }
}

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
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for declared in self.model.declared(tools) {
            let tool = toolset.get(&declared.tool);
            match (declared.said, tool) {
                (Ok(text), tool) => {
                    let server = tool.map(|tool| tool.server.to_string()).unwrap_or_default();
                    texts.entry(server).or_default().push(text);
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
        let fresh = Arc::new(Declared {
            tools: Arc::clone(tools),
            texts,
            counted: OnceLock::new(),
        });
        progress.declared = Some(Arc::clone(&fresh));
        fresh
    }

    /// Begins to count a request, on a thread of its own.
    pub(super) fn count(
        &self,
        request: &ModelRequest,
        declared: Arc<Declared>,
    ) -> JoinHandle<Counted> {
        let vocabulary = Vocabulary::of_model(self.model.id());
        let messages = request.messages.clone();
        tokio::task::spawn_blocking(move || {
            let servers = declared.counted(vocabulary);
            let declarations: u64 = servers.iter().map(|server| server.tokens).sum();
            let named = servers.iter().filter(|server| !server.server.is_empty());
            Counted {
                by: vocabulary.name().to_owned(),
                exact: vocabulary.is_known(),
                input: declarations + vocabulary.count_messages(&messages),
                declarations,
                servers: named.cloned().collect(),
            }
        })
    }
}
