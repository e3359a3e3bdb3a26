//! The name under which the model sees a tool: `mcp__<server>__<tool>`.
//!
//! At most 64 bytes of `[A-Za-z0-9_-]`, the narrowest rule of the large providers. A name depends on
//! its own server and tool alone, so connecting another server renames nothing. A name that fits is
//! used as it is; one that had to be cleaned or cut carries 8 hex digits of a hash of the raw names.
//! No name of the first kind can look like one of the second, and the first `__` after the prefix
//! always ends the server's part, so no tool can take another one's name.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use outrigger_connect::ServerName;
use sha2::{Digest, Sha256};

const MAX_BYTES: usize = 64;
const PREFIX: &str = "mcp__";
const SEPARATOR: &str = "__";
const HASH_DIGITS: usize = 8;
/// Bytes of the server's part that are kept when both parts are long.
const SERVER_BYTES: usize = 20;

/// A tool's name as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// The name of `tool` (the server's own word for it) on `server`.
    pub fn new(server: &ServerName, tool: &str) -> Self {
        let server = server.as_str();
        let plain = format!("{PREFIX}{server}{SEPARATOR}{tool}");
        if plain.len() <= MAX_BYTES && server_fits(server) && tool_fits(tool) {
            return Self(plain.into());
        }
        Self(hashed(server, tool).into())
    }

    /// The name of one of the host's own tools, which is no server's: it does not begin like those.
    pub(crate) fn own(name: &'static str) -> Self {
        Self(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn hashed(server: &str, tool: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(server.as_bytes());
    hash.update([0]);
    hash.update(tool.as_bytes());
    let digest = hash.finalize();
    let mut digits = String::with_capacity(HASH_DIGITS);
    for byte in digest.iter().take(HASH_DIGITS / 2) {
        // Writing to a String does not fail.
        let _ = write!(digits, "{byte:02x}");
    }

    let room = MAX_BYTES - PREFIX.len() - SEPARATOR.len() - 1 - HASH_DIGITS;
    let server = clean(server, "server");
    let tool = clean(tool, "tool");
    let server_room = room.saturating_sub(tool.len()).max(SERVER_BYTES);
    let server = cut(&server, server_room);
    let tool = cut(&tool, room - server.len());
    format!("{PREFIX}{server}{SEPARATOR}{tool}_{digits}")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether the end of the server's part can be told: it holds no `__` and does not end with `_`.
fn server_fits(server: &str) -> bool {
    server.chars().all(is_plain) && !server.contains(SEPARATOR) && !server.ends_with('_')
}

/// Whether the tool's part cannot be taken for one that carries a hash.
fn tool_fits(tool: &str) -> bool {
    !tool.is_empty() && tool.chars().all(is_plain) && !ends_like_a_hash(tool)
}

fn ends_like_a_hash(tool: &str) -> bool {
    tool.rsplit_once('_').is_some_and(|(_, end)| {
        end.len() == HASH_DIGITS
            && end
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Everything but letters, digits and `-` becomes one `_`; none at the ends. When nothing is left,
/// `otherwise` says at least what it is.
fn clean(part: &str, otherwise: &str) -> String {
    let mut out = String::new();
    for c in part.chars() {
        if c.is_ascii_alphanumeric() || c == '-' {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out.truncate(out.trim_end_matches('_').len());
    if out.is_empty() {
        otherwise.to_owned()
    } else {
        out
    }
}

fn cut(part: &str, bytes: usize) -> &str {
    part.get(..bytes).unwrap_or(part).trim_end_matches('_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(server: &str, tool: &str) -> String {
        ToolName::new(&ServerName::new(server).unwrap(), tool).to_string()
    }

    #[test]
    fn fitting_names_are_used_as_they_are() {
        assert_eq!(name("time", "current_time"), "mcp__time__current_time");
        assert_eq!(name("everything", "get-sum"), "mcp__everything__get-sum");
        assert_eq!(name("a", "b__c"), "mcp__a__b__c");
    }

    #[test]
    fn others_carry_a_hash_of_the_raw_names() {
        insta::assert_snapshot!(
            [
                name("a__b", "c"),
                name("my files", "read file"),
                name("数据库", "查询"),
                name("a", "b_deadbeef"),
                name(&"s".repeat(100), &"t".repeat(100)),
            ]
            .join("\n"),
            @r"
        mcp__a_b__c_a92700ce
        mcp__my_files__read_file_25f41fc3
        mcp__server__tool_70815bb4
        mcp__a__b_deadbeef_5f485424
        mcp__ssssssssssssssssssss__tttttttttttttttttttttttttttt_0ba771b2
        "
        );
    }

    #[test]
    fn names_that_look_alike_stay_apart() {
        let names = [
            name("a", "b__c"),
            name("a__b", "c"),
            name("my_db", "query"),
            name("my-db", "query"),
        ];
        let set: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(set.len(), 4);
    }

    proptest! {
        #[test]
        fn every_name_is_valid(server in "\\PC{1,40}", tool in any::<String>()) {
            prop_assume!(ServerName::new(&server).is_ok());
            let name = name(&server, &tool);
            prop_assert!(name.len() <= MAX_BYTES, "{name}");
            prop_assert!(name.starts_with(PREFIX) && name.chars().all(is_plain), "{name}");
        }

        #[test]
        fn different_tools_have_different_names(
            a in ("[a_-]{1,5}", "[ab_-]{1,5}"), b in ("[a_-]{1,5}", "[ab_-]{1,5}")
        ) {
            prop_assume!(a != b);
            prop_assert_ne!(name(&a.0, &a.1), name(&b.0, &b.1));
        }

        #[test]
        fn a_hashed_name_cannot_be_taken(server in "[a-z]{1,8}__[a-z]{1,8}", tool in "[a-z]{1,8}", other in "[a-z_]{1,17}") {
            let target = name(&server, &tool);
            let (_, rest) = target[PREFIX.len()..].split_once(SEPARATOR).unwrap();
            prop_assume!(ServerName::new(&other).is_ok() && other != server);
            prop_assert_ne!(name(&other, rest), target);
        }
    }
}
