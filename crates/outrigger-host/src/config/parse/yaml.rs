//! YAML 1.2, core schema, one document. Aliases are resolved by copying, within the same bound on
//! values as everything else; tags other than `!!str` are not needed for configuration and refused.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{MAX_DEPTH, MAX_VALUES, SyntaxError};
use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::source::Source;

pub(super) fn parse(source: &Source) -> Result<Option<Node>, SyntaxError> {
    let mut building = Building::default();
    let mut documents = 0;
    for event in Parser::new_from_str(&source.text) {
        let (event, span) = event.map_err(|error| syntax_error(&error))?;
        let at = pos(span.start);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(SyntaxError::new(
                        at,
                        "a second YAML document begins here; only one is read",
                    ));
                }
            }
            Event::Alias(anchor) => building.alias(anchor, at)?,
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref(), at)?;
                let weight = 1 + text.len() / 32;
                building.count(weight, at)?;
                building.finish(Node::new(at, value), anchor, weight)?;
            }
            Event::SequenceStart(anchor, tag) => {
                building.open(Open::list(at, anchor), tag.as_deref())?;
            }
            Event::MappingStart(anchor, tag) => {
                building.open(Open::table(at, anchor), tag.as_deref())?;
            }
            Event::SequenceEnd | Event::MappingEnd => building.close()?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok(building.root)
}

fn pos(marker: Marker) -> Pos {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Pos {
        line: small(marker.line()).max(1),
        column: small(marker.col()).saturating_add(1),
    }
}

fn syntax_error(error: &ScanError) -> SyntaxError {
    SyntaxError::new(pos(*error.marker()), error.info())
}

/// A list or table that is not complete yet.
struct Open {
    at: Pos,
    anchor: usize,
    /// The values inside and itself; see [`Building::weight`].
    weight: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Table(Vec<Entry>, Option<(String, Pos)>),
}

impl Open {
    fn list(at: Pos, anchor: usize) -> Self {
        Self {
            at,
            anchor,
            weight: 1,
            kind: Kind::List(Vec::new()),
        }
    }

    fn table(at: Pos, anchor: usize) -> Self {
        Self {
            at,
            anchor,
            weight: 1,
            kind: Kind::Table(Vec::new(), None),
        }
    }
}

#[derive(Default)]
struct Building {
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    /// What was read and copied so far: one for each value, and one for every 32 bytes of text.
    weight: usize,
    /// The same for what anchors keep.
    kept: usize,
    root: Option<Node>,
}

struct Anchored {
    value: Value,
    weight: usize,
    depth: usize,
}

impl Building {
    fn count(&mut self, weight: usize, at: Pos) -> Result<(), SyntaxError> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > MAX_VALUES {
            Err(SyntaxError::too_many(at))
        } else {
            Ok(())
        }
    }

    fn open(&mut self, open: Open, tag: Option<&Tag>) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(open.at));
        }
        let plain =
            |tag: &Tag| tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq");
        if let Some(tag) = tag.filter(|tag| !plain(tag)) {
            return Err(unknown_tag(tag, open.at));
        }
        self.count(1, open.at)?;
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SyntaxError> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.kind {
            Kind::List(items) => Value::List(items),
            Kind::Table(entries, _) => Value::Table(entries),
        };
        self.finish(Node::new(open.at, value), open.anchor, open.weight)
    }

    fn alias(&mut self, anchor: usize, at: Pos) -> Result<(), SyntaxError> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(SyntaxError::new(
                at,
                "this alias stands inside of what it names",
            ));
        };
        let weight = anchored.weight;
        if self.open.len() + anchored.depth > MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        // Counted before it is copied.
        self.weight = self.weight.saturating_add(weight);
        if self.weight > MAX_VALUES {
            return Err(SyntaxError::too_many(at));
        }
        let node = Node::new(at, anchored.value.clone());
        self.finish(node, 0, weight)
    }

    /// Puts a finished node into the list or table that is open.
    fn finish(&mut self, node: Node, anchor: usize, weight: usize) -> Result<(), SyntaxError> {
        if anchor != 0 {
            self.kept = self.kept.saturating_add(weight);
            if self.kept > MAX_VALUES {
                return Err(SyntaxError::too_many(node.at));
            }
            let anchored = Anchored {
                value: node.value.clone(),
                weight,
                depth: depth_of(&node),
            };
            self.anchors.insert(anchor, anchored);
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.weight += weight;
        match &mut open.kind {
            Kind::List(items) => items.push(node),
            Kind::Table(entries, key) => {
                if let Some((key, at)) = key.take() {
                    entries.push(Entry { key, at, node });
                } else {
                    let at = node.at;
                    *key = Some((key_text(node)?, at));
                }
            }
        }
        Ok(())
    }
}

fn depth_of(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Table(entries) => {
            1 + entries
                .iter()
                .map(|entry| depth_of(&entry.node))
                .max()
                .unwrap_or(0)
        }
        _ => 0,
    }
}

/// Keys are text. A number or `true` as a key means its own spelling.
fn key_text(node: Node) -> Result<String, SyntaxError> {
    match node.value {
        Value::Text(text) | Value::Number(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null => Ok("null".into()),
        Value::List(_) | Value::Table(_) => Err(SyntaxError::new(
            node.at,
            "a key must be text, not a list or a table",
        )),
    }
}

fn unknown_tag(tag: &Tag, at: Pos) -> SyntaxError {
    SyntaxError::new(
        at,
        format!(
            "the YAML tag `{}{}` has no meaning here",
            tag.handle, tag.suffix
        ),
    )
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Pos,
) -> Result<Value, SyntaxError> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => {
            Ok(Value::Text(text.to_owned()))
        }
        Some(tag) => Err(unknown_tag(tag, at)),
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(Value::Text(text.to_owned())),
    }
}

/// The core schema of YAML 1.2.2, section 10.3.2. `yes`, `no`, `on` and `off` are text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let prefixed = text
        .strip_prefix("0x")
        .map(|digits| (digits, 16))
        .or_else(|| text.strip_prefix("0o").map(|digits| (digits, 8)));
    if let Some((digits, radix)) = prefixed
        && !digits.starts_with(['+', '-'])
        && let Ok(number) = i128::from_str_radix(digits, radix)
    {
        return Value::Number(number.to_string());
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || "+-.eE".contains(c))
        && text.parse::<f64>().is_ok();
    if numeric {
        Value::Number(text.to_owned())
    } else {
        Value::Text(text.to_owned())
    }
}
