//! The modern era: no handshake, a probe. `server/discover` tells what a server is, and every
//! request says who asks and in which version.
//!
//! Source: MCP 2026-07-28, "Versioning" and "Discovery" (SEP-2575).

use serde_json::Value;

use super::{Facts, Handshake, HandshakeError, Identity, MODERN, Older, Peer, is_legacy, strings};
use crate::connection::Era;
use crate::rpc::{Answer, Failure, InFlight, Request, RpcError};

const UNSUPPORTED_VERSION: i64 = -32022;
const MISSING_CAPABILITY: i64 = -32021;
const HEADER_MISMATCH: i64 = -32020;

/// What the answer to the probe means.
pub(super) enum Verdict {
    Modern(Peer),
    Legacy(Older),
}

/// An error that only a modern server gives.
pub(super) fn is_modern_code(code: i64) -> bool {
    matches!(
        code,
        UNSUPPORTED_VERSION | MISSING_CAPABILITY | HEADER_MISMATCH
    )
}

/// The members of `_meta` that every request carries. Calls that become tasks are always followed
/// (`call`), so the extension is always declared (SEP-2663).
pub(super) fn envelope(version: &str, client: &Identity) -> String {
    let Identity {
        info, capabilities, ..
    } = client;
    let comma = if capabilities.is_empty() { "" } else { "," };
    format!(
        "\"io.modelcontextprotocol/protocolVersion\":{},\"io.modelcontextprotocol/clientInfo\":{info},\
         \"io.modelcontextprotocol/clientCapabilities\":{{{capabilities}{comma}\
         \"extensions\":{{\"io.modelcontextprotocol/tasks\":{{}}}}}}",
        crate::text::quote(version)
    )
}

/// A refusal of our version that names it as supported.
pub(super) fn names_ours(error: &RpcError) -> bool {
    error.code == UNSUPPORTED_VERSION && supported(error).iter().any(|version| version == MODERN)
}

impl Handshake<'_> {
    pub(super) fn discover(&self) -> InFlight {
        self.wait_for("server/discover");
        let meta = envelope(MODERN, self.client);
        self.rpc.start(Request::new("server/discover").meta(&meta))
    }
}

pub(super) fn judge(answer: Answer, separate_exchanges: bool) -> Result<Verdict, HandshakeError> {
    let failure = match answer {
        Ok(result) => return judge_result(result.get()),
        Err(failure) => failure,
    };
    match &failure {
        Failure::Rpc(error) if error.code == UNSUPPORTED_VERSION => {
            let versions = supported(error);
            judge_versions(&versions)?;
            Ok(Verdict::Legacy(Older {
                failure: Some(failure),
                versions,
            }))
        }
        Failure::Closed(_) | Failure::NotSent(_) if !separate_exchanges => {
            Err(HandshakeError::EndedOnProbe(failure))
        }
        Failure::NotSent(_) => Err(HandshakeError::Failed {
            method: "server/discover",
            failure,
        }),
        // 403 may be a filter that knows only older methods; 401 is the same for every method.
        Failure::Http(answer) if answer.status == 401 || answer.redirect => {
            Err(HandshakeError::Failed {
                method: "server/discover",
                failure,
            })
        }
        _ => Ok(Verdict::Legacy(Older {
            failure: Some(failure),
            versions: Vec::new(),
        })),
    }
}

fn judge_result(result: &str) -> Result<Verdict, HandshakeError> {
    let Ok(facts) = serde_json::from_str::<Facts<'_>>(result) else {
        return Ok(Verdict::Legacy(Older::default()));
    };
    let versions = strings(facts.supported_versions);
    if versions.iter().any(|version| version == MODERN) {
        return Ok(Verdict::Modern(facts.peer(Era::Modern, MODERN.to_owned())));
    }
    judge_versions(&versions)?;
    Ok(Verdict::Legacy(Older {
        failure: None,
        versions,
    }))
}

/// A server that names only versions which are unknown here will not do better on `initialize`.
fn judge_versions(versions: &[String]) -> Result<(), HandshakeError> {
    let hope = versions.is_empty()
        || versions
            .iter()
            .any(|version| is_legacy(version) || version == MODERN);
    if hope {
        Ok(())
    } else {
        Err(HandshakeError::Mismatch(versions.to_vec()))
    }
}

/// The versions that an answer to `server/discover` names.
pub(super) fn versions(answer: &Answer) -> Vec<String> {
    match answer {
        Ok(result) => serde_json::from_str::<Facts<'_>>(result.get())
            .map(|facts| strings(facts.supported_versions))
            .unwrap_or_default(),
        Err(Failure::Rpc(error)) => supported(error),
        Err(_) => Vec::new(),
    }
}

fn supported(error: &RpcError) -> Vec<String> {
    let data: Option<Value> = error
        .data
        .as_ref()
        .and_then(|data| serde_json::from_str(data.get()).ok());
    let listed = data
        .as_ref()
        .and_then(|data| data.get("supported"))
        .and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn judged(json: &str) -> Result<Verdict, HandshakeError> {
        judge(Ok(RawValue::from_string(json.to_owned()).unwrap()), false)
    }

    #[test]
    fn only_a_known_modern_version_is_modern() {
        let modern = judged(r#"{"supportedVersions":["2099-01-01","2026-07-28"]}"#);
        assert!(matches!(modern, Ok(Verdict::Modern(_))));
        for legacy in [
            "{}",
            "[]",
            r#"{"supportedVersions":["2025-06-18"]}"#,
            r#"{"content":[],"isError":true}"#,
        ] {
            assert!(matches!(judged(legacy), Ok(Verdict::Legacy(_))), "{legacy}");
        }
        let unknown = judged(r#"{"supportedVersions":["2099-01-01"]}"#);
        assert!(
            matches!(unknown, Err(HandshakeError::Mismatch(theirs)) if theirs == ["2099-01-01"])
        );
    }

    #[test]
    fn a_death_on_the_probe_is_told_from_a_refusal() {
        let closed = || Err(Failure::Closed("x".to_owned()));
        assert!(matches!(
            judge(closed(), false),
            Err(HandshakeError::EndedOnProbe(_))
        ));
        assert!(matches!(judge(closed(), true), Ok(Verdict::Legacy(_))));
    }
}
