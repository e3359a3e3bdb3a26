//! Runs a [`Plan`] over the text of a call's arguments, in both directions. Only what the plan says
//! is touched: digits, escapes and the order of everything else stay as they are written.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Member, Null, Plan, Shape, Step, StepId, Text};

impl Plan {
    /// From what the model wrote to the server's words.
    pub(crate) fn back<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.run(text, Direction::Back)
    }

    /// From the server's words to what the model would write.
    pub(crate) fn forth<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.run(text, Direction::Forth)
    }

    fn run<'a>(&self, text: &'a str, direction: Direction) -> Cow<'a, str> {
        let raw: &RawValue = match serde_json::from_str(text) {
            Ok(raw) if !self.is_identity() => raw,
            _ => return Cow::Borrowed(text),
        };
        let run = Run {
            plan: self,
            direction,
        };
        run.value(self.start, raw)
            .map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Back,
    Forth,
}

struct Run<'p> {
    plan: &'p Plan,
    direction: Direction,
}

impl Run<'_> {
    /// The value in other words; nothing when it stays as it is.
    fn value(&self, id: StepId, raw: &RawValue) -> Option<String> {
        if id == 0 {
            return None;
        }
        let step = &self.plan.steps[id];
        match (self.direction, raw.get().as_bytes().first()) {
            (Direction::Back, Some(b'"')) if step.text.is_some() => json_in(raw),
            (Direction::Forth, _) if wants_text(step, raw) => Some(string(raw.get())),
            (Direction::Back, Some(b'[')) if step.pairs.is_some() => self.map_of(step, raw),
            (Direction::Forth, Some(b'{')) if step.pairs.is_some() && !fits_a_shape(step, raw) => {
                self.pairs_of(step, raw)
            }
            (_, Some(b'[')) => self.list(step, raw),
            (Direction::Back, Some(b'{')) => self.object_back(step, raw),
            (Direction::Forth, Some(b'{')) => self.object_forth(step, raw),
            _ => None,
        }
    }

    fn or_same(&self, id: StepId, raw: &RawValue) -> String {
        self.value(id, raw).unwrap_or_else(|| raw.get().to_owned())
    }

    fn list(&self, step: &Step, raw: &RawValue) -> Option<String> {
        let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
        let each = items.iter().enumerate().map(|(at, item)| {
            let next = step.prefix.get(at).copied().unwrap_or(step.items);
            self.or_same(next, item)
        });
        Some(format!("[{}]", each.collect::<Vec<_>>().join(",")))
    }

    fn object_back(&self, step: &Step, raw: &RawValue) -> Option<String> {
        let members: Members<'_> = serde_json::from_str(raw.get()).ok()?;
        let written: BTreeSet<&str> = members.0.iter().map(|(name, _)| name.as_ref()).collect();
        let mut out = Object::default();
        for (name, value) in &members.0 {
            let Some(way) = step.members.get(name.as_ref()) else {
                out.put(name, &self.or_same(step.rest, value));
                continue;
            };
            if way.null == Null::Absent && value.get() == "null" {
                continue;
            }
            // Both names at once: the one that is not the server's stays, and is judged as it is.
            let is_taken = way.original != name.as_ref() && written.contains(way.original.as_str());
            let original = if is_taken {
                name
            } else {
                way.original.as_str()
            };
            out.put(original, &self.or_same(way.step, value));
        }
        Some(out.end())
    }

    fn object_forth(&self, step: &Step, raw: &RawValue) -> Option<String> {
        let members: Members<'_> = serde_json::from_str(raw.get()).ok()?;
        let shape = shape_of(step, &members);
        let mut out = Object::default();
        for (name, value) in &members.0 {
            let own = shape
                .into_iter()
                .flatten()
                .find(|(member, _)| member.original == *name);
            let any = || step.members.iter().find(|(_, way)| way.original == *name);
            let (sent, next) = match own {
                Some((member, next)) => (member.sent.as_str(), *next),
                None => any().map_or((name.as_ref(), step.rest), |(sent, way)| {
                    (sent.as_str(), way.step)
                }),
            };
            out.put(sent, &self.or_same(next, value));
        }
        for (member, _) in shape.into_iter().flatten() {
            let given = members.0.iter().any(|(name, _)| *name == member.original);
            if member.null == Null::Absent && !given {
                out.put(&member.sent, "null");
            }
        }
        Some(out.end())
    }

    /// A list of `{key, value}` as the map it stands for. One that is not such a list, or names a
    /// key twice, stays a list, and is refused as one.
    fn map_of(&self, step: &Step, raw: &RawValue) -> Option<String> {
        let pairs: Vec<Members<'_>> = serde_json::from_str(raw.get()).ok()?;
        let (mut keys, mut out) = (BTreeSet::new(), Object::default());
        for pair in &pairs {
            let [(first, key), (second, value)] = &pair.0[..] else {
                return None;
            };
            let (key, value) = match (first.as_ref(), second.as_ref()) {
                ("key", "value") => (key, value),
                ("value", "key") => (value, key),
                _ => return None,
            };
            let key: String = serde_json::from_str(key.get()).ok()?;
            if !keys.insert(key.clone()) {
                return None;
            }
            out.put(&key, &self.or_same(step.pairs.unwrap_or_default(), value));
        }
        Some(out.end())
    }

    fn pairs_of(&self, step: &Step, raw: &RawValue) -> Option<String> {
        let members: Members<'_> = serde_json::from_str(raw.get()).ok()?;
        let pair = |(name, value): &(Cow<'_, str>, &RawValue)| {
            let value = self.or_same(step.pairs.unwrap_or_default(), value);
            format!("{{\"key\":{},\"value\":{value}}}", string(name))
        };
        let pairs: Vec<String> = members.0.iter().map(pair).collect();
        Some(format!("[{}]", pairs.join(",")))
    }
}

fn wants_text(step: &Step, raw: &RawValue) -> bool {
    match step.text {
        Some(Text::Anything) => true,
        Some(Text::Objects) => raw.get().starts_with('{') && !fits_a_shape(step, raw),
        None => false,
    }
}

/// The JSON that a string holds, if it holds any.
fn json_in(raw: &RawValue) -> Option<String> {
    let text: String = serde_json::from_str(raw.get()).ok()?;
    let inner: &RawValue = serde_json::from_str(text.trim()).ok()?;
    Some(inner.get().to_owned())
}

fn fits_a_shape(step: &Step, raw: &RawValue) -> bool {
    serde_json::from_str(raw.get()).is_ok_and(|members| shape_of(step, &members).is_some())
}

/// The object among those of the step that an object of the server's words is: it has the constants,
/// and the most of the properties.
fn shape_of<'s>(step: &'s Step, given: &Members<'_>) -> Option<&'s Shape> {
    let value_of = |name: &str| {
        given
            .0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    };
    let is_one_of = |member: &Member| {
        let value = value_of(&member.original)
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        member.only.is_empty() || value.is_none_or(|value| member.only.contains(&value))
    };
    let fits = |shape: &&Shape| {
        let all_known = given
            .0
            .iter()
            .all(|(name, _)| shape.iter().any(|(member, _)| member.original == *name));
        let is_there = |member: &Member| !member.required || value_of(&member.original).is_some();
        all_known
            && shape
                .iter()
                .all(|(member, _)| is_one_of(member) && is_there(member))
    };
    step.shapes.iter().find(fits)
}

/// An object's members in their order, each as it is written; a name may come twice.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    members.push((Cow::Owned(name), map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The text of an object that is being written.
#[derive(Default)]
struct Object(String);

impl Object {
    fn put(&mut self, name: &str, value: &str) {
        let before = if self.0.is_empty() { "{" } else { "," };
        // Writing to a string does not fail.
        write!(self.0, "{before}{}:{value}", string(name)).ok();
    }

    fn end(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0.push('}');
        self.0
    }
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}
