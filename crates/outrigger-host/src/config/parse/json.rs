//! JSON with comments and trailing commas. Nothing of JSON5 beyond that: what people share as
//! `mcp.json` must mean the same here as elsewhere.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::errors::{ParseError, ParseErrorKind as Kind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{MAX_DEPTH, MAX_VALUES, SyntaxError};
use crate::config::node::{Entry, Node, Value};
use crate::config::source::Source;

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn parse(source: &Source) -> Result<Option<Node>, SyntaxError> {
    let parsed = parse_to_ast(&source.text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| syntax_error(source, &error))?;
    let mut reading = Reading { source, values: 0 };
    parsed.value.map(|value| reading.node(value, 0)).transpose()
}

struct Reading<'a> {
    source: &'a Source,
    values: usize,
}

impl Reading<'_> {
    fn node(&mut self, value: ast::Value<'_>, depth: usize) -> Result<Node, SyntaxError> {
        let at = self.source.pos(value.range().start);
        self.values += 1;
        let nests = matches!(value, ast::Value::Array(_) | ast::Value::Object(_));
        if nests && depth >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        if self.values > MAX_VALUES {
            return Err(SyntaxError::too_many(at));
        }
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NumberLit(literal) => Value::Number(literal.value.to_owned()),
            ast::Value::StringLit(literal) => Value::Text(literal.value.into_owned()),
            ast::Value::Array(array) => {
                let items = array
                    .elements
                    .into_iter()
                    .map(|item| self.node(item, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            ast::Value::Object(object) => {
                let entries = object.properties.into_iter().map(|property| {
                    let at = self.source.pos(property.range.start);
                    let key = property.name.into_string();
                    Ok(Entry {
                        key,
                        at,
                        node: self.node(property.value, depth + 1)?,
                    })
                });
                Value::Table(entries.collect::<Result<_, _>>()?)
            }
        };
        Ok(Node::new(at, value))
    }
}

fn syntax_error(source: &Source, error: &ParseError) -> SyntaxError {
    let at = source.pos(error.range().start);
    let (message, hint) = match error.kind() {
        Kind::ExpectedComma => {
            // The parser points behind what came before; people look at what comes next.
            let at = source.pos(next_token(&source.text, error.range().start));
            return SyntaxError::new(at, "a comma is missing before this");
        }
        Kind::ExpectedColonAfterObjectKey => ("a colon is missing after the key", None),
        Kind::ExpectedObjectValue => ("a value is missing after the colon", None),
        Kind::ExpectedStringObjectProperty => ("a key must be in double quotes", None),
        Kind::SingleQuotedStringsNotAllowed => ("text must be in double quotes", None),
        Kind::MultipleRootJsonValues => ("something follows after the end of the JSON value", None),
        Kind::UnterminatedArray => ("this list is never closed", Some("add the missing `]`")),
        Kind::UnterminatedObject => ("this table is never closed", Some("add the missing `}`")),
        Kind::UnterminatedCommentBlock => {
            ("this comment is never closed", Some("add the missing `*/`"))
        }
        Kind::UnexpectedCloseBrace => ("this `}` closes nothing", None),
        Kind::UnexpectedCloseBracket => ("this `]` closes nothing", None),
        Kind::UnexpectedColon => ("this colon does not belong here", None),
        Kind::UnexpectedComma => ("this comma does not belong here", None),
        Kind::UnexpectedWord | Kind::UnexpectedToken if begins_word(source, error) => {
            ("this word needs double quotes", None)
        }
        Kind::NestingDepthExceeded => return SyntaxError::too_deep(at),
        other => return SyntaxError::new(at, lower_first(&other.to_string())),
    };
    SyntaxError {
        at,
        message: message.into(),
        hint,
    }
}

fn begins_word(source: &Source, error: &ParseError) -> bool {
    source
        .text
        .get(error.range().start..)
        .is_some_and(|rest| rest.starts_with(char::is_alphabetic))
}

/// The offset of what comes after white space and comments.
fn next_token(text: &str, offset: usize) -> usize {
    let mut rest = text.get(offset..).unwrap_or_default();
    loop {
        rest = rest.trim_start();
        let after = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            None
        };
        match after.and_then(|after| rest.get(after..)) {
            Some(after) => rest = after,
            None => return text.len() - rest.len(),
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}
