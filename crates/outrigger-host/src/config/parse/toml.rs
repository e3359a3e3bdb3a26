//! TOML. The parser keeps spans but not the order of keys; the order is restored from the spans.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{MAX_DEPTH, MAX_VALUES, SyntaxError};
use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::source::Source;

pub(super) fn parse(source: &Source) -> Result<Node, SyntaxError> {
    let table = DeTable::parse(&source.text).map_err(|error| {
        let at = error
            .span()
            .map_or(Pos::START, |span| source.pos(span.start));
        SyntaxError::new(at, error.message())
    })?;
    let mut reading = Reading { source, values: 0 };
    let entries = reading.table(table.into_inner(), 0)?;
    Ok(Node::new(Pos::START, Value::Table(entries)))
}

struct Reading<'a> {
    source: &'a Source,
    values: usize,
}

impl Reading<'_> {
    fn table(&mut self, table: DeTable<'_>, depth: usize) -> Result<Vec<Entry>, SyntaxError> {
        let mut pairs: Vec<_> = table.into_iter().collect();
        pairs.sort_by_key(|(key, _)| key.span().start);
        pairs
            .into_iter()
            .map(|(key, value)| self.entry(key, value, depth))
            .collect()
    }

    fn entry(
        &mut self,
        key: Spanned<std::borrow::Cow<'_, str>>,
        value: Spanned<DeValue<'_>>,
        depth: usize,
    ) -> Result<Entry, SyntaxError> {
        let at = self.source.pos(key.span().start);
        let mut node = self.node(value, depth + 1)?;
        if matches!(node.value, Value::Table(_)) {
            // A table's own span is its header's bracket, or all of its dotted keys: say the key.
            node.at = at;
        }
        Ok(Entry {
            key: key.into_inner().into_owned(),
            at,
            node,
        })
    }

    fn node(&mut self, value: Spanned<DeValue<'_>>, depth: usize) -> Result<Node, SyntaxError> {
        let at = self.source.pos(value.span().start);
        self.values += 1;
        let value = value.into_inner();
        let nests = matches!(value, DeValue::Array(_) | DeValue::Table(_));
        if nests && depth >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        if self.values > MAX_VALUES {
            return Err(SyntaxError::too_many(at));
        }
        let value = match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Integer(number) => {
                let decimal = i128::from_str_radix(number.as_str(), number.radix());
                Value::Number(
                    decimal.map_or_else(|_| number.to_string(), |decimal| decimal.to_string()),
                )
            }
            DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
            DeValue::Array(items) => {
                let items = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(self.table(table, depth)?),
        };
        Ok(Node::new(at, value))
    }
}
