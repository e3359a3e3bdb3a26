//! Whether an edit of a file changed what it was to change, and nothing else.

use std::path::Path;

use crate::config::node::{Node, Value};
use crate::config::origin::Layer;
use crate::config::parse::{self, Format};
use crate::config::source::Source;

/// Reads both texts and compares everything but what stands at `path`, comments and spacing. Tables on
/// the way there may have come or become empty. False also when one of the texts cannot be read.
pub fn differs_only_at(format: Format, before: &str, after: &str, path: &[&str]) -> bool {
    let read = |text: &str| {
        let source = Source::new(Layer::User, Path::new("").into(), text.to_owned());
        parse::parse(&source, format).ok().map(|(node, _)| node)
    };
    match (read(before), read(after)) {
        (Some(before), Some(after)) => same(before.as_ref(), after.as_ref(), Some(path)),
        _ => false,
    }
}

/// `path`: what may differ, from here; `None` where nothing may.
fn same(before: Option<&Node>, after: Option<&Node>, path: Option<&[&str]>) -> bool {
    if path.is_some_and(<[&str]>::is_empty) {
        return true;
    }
    let (Some(before), Some(after)) = (before, after) else {
        let one = before.or(after);
        // A table on the way, with nothing but what was to change.
        return match (one.map(|node| &node.value), path) {
            (None | Some(Value::Null), _) => true,
            (Some(Value::Table(entries)), Some([first, rest @ ..])) => entries
                .iter()
                .all(|entry| entry.key == *first && same(Some(&entry.node), None, Some(rest))),
            _ => false,
        };
    };
    match (&before.value, &after.value) {
        (Value::List(before), Value::List(after)) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(a, b)| same(Some(a), Some(b), None))
        }
        (Value::Table(_), Value::Table(_)) => tables(before, after, path),
        (before, after) => before == after,
    }
}

fn tables(before: &Node, after: &Node, path: Option<&[&str]>) -> bool {
    let entries = |node: &'_ Node| node.table().unwrap_or_default().to_vec();
    let (before, after) = (entries(before), entries(after));
    let find = |entries: &'_ [crate::config::node::Entry], key: &str| {
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| entry.node.clone())
    };
    let keys = before.iter().chain(&after).map(|entry| entry.key.as_str());
    for key in keys {
        let (one, other) = (find(&before, key), find(&after, key));
        let inner = match path {
            Some([first, rest @ ..]) if *first == key => Some(rest),
            _ => None,
        };
        let both = one.is_some() && other.is_some();
        if !(both || inner.is_some()) || !same(one.as_ref(), other.as_ref(), inner) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_to_change_may_change() {
        let before = r#"{"a": 1, "s": {"x": {"c": 1}, "y": 2}}"#;
        let same = |after: &str, path: &[&str]| differs_only_at(Format::Json, before, after, path);
        assert!(same(before, &["s", "z"]));
        assert!(same(
            r#"{"a": 1, "s": {"y": 2, "x": {"c": 1}, "z": 5}}"#,
            &["s", "z"]
        ));
        assert!(same(r#"{"a": 1, "s": {"y": 2}}"#, &["s", "x"]));
        assert!(!same(r#"{"a": 1, "s": {"y": 2}}"#, &["s", "z"]));
        assert!(!same(
            r#"{"a": 2, "s": {"x": {"c": 1}, "y": 2}}"#,
            &["s", "x"]
        ));
        assert!(!same(r#"{"s": {"x": {"c": 1}, "y": 2}}"#, &["s", "x"]));
        assert!(!same("{", &["s", "x"]));
        assert!(differs_only_at(
            Format::Json,
            "{}",
            r#"{"m": {"o": 1}}"#,
            &["m", "o"]
        ));
        assert!(!differs_only_at(
            Format::Json,
            "{}",
            r#"{"m": {"o": 1, "p": 2}}"#,
            &["m", "o"]
        ));
        assert!(differs_only_at(
            Format::Toml,
            "",
            "[m.o]\nx = 1\n",
            &["m", "o"]
        ));
    }
}
