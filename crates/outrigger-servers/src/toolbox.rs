//! The tools of one server, and the way from a call to its answer.
//!
//! Promises: a tool that was declared can be called, and no other. Leaves out the protocol; see
//! [`crate::handler`].

use rmcp::model::{JsonObject, Tool};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::{
    arguments::ArgumentsError,
    artifacts::{ArtifactTools, ArtifactsError},
    built_in::BuiltIn,
    echo::Echo,
    resources::{ResourceTools, Unread},
    serve::ServeOptions,
    time::{TimeError, TimeTools, ZoneError},
    tool::Reply,
    workspace::{WorkspaceError, WorkspaceTools},
};

/// A call of a tool that exists.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) arguments: Option<JsonObject>,
    /// Cancelled when the client takes its request back, or the server ends.
    pub(crate) cancelled: CancellationToken,
}

/// Why a tool has no result: worded for the model that called it.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error(transparent)]
    Time(#[from] TimeError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Resources(#[from] Unread),
    #[error(transparent)]
    Artifacts(#[from] ArtifactsError),
    #[error("the result could not be written as JSON: {0}")]
    Result(#[from] serde_json::Error),
}

pub(crate) enum Toolbox {
    Time(TimeTools),
    Echo(Echo),
    Workspace(WorkspaceTools),
    Resources(ResourceTools),
    Artifacts(ArtifactTools),
}

impl Toolbox {
    pub(crate) fn new(server: BuiltIn, options: ServeOptions) -> Result<Self, ZoneError> {
        Ok(match server {
            BuiltIn::Time => {
                Self::Time(TimeTools::new(options.clock, options.time_zone.as_deref())?)
            }
            BuiltIn::Echo => Self::Echo(Echo::new()),
            BuiltIn::Workspace => Self::Workspace(WorkspaceTools::new(options.workspace)),
            BuiltIn::Resources => Self::Resources(ResourceTools::new(options.shelf)),
            BuiltIn::Artifacts => Self::Artifacts(ArtifactTools::new(options.artifacts)),
        })
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        match self {
            Self::Time(time) => time.tools(),
            Self::Echo(echo) => echo.tools(),
            Self::Workspace(workspace) => workspace.tools(),
            Self::Resources(resources) => resources.tools(),
            Self::Artifacts(artifacts) => artifacts.tools(),
        }
    }

    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        match self {
            Self::Time(time) => time.call(call),
            Self::Echo(echo) => echo.call(call),
            Self::Workspace(workspace) => workspace.call(call).await,
            Self::Resources(resources) => resources.call(call).await,
            Self::Artifacts(artifacts) => artifacts.call(call).await,
        }
    }
}
