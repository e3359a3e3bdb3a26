//! A conversation as plain data, in the shape that every provider can be given.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything one turn needs.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The conversation so far; a system message comes first or not at all.
    pub messages: Vec<Message>,
    /// The tools of this turn, in the order in which they are sent. May be empty.
    pub tools: Arc<[ToolDeclaration]>,
    /// Upper bound of tokens to write, where the caller wants one.
    pub max_output_tokens: Option<u32>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    /// At most 64 bytes of `[A-Za-z0-9_-]`.
    pub name: String,
    /// What it does, for the model to read.
    pub description: String,
    /// A JSON Schema whose top level is an object.
    pub input_schema: Value,
    /// Set where the provider is to keep it from the model until the provider's own search has found
    /// it. Only for models with a [`crate::Model::tool_search`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Deferred>,
}

/// The tools among which the provider's search finds one. Those of a group stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    /// Its name: at most 64 bytes of `[A-Za-z0-9_-]`.
    pub group: String,
    /// What is in it, for models that are shown groups.
    pub about: String,
}

/// What a request says of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredTool {
    /// [`ToolDeclaration::name`].
    pub tool: String,
    /// Whether the model reads it only once the provider's search has found it.
    pub deferred: bool,
    /// The declaration as text of the request, or why it is left out, for a person.
    pub said: Result<String, String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions of the host.
    System {
        /// The instructions.
        text: String,
    },
    /// What the person said.
    User {
        /// Text and images, in order.
        content: Vec<Part>,
    },
    /// What the model said and asked for.
    Assistant(AssistantTurn),
    /// The answers to *all* calls of the assistant turn before it, in the order of the calls.
    ToolResults {
        /// One entry for each call.
        results: Vec<ToolResultMessage>,
    },
}

/// One finished turn of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantTurn {
    /// Text for the person; empty when the model only called tools.
    pub text: String,
    /// The calls it asked for, in order.
    pub calls: Vec<ToolCall>,
    /// What the provider wants to see again with this turn (reasoning, signatures), untouched.
    /// Only the provider that made it reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carry: Option<Value>,
    /// The tools that the provider's own search found in this turn. The model can read them from here
    /// on, as long as [`AssistantTurn::carry`] goes back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<String>,
}

/// A tool call as the model wrote it. Nothing has been checked yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, or one made up where the provider has none; unique within a conversation.
    pub id: String,
    /// The name the model wrote; it may not exist.
    pub name: String,
    /// The arguments as the model wrote them: usually JSON text of an object, possibly empty,
    /// possibly not JSON at all.
    pub arguments: String,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResultMessage {
    /// [`ToolCall::id`] of the call.
    pub call_id: String,
    /// [`ToolCall::name`] of the call.
    pub name: String,
    /// Text and images, in order.
    pub content: Vec<Part>,
    /// Whether the call went wrong, for providers that can say so beside the content.
    pub is_error: bool,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// The bytes in base64 (standard alphabet, padded).
        data: String,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl Message {
    /// A user message of one text part.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            content: vec![Part::text(text)],
        }
    }
}
