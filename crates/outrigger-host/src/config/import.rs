//! Puts references in the place of secrets that stand in a file, and changes nothing else in it.
//!
//! Promises: comments, order and spacing stay; what comes out is read back and differs from what went
//! in only in the values that were to change, or nothing comes out. Leaves out: storing the secrets,
//! and writing the file.

use std::path::Path;
use std::sync::Arc;

use super::literal::Literal;
use super::node::{Node, Pos, Value};
use super::origin::Layer;
use super::parse::{self, Format};
use super::reference::Reference;
use super::source::Source;

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is left as it is: {reason}", file.display())]
pub struct LeftAlone {
    /// The file.
    pub file: Arc<Path>,
    /// Why.
    pub reason: String,
}

/// One value and what it is to be.
struct Change<'a> {
    literal: &'a Literal,
    value: String,
}

/// The text of a file, `text`, with these of its literals replaced by references to where their
/// secrets are now. All must be of this one file.
pub fn rewritten(text: &str, moved: &[(&Literal, &Reference)]) -> Result<String, LeftAlone> {
    let Some((first, _)) = moved.first() else {
        return Ok(text.to_owned());
    };
    let left_alone = |reason: String| LeftAlone {
        file: Arc::clone(&first.file),
        reason,
    };
    let bom = text.strip_prefix('\u{feff}');
    let body = bom.unwrap_or(text);
    let mut changes: Vec<Change<'_>> = moved
        .iter()
        .map(|(literal, reference)| Change {
            literal,
            value: value_with(literal, reference),
        })
        .collect();
    // From the end, so that places before stay where they are.
    changes.sort_by_key(|change| std::cmp::Reverse((change.literal.line, change.literal.column)));
    let mut out = body.to_owned();
    for change in &changes {
        let Literal {
            line, column, key, ..
        } = change.literal;
        let span = offset(body, *line, *column)
            .and_then(|start| Some(start..start + token(&body[start..], change.literal)?))
            .ok_or_else(|| {
                left_alone(format!("the value of `{key}` on line {line} is written in a way that is not changed by itself; change it by hand"))
            })?;
        out.replace_range(
            span,
            &serde_json::Value::from(change.value.as_str()).to_string(),
        );
    }
    if !differs_only_in(body, &out, first, &changes) {
        return Err(left_alone(
            "the change would not be read back as it is meant; change it by hand".to_owned(),
        ));
    }
    Ok(if bom.is_some() {
        format!("\u{feff}{out}")
    } else {
        out
    })
}

/// The value with the reference where its secret was.
fn value_with(literal: &Literal, reference: &Reference) -> String {
    if literal.value.trim() == literal.secret {
        return reference.to_string();
    }
    literal
        .value
        .replacen(&literal.secret, &format!("${{{reference}}}"), 1)
}

/// The offset of a place.
fn offset(text: &str, line: u32, column: u32) -> Option<usize> {
    let mut start = 0;
    for _ in 1..line {
        start += text.get(start..)?.find('\n')? + 1;
    }
    let skip = usize::try_from(column).ok()?.checked_sub(1)?;
    let rest = text.get(start..)?;
    let inside = rest
        .char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .nth(skip)?;
    Some(start + inside)
}

/// The length of the token that a value is written as; `None` when that is not told with certainty.
fn token(text: &str, literal: &Literal) -> Option<usize> {
    match text.chars().next()? {
        '"' if text.starts_with("\"\"\"") => None,
        '"' => {
            let mut escaped = false;
            let end = text.char_indices().skip(1).find(|&(_, c)| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            end.map(|(at, _)| at + 1)
        }
        '\'' if text.starts_with("'''") || literal.format == Format::Json => None,
        '\'' => Some(text[1..].find('\'')? + 2),
        _ if literal.format == Format::Yaml && text.starts_with(&literal.value) => {
            Some(literal.value.len())
        }
        _ => None,
    }
}

/// Reads both texts and compares everything but places.
fn differs_only_in(before: &str, after: &str, file: &Literal, changes: &[Change<'_>]) -> bool {
    let read = |text: &str| {
        let source = Source::new(Layer::User, Arc::clone(&file.file), text.to_owned());
        parse::parse(&source, file.format)
            .ok()
            .and_then(|(node, _)| node)
    };
    match (read(before), read(after)) {
        (Some(before), Some(after)) => same(&before, &after, changes),
        _ => false,
    }
}

fn same(before: &Node, after: &Node, changes: &[Change<'_>]) -> bool {
    match (&before.value, &after.value) {
        (Value::List(before), Value::List(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(a, b)| same(a, b, changes))
        }
        (Value::Table(before), Value::Table(after)) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(a, b)| a.key == b.key && same(&a.node, &b.node, changes))
        }
        (old, new) => {
            let change = changes.iter().find(|change| {
                let (line, column) = (change.literal.line, change.literal.column);
                before.at == Pos { line, column }
            });
            match change {
                Some(change) => *new == Value::Text(change.value.clone()),
                None => old == new,
            }
        }
    }
}
