//! A form: the fields that a server's schema asks for, and the object that goes back.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::field::{Field, Kind};

/// Fields that one form may have.
const MOST: usize = 50;

/// What is to be filled in.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) fields: Vec<Field>,
}

impl Form {
    /// The error is worded for the server.
    pub(super) fn read(schema: &RawValue) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(schema.get())
            .map_err(|error| format!("`requestedSchema` cannot be read: {error}"))?;
        let none = Map::new();
        let properties = match &schema["properties"] {
            Value::Object(properties) => properties,
            Value::Null => &none,
            _ => return Err("`requestedSchema.properties` is not an object".to_owned()),
        };
        if properties.len() > MOST {
            return Err(format!(
                "the form has {} fields; {MOST} are the limit",
                properties.len()
            ));
        }
        let required = schema["required"].as_array();
        let is_required = |name: &str| {
            let mut names = required.into_iter().flatten();
            names.any(|required| required == name)
        };
        let mut fields = Vec::new();
        for (name, property) in properties {
            match Kind::of(property) {
                Some(kind) => fields.push(Field::new(name, property, kind, is_required(name))),
                // What nobody needs is left out.
                None if !is_required(name) => {}
                None => {
                    return Err(format!(
                        "the field `{name}` is none that can be filled in at a terminal"
                    ));
                }
            }
        }
        Ok(Self { fields })
    }
}

/// The object of these values, which are JSON.
pub(super) fn values(filled: &[(String, String)]) -> Option<Box<RawValue>> {
    let members = filled
        .iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
    let object = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    RawValue::from_string(object).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: &Value) -> Result<Form, String> {
        Form::read(&serde_json::value::to_raw_value(schema).unwrap())
    }

    #[test]
    fn a_field_that_cannot_be_asked_is_left_out_unless_it_is_needed() {
        let properties = json!({ "a": { "type": "object" }, "b": { "type": "string" } });
        let names = |form: Form| {
            let names = form.fields.into_iter().map(|field| field.name);
            names.collect::<Vec<_>>()
        };
        let asked = form(&json!({ "type": "object", "properties": properties })).unwrap();
        assert_eq!(names(asked), ["b"]);
        let needed = json!({ "type": "object", "properties": properties, "required": ["a"] });
        assert!(form(&needed).unwrap_err().contains("`a`"));
        assert_eq!(names(form(&json!({ "type": "object" })).unwrap()), [""; 0]);
        assert!(form(&json!({ "properties": 1 })).is_err());
    }

    #[test]
    fn values_are_an_object_in_the_order_of_the_form() {
        let filled = [
            ("b\"".to_owned(), "1.50".to_owned()),
            ("a".to_owned(), "[\"x\"]".to_owned()),
        ];
        assert_eq!(values(&filled).unwrap().get(), r#"{"b\"":1.50,"a":["x"]}"#);
    }
}
