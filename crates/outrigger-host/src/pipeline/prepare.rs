//! First stage: is the tool in this turn's toolset, do its handles name artifacts that this run has, and
//! do the arguments, contents in their places, fit its schema? An idempotency key that the model left out
//! is filled in, and a call that was made before, and of which nobody knows what came, is recognised.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use outrigger_journal::{ArtifactRef, Artifacts, Event, Recorded};
use serde_json::value::RawValue;

use super::ProposedCall;
use super::unknown::{Repeat, RepeatKey};
use crate::arguments::filled::{self, Filling, Fillings};
use crate::arguments::{Arguments, BadArguments, Fill, Wanted, Written};
use crate::artifact::{Given, SCHEME};
use crate::catalog::CatalogTool;
use crate::config::HookEvent;
use crate::discovery::Facility;
use crate::hooks::Say;
use crate::host::Host;
use crate::offers::Target;
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
    /// The call that it would repeat, where that is not known to be harmless.
    pub(crate) repeats: Option<Repeat>,
    /// Whose data the result will be.
    pub(crate) origins: Origins,
}

impl Host {
    pub(super) async fn prepare(
        &self,
        toolset: &Toolset,
        proposed: &ProposedCall,
        principal: Principal,
    ) -> Result<Prepared, Rejection> {
        let own = Facility::named(&proposed.tool).and_then(Facility::tool);
        let Some(tool) = own.or_else(|| toolset.get(&proposed.tool)) else {
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
        let key = self.idempotency_key(tool);
        let fresh = key.map(|_| fresh_key()).transpose()?;
        let fill = |value| key.map(|member| Fill { member, value });
        let asked = (proposed, principal);
        let fresh = fresh.as_deref().unwrap_or_default();
        let mut arguments = self.arguments(tool, asked, fill(fresh)).await?;
        let earlier = self
            .unknowns()
            .find(tool.name.as_str(), arguments.raw.get(), key);
        let repeats = match earlier.filter(|_| self.retries(tool).is_none()) {
            None => None,
            Some((open, sent_key)) => {
                if let Some(sent) = &sent_key {
                    arguments = self.arguments(tool, asked, fill(sent)).await?;
                }
                let same = sent_key.is_some() && sent_key == arguments.key;
                Some(Repeat {
                    here: open.of.run == *self.run().id(),
                    of: open.of,
                    at: open.at,
                    why: open.why,
                    key: match (key, &arguments.key) {
                        (Some(key), _) if same => RepeatKey::Same(key.to_owned()),
                        (Some(key), Some(_)) => RepeatKey::Other(key.to_owned()),
                        _ => RepeatKey::None,
                    },
                })
            }
        };
        Ok(Prepared {
            tool: Arc::clone(tool),
            origins: self.result_origins(tool, &arguments),
            arguments,
            say: Say::default(),
            repeats,
        })
    }

    /// What the model wrote, with contents in the places of handles, fit for the tool's schema.
    async fn arguments(
        &self,
        tool: &CatalogTool,
        (proposed, principal): (&ProposedCall, Principal),
        fill: Option<Fill<'_>>,
    ) -> Result<Arguments, Rejection> {
        let mut written = Written::read(&proposed.arguments).map_err(rejected)?;
        let key = fill.and_then(|fill| {
            written.fill(fill);
            written.text(fill.member)
        });
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
        Ok(Arguments {
            key,
            artifacts,
            by_handle,
            ..arguments
        })
    }

    /// Whose data a result will be: that of an artifact or a resource stays that of the server it came
    /// from.
    fn result_origins(&self, tool: &CatalogTool, arguments: &Arguments) -> Origins {
        let mut origins = Origins::default();
        if arguments.by_handle {
            for given in &arguments.artifacts {
                given
                    .origins
                    .servers()
                    .for_each(|server| origins.add_server(server));
            }
        }
        let target = Target::of(tool, arguments.raw.get()).map(|target| target.server);
        if let Some(server) = target.filter(|server| self.standing_of(server).is_some()) {
            origins.add_server(server.as_str());
        }
        if origins.is_empty() {
            origins.add_server(tool.server.as_str());
        }
        origins
    }

    /// The artifacts that arguments name. One that this run was not given is refused.
    async fn artifacts_in(
        &self,
        raw: &RawValue,
        principal: Principal,
    ) -> Result<Vec<Given>, Rejection> {
        let mut artifacts = Vec::new();
        for digits in filled::named(raw) {
            let given = match self.handles().find(&digits) {
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

/// A random UUID (RFC 9562, version 4): what most servers take.
fn fresh_key() -> Result<String, Rejection> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Rejection::NotRecorded {
        reason: format!("no idempotency key could be made: {error}"),
    })?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut key = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            key.push('-');
        }
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}
