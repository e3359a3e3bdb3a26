//! The answer to a call, taken apart without losing anything: blocks in order, each in a form that
//! is known or else as the JSON it was.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A `tools/call` result.
#[derive(Debug)]
pub struct ToolResult {
    /// The answer, byte for byte.
    pub raw: Box<RawValue>,
    /// Its content blocks, in order.
    pub content: Vec<Block>,
    /// Its structured content, byte for byte.
    pub structured: Option<Box<RawValue>>,
    /// The server says that the tool failed. The connection is fine.
    pub is_error: bool,
}

/// One content block.
#[derive(Debug, Clone)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image(Media),
    /// Sound.
    Audio(Media),
    /// A link to a resource of the same server.
    Link {
        /// Its address.
        uri: String,
        /// Its name, description and type, as far as given.
        about: String,
    },
    /// A resource that came along as text.
    Resource {
        /// Its address.
        uri: String,
        /// Its text.
        text: String,
    },
    /// A resource that came along as bytes.
    Blob {
        /// Its address.
        uri: String,
        /// Type and bytes.
        media: Media,
    },
    /// A kind that is not known here, as it came.
    Other(Box<RawValue>),
}

/// Bytes of a known type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// For example `image/png`.
    pub media_type: String,
    /// Base64, as it came.
    pub data: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    content: Option<Vec<Box<RawValue>>>,
    #[serde(default, rename = "structuredContent")]
    structured: Option<Box<RawValue>>,
    #[serde(default, rename = "isError")]
    is_error: Option<bool>,
    #[serde(default, rename = "resultType")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    data: Option<String>,
    #[serde(rename = "mimeType")]
    media_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    description: Option<String>,
    resource: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Contents {
    uri: String,
    text: Option<String>,
    blob: Option<String>,
    #[serde(rename = "mimeType")]
    media_type: Option<String>,
}

const UNKNOWN_TYPE: &str = "application/octet-stream";

impl ToolResult {
    /// Reads an answer. The error says in words what is wrong with it.
    pub fn read(raw: Box<RawValue>) -> Result<Self, (Box<RawValue>, String)> {
        let answer: Answer = match serde_json::from_str(raw.get()) {
            Ok(answer) => answer,
            Err(error) => {
                let what = format!("the answer is not a tool result: {error}");
                return Err((raw, what));
            }
        };
        if let Some(kind) = answer.kind.as_deref().filter(|kind| *kind != "complete") {
            let what = format!(
                "the answer is of kind `{}`, which was not offered to the server",
                kind.escape_debug()
            );
            return Err((raw, what));
        }
        if answer.content.is_none() && answer.structured.is_none() && answer.is_error.is_none() {
            return Err((
                raw,
                "the answer has neither `content` nor `structuredContent`".to_owned(),
            ));
        }
        Ok(Self {
            content: answer
                .content
                .unwrap_or_default()
                .into_iter()
                .map(Block::read)
                .collect(),
            structured: answer.structured,
            is_error: answer.is_error.unwrap_or(false),
            raw,
        })
    }

    /// The error of the protocol that the server answered with, where this stands for one: `code`,
    /// `message` and `data`.
    pub fn protocol_error(&self) -> Option<&RawValue> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
        }
        // What a server sends as a result is one only with a `content` or one of its kind ([`ToolResult::read`]).
        let known: Answer = self
            .is_error
            .then(|| serde_json::from_str(self.raw.get()).ok())??;
        if known.content.is_some() || known.structured.is_some() || known.is_error.is_some() {
            return None;
        }
        serde_json::from_str::<Shape<'_>>(self.raw.get())
            .ok()?
            .error
    }

    /// The structured content, parsed.
    pub fn structured_value(&self) -> Option<Value> {
        self.structured
            .as_ref()
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// Whether a text block already says what the structured content says.
    pub fn text_repeats_structure(&self) -> bool {
        let Some(structured) = self.structured_value() else {
            return false;
        };
        let inner = structured
            .as_object()
            .filter(|members| members.len() == 1)
            .and_then(|members| members.values().next());
        self.content.iter().any(|block| {
            let Block::Text(text) = block else {
                return false;
            };
            inner.and_then(Value::as_str) == Some(text)
                || serde_json::from_str::<Value>(text)
                    .is_ok_and(|value| value == structured || Some(&value) == inner)
        })
    }
}

impl Block {
    pub(crate) fn read(raw: Box<RawValue>) -> Self {
        Self::known(&raw).unwrap_or(Self::Other(raw))
    }

    fn known(raw: &RawValue) -> Option<Self> {
        let fields: Fields = serde_json::from_str(raw.get()).ok()?;
        let media = |fields: Fields| {
            Some(Media {
                media_type: fields.media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned()),
                data: fields.data?,
            })
        };
        match fields.kind.as_str() {
            "text" => fields.text.map(Self::Text),
            "image" => media(fields).map(Self::Image),
            "audio" => media(fields).map(Self::Audio),
            "resource_link" => {
                let about = [fields.name, fields.description, fields.media_type];
                let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
                fields.uri.map(|uri| Self::Link { uri, about })
            }
            "resource" => Self::embedded(&fields.resource?),
            _ => None,
        }
    }

    fn embedded(raw: &RawValue) -> Option<Self> {
        let contents: Contents = serde_json::from_str(raw.get()).ok()?;
        match (contents.text, contents.blob) {
            (Some(text), _) => Some(Self::Resource {
                uri: contents.uri,
                text,
            }),
            (None, Some(data)) => {
                let media_type = contents
                    .media_type
                    .unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
                Some(Self::Blob {
                    uri: contents.uri,
                    media: Media { media_type, data },
                })
            }
            (None, None) => None,
        }
    }
}

impl Media {
    /// How many bytes the base64 stands for, about.
    pub fn bytes(&self) -> usize {
        self.data.trim_end_matches('=').len() * 3 / 4
    }
}
