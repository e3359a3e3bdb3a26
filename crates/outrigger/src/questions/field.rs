//! One field of a form: what it takes, and what a typed line means for it.
//!
//! Promises: what is typed becomes a value that fits the field's schema, or is refused with what
//! would fit; digits of numbers stay as they were typed. Source: MCP, "Elicitation", "Supported
//! schema types".

use outrigger_host::Schema;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

/// Choices that are listed.
const LISTED: usize = 100;

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    title: String,
    description: String,
    kind: Kind,
    required: bool,
    default: Option<Value>,
    schema: Option<Schema>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text { format: Option<String> },
    Number { whole: bool },
    Truth,
    One(Vec<Choice>),
    Several(Vec<Choice>),
}

/// A value that may be chosen, and what it is called.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    value: String,
    title: String,
}

impl Kind {
    /// `None`: none of those that a form may have.
    pub(super) fn of(property: &Value) -> Option<Self> {
        match property["type"].as_str()? {
            "string" => match choices(property) {
                Some(choices) => Some(Self::One(choices)),
                None => Some(Self::Text {
                    format: property["format"].as_str().map(ToOwned::to_owned),
                }),
            },
            "number" => Some(Self::Number { whole: false }),
            "integer" => Some(Self::Number { whole: true }),
            "boolean" => Some(Self::Truth),
            "array" => choices(&property["items"]).map(Self::Several),
            _ => None,
        }
    }
}

/// `enum` with or without `enumNames`, or `oneOf`/`anyOf` of titled constants.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    if let Some(values) = schema["enum"].as_array() {
        let named = values.iter().enumerate().map(|(at, value)| {
            let value = value.as_str()?.to_owned();
            let title = schema["enumNames"][at].as_str().unwrap_or(&value);
            Some(Choice {
                title: title.to_owned(),
                value,
            })
        });
        return named.collect();
    }
    let titled = schema["oneOf"].as_array().or(schema["anyOf"].as_array())?;
    let named = titled.iter().map(|one| {
        let value = one["const"].as_str()?.to_owned();
        let title = one["title"].as_str().unwrap_or(&value);
        Some(Choice {
            title: title.to_owned(),
            value,
        })
    });
    named.collect()
}

impl Field {
    pub(super) fn new(name: &str, property: &Value, kind: Kind, required: bool) -> Self {
        let text = |member: &str| property[member].as_str().unwrap_or_default().to_owned();
        // The sound parts of a schema are checked here; what it says beyond them, by it.
        let schema = Schema::compile(property).ok();
        let default = property.get("default").filter(|value| !value.is_null());
        let fits = |value: &&Value| {
            let schema = schema.as_ref();
            schema.is_none_or(|schema| schema.violations(value).is_empty())
        };
        Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            default: default.filter(fits).cloned(),
            kind,
            required,
            schema,
        }
    }

    /// Lines before the prompt.
    pub(super) fn about(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.description.is_empty() {
            lines.push(self.description.clone());
        }
        if let Kind::One(choices) | Kind::Several(choices) = &self.kind {
            for (at, choice) in choices.iter().enumerate().take(LISTED) {
                let value = if choice.title == choice.value {
                    String::new()
                } else {
                    format!(" ({})", choice.value)
                };
                lines.push(format!("  {}) {}{value}", at + 1, choice.title));
            }
            if choices.len() > LISTED {
                lines.push(format!("  … and {} more", choices.len() - LISTED));
            }
        }
        lines
    }

    /// For example `Age (age), a whole number, needed`.
    pub(super) fn prompt(&self) -> String {
        let name = if self.title.is_empty() || self.title == self.name {
            self.name.clone()
        } else {
            format!("{} ({})", self.title, self.name)
        };
        let kind = match &self.kind {
            Kind::Text {
                format: Some(format),
            } => match format.as_str() {
                "date" => "a date like 2026-11-30".to_owned(),
                "date-time" => "a time like 2026-11-30T12:00:00Z".to_owned(),
                other => other.to_owned(),
            },
            Kind::Text { format: None } => "text".to_owned(),
            Kind::Number { whole: true } => "a whole number".to_owned(),
            Kind::Number { whole: false } => "a number".to_owned(),
            Kind::Truth => "yes or no".to_owned(),
            Kind::One(_) => "one of these".to_owned(),
            Kind::Several(_) => "any of these, with commas".to_owned(),
        };
        let need = match (&self.default, self.required) {
            (Some(default), _) => format!(", default {default}"),
            (None, true) => ", needed".to_owned(),
            (None, false) => String::new(),
        };
        format!("{name}, {kind}{need}")
    }

    /// The value as JSON, `None` to leave it out, or why the line does not do.
    pub(super) fn read(&self, line: &str) -> Result<Option<String>, String> {
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.to_string())),
                None if !self.required => Ok(None),
                None => Err(match self.kind {
                    Kind::Text { .. } => "it is needed (`\"\"` is an empty text)".to_owned(),
                    _ => "it is needed".to_owned(),
                }),
            };
        }
        let json = match &self.kind {
            Kind::Text { format } => text(line, format.as_deref())?,
            Kind::Number { whole } => number(line, *whole)?,
            Kind::Truth => truth(line)?.to_owned(),
            Kind::One(choices) => Value::from(chosen(line, choices)?).to_string(),
            Kind::Several(choices) => {
                let words = line
                    .split(',')
                    .map(str::trim)
                    .filter(|word| !word.is_empty());
                let mut values: Vec<&str> = Vec::new();
                for word in words {
                    let value = chosen(word, choices)?;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Value::from(values).to_string()
            }
        };
        self.check(&json)?;
        Ok(Some(json))
    }

    fn check(&self, json: &str) -> Result<(), String> {
        let (Some(schema), Ok(value)) = (&self.schema, serde_json::from_str(json)) else {
            return Ok(());
        };
        match schema.violations(&value).first() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(()),
        }
    }
}

fn text(line: &str, format: Option<&str>) -> Result<String, String> {
    let text = if line == "\"\"" { "" } else { line };
    let good = match format {
        Some("email") => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !text.contains(' ')
        }),
        Some("uri") => Url::parse(text).is_ok(),
        Some("date") => text.parse::<jiff::civil::Date>().is_ok(),
        Some("date-time") => text.parse::<jiff::Timestamp>().is_ok(),
        _ => true,
    };
    if good {
        Ok(Value::from(text).to_string())
    } else {
        Err(format!("that is no {}", format.unwrap_or("text")))
    }
}

/// The digits as they were typed.
fn number(line: &str, whole: bool) -> Result<String, String> {
    let is_number = serde_json::from_str::<&RawValue>(line).is_ok()
        && line.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let digits = line.strip_prefix('-').unwrap_or(line);
    match (is_number, whole) {
        (true, true) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(line.to_owned()),
        (true, false) => Ok(line.to_owned()),
        (_, true) => Err("that is no whole number".to_owned()),
        (false, false) => Err("that is no number".to_owned()),
    }
}

fn truth(line: &str) -> Result<&'static str, String> {
    match line.to_lowercase().as_str() {
        "y" | "yes" | "true" => Ok("true"),
        "n" | "no" | "false" => Ok("false"),
        _ => Err("type yes or no".to_owned()),
    }
}

/// By value, by title, or by its number in the list, in that order.
fn chosen<'a>(word: &str, choices: &'a [Choice]) -> Result<&'a str, String> {
    let by_number = || {
        let number: usize = word.parse().ok()?;
        choices.get(number.checked_sub(1)?)
    };
    let found = choices
        .iter()
        .find(|choice| choice.value == word)
        .or_else(|| choices.iter().find(|choice| choice.title == word))
        .or_else(by_number);
    found.map(|choice| choice.value.as_str()).ok_or_else(|| {
        format!(
            "`{word}` is none of them; type a number from 1 to {}",
            choices.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn field(property: &Value, required: bool) -> Field {
        Field::new("f", property, Kind::of(property).unwrap(), required)
    }

    #[track_caller]
    fn reads(property: &Value, line: &str, value: Result<&str, &str>) {
        match (field(property, true).read(line), value) {
            (Ok(Some(read)), Ok(expected)) => assert_eq!(read, expected, "{line}"),
            (Err(why), Err(word)) => assert!(why.contains(word), "{line}: {why}"),
            (read, expected) => panic!("{line}: {read:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn lines_become_values_that_fit() {
        let text = json!({ "type": "string", "minLength": 2, "pattern": "^a" });
        reads(&text, "ab", Ok("\"ab\""));
        reads(&text, "a", Err("shorter"));
        reads(&text, "bb", Err("match"));
        reads(&json!({ "type": "string" }), "\"\"", Ok("\"\""));
        reads(&json!({ "type": "string" }), "", Err("needed"));
        for (format, good, bad) in [
            ("email", "a@b.example", "a b"),
            ("uri", "https://a.example", "a"),
            ("date", "2026-11-30", "2026-13-01"),
            ("date-time", "2026-11-30T12:00:00Z", "noon"),
        ] {
            let property = json!({ "type": "string", "format": format });
            reads(&property, good, Ok(&format!("\"{good}\"")));
            reads(&property, bad, Err(format));
        }
        let whole = json!({ "type": "integer", "minimum": 1, "maximum": 9 });
        reads(&whole, "7", Ok("7"));
        reads(&whole, "10", Err("maximum"));
        reads(&whole, "1.5", Err("whole"));
        reads(
            &json!({ "type": "integer" }),
            "123456789012345678901234567890",
            Ok("123456789012345678901234567890"),
        );
        reads(&json!({ "type": "number" }), "-1.50", Ok("-1.50"));
        reads(&json!({ "type": "number" }), "NaN", Err("no number"));
        reads(&json!({ "type": "boolean" }), "Y", Ok("true"));
        reads(&json!({ "type": "boolean" }), "maybe", Err("yes or no"));
    }

    #[test]
    fn choices_are_made_by_value_title_or_number() {
        let plain = json!({ "type": "string", "enum": ["red", "2"], "enumNames": ["Rot", "Zwei"] });
        reads(&plain, "red", Ok("\"red\""));
        reads(&plain, "Zwei", Ok("\"2\""));
        reads(&plain, "1", Ok("\"red\""));
        reads(&plain, "2", Ok("\"2\""));
        reads(&plain, "blue", Err("1 to 2"));
        let titled = json!({ "type": "string", "oneOf": [{ "const": "a", "title": "First" }] });
        reads(&titled, "First", Ok("\"a\""));
        let several = json!({
            "type": "array", "minItems": 2, "items": { "anyOf": [{ "const": "a", "title": "A" }, { "const": "b", "title": "B" }] },
        });
        reads(&several, "B, 1,b", Ok("[\"b\",\"a\"]"));
        reads(&several, "a", Err("less than 2"));
    }

    #[test]
    fn an_empty_line_is_the_default_or_nothing() {
        let with_default = json!({ "type": "boolean", "default": false });
        assert_eq!(
            field(&with_default, true).read("").unwrap().as_deref(),
            Some("false")
        );
        // A default that does not fit is none.
        let unfit = json!({ "type": "integer", "default": "x" });
        assert_eq!(field(&unfit, false).read("").unwrap(), None);
        assert!(field(&unfit, true).read("").is_err());
    }

    #[test]
    fn what_no_form_may_have_is_no_field() {
        for property in [
            json!({ "type": "object" }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": ["string", "null"] }),
            json!({}),
        ] {
            assert_eq!(Kind::of(&property), None, "{property}");
        }
    }
}
