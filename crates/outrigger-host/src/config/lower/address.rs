//! Small rules about addresses, headers and paths, and how their values are shown.

use std::path::{Component, Path, PathBuf};

use url::Url;

use super::server::Lowering;
use crate::config::node::Node;
use crate::config::secret::{self, MASK, Secrets};

/// Why text is no address to send requests to.
pub(super) struct BadUrl {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl BadUrl {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }
}

/// Reads an `http` or `https` address. Addresses are not repeated in messages: they may hold secrets.
pub(super) fn parse_http_url(written: &str) -> Result<Url, BadUrl> {
    if written.is_empty() {
        return Err(BadUrl::new("is empty"));
    }
    let host_like = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            && text.contains(['.', ':'])
            && !text.contains(' ')
    };
    match Url::parse(written) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) if matches!(url.scheme(), "ws" | "wss") => Err(BadUrl {
            message: format!("begins with `{}://`, which is WebSocket", url.scheme()),
            hint: Some("Streamable HTTP needs `http://` or `https://`".into()),
        }),
        // `localhost:8000/mcp` parses as the scheme `localhost`.
        Ok(url) if written.contains("://") => Err(BadUrl {
            message: format!(
                "begins with `{}://`, which is not spoken here",
                url.scheme()
            ),
            hint: Some("it must begin with `http://` or `https://`".into()),
        }),
        Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase) if host_like(written) => {
            let scheme = if is_local(written) { "http" } else { "https" };
            Err(BadUrl {
                message: "has no `http://` or `https://` at its beginning".into(),
                hint: Some(format!("write `{scheme}://` before it")),
            })
        }
        Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase) => Err(BadUrl {
            message: "is no address".into(),
            hint: Some("it must begin with `http://` or `https://`".into()),
        }),
        Err(error) => Err(BadUrl::new(format!("is no address: {error}"))),
    }
}

fn is_local(written: &str) -> bool {
    ["localhost", "127.", "[::1]", "192.168.", "10."]
        .iter()
        .any(|start| written.starts_with(start))
}

/// The password, secret-looking parameters and key-shaped parts of an address.
pub(crate) fn hidden_parts(written: &str) -> Vec<String> {
    let mut hidden: Vec<String> = Vec::new();
    if let Some((_, rest)) = written.split_once("://")
        && let Some((user, _)) = rest
            .split(['/', '?', '#'])
            .next()
            .unwrap_or_default()
            .rsplit_once('@')
        && let Some((_, password)) = user.split_once(':')
    {
        hidden.push(password.to_owned());
    }
    for pair in written
        .split_once('?')
        .map_or("", |(_, query)| query)
        .split(['&', '#'])
    {
        if let Some((name, value)) = pair.split_once('=')
            && secret::is_secret_name(name)
        {
            hidden.push(value.to_owned());
        }
    }
    let shaped = written
        .split(['/', '?', '&', '=', '#'])
        .filter(|part| secret::is_secret_shape(part));
    hidden.extend(shaped.map(str::to_owned));
    hidden
}

/// An address with those masked. What is masked is remembered as secret.
pub(crate) fn mask_url(secrets: &mut Secrets, written: &str) -> String {
    let mut shown = written.to_owned();
    for value in hidden_parts(written)
        .iter()
        .filter(|value| !value.is_empty())
    {
        secrets.add(value);
        shown = shown.replace(value.as_str(), MASK);
    }
    shown
}

/// A value as people should see it: with variables as it was written, else as it is meant.
pub(super) fn as_shown(written: &str, meant: &str) -> String {
    if written.contains("${") {
        written.to_owned()
    } else {
        meant.to_owned()
    }
}

/// The same for a value that may be secret. A scheme such as `Bearer` stays readable.
pub(super) fn masked(written: &str, meant: &str, hidden: bool) -> String {
    if !hidden || written.contains("${") {
        return as_shown(written, meant);
    }
    match meant.split_once(' ') {
        Some((scheme, _)) if matches!(scheme, "Bearer" | "Basic" | "Token" | "Digest") => {
            format!("{scheme} {MASK}")
        }
        _ => MASK.to_owned(),
    }
}

/// A masked value that was copied from `config show` back into a file would be sent as a token.
pub(super) fn refuse_mask(
    low: &mut Lowering<'_>,
    path: &str,
    node: &Node,
    text: &str,
) -> Option<()> {
    if !text.contains(MASK) {
        return Some(());
    }
    low.report
        .error(
            node.at,
            path,
            format!("`{path}` is the mask that `config show` prints, not the value itself"),
        )
        .hint("write the value, or better a variable such as `${TOKEN}`");
    None
}

/// RFC 9110, section 5.6.2: a token.
pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Takes `.` out of a path. `..` stays: what it means depends on links.
pub(super) fn clean(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}
