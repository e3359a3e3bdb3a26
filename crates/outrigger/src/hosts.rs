//! Server lists of other hosts: where they are around this run, and how an entry is put into one.
//!
//! Promises: an edit keeps comments, order and spacing of everything else, and is read back before it is
//! used. Leaves out: reading what they hold (`outrigger_host::config::foreign`).

mod entry;
mod json;
mod toml;

use outrigger_host::config::Format;
use outrigger_host::config::foreign::differs_only_at;
use serde_json::{Map, Value};

pub(crate) use entry::{Start, entry};

/// Why a text is not edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("it is broken: {0}")]
    Syntax(String),
    #[error("`{0}` in it is no table")]
    NoTable(String),
    #[error("the change would not be read back as it is meant; make it by hand")]
    Differs,
}

/// What an entry is to be.
pub(crate) enum Wanted {
    /// These keys; of others that it has, those in `instead` go, or all. A new entry gets `first` too, and
    /// in TOML a comment.
    Keys {
        keys: Map<String, Value>,
        instead: Option<&'static [&'static str]>,
        first: Map<String, Value>,
        comment: Option<String>,
    },
    /// Not there.
    Gone,
}

/// Whether a key that an entry has is to go.
fn goes(key: &str, keys: &Map<String, Value>, instead: Option<&[&str]>) -> bool {
    !keys.contains_key(key) && instead.is_none_or(|instead| instead.contains(&key))
}

/// The text of a file with the entry at `path` as it is wanted.
pub(crate) fn edited(
    format: Format,
    text: &str,
    path: &[&str],
    wanted: &Wanted,
) -> Result<String, EditError> {
    let bom = text.strip_prefix('\u{feff}');
    let body = bom.unwrap_or(text);
    let mut out = match format {
        Format::Toml => toml::edited(body, path, wanted)?,
        _ => json::edited(body, path, wanted)?,
    };
    // The editor writes line ends of its own.
    if body.contains("\r\n") {
        out = out.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if !differs_only_at(format, body, &out, path) {
        return Err(EditError::Differs);
    }
    Ok(if bom.is_some() {
        format!("\u{feff}{out}")
    } else {
        out
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wanted() -> Wanted {
        let Value::Object(keys) = json!({ "command": "/bin/outrigger", "args": ["serve", "ü"] })
        else {
            unreachable!("it is an object")
        };
        Wanted::Keys {
            keys,
            instead: Some(&[]),
            first: Map::new(),
            comment: None,
        }
    }

    /// Servers by name, in a text with comments and spacing of its own.
    fn json_text(names: &[String], odd: bool, ends: &str) -> String {
        let comma = if odd { ", // last" } else { "" };
        let servers: Vec<_> = names
            .iter()
            .map(|name| format!("\t\t{}: {{ \"command\" : \"x\" }}", json!(name)))
            .collect();
        let comma = if servers.is_empty() { "" } else { comma };
        let servers = servers.join(",\n");
        format!("/* a */ {{\n  \"b\": [1,2], // c\n  \"m\": {{\n{servers}{comma}\n  }}\n}}\n")
            .replace('\n', ends)
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_again(
            names in prop::collection::btree_set("[a-z \"é]{1,5}", 0..5),
            odd in any::<bool>(),
            windows in any::<bool>(),
        ) {
            let names: Vec<_> = names.into_iter().collect();
            let ends = if windows { "\r\n" } else { "\n" };
            let before = json_text(&names, odd, ends);
            let path = ["m", "outrigger"];
            let after = edited(Format::Json, &before, &path, &wanted()).unwrap();
            prop_assert!(after.contains("/bin/outrigger") && after.contains("// c"));
            prop_assert_eq!(&edited(Format::Json, &after, &path, &wanted()).unwrap(), &after);
            let gone = edited(Format::Json, &after, &path, &Wanted::Gone).unwrap();
            prop_assert!(differs_only_at(Format::Json, &before, &gone, &["nothing"]), "{gone}");

            let mut toml = String::new();
            for name in &names {
                let name = json!(name);
                writeln!(toml, "# of {name}\n[m.{name}]\nx = 1 # y\n").unwrap();
            }
            let toml = format!("top = 1\n\n{toml}[z]\nw = [ 1,\n 2 ]\n").replace('\n', ends);
            let after = edited(Format::Toml, &toml, &path, &wanted()).unwrap();
            prop_assert_eq!(&edited(Format::Toml, &after, &path, &wanted()).unwrap(), &after);
            prop_assert!(after.contains("w = [ 1,"));
            let gone = edited(Format::Toml, &after, &path, &Wanted::Gone).unwrap();
            prop_assert_eq!(gone, toml);
        }
    }
}
