//! What a host knows of artifacts and of the room that results have.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::value::RawValue;

use super::{Host, ServerState};
use crate::artifact::{ArtifactRef, Artifacts, Handles};
use crate::catalog::CatalogTool;
use crate::config::ResultSettings;
use crate::pipeline::Broken;
use crate::pipeline::keep::Room;
use crate::policy::{Origins, Principal};
use crate::result::{Raw, ToolResult};
use crate::tokens::Scale;

/// How long the server that reads artifacts may take to start before a turn goes on without it.
const START: Duration = Duration::from_secs(5);
/// Tokens of a result for a person, who pays for none.
const FOR_A_PERSON: u64 = 32_000;

impl Host {
    /// The store, where there is one.
    pub fn artifacts(&self) -> Option<&Artifacts> {
        self.shared.lasting.artifacts.as_ref()
    }

    pub(crate) fn handles(&self) -> &Handles {
        &self.shared.lasting.handles
    }

    pub(crate) fn broken(&self) -> &Broken {
        self.shared.board.broken()
    }

    pub(crate) fn results(&self) -> &ResultSettings {
        &self.shared.results
    }

    /// How much of a result of this tool is shown.
    pub(crate) fn room(&self, tool: &str, principal: Principal) -> Room {
        let results = self.results();
        let result = match principal {
            // A client of the gateway keeps its own budgets.
            Principal::Person | Principal::Client => FOR_A_PERSON,
            Principal::Model => self.scale().within(results.of(tool)),
        };
        Room {
            result,
            preview: self
                .scale()
                .within(results.preview_tokens.value)
                .min(result),
        }
    }

    /// From here on, budgets in tokens are kept as the model of the run counts them.
    pub fn read_at(&self, scale: Scale) {
        let thousandths = scale.in_thousandths();
        self.shared.scale.store(thousandths, Ordering::Relaxed);
    }

    /// How the model of the run counts.
    pub(crate) fn scale(&self) -> Scale {
        Scale::thousandths(self.shared.scale.load(Ordering::Relaxed))
    }

    /// Whether a tool is one of those with which a model reads artifacts.
    pub(crate) fn reads_artifacts(&self, tool: &CatalogTool) -> bool {
        tool.standing.builtin && self.shared.reader.as_ref() == Some(&tool.server)
    }

    /// Whether this is the built-in server that reads artifacts.
    pub(crate) fn is_reader(&self, server: &str) -> bool {
        let reader = self.shared.reader.as_ref();
        reader.is_some_and(|reader| reader.as_str() == server)
    }

    /// Lets the run use an artifact. With the first, the server that reads them is started; it is
    /// there when this returns.
    pub(crate) async fn give(&self, artifact: &ArtifactRef, origins: &Origins) {
        self.shared.lasting.handles.give(artifact, origins);
        self.shared.lasting.wanted.cancel();
        let reader = self.shared.reader.as_ref();
        let Some(member) = reader.and_then(|reader| self.shared.servers.get(reader)) else {
            return;
        };
        let mut state = member.state.clone();
        let settled =
            state.wait_for(|state| !matches!(state, ServerState::Disabled | ServerState::Starting));
        tokio::time::timeout(START, settled).await.ok();
    }

    /// An answer as it came, byte for byte, wherever it is. An error says why it cannot be read.
    pub async fn whole<'r>(&self, result: &'r ToolResult) -> Result<Cow<'r, RawValue>, String> {
        let artifact = match &result.raw {
            Raw::Here(raw) => return Ok(Cow::Borrowed(raw)),
            Raw::Kept(artifact) => artifact,
        };
        let store = self.artifacts().ok_or("this host keeps no artifacts")?;
        let bytes = store.read(&artifact.digest, 0..artifact.bytes).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes.into()).map_err(|error| error.to_string())?;
        let raw = RawValue::from_string(text).map_err(|error| error.to_string())?;
        Ok(Cow::Owned(raw))
    }

    /// Takes a tool out of the catalog that breaks its contract.
    pub(crate) fn set_aside(&self, tool: &CatalogTool) {
        self.shared.board.set_aside(tool);
    }
}
