//! First stage: is the tool in this turn's toolset, do its handles name artifacts that this run has, and
//! do the arguments, contents in their places, fit its schema?

use std::collections::HashMap;
use std::sync::Arc;

use outrigger_journal::{ArtifactRef, Artifacts, Event, Recorded};
use serde_json::value::RawValue;

use super::ProposedCall;
use crate::arguments::filled::{self, Filling, Fillings};
use crate::arguments::{Arguments, BadArguments, Wanted, Written};
use crate::artifact::{Given, SCHEME};
use crate::catalog::CatalogTool;
use crate::config::HookEvent;
use crate::hooks::Say;
use crate::host::Host;
use crate::outcome::Rejection;
use crate::policy::{Origins, Principal};
use crate::toolset::Toolset;

/// A call that could be made.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tool: Arc<CatalogTool>,
    pub(crate) arguments: Arguments,
    /// What hooks say about whether it may run.
    pub(crate) say: Say,
}

impl Prepared {
    /// Whose data the result will be: that of an artifact stays that of the server it came from.
    pub(super) fn result_origins(&self) -> Origins {
        let mut origins = Origins::default();
        if self.arguments.by_handle {
            for given in &self.arguments.artifacts {
                given
                    .origins
                    .servers()
                    .for_each(|server| origins.add_server(server));
            }
        }
        if origins.is_empty() {
            origins.add_server(self.tool.server.as_str());
        }
        origins
    }
}

impl Host {
    pub(super) async fn prepare(
        &self,
        toolset: &Toolset,
        proposed: &ProposedCall,
        principal: Principal,
    ) -> Result<Prepared, Rejection> {
        let Some(tool) = toolset.get(&proposed.tool) else {
            let nearest = toolset
                .nearest(&proposed.tool)
                .into_iter()
                .map(ToOwned::to_owned)
                .collect();
            return Err(Rejection::UnknownTool {
                name: proposed.tool.clone(),
                nearest,
            });
        };
        if let Some(reason) = self.broken().reason(tool) {
            return Err(Rejection::SetAside { reason });
        }
        let written = Written::read(&proposed.arguments).map_err(rejected)?;
        let artifacts = self.artifacts_in(&written.raw, principal).await?;
        let by_handle = self.reads_artifacts(tool);
        let fillings = if by_handle {
            Fillings::new()
        } else {
            self.fillings(&written.raw, &artifacts)
                .await
                .map_err(|(handle, reason)| Rejection::NoArtifact { handle, reason })?
        };
        let wanted = Wanted {
            schema: &tool.input,
            declared: &tool.input_schema,
        };
        let arguments = Arguments::check(written, wanted, fillings).map_err(rejected)?;
        Ok(Prepared {
            tool: Arc::clone(tool),
            arguments: Arguments {
                artifacts,
                by_handle,
                ..arguments
            },
            say: Say::default(),
        })
    }

    /// The artifacts that arguments name. One that this run was not given is refused.
    async fn artifacts_in(
        &self,
        raw: &RawValue,
        principal: Principal,
    ) -> Result<Vec<Given>, Rejection> {
        let mut artifacts = Vec::new();
        for digits in filled::named(raw) {
            let given = match self.shelf().find(&digits) {
                Some(given) => Some(given),
                None if principal == Principal::Person => self.stored(&digits).await,
                None => None,
            };
            match given {
                Some(given) => artifacts.push(given),
                None => {
                    return Err(Rejection::NoArtifact {
                        handle: format!("{SCHEME}{digits}"),
                        reason: "this run was not given one with these digits".to_owned(),
                    });
                }
            }
        }
        Ok(artifacts)
    }

    /// An artifact of any run.
    async fn stored(&self, digits: &str) -> Option<Given> {
        let about = self.artifacts()?.about(digits).await.ok()?;
        let origins = about.all_origins.iter();
        Some(Given {
            artifact: ArtifactRef {
                handle: about.line.handle,
                digest: about.line.digest,
                bytes: about.line.bytes,
                media_type: about.line.media_type,
            },
            origins: origins
                .map(|known| known.origin.server.as_str())
                .collect::<Origins>(),
        })
    }

    /// The artifacts whose handles a person has written may be used in this run.
    pub async fn name_artifacts(&self, words: &str) {
        for (_, digits) in crate::artifact::handles(words) {
            if let Some(given) = self.stored(digits).await {
                self.give(&given.artifact, &given.origins).await;
            }
        }
    }

    /// Gives this run what one before it had, from its record: what its results gave it, and what a
    /// person named.
    pub async fn given_before(&self, events: &[Recorded]) {
        let mut origins: HashMap<u32, Origins> = HashMap::new();
        let mut given = Vec::new();
        for Recorded { event, .. } in events {
            match event {
                Event::RunStarted {
                    question: Some(question),
                    ..
                } => self.name_artifacts(question).await,
                Event::CallPrepared {
                    call,
                    server,
                    artifacts,
                    ..
                } => {
                    let handed = artifacts.iter().flat_map(|handed| &handed.origins);
                    let reads = self.is_reader(server) && !artifacts.is_empty();
                    let of = if reads {
                        handed.collect()
                    } else {
                        [server].into_iter().collect()
                    };
                    origins.insert(*call, of);
                }
                Event::CallEnded {
                    call, artifacts, ..
                } => given.extend(artifacts.iter().map(|artifact| (*call, artifact))),
                // What a hook has changed was not handed out.
                Event::HookRan {
                    call: Some(call),
                    event,
                    changed: true,
                    ..
                } if event == HookEvent::AfterCall.as_str() => given.retain(|(of, _)| of != call),
                _ => {}
            }
        }
        for (call, artifact) in given {
            if let Some(origins) = origins.get(&call) {
                self.give(artifact, origins).await;
            }
        }
    }

    /// The contents to put in the places of handles; an error has the handle, and why.
    async fn fillings(
        &self,
        raw: &RawValue,
        artifacts: &[Given],
    ) -> Result<Fillings, (String, String)> {
        let mut fillings = Fillings::new();
        if artifacts.is_empty() {
            return Ok(fillings);
        }
        for digits in filled::named(raw) {
            let named = artifacts
                .iter()
                .find(|given| given.artifact.digest.to_string().starts_with(&digits));
            let Some(Given { artifact, .. }) = named else {
                continue;
            };
            let filling = read(self.artifacts(), artifact)
                .await
                .map_err(|reason| (artifact.handle.clone(), reason))?;
            fillings.insert(digits, filling);
        }
        Ok(fillings)
    }

    /// What is sent for these arguments; an error says why nothing can be.
    pub(super) async fn as_sent(
        &self,
        tool: &CatalogTool,
        arguments: &Arguments,
    ) -> Result<Option<Box<RawValue>>, String> {
        if arguments.by_handle || arguments.artifacts.is_empty() {
            return Ok(None);
        }
        let fillings = self.fillings(&arguments.raw, &arguments.artifacts);
        let fillings = fillings
            .await
            .map_err(|(handle, reason)| format!("{handle} cannot be read: {reason}"))?;
        let sent = filled::filled(&arguments.raw, &fillings, &tool.input_schema);
        sent.map(Some).map_err(|error| error.to_string())
    }
}

async fn read(store: Option<&Artifacts>, artifact: &ArtifactRef) -> Result<Filling, String> {
    let store = store.ok_or("this host keeps no artifacts")?;
    let bytes = store.read(&artifact.digest, 0..artifact.bytes).await;
    let kind = artifact.media_type.as_str();
    let is_media = ["image/", "audio/", "video/"]
        .iter()
        .any(|media| kind.starts_with(media))
        && kind != "image/svg+xml";
    Ok(Filling {
        bytes: bytes.map_err(|error| error.to_string())?,
        is_media,
    })
}

fn rejected(bad: BadArguments) -> Rejection {
    match bad {
        BadArguments::NotAnObject(reason) => Rejection::NotAnObject { reason },
        BadArguments::Unfit(violations) => Rejection::BadArguments { violations },
    }
}
