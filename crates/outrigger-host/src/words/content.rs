//! What a result holds, in words: each block once, in its order, in the form that reads best.

use std::borrow::Cow;

use super::Words;
use crate::preview::grouped;
use crate::result::{Block, Body, Content, ImageFault, Link, Media, ToolResult};
use crate::text::shorten;

/// Bytes of what a server says about a link or of an address; the record has the whole.
const ABOUT: usize = 500;
/// Bytes of an address.
const ADDRESS: usize = 2000;

/// What a result holds, in order; a sentence when that is nothing. `by_text`: its text says all that
/// its structured content says.
pub(super) fn of(result: &ToolResult, by_text: bool) -> Vec<Words> {
    let mut words = Vec::new();
    for block in result.content.iter().filter(|block| block.shown) {
        push(&mut words, block);
    }
    let structured = result.structured.as_ref().filter(|it| it.shown);
    if let Some(structured) = structured.filter(|_| !by_text || words.is_empty()) {
        words.push(Words::Text(said(&structured.body)));
    }
    if let Some(more) = &result.more {
        let place = match &more.artifact {
            Some(artifact) => format!("; the whole answer is {} (JSON)", artifact.handle),
            None => String::new(),
        };
        words.push(Words::Text(format!(
            "[… {} more blocks are not shown{place} …]",
            grouped(more.blocks as u64)
        )));
    }
    if words.is_empty() {
        words.push(Words::Text("(the tool returned nothing)".to_owned()));
    }
    words
}

/// What a server returned, for a person or a program: no frame, and every character as it came. An
/// image is a line.
pub fn plain(result: &ToolResult) -> Vec<String> {
    let mut texts = Vec::new();
    if result.is_error {
        texts.push("The tool reports an error:".to_owned());
    }
    let words = of(result, false).into_iter();
    texts.extend(words.filter_map(|words| match words {
        Words::Text(text) => Some(text),
        Words::Image { .. } => None,
    }));
    texts
}

/// The beginning of the first words that a result has, at most this many bytes of them, and how many
/// there are. A result that is not cut yet may be large, and is not copied.
pub(super) fn beginning(result: &ToolResult, most: usize) -> (String, usize) {
    let blocks = result.content.iter().filter(|block| block.shown);
    let blocks = blocks.map(|block| match &block.content {
        Content::Text(Body::Whole(text))
        | Content::Resource {
            body: Body::Whole(text),
            ..
        }
        | Content::Other {
            body: Body::Whole(text),
            ..
        } => Cow::Borrowed(text.as_str()),
        _ => Cow::Owned(line(block)),
    });
    let structured = result.structured.iter().filter(|it| it.shown);
    let structured = structured.map(|it| match &it.body {
        Body::Whole(text) => Cow::Borrowed(text.as_str()),
        Body::Cut(preview) => Cow::Owned(preview.text()),
    });
    let first = blocks
        .chain(structured)
        .find(|text| text.bytes().any(|byte| !byte.is_ascii_whitespace()));
    let first = first.unwrap_or(Cow::Borrowed("(the tool returned nothing)"));
    let end = first.floor_char_boundary(most);
    (first[..end].to_owned(), first.len())
}

/// A text, or its ends with what was left out between them.
pub fn said(body: &Body) -> String {
    match body {
        Body::Whole(text) => text.clone(),
        Body::Cut(preview) => preview.text(),
    }
}

fn push(words: &mut Vec<Words>, block: &Block) {
    words.push(Words::Text(line(block)));
    if let Content::Image(media) = &block.content
        && let (None, Some(data)) = (&media.image, &media.data)
    {
        words.push(Words::Image {
            media_type: media.media_type.clone(),
            data: data.clone(),
        });
    }
}

/// A block in words; an image is a line about it.
pub fn line(block: &Block) -> String {
    match &block.content {
        Content::Text(body) => said(body),
        Content::Image(media) => media_line("image", media, None),
        Content::Audio(media) => media_line("audio", media, None),
        Content::Link(link) => link_line(link),
        Content::Resource {
            uri,
            media_type,
            body,
        } => {
            let kind = media_type.as_deref().filter(|kind| *kind != "text/plain");
            let kind = kind.map(|kind| format!(", {kind}")).unwrap_or_default();
            let (uri, kind) = (shorten(uri, ADDRESS), shorten(&kind, ABOUT));
            format!("[resource {uri}{kind}]\n{}", said(body))
        }
        Content::Blob { uri, media } => media_line("resource", media, Some(uri)),
        Content::Other { kind, body } => {
            let kind = shorten(kind.as_deref().unwrap_or("no type"), ABOUT);
            format!(
                "[content of a kind that is not known here: {kind}]\n{}",
                said(body)
            )
        }
    }
}

/// Bytes of a type on one line: `[audio, audio/wav, 12,345 bytes: artifact://…]`.
pub fn media_line(what: &str, media: &Media, uri: Option<&str>) -> String {
    let uri = uri.map(|uri| format!(" {}", shorten(uri, ADDRESS)));
    let (uri, kind) = (uri.unwrap_or_default(), shorten(&media.media_type, ABOUT));
    let fault = match (&media.image, &media.broken) {
        (Some(fault), _) => format!("; {fault}"),
        (None, Some(why)) => format!("; {}", ImageFault::Broken(why.clone())),
        (None, None) => String::new(),
    };
    let place = match (&media.artifact, &media.not_kept) {
        (Some(artifact), _) => format!(": {}", artifact.handle),
        (None, Some(why)) => format!("; it could not be kept: {why}"),
        (None, None) => String::new(),
    };
    format!(
        "[{what}{uri}, {kind}, {} bytes{fault}{place}]",
        grouped(media.bytes)
    )
}

/// A link on one line.
fn link_line(link: &Link) -> String {
    let Link {
        uri,
        name,
        title,
        description,
        media_type,
        size,
    } = link;
    let title = title.as_ref().filter(|title| name.as_ref() != Some(title));
    let about = [
        name.as_ref(),
        title,
        description.as_ref(),
        media_type.as_ref(),
    ];
    let about = about.into_iter().flatten().filter(|text| !text.is_empty());
    let uri = shorten(uri, ADDRESS);
    let mut about: Vec<String> = about.map(|text| shorten(text, ABOUT)).collect();
    about.extend(size.map(|size| format!("{} bytes", grouped(size))));
    if about.is_empty() {
        format!("[link to {uri}]")
    } else {
        format!("[link to {uri}: {}]", about.join(", "))
    }
}
