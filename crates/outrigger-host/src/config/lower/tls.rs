//! Certificate authorities that are trusted besides those of the system: `[tls]`, and `ca_file` of a
//! server.

use std::path::PathBuf;

use super::server::Lowering;
use crate::config::defaults::ServerDefaults;
use crate::config::node::Node;
use crate::config::origin::Layer;
use crate::config::problem::{ConfigProblem, Severity};
use crate::config::report::join;
use crate::config::source::Source;
use crate::config::surroundings::Surroundings;
use crate::config::value;

use super::address::clean;

/// Takes over what one file says. Files come from the farthest to the nearest. Returns what is wrong.
pub(crate) fn lower(
    source: &Source,
    around: &Surroundings,
    node: &Node,
    defaults: &mut ServerDefaults,
) -> Vec<ConfigProblem> {
    let mut low = Lowering::new(source, around, "tls");
    // Also of a project that is trusted: what it brings is trusted, and these are other servers.
    if matches!(source.layer, Layer::Project | Layer::TrustedProject) {
        let message =
            "`tls` in a file of the project is not used: it decides whom all your servers may be";
        low.report.warn(node.at, "tls", message).hint(
            "say it in your own `outrigger.toml`, or give a server of the project a `ca_file`",
        );
        return low.report.problems;
    }
    for entry in value::table(&mut low.report, "tls", node).unwrap_or_default() {
        let key = join("tls", &entry.key);
        if entry.key != "ca_files" {
            low.report
                .unknown(Severity::Error, entry, "tls", &["ca_files"]);
            continue;
        }
        let items = value::list(&mut low.report, &key, &entry.node).unwrap_or_default();
        let files: Option<Vec<PathBuf>> = items
            .into_iter()
            .map(|(item, text)| file(&mut low, &key, item, &text))
            .collect();
        if let Some(files) = files {
            defaults.ca_files = files;
            defaults.note(key, low.report.origin(entry.at));
        }
    }
    low.report.problems
}

/// A file as it is meant: variables replaced, absolute.
pub(crate) fn file(
    low: &mut Lowering<'_>,
    path: &str,
    node: &Node,
    written: &str,
) -> Option<PathBuf> {
    let text = low.expand(path, node, written)?.text;
    let text = low.tilde(path, node, text)?;
    if text.trim().is_empty() {
        low.report
            .error(node.at, path, format!("`{path}` names no file"));
        return None;
    }
    let source = low.report.source;
    // Whom a person trusts must not depend on the folder that they happen to work in.
    let base = match (source.layer, source.path.parent()) {
        (Layer::User | Layer::Managed, Some(folder)) => folder.to_owned(),
        _ => source.base(&low.around.workspace),
    };
    Some(clean(&base.join(text)))
}
