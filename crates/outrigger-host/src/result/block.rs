//! Content blocks (MCP, "Tool result", "Content").

use serde::Deserialize;
use serde_json::value::RawValue;

use super::media::Media;
use super::text;
use crate::artifact::ArtifactRef;
use crate::preview::Preview;

/// One content block.
#[derive(Debug, Clone)]
pub struct Block {
    /// What it holds.
    pub content: Content,
    /// Its `annotations` (audience, priority), as they came.
    pub annotations: Option<Box<RawValue>>,
    /// Its `_meta`, as it came.
    pub meta: Option<Box<RawValue>>,
    /// Whether readers are shown it; not where the structured content says the same in fewer words.
    pub shown: bool,
}

/// What a block holds.
#[derive(Debug, Clone)]
pub enum Content {
    /// Text.
    Text(Body),
    /// An image.
    Image(Media),
    /// Sound.
    Audio(Media),
    /// A link to a resource of the same server.
    Link(Box<Link>),
    /// A resource that came along as text.
    Resource {
        /// Its address.
        uri: String,
        /// Its type, where given.
        media_type: Option<String>,
        /// Its text.
        body: Body,
    },
    /// A resource that came along as bytes.
    Blob {
        /// Its address.
        uri: String,
        /// Type and bytes.
        media: Media,
    },
    /// A kind that is not known here.
    Other {
        /// What it calls itself, where it does.
        kind: Option<String>,
        /// All of it, as JSON text.
        body: Body,
    },
}

/// A link to a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its address.
    pub uri: String,
    /// Its name.
    pub name: Option<String>,
    /// Its display name.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// For example `text/csv`.
    pub media_type: Option<String>,
    /// Bytes, as the server says.
    pub size: Option<u64>,
}

/// Text that stands here whole, or its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// All of it.
    Whole(String),
    /// The ends of it, and where the whole is.
    Cut(Preview),
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    data: Option<String>,
    #[serde(rename = "mimeType")]
    media_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    #[serde(borrow)]
    size: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    annotations: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Contents<'a> {
    uri: String,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    blob: Option<String>,
    #[serde(rename = "mimeType")]
    media_type: Option<String>,
}

/// What a block of any kind says of its kind.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Block {
    pub(crate) fn of(content: Content) -> Self {
        Self {
            content,
            annotations: None,
            meta: None,
            shown: true,
        }
    }

    pub(crate) fn read(raw: &RawValue) -> Self {
        Self::known(raw).unwrap_or_else(|| {
            let kind = serde_json::from_str(raw.get()).ok();
            Self::of(Content::Other {
                kind: kind.and_then(|Kind { kind }| kind),
                body: Body::Whole(raw.get().to_owned()),
            })
        })
    }

    fn known(raw: &RawValue) -> Option<Self> {
        let mut fields: Fields<'_> = serde_json::from_str(raw.get()).ok()?;
        let (annotations, meta) = (fields.annotations.take(), fields.meta.take());
        Some(Self {
            content: Content::known(fields)?,
            annotations,
            meta,
            shown: true,
        })
    }

    /// Text that a model reads as text.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(Body::Whole(text)) => Some(text),
            _ => None,
        }
    }
}

impl Content {
    fn known(fields: Fields<'_>) -> Option<Self> {
        let media = |fields: Fields<'_>| Some(Media::new(fields.media_type, fields.data?));
        match fields.kind.as_str() {
            "text" => text::of(fields.text?).map(Body::Whole).map(Self::Text),
            "image" => media(fields).map(Self::Image),
            "audio" => media(fields).map(Self::Audio),
            "resource_link" => Some(Self::Link(Box::new(Link {
                uri: fields.uri?,
                name: fields.name,
                title: fields.title,
                description: fields.description,
                media_type: fields.media_type,
                size: fields.size.and_then(|size| size.get().parse().ok()),
            }))),
            "resource" => Self::embedded(fields.resource?),
            _ => None,
        }
    }

    fn embedded(raw: &RawValue) -> Option<Self> {
        let contents: Contents<'_> = serde_json::from_str(raw.get()).ok()?;
        match (contents.text, contents.blob) {
            (Some(text), _) => Some(Self::Resource {
                uri: contents.uri,
                media_type: contents.media_type,
                body: Body::Whole(text::of(text)?),
            }),
            (None, Some(data)) => Some(Self::Blob {
                uri: contents.uri,
                media: Media::new(contents.media_type, data),
            }),
            (None, None) => None,
        }
    }

    /// The word for it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::Link(_) => "resource_link",
            Self::Resource { .. } | Self::Blob { .. } => "resource",
            Self::Other { kind, .. } => kind.as_deref().unwrap_or("unknown"),
        }
    }
}

impl Body {
    /// The artifact that holds the whole.
    pub fn artifact(&self) -> Option<&ArtifactRef> {
        match self {
            Self::Whole(_) => None,
            Self::Cut(preview) => preview.artifact.as_ref(),
        }
    }
}
