//! The law of a compiled schema, for one tool: what fits it comes back as what it stands for, and what
//! fits the original can be said.

use jsonschema::Validator;
use outrigger_schemas::{Compiled, Effect, Family, compile};
use serde_json::{Map, Value, json};

use crate::instances::{Dice, instance};

/// How many values were tried, and what they were.
#[derive(Debug, Default)]
pub struct Tally {
    /// Values that fit the compiled schema.
    pub back: usize,
    /// Of those, how many the original takes.
    pub back_fits: usize,
    /// Values that fit the original schema.
    pub forth: usize,
    /// Of those, how many the compiled schema takes.
    pub forth_fits: usize,
}

/// One tool's schema, its compiled form, and validators of both.
pub struct Law<'s> {
    family: Family,
    original: &'s Value,
    compiled: Compiled,
    sent: Value,
    of_original: Validator,
    of_sent: Validator,
}

impl<'s> Law<'s> {
    /// `None` for a tool that is set aside.
    ///
    /// # Errors
    ///
    /// When a schema cannot be read by the validator.
    pub fn new(family: Family, original: &'s Value) -> Result<Option<Self>, String> {
        let Ok(compiled) = compile(family, original) else {
            return Ok(None);
        };
        let sent = compiled
            .schema
            .clone()
            .unwrap_or_else(|| json!({"type": "object", "additionalProperties": false}));
        let sent = if family == Family::Gemini {
            from_openapi(&sent)
        } else {
            sent
        };
        let build = |schema: &Value| {
            jsonschema::options()
                .should_validate_formats(false)
                .build(schema)
                .map_err(|error| format!("{error} in {schema}"))
        };
        Ok(Some(Self {
            family,
            original,
            of_original: build(original)?,
            of_sent: build(&sent)?,
            compiled,
            sent,
        }))
    }

    fn has(&self, effect: Effect) -> bool {
        self.compiled
            .changes
            .iter()
            .any(|change| change.effect == effect)
    }

    /// Whether only properties that nobody declared are refused.
    fn narrows_declared(&self) -> bool {
        let harmless = ["only declared properties are taken", "takes no arguments"];
        // One of several schemas of a property was taken, and declares less than the others.
        let merged = self
            .compiled
            .changes
            .iter()
            .any(|change| change.what.contains("one object with"));
        let mut narrower = self
            .compiled
            .changes
            .iter()
            .filter(|change| change.effect == Effect::Narrower);
        narrower.any(|change| merged || !harmless.contains(&change.what.as_str()))
    }

    /// Tries so many values in each direction.
    ///
    /// # Errors
    ///
    /// The first value for which the law does not hold, with all that is needed to see why.
    pub fn hold(&self, dice: &mut Dice, times: usize, tally: &mut Tally) -> Result<(), String> {
        for _ in 0..times {
            if let Some(written) =
                instance(&self.sent, dice).filter(|value| self.of_sent.is_valid(value))
            {
                tally.back += 1;
                tally.back_fits += usize::from(self.comes_back(&written)?);
            }
            if let Some(meant) = instance(self.original, dice)
                .filter(|value| value.is_object() && self.of_original.is_valid(value))
            {
                tally.forth += 1;
                tally.forth_fits += usize::from(self.can_be_said(&meant)?);
            }
        }
        Ok(())
    }

    fn comes_back(&self, written: &Value) -> Result<bool, String> {
        let text = written.to_string();
        let back = self.compiled.to_original(&text);
        let original: Value = read(&back)?;
        let again: Value = read(&self.compiled.to_provider(&back))?;
        let twice: Value = read(&self.compiled.to_original(&again.to_string()))?;
        if twice != original || leaves(written) != leaves(&original) {
            return Err(self.told(&format!(
                "{written} came back as {original}, which is {again}"
            )));
        }
        if self.compiled.is_same_call() && original != *written {
            return Err(self.told(&format!("{written} was altered")));
        }
        let fits = self.of_original.is_valid(&original);
        if !fits && !self.has(Effect::Looser) {
            return Err(self.told(&format!(
                "{written} is {original}, which does not fit, and nothing is looser"
            )));
        }
        Ok(fits)
    }

    fn can_be_said(&self, meant: &Value) -> Result<bool, String> {
        let text = meant.to_string();
        let said = self.compiled.to_provider(&text);
        let sent: Value = read(&said)?;
        let back: Value = read(&self.compiled.to_original(&said))?;
        if back != *meant {
            return Err(self.told(&format!(
                "{meant} is said as {sent}, which comes back as {back}"
            )));
        }
        let fits = self.of_sent.is_valid(&sent);
        if !fits && !self.narrows_declared() && !self.may_be_taken_for_another(meant) {
            return Err(self.told(&format!(
                "{meant} is said as {sent}, which does not fit, and nothing is narrower"
            )));
        }
        Ok(fits)
    }

    /// Whether it is not known which alternative a value belongs to. On the way forth, which is for
    /// showing a model what it wrote earlier, an object goes by the names of its members; that may be wrong
    /// for names that the maker of values made up, and beside an object that takes all of them.
    fn may_be_taken_for_another(&self, value: &Value) -> bool {
        let says = |beginning: &str| {
            self.compiled
                .changes
                .iter()
                .any(|change| change.what.starts_with(beginning))
        };
        let text = value.to_string();
        let mut names = ["\"free\":", "\"key 0\":", "\"any\":"].into_iter();
        let has_free_names = names.any(|name| text.contains(name));
        says("an object is written as JSON text")
            || (has_free_names && (says("a map is written") || self.has(Effect::Narrower)))
    }

    fn told(&self, fault: &str) -> String {
        let changes: Vec<String> = self
            .compiled
            .changes
            .iter()
            .map(ToString::to_string)
            .collect();
        format!(
            "{}: {fault}\noriginal {}\nsent {}\n{}",
            self.family,
            self.original,
            self.sent,
            changes.join("\n")
        )
    }
}

fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error} in {text}"))
}

/// All texts, numbers and truths in a value, also those in JSON that is written as text. Keys of maps
/// are left out, because they may be values, and null, because it may stand for nothing.
fn leaves(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather(value, &mut found);
    found.sort();
    found
}

fn gather(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner) => gather(&inner, found),
            Err(_) => found.push(value.to_string()),
        },
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        // In a map that is written as a list, a `key` is the name of a member.
        Value::Object(members) => {
            let told = members.iter().filter(|(name, _)| *name != "key");
            told.for_each(|(_, member)| gather(member, found));
        }
        _ => found.push(value.to_string()),
    }
}

/// What Gemini's schema means, in JSON Schema.
fn from_openapi(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (key, value) in keywords {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(members)) => Value::Object(
                members
                    .iter()
                    .map(|(name, member)| (name.clone(), from_openapi(member)))
                    .collect(),
            ),
            ("items", value) => from_openapi(value),
            ("anyOf", Value::Array(schemas)) => schemas.iter().map(from_openapi).collect(),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if out.remove("nullable").is_some() {
        return json!({ "anyOf": [out, { "type": "null" }] });
    }
    Value::Object(out)
}
