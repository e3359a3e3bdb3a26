//! How to sign in at a server: the keys of its table `oauth`.
//!
//! Promises: the secret of a client comes from elsewhere, never from the file itself; what is said
//! fits together. Leaves out: whether the server wants anybody to sign in.

use outrigger_connect::{OAuthFlow, OAuthSettings, Secret};

use super::address::refuse_mask;
use super::server::Lowering;
use crate::config::gap::Slot;
use crate::config::node::{Entry, Node, Value};
use crate::config::problem::Severity;
use crate::config::report::join;
use crate::config::value;

const KEYS: &[&str] = &["client_id", "client_secret", "scopes", "flow"];

const FLOWS: &[(&str, OAuthFlow)] = &[
    ("authorization_code", OAuthFlow::AuthorizationCode),
    ("client_credentials", OAuthFlow::ClientCredentials),
];

/// Reads the table; `None` after an error.
pub(super) fn read(low: &mut Lowering<'_>, path: &str, node: &Node) -> Option<OAuthSettings> {
    let mut settings = OAuthSettings::default();
    let mut sound = true;
    for entry in value::table(&mut low.report, path, node)? {
        let inner = join(path, &entry.key);
        sound &= key(low, &inner, entry, &mut settings).is_some();
    }
    let alone = settings.flow == OAuthFlow::ClientCredentials;
    if sound && alone && (settings.client_id.is_none() || settings.client_secret.is_none()) {
        let message = format!("`{path}.flow` needs `client_id` and `client_secret`");
        low.report
            .error(node.at, path, message)
            .hint("with `client_credentials` this program signs in for itself, as that client");
        return None;
    }
    sound.then_some(settings)
}

fn key(
    low: &mut Lowering<'_>,
    path: &str,
    entry: &Entry,
    settings: &mut OAuthSettings,
) -> Option<()> {
    match entry.key.as_str() {
        "client_id" => settings.client_id = Some(client_id(low, path, entry)?),
        "client_secret" => settings.client_secret = Some(client_secret(low, path, entry)?),
        "scopes" => settings.scopes = scopes(low, path, entry)?,
        "flow" => {
            settings.flow = value::word(&mut low.report, path, &entry.node, FLOWS)?;
            if let Value::Text(word) = &entry.node.value {
                low.note_inner("oauth", entry, word.as_str().into());
            }
        }
        _ => {
            let table = path.strip_suffix(&entry.key).unwrap_or(path);
            let table = table.trim_end_matches('.');
            low.report.unknown(Severity::Error, entry, table, KEYS);
            return None;
        }
    }
    Some(())
}

fn client_id(low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<String> {
    let written = value::text(&mut low.report, path, &entry.node)?;
    let id = low.expand(path, &entry.node, &written)?.text;
    if id.trim().is_empty() {
        let message = format!("`{path}` is empty");
        low.report
            .error(entry.node.at, path, message)
            .hint("leave it out where no client is registered; most servers register one");
        return None;
    }
    low.note_inner("oauth", entry, written.into());
    Some(id.trim().to_owned())
}

fn client_secret(low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<Secret> {
    let node = &entry.node;
    let written = value::text(&mut low.report, path, node)?;
    refuse_mask(low, path, node, &written)?;
    let secret = low.expand_value(path, node, &written, Slot::ClientSecret)?;
    let elsewhere = written.contains("${") || !secret.missing.is_empty();
    if !elsewhere {
        low.secrets.add(&written);
        low.note_literal(path, node, &written, &written);
        let message = format!("`{path}` is a secret that stands in the file itself");
        low.report
            .error(node.at, path, message)
            .hint("`outrigger secrets import` moves it out; or put it into the environment, and write a variable such as `${CLIENT_SECRET}`");
        return None;
    }
    if secret.text.is_empty() && secret.missing.is_empty() {
        let message = format!("`{path}` is empty");
        low.report.error(node.at, path, message);
        return None;
    }
    low.secrets.add(&secret.text);
    low.note_inner("oauth", entry, written.into());
    Some(Secret::new(secret.text))
}

/// RFC 6749, section 3.3: a scope is made of visible ASCII characters without `"` and `\`.
fn scopes(low: &mut Lowering<'_>, path: &str, entry: &Entry) -> Option<Vec<String>> {
    let items = value::list(&mut low.report, path, &entry.node)?;
    let mut scopes = Vec::with_capacity(items.len());
    for (item, scope) in items {
        let visible = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        if scope.is_empty() || !scope.chars().all(visible) {
            let message = format!("`{path}` has `{}`, which is no scope", scope.escape_debug());
            low.report
                .error(item.at, path, message)
                .hint("write each scope as an item of its own");
            return None;
        }
        scopes.push(scope);
    }
    low.note_inner("oauth", entry, scopes.clone().into());
    Some(scopes)
}
