//! The legacy era: `initialize`, then `notifications/initialized`.
//!
//! Promises: a server that refuses a version is offered the ones it names, then older ones.
//! Source: MCP 2025-11-25, "Lifecycle".

use super::{Facts, Handshake, HandshakeError, LEGACY, MODERN, Peer, is_legacy};
use crate::connection::Era;
use crate::rpc::{Failure, Request};
use crate::text::excerpt;

/// Assumed of a server that answers without a version: the first one.
const UNSAID: &str = "2024-11-05";

impl Handshake<'_> {
    /// Offers versions until one is accepted.
    pub(super) async fn initialize(&self) -> Result<Peer, HandshakeError> {
        self.link.agreed(None);
        self.rpc.set_envelope(None);
        let mut offered: Vec<&'static str> = Vec::new();
        let ours = self.client.versions.legacy.as_slice();
        let Some(&(mut version)) = ours.first() else {
            return Err(HandshakeError::NotAllowed);
        };
        let capabilities = format!("{{{}}}", self.client.capabilities);
        loop {
            offered.push(version);
            self.wait_for("initialize");
            let quoted = format!("\"{version}\"");
            let request = Request::new("initialize")
                .member("protocolVersion", &quoted)
                .member("capabilities", &capabilities)
                .member("clientInfo", &self.client.info);
            let failure = match self.rpc.start(request).answer_owned().await {
                Ok(result) => return self.admit(accept(result.get())?),
                Err(failure) => failure,
            };
            match next_version(&failure, &offered, ours) {
                Next::Offer(next) => version = next,
                Next::Unknown(theirs) => return Err(HandshakeError::Mismatch(theirs)),
                Next::GiveUp => {
                    return Err(HandshakeError::Failed {
                        method: "initialize",
                        failure,
                    });
                }
            }
        }
    }
}

impl Handshake<'_> {
    /// The versions of a server that is not modern, asked for the words of an error alone. Empty:
    /// they could not be learned.
    pub(super) async fn spoken_instead(&self) -> Vec<String> {
        self.link.agreed(None);
        let newest = format!("\"{}\"", LEGACY[0]);
        let request = Request::new("initialize")
            .member("protocolVersion", &newest)
            .member("capabilities", "{}")
            .member("clientInfo", &self.client.info);
        let asked = self.rpc.start(request).answer_owned();
        match tokio::time::timeout(self.probe, asked).await {
            Ok(Ok(result)) => match accept(result.get()) {
                Ok(peer) => vec![peer.agreed.version],
                Err(HandshakeError::Mismatch(theirs)) => theirs,
                Err(_) => Vec::new(),
            },
            Ok(Err(failure)) => match next_version(&failure, &[], &[]) {
                Next::Unknown(theirs) => theirs,
                Next::Offer(_) | Next::GiveUp => Vec::new(),
            },
            Err(_) => Vec::new(),
        }
    }

    fn admit(&self, peer: Peer) -> Result<Peer, HandshakeError> {
        let version = peer.agreed.version.as_str();
        let versions = &self.client.versions;
        if versions.legacy.contains(&version) || versions.modern && version == MODERN {
            return Ok(peer);
        }
        Err(HandshakeError::Mismatch(vec![version.to_owned()]))
    }
}

fn accept(result: &str) -> Result<Peer, HandshakeError> {
    let bad = |reason: String| HandshakeError::BadResult {
        method: "initialize",
        reason,
    };
    let facts: Facts<'_> = serde_json::from_str(result).map_err(|_| {
        bad(format!(
            "it is not an object: {}",
            excerpt(result.as_bytes(), 120)
        ))
    })?;
    let version = match facts
        .protocol_version
        .map(|raw| serde_json::from_str::<String>(raw.get()))
    {
        Some(Ok(version)) => version,
        Some(Err(_)) => return Err(bad("its `protocolVersion` is not a string".to_owned())),
        None if facts.capabilities.is_some() || facts.server_info.is_some() => UNSAID.to_owned(),
        None => {
            return Err(bad(format!(
                "it has no `protocolVersion`: {}",
                excerpt(result.as_bytes(), 120)
            )));
        }
    };
    // A server of the modern era may be polite enough to answer this.
    let era = if version == MODERN {
        Era::Modern
    } else {
        Era::Legacy
    };
    if era == Era::Legacy && !is_legacy(&version) {
        return Err(HandshakeError::Mismatch(vec![version]));
    }
    Ok(facts.peer(era, version))
}

enum Next {
    Offer(&'static str),
    /// The server names versions, and none is known here.
    Unknown(Vec<String>),
    GiveUp,
}

/// What to do about a refusal. Servers say which versions they take in `data.supported`, in the
/// message, or in the text of an HTTP error; a date in it is taken for a version.
fn next_version(failure: &Failure, offered: &[&'static str], ours: &[&'static str]) -> Next {
    let said = match failure {
        Failure::Rpc(error) => {
            format!(
                "{} {}",
                error.message,
                error.data.as_ref().map_or("", |data| data.get())
            )
        }
        Failure::Http(answer) if matches!(answer.status, 400 | 404 | 406 | 415 | 422) => {
            answer.body.clone()
        }
        _ => return Next::GiveUp,
    };
    if !said.to_ascii_lowercase().contains("version") {
        return Next::GiveUp;
    }
    let theirs: Vec<String> = dates(&said)
        .filter(|date| !offered.contains(date))
        .map(str::to_owned)
        .collect();
    let known = |version: &&&str| !offered.contains(*version);
    let named = ours
        .iter()
        .filter(known)
        .find(|version| theirs.iter().any(|date| date == *version));
    match named {
        Some(version) => Next::Offer(version),
        None if !theirs.is_empty() => Next::Unknown(theirs),
        None => ours
            .iter()
            .find(known)
            .map_or(Next::GiveUp, |version| Next::Offer(version)),
    }
}

/// Everything that looks like `2025-06-18`.
fn dates(text: &str) -> impl Iterator<Item = &str> {
    let is_date = |word: &&str| {
        word.len() == 10
            && word.bytes().enumerate().all(|(at, byte)| {
                if matches!(at, 4 | 7) {
                    byte == b'-'
                } else {
                    byte.is_ascii_digit()
                }
            })
    };
    text.split(|c: char| !c.is_ascii_digit() && c != '-')
        .filter(is_date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RpcError;

    fn refusal(message: &str) -> Failure {
        Failure::Rpc(RpcError {
            code: -32602,
            message: message.to_owned(),
            data: None,
        })
    }

    #[test]
    fn the_newest_version_that_a_refusal_names_is_offered() {
        let failure = refusal("Unsupported protocol version (supported: 2024-11-05, 2025-06-18)");
        assert!(matches!(
            next_version(&failure, &["2025-11-25"], &LEGACY),
            Next::Offer("2025-06-18")
        ));
        assert!(matches!(
            next_version(&refusal("bad version"), &["2025-11-25"], &LEGACY),
            Next::Offer("2025-06-18")
        ));
        assert!(matches!(
            next_version(&refusal("licence expired"), &["2025-11-25"], &LEGACY),
            Next::GiveUp
        ));
        let unknown = next_version(
            &refusal("protocol version must be 2031-01-01"),
            &["2025-11-25"],
            &LEGACY,
        );
        assert!(matches!(unknown, Next::Unknown(theirs) if theirs == ["2031-01-01"]));
    }

    #[test]
    fn a_result_without_a_version_is_taken_for_the_oldest() {
        assert_eq!(
            accept(r#"{"serverInfo":{"name":"x"}}"#)
                .unwrap()
                .agreed
                .version,
            "2024-11-05"
        );
        assert!(matches!(
            accept("{}"),
            Err(HandshakeError::BadResult { .. })
        ));
        assert!(matches!(
            accept(r#"{"protocolVersion":"1.0"}"#),
            Err(HandshakeError::Mismatch(_))
        ));
    }
}
