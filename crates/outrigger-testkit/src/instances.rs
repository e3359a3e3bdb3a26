//! Values made from a schema, for tests of what schemas mean. They are meant to fit; whoever needs to
//! be sure asks a validator, and takes those that do.

use serde_json::{Map, Number, Value, json};

/// How deep values are made; what lies deeper is as small as it can be.
const DEEPEST: usize = 8;
/// What patterns of real servers ask for, more or less.
const WORDS: [&str; 17] = [
    "a",
    "word",
    "two words",
    "A1",
    "user_1",
    "2026-11-30",
    "2026-11-30T10:00:00Z",
    "10:00",
    "https://example.org/x",
    "a@example.org",
    "123",
    "#fff",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "{\"a\": 1}",
    "[1, \"b\"]",
    "10.0.0.1",
    "",
];

/// A small generator of numbers, so that a seed is all there is to remember of a failure.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same seed throws the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `sides`, which is not 0.
    pub fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.throw(of.len())])
    }
}

/// A value that is meant to fit `schema`, or nothing where none was found.
pub fn instance(schema: &Value, dice: &mut Dice) -> Option<Value> {
    Maker { root: schema, dice }.value(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    dice: &'a mut Dice,
}

impl Maker<'_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let keywords = match schema {
            Value::Object(keywords) if depth <= 4 * DEEPEST => keywords,
            Value::Bool(true) => return Some(self.anything(depth)),
            _ => return None,
        };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let target = root.pointer(reference.strip_prefix('#')?)?;
            return self.value(target, depth + 1);
        }
        if let Some(value) = keywords.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = keywords.get("enum").and_then(Value::as_array) {
            return self.dice.one(values).cloned();
        }
        let mut made = None;
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = keywords.get(key).and_then(Value::as_array) {
                made = Some(joined(made, self.branch(branches, depth)?));
            }
        }
        for each in keywords
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            made = Some(joined(made, self.value(each, depth)?));
        }
        let is_object = made.as_ref().is_some_and(Value::is_object);
        if made.is_some() && !(is_object && keywords.contains_key("properties")) {
            return made;
        }
        let kind = match keywords.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => self.dice.one(kinds)?.as_str()?,
            _ if keywords.contains_key("properties") => "object",
            _ if keywords.contains_key("items") => "array",
            _ => return Some(self.anything(depth)),
        };
        let own = self.of(kind, keywords, depth)?;
        Some(joined(made, own))
    }

    /// One of the branches, the next ones where it has no value.
    fn branch(&mut self, branches: &[Value], depth: usize) -> Option<Value> {
        let first = self.dice.throw(branches.len().max(1));
        // At the bottom, whatever ends.
        let mut order: Vec<&Value> = branches
            .iter()
            .cycle()
            .skip(first)
            .take(branches.len())
            .collect();
        if depth > DEEPEST {
            order.sort_by_key(|branch| {
                branch.get("$ref").is_some() || branch.get("properties").is_some()
            });
        }
        order
            .into_iter()
            .find_map(|branch| self.value(branch, depth + 1))
    }

    fn of(&mut self, kind: &str, keywords: &Map<String, Value>, depth: usize) -> Option<Value> {
        Some(match kind {
            "object" => self.object(keywords, depth)?,
            "array" => self.list(keywords, depth)?,
            "string" => Value::String(self.string(keywords)),
            "integer" => number(self.dice, keywords, true),
            "number" => number(self.dice, keywords, false),
            "boolean" => Value::Bool(self.dice.throw(2) == 0),
            _ => Value::Null,
        })
    }

    fn object(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut out = Map::new();
        let required: Vec<&str> = keywords
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let declared = keywords.get("properties").and_then(Value::as_object);
        for (name, schema) in declared.into_iter().flatten() {
            let needed = required.contains(&name.as_str());
            if needed || (depth < DEEPEST && self.dice.throw(2) == 0) {
                match self.value(schema, depth + 1) {
                    Some(value) => {
                        out.insert(name.clone(), value);
                    }
                    None if needed => return None,
                    None => {}
                }
            }
        }
        for name in required {
            if !out.contains_key(name) {
                out.insert(name.to_owned(), json!(1));
            }
        }
        let least = keywords
            .get("minProperties")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        if let Some(more @ Value::Object(_)) = keywords.get("additionalProperties") {
            for at in 0..self.dice.throw(3).max(usize::try_from(least).ok()?) {
                if let Some(value) = self.value(more, depth + 1) {
                    out.insert(format!("key {at}"), value);
                }
            }
        }
        let is_free = declared.is_none_or(Map::is_empty)
            && keywords.get("additionalProperties") != Some(&json!(false));
        if is_free && out.is_empty() && (depth < DEEPEST || least > 0) {
            out.insert("free".to_owned(), self.anything(depth + 1));
        }
        Some(Value::Object(out))
    }

    fn list(&mut self, keywords: &Map<String, Value>, depth: usize) -> Option<Value> {
        let bound = |key: &str| {
            keywords
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|bound| usize::try_from(bound).ok())
        };
        let (least, most) = (
            bound("minItems").unwrap_or(0),
            bound("maxItems").unwrap_or(usize::MAX),
        );
        let mut out = Vec::new();
        for schema in keywords
            .get("prefixItems")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            out.push(self.value(schema, depth + 1)?);
        }
        let more = if depth < DEEPEST {
            self.dice.throw(3)
        } else {
            0
        };
        let items = keywords.get("items").unwrap_or(&Value::Bool(true));
        for _ in 0..more.max(least.saturating_sub(out.len())) {
            if out.len() < most
                && let Some(value) = self.value(items, depth + 1)
            {
                out.push(value);
            }
        }
        Some(Value::Array(out))
    }

    fn string(&mut self, keywords: &Map<String, Value>) -> String {
        let bound = |key: &str| {
            keywords
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|bound| usize::try_from(bound).ok())
        };
        let mut text = (*self.dice.one(&WORDS).unwrap_or(&"a")).to_owned();
        while text.chars().count() < bound("minLength").unwrap_or(0).min(1000) {
            text.push('x');
        }
        text.chars()
            .take(bound("maxLength").unwrap_or(usize::MAX))
            .collect()
    }

    fn anything(&mut self, depth: usize) -> Value {
        match self.dice.throw(if depth < DEEPEST { 8 } else { 5 }) {
            0 => Value::Null,
            1 => Value::Bool(true),
            2 => json!(7),
            3 => json!(*self.dice.one(&WORDS).unwrap_or(&"")),
            4 => json!(2.5),
            5 => json!([self.anything(depth + 1)]),
            _ => json!({ "any": self.anything(depth + 1) }),
        }
    }
}

/// Two values of schemas that both apply: objects have the members of both.
fn joined(one: Option<Value>, other: Value) -> Value {
    match (one, other) {
        (Some(Value::Object(mut one)), Value::Object(other)) => {
            for (name, value) in other {
                one.entry(name).or_insert(value);
            }
            Value::Object(one)
        }
        (Some(one), _) => one,
        (None, other) => other,
    }
}

fn number(dice: &mut Dice, keywords: &Map<String, Value>, whole: bool) -> Value {
    let bound = |key: &str| keywords.get(key).and_then(Value::as_f64);
    let above = bound("exclusiveMinimum").map(|bound| bound + if whole { 1.0 } else { 0.5 });
    let below = bound("exclusiveMaximum").map(|bound| bound - if whole { 1.0 } else { 0.5 });
    let least = bound("minimum")
        .into_iter()
        .chain(above)
        .fold(f64::NEG_INFINITY, f64::max);
    let most = bound("maximum")
        .into_iter()
        .chain(below)
        .fold(f64::INFINITY, f64::min);
    let thrown = [0.0, 1.0, 5.0, 42.0, -3.0, 1000.0][dice.throw(6)] + if whole { 0.0 } else { 0.5 };
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let mut value = f64::clamp(thrown, least.min(most), most);
    if let Some(step) = step {
        value = (value / step).ceil() * step;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the numbers are small, or any number will do"
    )]
    let rounded = value.ceil() as i64;
    if whole {
        Value::from(rounded)
    } else {
        Number::from_f64(value).map_or(Value::from(rounded), Value::Number)
    }
}
