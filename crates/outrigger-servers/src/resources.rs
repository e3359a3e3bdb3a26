//! The `resources` server: two tools by which a model lists and reads what the other servers of its
//! host have to read.
//!
//! Leaves out where they come from ([`Shelf`]), and whether they may be read: that was decided before
//! the call came here.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use rmcp::model::{ContentBlock, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::{
    arguments,
    tool::{Reply, declare_plain},
    toolbox::{Call, CallError},
};

/// Something that is being listed or read; an error is worded for a model.
pub type Reading<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// What the servers of a host have to read.
pub trait Shelf: fmt::Debug + Send + Sync {
    /// The resources of one server, a line each; without a name, the servers that have any.
    fn list(&self, server: Option<String>) -> Reading<String>;
    /// The pieces of one resource, as MCP has them (`ResourceContents`).
    fn read(
        &self,
        server: String,
        uri: String,
        cancelled: CancellationToken,
    ) -> Reading<Vec<Value>>;
}

/// Why there is nothing to give.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Unread(String);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Default: tells which servers have any.
    server: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    server: String,
    /// Its address, as listed.
    uri: String,
}

pub(crate) struct ResourceTools {
    shelf: Option<Arc<dyn Shelf>>,
    tools: [Tool; 2],
}

impl ResourceTools {
    pub(crate) fn new(shelf: Option<Arc<dyn Shelf>>) -> Self {
        Self {
            shelf,
            tools: [
                declare_plain::<ListArguments>(
                    "list_resources",
                    "List resources",
                    "Lists what a tool server has to read besides its tools.",
                ),
                declare_plain::<ReadArguments>(
                    "read_resource",
                    "Read a resource",
                    "Reads one resource of a tool server.",
                ),
            ],
        }
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let Some(others) = &self.shelf else {
            return Err(Unread("there are no other servers here".to_owned()).into());
        };
        if call.tool.name == self.tools[0].name {
            let ListArguments { server } = arguments::parse(call.tool, call.arguments)?;
            let text = others.list(server).await.map_err(Unread)?;
            return Ok(Reply::Content(vec![ContentBlock::text(text)]));
        }
        let ReadArguments { server, uri } = arguments::parse(call.tool, call.arguments)?;
        let pieces = others
            .read(server, uri, call.cancelled)
            .await
            .map_err(Unread)?;
        Ok(Reply::Content(pieces.iter().map(block).collect()))
    }
}

/// A piece as content; what is none of the protocol's is given as text.
fn block(piece: &Value) -> ContentBlock {
    let text = piece.to_string();
    let block = json!({ "type": "resource", "resource": piece });
    serde_json::from_value(block).unwrap_or_else(|_| ContentBlock::text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_stays_what_it_is() {
        let piece = json!({ "uri": "note:///a", "mimeType": "text/plain", "text": "hello" });
        let block = serde_json::to_value(block(&piece)).unwrap();
        assert_eq!(block, json!({ "type": "resource", "resource": piece }));
        let odd = super::block(&json!({ "text": 7 }));
        assert_eq!(serde_json::to_value(odd).unwrap()["text"], "{\"text\":7}");
    }
}
