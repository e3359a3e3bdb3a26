//! From JSON to the values of conditions.

use std::collections::HashMap;

use cel::Value;

use crate::catalog::Annotations;

/// Doubles from here on, 2⁵³, do not hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A JSON value; adds to `count` how many values it is made of.
pub(super) fn json(value: &serde_json::Value, count: &mut u64) -> Value {
    *count += 1;
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(written) => number(written),
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| json(item, count)).collect();
            Value::from(items)
        }
        serde_json::Value::Object(members) => {
            let members: HashMap<String, Value> = members
                .iter()
                .map(|(key, member)| (key.clone(), json(member, count)))
                .collect();
            Value::from(members)
        }
    }
}

/// Integers of 64 bits stay integers. A whole double beyond 2⁵³ becomes one where it fits: beside an
/// integer it would be compared as a double, and there neighbours look equal.
fn number(written: &serde_json::Number) -> Value {
    if let Some(integer) = written.as_i64() {
        return Value::Int(integer);
    }
    if let Some(integer) = written.as_u64() {
        return Value::UInt(integer);
    }
    let double = written.as_f64().unwrap_or(f64::NAN);
    if double.abs() >= EXACT
        && let Some(integer) = whole(double)
    {
        return integer;
    }
    Value::Float(double)
}

/// The integer of 64 bits that a double is.
fn whole(double: f64) -> Option<Value> {
    // Every double of this size is whole, and its digits without exponent are its exact value.
    let digits = format!("{double:.0}");
    let signed = digits.parse().ok().map(Value::Int);
    signed.or_else(|| digits.parse().ok().map(Value::UInt))
}

/// What a server says about its tool, under the names of MCP; what it does not say is missing.
pub(super) fn annotations(said: Annotations) -> HashMap<String, Value> {
    [
        ("readOnlyHint", said.read_only),
        ("destructiveHint", said.destructive),
        ("idempotentHint", said.idempotent),
        ("openWorldHint", said.open_world),
    ]
    .into_iter()
    .filter_map(|(name, said)| Some((name.to_owned(), Value::Bool(said?))))
    .collect()
}
