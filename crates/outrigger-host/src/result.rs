//! The answer to a call, taken apart without losing anything: blocks in order, each in a form that
//! is known or else as the JSON it was, with what its server says about it.
//!
//! What is small stands here. What is large or no text is moved out into artifacts
//! ([`pipeline`](crate::Host::call)), and only its ends and its handle stay; so an answer of any size
//! costs its memory once.

mod block;
mod media;
mod repeats;
mod text;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use block::{Block, Body, Content, Link};
pub use media::{ImageFault, Media};

use crate::artifact::ArtifactRef;

/// A `tools/call` result.
#[derive(Debug)]
pub struct ToolResult {
    /// The answer, byte for byte.
    pub raw: Raw,
    /// Its content blocks, in order.
    pub content: Vec<Block>,
    /// Its structured content.
    pub structured: Option<Structured>,
    /// The server's own `_meta`, as it came. Nothing here reads it.
    pub meta: Option<Box<RawValue>>,
    /// The server says that the tool failed. The connection is fine.
    pub is_error: bool,
    /// Blocks that are not shown because there are too many.
    pub more: Option<More>,
}

/// Blocks that are not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct More {
    /// How many.
    pub blocks: usize,
    /// The artifact that holds the whole answer, as JSON.
    pub artifact: Option<ArtifactRef>,
}

/// Where the answer is, byte for byte.
#[derive(Debug)]
pub enum Raw {
    /// Here.
    Here(Box<RawValue>),
    /// In an artifact: it is too large to stand in a record.
    Kept(ArtifactRef),
}

/// Structured content: JSON of any type.
#[derive(Debug)]
pub struct Structured {
    /// The JSON text, as it came.
    pub body: Body,
    /// Whether readers are shown it; not where the blocks say the same.
    pub shown: bool,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(
        borrow,
        default,
        rename = "structuredContent",
        deserialize_with = "present"
    )]
    structured: Option<&'a RawValue>,
    #[serde(default, rename = "isError")]
    is_error: Option<bool>,
    #[serde(default, rename = "resultType")]
    kind: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Option<Box<RawValue>>,
}

/// A member that is there, also where it is `null`.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl ToolResult {
    /// Reads an answer. The error says in words what is wrong with it.
    pub fn read(raw: Box<RawValue>) -> Result<Self, (Box<RawValue>, String)> {
        match Self::parts(&raw) {
            Ok(mut result) => {
                result.raw = Raw::Here(raw);
                Ok(result)
            }
            Err(what) => Err((raw, what)),
        }
    }

    fn parts(raw: &RawValue) -> Result<Self, String> {
        let answer: Answer<'_> = serde_json::from_str(raw.get())
            .map_err(|error| format!("the answer is not a tool result: {error}"))?;
        if let Some(kind) = answer.kind.as_deref().filter(|kind| *kind != "complete") {
            return Err(format!(
                "the answer is of kind `{}`, which was not offered to the server",
                kind.escape_debug()
            ));
        }
        if answer.content.is_none() && answer.structured.is_none() && answer.is_error.is_none() {
            return Err("the answer has neither `content` nor `structuredContent`".to_owned());
        }
        let blocks = answer.content.unwrap_or_default().into_iter();
        let mut content: Vec<Block> = blocks.map(Block::read).collect();
        let structured = answer.structured.map(|raw| {
            let shown = match repeats::repeated(&content, raw) {
                _ if raw.get() == "null" => content.is_empty(),
                Some(repeated) if repeated.shorter => {
                    for at in repeated.blocks {
                        content[at].shown = false;
                    }
                    true
                }
                repeated => repeated.is_none(),
            };
            Structured {
                body: Body::Whole(raw.get().to_owned()),
                shown,
            }
        });
        Ok(Self {
            raw: Raw::Here(RawValue::NULL.to_owned()),
            content,
            structured,
            meta: answer.meta,
            is_error: answer.is_error.unwrap_or(false),
            more: None,
        })
    }

    /// Pieces that a server gave outside of a call.
    pub(crate) fn of(content: Vec<Block>) -> Self {
        Self {
            raw: Raw::Here(RawValue::NULL.to_owned()),
            content,
            structured: None,
            meta: None,
            is_error: false,
            more: None,
        }
    }

    /// The error of the protocol that the server answered with, where this stands for one: `code`,
    /// `message` and `data`.
    pub fn protocol_error(&self) -> Option<&RawValue> {
        #[derive(Deserialize)]
        struct Shape<'a> {
            #[serde(borrow, default)]
            error: Option<&'a RawValue>,
        }
        let raw = self.raw.here().filter(|_| self.is_error)?;
        // What a server sends as a result has a member of one ([`ToolResult::read`]).
        let known: Answer<'_> = serde_json::from_str(raw.get()).ok()?;
        if known.content.is_some() || known.structured.is_some() || known.is_error.is_some() {
            return None;
        }
        serde_json::from_str::<Shape<'_>>(raw.get()).ok()?.error
    }

    /// An answer that is one text.
    pub(crate) fn text(raw: Box<RawValue>, text: String, is_error: bool) -> Self {
        Self {
            raw: Raw::Here(raw),
            content: vec![Block::of(Content::Text(Body::Whole(text)))],
            structured: None,
            meta: None,
            is_error,
            more: None,
        }
    }

    /// The structured content as JSON text, while all of it is here.
    pub fn structured_text(&self) -> Option<&str> {
        match &self.structured.as_ref()?.body {
            Body::Whole(text) => Some(text),
            Body::Cut(_) => None,
        }
    }

    /// The artifacts that readers are told of, in its order.
    pub fn artifacts(&self) -> Vec<ArtifactRef> {
        let structured = self.structured.as_ref();
        let structured = structured.and_then(|structured| structured.body.artifact());
        let blocks = self
            .content
            .iter()
            .filter_map(|block| match &block.content {
                Content::Text(body)
                | Content::Resource { body, .. }
                | Content::Other { body, .. } => body.artifact(),
                Content::Image(media) | Content::Audio(media) | Content::Blob { media, .. } => {
                    media.artifact.as_ref()
                }
                Content::Link(_) => None,
            });
        let more = self.more.as_ref().and_then(|more| more.artifact.as_ref());
        let all = blocks.chain(structured).chain(more);
        all.cloned().collect()
    }
}

impl Raw {
    /// The answer, where it is here.
    pub fn here(&self) -> Option<&RawValue> {
        match self {
            Self::Here(raw) => Some(raw),
            Self::Kept(_) => None,
        }
    }

    pub(crate) fn into_here(self) -> Option<Box<RawValue>> {
        match self {
            Self::Here(raw) => Some(raw),
            Self::Kept(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> ToolResult {
        ToolResult::read(RawValue::from_string(answer.to_owned()).unwrap()).unwrap()
    }

    /// Which blocks are shown, and whether the structured content is.
    fn shown(answer: &str) -> (Vec<bool>, Option<bool>) {
        let result = read(answer);
        let blocks = result.content.iter().map(|block| block.shown).collect();
        (blocks, result.structured.map(|structured| structured.shown))
    }

    /// The texts, the structured content, whether each text is shown, and whether the content is.
    const ONCE: [(&[&str], &str, &[bool], bool); 16] = [
        // The same JSON: the shorter of the two.
        (
            &[r#"{ "a": 1.0, "b": [2] }"#],
            r#"{"b":[2],"a":1}"#,
            &[false],
            true,
        ),
        (&[r#"{"a":1}"#], r#"{ "a" : 1 }"#, &[true], false),
        // Wrapped, as servers do with what is no object.
        (&["7"], r#"{"result":7}"#, &[true], false),
        (&["hello"], r#"{"result":"hello"}"#, &[true], false),
        (&[r#""hello""#], r#""hello""#, &[true], false),
        // One block for each item.
        (&["a", "b"], r#"{"result":["a","b"]}"#, &[true, true], false),
        (
            &[r#"{ "n": 1 }"#, r#"{ "n": 2 }"#],
            r#"[{"n":1},{"n":2}]"#,
            &[false, false],
            true,
        ),
        // Something else is said.
        (&["found 2"], r#"{"rows":[1,2]}"#, &[true], true),
        (&["a"], r#"{"result":["a","b"]}"#, &[true], true),
        (&["b", "a"], r#"["a","b"]"#, &[true, true], true),
        (&["9007199254740993"], "9007199254740992.0", &[true], true),
        (
            &["18446744073709551617"],
            "18446744073709551616",
            &[true],
            true,
        ),
        // A value that says nothing.
        (&["hi"], "null", &[true], false),
        (&[], "null", &[], true),
        (&[], "[]", &[], true),
        (&[], "false", &[], true),
    ];

    #[test]
    fn a_structured_result_is_shown_once() {
        for (texts, structured, blocks, whole) in ONCE {
            let texts = texts
                .iter()
                .map(|text| serde_json::json!({"type": "text", "text": text}));
            let texts: Vec<_> = texts.collect();
            let content = serde_json::Value::from(texts);
            let answer = format!(r#"{{"content":{content},"structuredContent":{structured}}}"#);
            assert_eq!(shown(&answer), (blocks.to_vec(), Some(whole)), "{answer}");
        }
    }

    #[test]
    fn other_blocks_do_not_hide_that_the_text_says_the_same() {
        let answer = r#"{"content":[{"type":"text","text":"{\"n\": 1}"},{"type":"image","data":"AA==","mimeType":"image/png"}],
            "structuredContent":{"n":1}}"#;
        assert_eq!(shown(answer), (vec![false, true], Some(true)));
    }

    #[test]
    fn what_a_server_adds_is_kept_apart() {
        let result = read(
            r#"{"content":[{"type":"text","text":"x","annotations":{"audience":["user"],"priority":0.5},"_meta":{"a":1}}],
                "_meta":{"outcome":"rejected","call":99},"outcome":"rejected"}"#,
        );
        let block = &result.content[0];
        assert_eq!(
            block.annotations.as_ref().unwrap().get(),
            r#"{"audience":["user"],"priority":0.5}"#
        );
        assert_eq!(block.meta.as_ref().unwrap().get(), r#"{"a":1}"#);
        assert_eq!(
            result.meta.unwrap().get(),
            r#"{"outcome":"rejected","call":99}"#
        );
    }

    #[test]
    fn what_is_no_result_says_why() {
        for (answer, what) in [
            ("[1,2]", "the answer is not a tool result"),
            ("{}", "the answer has neither"),
            (r#"{"content":7}"#, "the answer is not a tool result"),
            (
                r#"{"resultType":"input_required","content":[]}"#,
                "kind `input_required`",
            ),
        ] {
            let raw = RawValue::from_string(answer.to_owned()).unwrap();
            let (_, told) = ToolResult::read(raw).unwrap_err();
            assert!(told.contains(what), "{answer}: {told}");
        }
    }
}
