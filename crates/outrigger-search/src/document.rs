//! What of a tool is searched: its names, its description, and what its schema says about parameters.

use serde_json::Value;

/// Schemas nest; what lies deeper than this says little about what a tool is for.
const DEEPEST: usize = 12;
/// The parameters and values of one tool that are read at most.
const MOST_PARAMETERS: usize = 512;
const MOST_VALUES: usize = 64;

/// One tool, as it is searched. `server` and `name` together are its identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The server, as the person named it.
    pub server: String,
    /// The server's own name for the tool.
    pub name: String,
    /// A title for people, where the server gives one.
    pub title: String,
    /// What the server says that the tool does.
    pub description: String,
    /// Names, descriptions and values of its parameters.
    pub parameters: Parameters,
}

/// What an input schema says in words, nested members too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Names of properties.
    pub names: Vec<String>,
    /// Titles and descriptions of properties.
    pub descriptions: Vec<String>,
    /// Words among `enum`, `const` and `examples`.
    pub values: Vec<String>,
}

impl Parameters {
    /// Reads a JSON Schema of any dialect. References are not followed: what they point to inside the
    /// schema is read where it stands.
    pub fn of(schema: &Value) -> Self {
        let mut parameters = Self::default();
        parameters.read(schema, 0);
        parameters
    }

    fn read(&mut self, schema: &Value, depth: usize) {
        if depth > DEEPEST || self.names.len() >= MOST_PARAMETERS {
            return;
        }
        match schema {
            Value::Array(parts) => parts.iter().for_each(|part| self.read(part, depth + 1)),
            Value::Object(members) => {
                for (key, value) in members {
                    self.read_member(key, value, depth);
                }
            }
            _ => {}
        }
    }

    fn read_member(&mut self, key: &str, value: &Value, depth: usize) {
        match (key, value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    self.names.push(name.clone());
                    self.read(property, depth + 1);
                }
            }
            // The schema's own title and description speak of the whole input, not of a parameter.
            ("description" | "title", Value::String(text)) if depth > 0 => {
                self.descriptions.push(text.clone());
            }
            ("enum" | "examples", Value::Array(values)) => {
                let words = values.iter().filter_map(Value::as_str);
                let room = MOST_VALUES.saturating_sub(self.values.len());
                self.values.extend(words.take(room).map(str::to_owned));
            }
            ("const", Value::String(value)) => self.values.push(value.clone()),
            ("$defs" | "definitions" | "patternProperties", Value::Object(parts)) => {
                parts.values().for_each(|part| self.read(part, depth + 1));
            }
            (
                "items"
                | "prefixItems"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "additionalProperties"
                | "if"
                | "then"
                | "else",
                nested,
            ) => self.read(nested, depth + 1),
            _ => {}
        }
    }
}
