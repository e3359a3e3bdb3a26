//! The `artifacts` server: reads and searches what was too long to be shown at once.
//!
//! Promises: it only reads; answers are bounded, and say where the rest is; contents are read piece
//! by piece, so that one of any size costs little memory; a pattern is matched in linear time. Leaves
//! out where contents are kept, and which of them may be read: whoever serves it gives a reader.

mod error;
mod place;
mod read;
mod search;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::Tool;

pub(crate) use self::error::ArtifactsError;
use crate::{
    arguments,
    tool::{Reply, declare},
    toolbox::{Call, CallError},
};

/// How much is read of a content at a time, in bytes (1 MiB).
const PIECE: u64 = 1 << 20;
/// Bytes of content in one answer, unless a call asks for less.
const ANSWER: usize = 12_000;

/// A content.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The handle as it is written.
    pub handle: String,
    /// Bytes.
    pub size: u64,
    /// For example `text/plain`.
    pub media_type: String,
}

/// Where contents are read from.
pub trait ArtifactReader: Send + Sync + fmt::Debug {
    /// What a handle stands for; an error says in words why that cannot be told.
    fn find<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Artifact, String>>;

    /// Bytes of it, from `start` (counted from 0) to before `end`; fewer only at its end.
    fn read<'a>(
        &'a self,
        artifact: &'a Artifact,
        start: u64,
        end: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

pub(crate) struct ArtifactTools {
    reader: Option<Arc<dyn ArtifactReader>>,
    tools: [Tool; 2],
}

impl ArtifactTools {
    pub(crate) fn new(reader: Option<Arc<dyn ArtifactReader>>) -> Self {
        Self {
            reader,
            tools: [
                declare::<read::Arguments, read::Slice>(
                    "read_artifact",
                    "Read artifact",
                    "Reads part of an artifact (a long or binary result): lines, bytes, or a JSON value. \
                     To hand all of it to another tool, give that tool the handle as the argument.",
                ),
                declare::<search::Arguments, search::Found>(
                    "search_artifact",
                    "Search artifact",
                    "Finds lines of an artifact that match a regular expression.",
                ),
            ],
        }
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let reader = self.reader.as_deref().ok_or(ArtifactsError::None)?;
        let Call {
            tool, arguments, ..
        } = call;
        if tool.name == "search_artifact" {
            let arguments: search::Arguments = arguments::parse(tool, arguments)?;
            let found = search::search(reader, &arguments).await?;
            let text = found.text();
            let note = found.note();
            return Ok(Reply::new(&found, text)?.with_note(note));
        }
        let arguments: read::Arguments = arguments::parse(tool, arguments)?;
        let slice = read::read(reader, &arguments).await?;
        let note = slice.note();
        Ok(Reply::new(&slice, slice.text.clone())?.with_note(Some(note)))
    }
}

async fn find(reader: &dyn ArtifactReader, handle: &str) -> Result<Artifact, ArtifactsError> {
    let found = reader.find(handle).await;
    found.map_err(|reason| ArtifactsError::Unknown {
        handle: handle.to_owned(),
        reason,
    })
}

/// A piece of a content.
async fn piece(
    reader: &dyn ArtifactReader,
    artifact: &Artifact,
    (start, end): (u64, u64),
) -> Result<Vec<u8>, ArtifactsError> {
    let bytes = reader.read(artifact, start, end.min(artifact.size)).await;
    bytes.map_err(|reason| ArtifactsError::Unreadable {
        handle: artifact.handle.clone(),
        reason,
    })
}

#[cfg(test)]
mod tests;
