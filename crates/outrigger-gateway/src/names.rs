//! The names under which clients see tools.
//!
//! `SERVER__TOOL`, since hosts put a prefix of their own before it. Hosts rewrite names: `.` and `-` become
//! `_`, and what is too long is cut, with their prefix, at 63 or 64 bytes. So no two of these names are
//! equal after that: those that would be carry 8 hex digits of a hash. Where one server alone is served, its
//! tools have its own names, whatever they are: it is met as without a gateway.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Bytes that a host leaves of a name: 63, less `mcp__outrigger__` and one.
const KEPT: usize = 46;
const HASH_DIGITS: usize = 8;
const SEPARATOR: &str = "__";

/// A tool to be named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    /// The host's name for it: `mcp__SERVER__TOOL`. No two are equal.
    pub(crate) host: &'a str,
    /// Its server's name for it.
    pub(crate) own: &'a str,
}

/// The names of these tools, in their order. `own`: as their server calls them.
pub(crate) fn all(tools: &[Named<'_>], own: bool) -> Vec<String> {
    if own {
        return tools.iter().map(|tool| tool.own.to_owned()).collect();
    }
    let wanted: Vec<&str> = tools
        .iter()
        .map(|tool| tool.host.strip_prefix("mcp__").unwrap_or(tool.host))
        .collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for name in &wanted {
        *seen.entry(rewritten(name)).or_default() += 1;
    }
    let named = tools.iter().zip(wanted).map(|(tool, name)| {
        if seen.get(&rewritten(name)) == Some(&1) {
            name.to_owned()
        } else {
            hashed(name, tool.host)
        }
    });
    named.collect()
}

/// Whether a name says by itself whose the tool is, and what its server calls it.
pub(crate) fn tells(name: &str, server: &str, own: &str) -> bool {
    let rest = || name.strip_prefix(server)?.strip_prefix(SEPARATOR);
    name == own || rest() == Some(own)
}

/// The server whose tool this name would be; for names that lead nowhere.
pub(crate) fn server_of(name: &str) -> Option<&str> {
    Some(name.split_once(SEPARATOR)?.0)
}

/// What the strictest host makes of a name.
fn rewritten(name: &str) -> String {
    let fold = |c: char| if matches!(c, '.' | '-') { '_' } else { c };
    name.chars().map(fold).take(KEPT).collect()
}

fn hashed(name: &str, host: &str) -> String {
    let mut out = rewritten(name);
    out.truncate(KEPT - HASH_DIGITS - 1);
    out.push('_');
    for byte in Sha256::digest(host.as_bytes()).iter().take(HASH_DIGITS / 2) {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn named(tools: &[(&str, &str)], own: bool) -> Vec<String> {
        let hosts: Vec<_> = tools
            .iter()
            .map(|(server, tool)| format!("mcp__{server}__{tool}"))
            .collect();
        let tools: Vec<_> = hosts
            .iter()
            .zip(tools)
            .map(|(host, (_, own))| Named { host, own })
            .collect();
        all(&tools, own)
    }

    #[test]
    fn names_are_plain_unless_a_host_would_make_two_of_them_one() {
        let long = "t".repeat(60);
        let other = format!("{long}_2");
        insta::assert_snapshot!(
            named(
                &[("time", "now"), ("lab", "get-sum"), ("lab", "get_sum"), ("a", &long), ("a", &other)],
                false
            )
            .join("\n"),
            @r"
        time__now
        lab__get_sum_b1e2d0d7
        lab__get_sum_4116e6fb
        a__tttttttttttttttttttttttttttttttttt_58120503
        a__tttttttttttttttttttttttttttttttttt_d2a50312
        "
        );
        assert_eq!(
            named(&[("lab", "get-sum"), ("lab", "a.b")], true),
            ["get-sum", "a.b"]
        );
        let odd = [("lab", "two words"), ("lab", &long), ("lab", &other)];
        assert_eq!(named(&odd, true), odd.map(|(_, own)| own));
    }

    proptest! {
        #[test]
        fn no_two_are_equal_after_a_host_has_rewritten_them(
            tools in proptest::collection::hash_set(("[a-c]{1,2}", "[a-b._-]{1,3}|[ab]{44}[a-c-]{0,6}"), 1..12)
        ) {
            let tools: Vec<_> = tools.iter().map(|(server, tool)| (server.as_str(), tool.as_str())).collect();
            let names = named(&tools, false);
            let rewritten: HashSet<_> = names.iter().map(|name| {
                let host = format!("mcp__outrigger__{}", name.replace(['.', '-'], "_"));
                host.chars().take(63).collect::<String>()
            }).collect();
            prop_assert_eq!(rewritten.len(), tools.len(), "{:?}", names);
        }
    }
}
