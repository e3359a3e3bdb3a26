//! One neutral tree for JSON, TOML and YAML, in which every key and value knows its place. It
//! keeps what was written (digits of numbers, order of keys) and leaves out what lowering never
//! asks for (comments, styles, tags).

use std::fmt;

/// Line and column, from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pos {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Pos {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

impl Default for Pos {
    fn default() -> Self {
        Self::START
    }
}

/// A value and its place.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Pos,
    pub(crate) value: Value,
}

/// What was written.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A number, its digits as written (TOML underscores and prefixes resolved).
    Number(String),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// One key of a table.
#[derive(Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The place of the key.
    pub(crate) at: Pos,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(at: Pos, value: Value) -> Self {
        Self { at, value }
    }

    pub(crate) fn table(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// What a person would call this value.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing (null)",
            Value::Bool(true) => "`true`",
            Value::Bool(false) => "`false`",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The same, with the digits of a number. Text is not repeated: it may be secret.
    pub(crate) fn found(&self) -> String {
        match &self.value {
            Value::Number(digits) => format!("the number {digits}"),
            _ => self.kind().to_owned(),
        }
    }
}

// Nodes hold what people wrote, secrets included, so their Debug form shows the shape alone.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::List(items) => f.debug_list().entries(items).finish(),
            Value::Table(entries) => f
                .debug_map()
                .entries(entries.iter().map(|entry| (&entry.key, &entry.node)))
                .finish(),
            _ => f.write_str(self.kind()),
        }
    }
}
