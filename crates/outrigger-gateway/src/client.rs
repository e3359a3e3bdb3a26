//! What a client says about itself: era, version, what it can be asked.
//!
//! Source: MCP 2025-11-25, "Lifecycle"; 2026-07-28, "Per-request protocol fields".

use std::sync::Arc;

use outrigger_connect::wire::MODERN;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::message::{Fault, UNSUPPORTED_VERSION};

/// A client, as far as it is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    /// It is asked in results, not by requests.
    pub(crate) modern: bool,
    /// What it can be asked.
    pub(crate) can: Can,
    /// It takes a task for an answer, in the modern era.
    pub(crate) tasks: bool,
    /// The least log level that it wants to hear, as it was said with this request.
    pub(crate) level: Option<Level>,
    /// What it calls itself, with its version.
    pub(crate) name: Option<Arc<str>>,
}

/// Characters of a client's name, and of its version, that are recorded.
const LONGEST_NAME: usize = 80;

/// What a client calls itself; `None` where that cannot be read.
pub(crate) fn name_of(info: Option<&RawValue>) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Info {
        name: String,
        #[serde(default)]
        version: Option<String>,
    }
    let Info { name, version } = serde_json::from_str(info?.get()).ok()?;
    let words = [Some(name), version].into_iter().flatten();
    let words = words.map(|word| word.chars().take(LONGEST_NAME).collect::<String>());
    let words: Vec<_> = words.filter(|word| !word.trim().is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" ").into())
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own"
)]
pub(crate) struct Can {
    pub(crate) form: bool,
    pub(crate) url: bool,
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

/// Log levels by weight (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

#[derive(Deserialize, Default)]
struct Capabilities {
    #[serde(default)]
    elicitation: Option<Elicitation>,
    #[serde(default)]
    sampling: Option<IgnoredAny>,
    #[serde(default)]
    roots: Option<IgnoredAny>,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Deserialize, Default)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks", default)]
    tasks: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Elicitation {
    #[serde(default)]
    form: Option<IgnoredAny>,
    #[serde(default)]
    url: Option<IgnoredAny>,
}

/// A `capabilities` object; what cannot be read is not there.
fn capabilities(raw: Option<&RawValue>) -> Capabilities {
    let read = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    read.unwrap_or_default()
}

impl Can {
    /// Reads a `capabilities` object; what cannot be read is not there.
    pub(crate) fn read(raw: Option<&RawValue>) -> Self {
        let Capabilities {
            elicitation,
            sampling,
            roots,
            ..
        } = capabilities(raw);
        let url = elicitation.as_ref().is_some_and(|it| it.url.is_some());
        Self {
            // Without a word about modes, forms are meant.
            form: elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none()),
            url,
            sampling: sampling.is_some(),
            roots: roots.is_some(),
        }
    }
}

/// `_meta` of a request, as far as it is looked at.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default)]
    pub(crate) version: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", borrow, default)]
    level: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", borrow, default)]
    info: Option<&'a RawValue>,
    #[serde(rename = "progressToken", borrow, default)]
    pub(crate) progress: Option<&'a RawValue>,
}

impl<'a> Meta<'a> {
    /// Of these parameters; `None` where they have none that can be read.
    pub(crate) fn of(params: Option<&'a RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(rename = "_meta", borrow, default)]
            meta: Option<Meta<'a>>,
        }
        serde_json::from_str::<Shape<'a>>(params?.get()).ok()?.meta
    }

    /// Whether the request is of the modern era.
    pub(crate) fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// The client of a modern request, which says with each who it is.
    pub(crate) fn client(&self) -> Result<Client, Fault> {
        let missing: Vec<_> = [
            ("protocolVersion", self.version.is_none()),
            ("clientCapabilities", self.capabilities.is_none()),
        ]
        .into_iter()
        .filter(|(_, missing)| *missing)
        .map(|(name, _)| format!("`io.modelcontextprotocol/{name}`"))
        .collect();
        if !missing.is_empty() {
            return Err(Fault::params(format!(
                "`params._meta` lacks {}",
                missing.join(" and ")
            )));
        }
        let version = self.version.map_or("", RawValue::get);
        let Ok(version) = serde_json::from_str::<String>(version) else {
            return Err(Fault::params(
                "`io.modelcontextprotocol/protocolVersion` is not a string",
            ));
        };
        if version != MODERN {
            return Err(unsupported(&version));
        }
        Ok(Client {
            modern: true,
            can: Can::read(self.capabilities),
            tasks: capabilities(self.capabilities).extensions.tasks.is_some(),
            level: self
                .level
                .and_then(|raw| serde_json::from_str(raw.get()).ok()),
            name: name_of(self.info),
        })
    }
}

/// A version that is not served without a handshake.
pub(crate) fn unsupported(version: &str) -> Fault {
    let mut fault = Fault::new(UNSUPPORTED_VERSION, "Unsupported protocol version");
    fault.data = Some(json!({ "supported": [MODERN], "requested": version }));
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    fn can(text: &str) -> Can {
        Can::read(Some(&RawValue::from_string(text.to_owned()).unwrap()))
    }

    #[test]
    fn capabilities_are_read_as_they_are_meant() {
        assert_eq!(can("{}"), Can::default());
        assert_eq!(can("[]"), Can::default());
        let bare = can(r#"{"elicitation":{},"x":1}"#);
        assert!(bare.form && !bare.url);
        let both = can(
            r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}"#,
        );
        assert!(both.form && both.url && both.sampling && both.roots);
        let url = can(r#"{"elicitation":{"url":{}}}"#);
        assert!(url.url && !url.form);
    }

    #[test]
    fn a_modern_request_says_who_asks() {
        let read = |meta: &str| {
            let params = RawValue::from_string(format!("{{\"_meta\":{meta}}}")).unwrap();
            Meta::of(Some(&params))
                .unwrap_or_default()
                .client()
                .map_err(|fault| fault.message)
        };
        let version = "\"io.modelcontextprotocol/protocolVersion\"";
        let capabilities = "\"io.modelcontextprotocol/clientCapabilities\":{}";
        assert!(
            read(&format!("{{{version}:\"2026-07-28\",{capabilities}}}"))
                .unwrap()
                .modern
        );
        insta::assert_snapshot!(
            [
                read("{}"),
                read(&format!("{{{version}:\"2026-07-28\"}}")),
                read(&format!("{{{version}:7,{capabilities}}}")),
                read(&format!("{{{version}:\"v9\",{capabilities}}}")),
            ]
            .map(|read| read.unwrap_err())
            .join("\n"),
            @r"
        `params._meta` lacks `io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities`
        `params._meta` lacks `io.modelcontextprotocol/clientCapabilities`
        `io.modelcontextprotocol/protocolVersion` is not a string
        Unsupported protocol version
        "
        );
    }
}
