//! `[profiles.NAME]`. Fails closed: a profile that cannot be read is an error of its file, since what
//! it would have hidden is not known.

use globset::GlobMatcher;
use indexmap::IndexMap;

use crate::config::node::{Entry, Node};
use crate::config::problem::Severity;
use crate::config::profile::Profile;
use crate::config::report::{Report, join};
use crate::config::value;

const KEYS: [&str; 3] = ["servers", "tools", "description"];

/// Takes over what one file says. Files come from the nearest to the farthest, those of a project that
/// is not trusted last: the first one that has a name counts.
pub(crate) fn lower(
    report: &mut Report<'_>,
    node: &Node,
    profiles: &mut IndexMap<String, Profile>,
) {
    for entry in value::table(report, "profiles", node).unwrap_or_default() {
        let path = join("profiles", &entry.key);
        let read = profile(report, &path, entry);
        match profiles.get(&entry.key) {
            Some(other) if !report.source.layer.may_loosen() => {
                let message = format!("`{path}` does not replace the one at {}", other.origin);
                report
                    .warn(entry.at, &path, message)
                    .hint("a folder that is not trusted cannot widen what you have narrowed; give it another name");
            }
            Some(_) => {}
            None => {
                profiles.insert(entry.key.clone(), read);
            }
        }
    }
}

fn profile(report: &mut Report<'_>, path: &str, entry: &Entry) -> Profile {
    let mut profile = Profile {
        name: entry.key.clone(),
        description: None,
        servers: None,
        tools: None,
        origin: report.origin(entry.at),
    };
    for inner in value::table(report, path, &entry.node).unwrap_or_default() {
        let key = join(path, &inner.key);
        match inner.key.as_str() {
            "servers" => profile.servers = Some(globs(report, &key, &inner.node)),
            "tools" => profile.tools = Some(globs(report, &key, &inner.node)),
            "description" => profile.description = value::text(report, &key, &inner.node),
            _ => report.unknown(Severity::Error, inner, path, &KEYS),
        }
    }
    profile
}

fn globs(report: &mut Report<'_>, key: &str, node: &Node) -> Vec<GlobMatcher> {
    let mut globs = Vec::new();
    for (item, text) in value::list(report, key, node).unwrap_or_default() {
        match crate::policy::glob(&text) {
            Ok(glob) => globs.push(glob),
            Err(error) => {
                report.error(item.at, key, error.to_string());
            }
        }
    }
    globs
}
