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

/// The version of the modern era that is spoken here.
pub(crate) const MODERN: &str = "2026-07-28";

/// The versions of the legacy era, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

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
    /// Only the modern era was allowed, and this is a legacy server.
    NotModern(Option<Failure>),
}

/// One attempt to agree, on one link.
pub(crate) struct Handshake<'a> {
    pub(crate) rpc: &'a Arc<Rpc>,
    pub(crate) link: &'a dyn Link,
    /// `clientInfo` as JSON.
    pub(crate) client: &'a str,
    pub(crate) probe: Duration,
    /// Each exchange stands alone (HTTP): the death of one says little about the server.
    pub(crate) separate_exchanges: bool,
    /// The method that is waited for, for the words of a timeout.
    pub(crate) waiting_for: &'a Mutex<&'static str>,
}

impl Handshake<'_> {
    /// Agrees within the allowed eras.
    pub(crate) async fn run(&self, protocol: Protocol) -> Result<Peer, HandshakeError> {
        let peer = match protocol {
            Protocol::Legacy => self.initialize().await?,
            Protocol::Modern => self.modern_only().await?,
            Protocol::Auto => self.either().await?,
        };
        self.settle(&peer).await;
        Ok(peer)
    }

    async fn modern_only(&self) -> Result<Peer, HandshakeError> {
        match self.judge(self.discover().answer().await)? {
            Verdict::Modern(peer) => Ok(peer),
            Verdict::Legacy(failure) => Err(HandshakeError::NotModern(failure)),
        }
    }

    /// The probe first. It is not taken back when it stays silent, so its answer counts whenever it
    /// comes; a server that is slow to start may answer both.
    async fn either(&self) -> Result<Peer, HandshakeError> {
        let mut discover = self.discover();
        if let Ok(answer) = tokio::time::timeout(self.probe, discover.answer()).await {
            return match self.judge(answer)? {
                Verdict::Modern(peer) => Ok(peer),
                Verdict::Legacy(failure) => self
                    .initialize()
                    .await
                    .map_err(|error| prefer_modern(error, failure)),
            };
        }
        let initialize = self.initialize();
        tokio::pin!(initialize);
        tokio::select! {
            answer = discover.answer() => match self.judge(answer)? {
                Verdict::Modern(peer) => Ok(peer),
                Verdict::Legacy(failure) => initialize.await.map_err(|error| prefer_modern(error, failure)),
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
        self.link.agreed(Some(peer.agreed.clone()));
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
        let announces_changes = self.capabilities.is_some_and(announces_changes);
        Peer {
            agreed: Agreed {
                era,
                version,
                announces_changes,
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
