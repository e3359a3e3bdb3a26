//! Agreeing on a protocol era and a version.
//!
//! Promises: modern first, and anything but a modern answer means legacy; a silent probe costs its
//! own deadline and no more, and whichever answer comes decides; a version nobody knows is an error
//! that names both sides' versions. Leaves out: deadlines of the whole and starting a server again,
//! which are the connector's.

mod legacy;
mod modern;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Protocol;
use crate::connection::Era;
use crate::link::{Agreed, Link};
use crate::rpc::{Answer, Failure, Rpc};
use crate::text::quote;

use modern::Verdict;

/// Every protocol version that can be spoken here, newest first.
pub const PROTOCOL_VERSIONS: [&str; 5] = [MODERN, LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3]];

/// The version of the modern era that is spoken here.
pub const MODERN: &str = "2026-07-28";

/// The versions of the legacy era, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Who connects, and what is offered to the server.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// `clientInfo` as JSON.
    pub(crate) info: Arc<str>,
    /// Members of `capabilities` in both eras, as JSON without braces.
    pub(crate) capabilities: Arc<str>,
    pub(crate) versions: Versions,
}

/// The versions that may be spoken with one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) modern: bool,
    /// Newest first.
    pub(crate) legacy: Vec<&'static str>,
}

impl Versions {
    /// Those that are known here and allowed; `None` allows all.
    pub(crate) fn allowed(versions: Option<&[String]>) -> Self {
        let allows = |version: &str| {
            versions.is_none_or(|versions| versions.iter().any(|allowed| allowed == version))
        };
        Self {
            modern: allows(MODERN),
            legacy: LEGACY
                .into_iter()
                .filter(|version| allows(version))
                .collect(),
        }
    }

    /// The eras that are left of `protocol`; `None`: no version is.
    pub(crate) fn narrow(&self, protocol: Protocol) -> Option<Protocol> {
        let legacy = !self.legacy.is_empty();
        match protocol {
            Protocol::Auto if self.modern && legacy => Some(Protocol::Auto),
            Protocol::Auto | Protocol::Modern if self.modern => Some(Protocol::Modern),
            Protocol::Auto | Protocol::Legacy if legacy => Some(Protocol::Legacy),
            _ => None,
        }
    }

    /// All of them, newest first, for a person.
    pub(crate) fn words(&self) -> String {
        let modern = self.modern.then_some(MODERN);
        let all: Vec<&str> = modern
            .into_iter()
            .chain(self.legacy.iter().copied())
            .collect();
        all.join(", ")
    }
}

/// What the server turned out to be.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) agreed: Agreed,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: Option<Box<RawValue>>,
}

/// Why nothing was agreed on.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The server went away on the probe; it may live when it is not probed.
    EndedOnProbe(Failure),
    /// A request failed.
    Failed {
        method: &'static str,
        failure: Failure,
    },
    /// No common version; these are the server's.
    Mismatch(Vec<String>),
    /// An answer that is not what the method answers.
    BadResult {
        method: &'static str,
        reason: String,
    },
    /// The allowed versions leave nothing that is known here.
    NotAllowed,
    /// Only the modern era was allowed, and this is a legacy server.
    NotModern(Older),
}

/// A server that is not of the modern era, and what it said of that.
#[derive(Debug, Default)]
pub(crate) struct Older {
    /// The failure that said so, if one did.
    pub(crate) failure: Option<Failure>,
    /// The versions that it named.
    pub(crate) versions: Vec<String>,
}

impl HandshakeError {
    /// The server is there, and has refused or died of what it was asked. In another era it may do
    /// neither.
    pub(crate) fn may_be_of_another_era(&self) -> bool {
        match self {
            Self::EndedOnProbe(failure) | Self::Failed { failure, .. } => {
                !matches!(failure, Failure::NotSent(_))
            }
            Self::Mismatch(_) | Self::BadResult { .. } => true,
            Self::NotModern(_) | Self::NotAllowed => false,
        }
    }
}

/// One attempt to agree, on one link.
pub(crate) struct Handshake<'a> {
    pub(crate) rpc: &'a Arc<Rpc>,
    pub(crate) link: &'a dyn Link,
    pub(crate) client: &'a Identity,
    pub(crate) probe: Duration,
    /// Each exchange stands alone (HTTP): the death of one says little about the server.
    pub(crate) separate_exchanges: bool,
    /// A server that stays silent to `initialize` for as long as `probe` is probed as well.
    pub(crate) doubtful: bool,
    /// The method that is waited for, for the words of a timeout.
    pub(crate) waiting_for: &'a Mutex<&'static str>,
}

impl Handshake<'_> {
    /// Agrees within the allowed eras.
    pub(crate) async fn run(&self, protocol: Protocol) -> Result<Peer, HandshakeError> {
        let peer = match protocol {
            Protocol::Legacy if self.doubtful => self.legacy_first().await?,
            Protocol::Legacy => self.legacy_only().await?,
            Protocol::Modern => self.modern_only().await?,
            Protocol::Auto => self.either().await?,
        };
        self.settle(&peer).await;
        Ok(peer)
    }

    async fn modern_only(&self) -> Result<Peer, HandshakeError> {
        match self.judge_and_retry(self.discover().answer().await).await? {
            Verdict::Modern(peer) => Ok(peer),
            Verdict::Legacy(mut older) => {
                if older.versions.is_empty() {
                    older.versions = self.spoken_instead().await;
                }
                Err(HandshakeError::NotModern(older))
            }
        }
    }

    async fn legacy_only(&self) -> Result<Peer, HandshakeError> {
        let agreed = self.initialize().await;
        let refused = matches!(
            &agreed,
            Err(HandshakeError::Failed {
                failure: Failure::Rpc(_),
                ..
            })
        );
        if refused && !self.client.versions.modern {
            // It may not know `initialize` any more, and a person should hear what it knows.
            let asked = tokio::time::timeout(self.probe, self.discover().answer_owned()).await;
            self.wait_for("initialize");
            let theirs = asked.map(|answer| modern::versions(&answer));
            if let Some(theirs) = theirs.ok().filter(|theirs| !theirs.is_empty()) {
                return Err(HandshakeError::Mismatch(theirs));
            }
        }
        agreed
    }

    /// A server that turns the version down and names that same version is taken at its word, once.
    async fn judge_and_retry(&self, answer: Answer) -> Result<Verdict, HandshakeError> {
        let again = matches!(&answer, Err(Failure::Rpc(error)) if modern::names_ours(error));
        let answer = if again {
            self.discover().answer().await
        } else {
            answer
        };
        self.judge(answer)
    }

    /// The probe first. It is not taken back when it stays silent, so its answer counts whenever it
    /// comes; a server that is slow to start may answer both.
    async fn either(&self) -> Result<Peer, HandshakeError> {
        let mut discover = self.discover();
        if let Ok(answer) = tokio::time::timeout(self.probe, discover.answer()).await {
            return match self.judge_and_retry(answer).await? {
                Verdict::Modern(peer) => Ok(peer),
                Verdict::Legacy(older) => self
                    .initialize()
                    .await
                    .map_err(|error| prefer_modern(error, older.failure)),
            };
        }
        let initialize = self.initialize();
        tokio::pin!(initialize);
        tokio::select! {
            answer = discover.answer() => match self.judge(answer)? {
                Verdict::Modern(peer) => Ok(peer),
                Verdict::Legacy(older) => initialize.await.map_err(|error| prefer_modern(error, older.failure)),
            },
            peer = &mut initialize => match peer {
                // A modern server that was slow to start refuses this; its answer to the probe follows.
                Err(
                    error @ (HandshakeError::Failed { failure: Failure::Rpc(_), .. } | HandshakeError::Mismatch(_)),
                ) => {
                    match self.judge(discover.answer().await)? {
                        Verdict::Modern(peer) => Ok(peer),
                        Verdict::Legacy(_) => Err(error),
                    }
                }
                other => other,
            },
        }
    }

    /// `initialize` first. As with [`Self::either`], whichever answer comes decides.
    async fn legacy_first(&self) -> Result<Peer, HandshakeError> {
        let initialize = self.initialize();
        tokio::pin!(initialize);
        if let Ok(agreed) = tokio::time::timeout(self.probe, &mut initialize).await {
            return agreed;
        }
        let mut discover = self.discover();
        self.wait_for("initialize");
        tokio::select! {
            peer = &mut initialize => peer,
            answer = discover.answer() => match self.judge(answer) {
                Ok(Verdict::Modern(peer)) => Ok(peer),
                Ok(Verdict::Legacy(_)) | Err(_) => initialize.await,
            },
        }
    }

    fn wait_for(&self, method: &'static str) {
        *self
            .waiting_for
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = method;
    }

    fn judge(&self, answer: Answer) -> Result<Verdict, HandshakeError> {
        modern::judge(answer, self.separate_exchanges)
    }

    /// Makes what was agreed on hold for everything that follows.
    async fn settle(&self, peer: &Peer) {
        let modern = peer.agreed.era == Era::Modern;
        let mut agreed = peer.agreed.clone();
        agreed.speaks_first |= !self.client.capabilities.is_empty();
        self.link.agreed(Some(agreed));
        self.rpc
            .set_envelope(modern.then(|| modern::envelope(&peer.agreed.version, self.client)));
        self.rpc
            .set_cancels_by_hanging_up(self.link.cancels_by_hanging_up());
        if !modern {
            self.rpc
                .notify_first("notifications/initialized", Duration::from_secs(2))
                .await;
        }
        self.link.listen();
    }
}

/// When both attempts failed, a modern server's own words say more than its refusal of `initialize`.
fn prefer_modern(error: HandshakeError, probed: Option<Failure>) -> HandshakeError {
    match (&error, probed) {
        (HandshakeError::Failed { .. }, Some(Failure::Rpc(rpc)))
            if modern::is_modern_code(rpc.code) =>
        {
            HandshakeError::Failed {
                method: "server/discover",
                failure: Failure::Rpc(rpc),
            }
        }
        _ => error,
    }
}

/// `clientInfo` for a client of this version.
pub(crate) fn client_info(version: &str) -> String {
    format!(
        "{{\"name\":\"outrigger\",\"title\":\"Outrigger\",\"version\":{}}}",
        quote(version)
    )
}

/// Members that both eras use, read one by one so that a strange one does not spoil the others.
#[derive(Debug, Default, Deserialize)]
struct Facts<'a> {
    #[serde(rename = "protocolVersion", borrow, default)]
    protocol_version: Option<&'a RawValue>,
    #[serde(rename = "supportedVersions", borrow, default)]
    supported_versions: Option<&'a RawValue>,
    #[serde(rename = "serverInfo", borrow, default)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
}

impl Facts<'_> {
    fn peer(&self, era: Era, version: String) -> Peer {
        #[derive(Default, Deserialize)]
        struct Info {
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            version: Option<String>,
        }
        #[derive(Default, Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/serverInfo", default)]
            server_info: Option<Info>,
        }
        let in_meta = self
            .meta
            .and_then(|meta| serde_json::from_str::<Meta>(meta.get()).ok()?.server_info);
        let info = self
            .server_info
            .and_then(|info| serde_json::from_str(info.get()).ok())
            .or(in_meta)
            .unwrap_or_default();
        let speaks_first = self.capabilities.is_some_and(announces_changes);
        Peer {
            agreed: Agreed {
                era,
                version,
                speaks_first,
            },
            name: info.name,
            version: info.version,
            instructions: self
                .instructions
                .and_then(|text| serde_json::from_str(text.get()).ok()),
            capabilities: self.capabilities.map(ToOwned::to_owned),
        }
    }
}

fn announces_changes(capabilities: &RawValue) -> bool {
    let value: serde_json::Value = serde_json::from_str(capabilities.get()).unwrap_or_default();
    value
        .pointer("/tools/listChanged")
        .and_then(serde_json::Value::as_bool)
        .unwrap_or(false)
}

/// Strings in a JSON array; anything else is left out.
fn strings(raw: Option<&RawValue>) -> Vec<String> {
    let values: Vec<serde_json::Value> = raw
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    values
        .into_iter()
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

fn is_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}
