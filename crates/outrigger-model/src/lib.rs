//! The words between an agent and a language model: messages, tool declarations, streamed events.
//!
//! One small trait, [`Model`], and the plain data that goes in and comes out. Nothing here knows a
//! provider, a wire format, MCP or a terminal; that is what lets the agent, the providers and the
//! local model meet without depending on each other.

mod error;
mod message;
mod stream;

use std::sync::Arc;

pub use error::{ModelError, ModelErrorKind};
pub use message::{
    AssistantTurn, DeclaredTool, Deferred, Message, ModelRequest, Part, ToolCall, ToolDeclaration,
    ToolResultMessage,
};
pub use stream::{ModelEvent, ModelStream, StopReason, Usage};

/// What a model can take, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of prompt and answer together.
    pub context_tokens: u64,
    /// Whether image parts reach the model as images. Elsewhere they must be described in words.
    pub sees_images: bool,
}

/// What the search of tools takes that a provider has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolSearch {
    /// The most tools that a request may declare.
    pub most_tools: usize,
    /// The most entries that the list of tools may have. A group counts as one where groups are shown.
    pub most_entries: usize,
    /// Whether the model is shown the groups of deferred tools ([`Deferred`]), and searches among them.
    pub shows_groups: bool,
}

/// A language model that can be asked for one turn.
///
/// Dropping the returned stream cancels the request. Implementations retry what is safe to retry
/// *before* the first event was yielded (connection refused, 429, 5xx), never after.
#[async_trait::async_trait]
pub trait Model: Send + Sync {
    /// `provider:name`, as a person would write it after `--model`.
    fn id(&self) -> &str;

    /// What the model can take.
    fn limits(&self) -> ModelLimits;

    /// The provider's own search of tools, where it has one for this model; else why there is none, in
    /// words that follow the model's name.
    fn tool_search(&self) -> Result<ToolSearch, String> {
        Err("its provider has no search of tools".to_owned())
    }

    /// What a request says of each of these tools, in their order. Those that the provider cannot be
    /// told of are left out of requests.
    fn declared(&self, tools: &Arc<[ToolDeclaration]>) -> Vec<DeclaredTool> {
        let text = |tool: &ToolDeclaration| serde_json::to_string(tool).unwrap_or_default();
        let said = tools.iter().map(|tool| DeclaredTool {
            tool: tool.name.clone(),
            deferred: tool.deferred.is_some(),
            said: Ok(text(tool)),
        });
        said.collect()
    }

    /// Starts one turn. The stream ends with exactly one [`ModelEvent::Finished`], or with an error.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}
