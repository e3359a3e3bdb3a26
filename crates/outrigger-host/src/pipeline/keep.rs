//! After the answer is read: what is too large for the model, or no text, is moved out into artifacts
//! before anything refers to it, and the budgets in tokens are kept.
//!
//! A result within its budget is shown whole. Else its largest blocks are shown as previews, and when
//! there are too many blocks even for that, the first of them.

use bytes::Bytes;
use outrigger_journal::{ArtifactOrigin, ArtifactRef, Artifacts, NewArtifact};
use serde_json::value::RawValue;

use crate::preview::{self, Preview};
use crate::result::{Block, Body, Content, ImageFault, Media, More, Raw, ToolResult};
use crate::tokens;

/// Bytes of an answer that stands in its event; a larger one is an artifact.
pub(super) const RECORDED: usize = 256 << 10;
/// Tokens that a block needs to be of any use.
const LEAST: u64 = 48;
/// Tokens of the line that says what was left out.
const NOTE: u64 = 40;
/// What an image costs a model to read, about; providers count by size.
pub(crate) const IMAGE_TOKENS: u64 = 1000;

/// How much of a result is shown, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// All of it.
    pub(crate) result: u64,
    /// The two ends of a block that does not fit.
    pub(crate) preview: u64,
}

/// Puts parts of one result into the store.
pub(super) struct Keeper<'a> {
    pub(super) store: Option<&'a Artifacts>,
    pub(super) origin: ArtifactOrigin,
    pub(super) room: Room,
}

impl Keeper<'_> {
    /// Moves out what has to be, and cuts what is shown to the room there is. Called again with less
    /// room, it cuts further.
    pub(super) async fn keep(&self, result: &mut ToolResult) {
        self.keep_raw(result, RECORDED).await;
        self.keep_media(result).await;
        let sizes = self.sizes(result);
        if fits(&sizes, self.room.result) {
            return;
        }
        let most = usize::try_from(self.room.result / LEAST)
            .unwrap_or(usize::MAX)
            .max(1);
        if sizes.len() > most {
            self.keep_raw(result, 0).await;
            hide_beyond(result, most);
        }
        let sizes = self.sizes(result);
        let level = level(&sizes, self.room.result);
        let ends = level
            .min(self.room.preview)
            .saturating_sub(NOTE)
            .max(NOTE / 4);
        let mut sizes = sizes.into_iter();
        for (at, block) in result.content.iter_mut().enumerate() {
            if block.shown && sizes.next().flatten().is_none_or(|size| size > level) {
                self.cut(at, block, ends).await;
            }
        }
        if let Some(structured) = result.structured.as_mut().filter(|it| it.shown)
            && sizes.next().flatten().is_none_or(|size| size > level)
        {
            let name = ("application/json".to_owned(), None);
            self.cut_body(&mut structured.body, ends, (None, name))
                .await;
        }
    }

    /// What each shown block costs; `None`: surely more than there is room for.
    fn sizes(&self, result: &ToolResult) -> Vec<Option<u64>> {
        let body = |body: &Body| match body {
            Body::Whole(text) => preview::cost(text, self.room.result),
            Body::Cut(preview) => Some(preview.tokens()),
        };
        let blocks = result.content.iter().filter(|block| block.shown);
        let blocks = blocks.map(|block| match &block.content {
            Content::Text(text) | Content::Other { body: text, .. } => body(text),
            Content::Resource {
                uri, body: text, ..
            } => body(text).map(|size| size + tokens::estimate(uri)),
            content => Some(fixed(content)),
        });
        let structured = result.structured.iter().filter(|it| it.shown);
        blocks.chain(structured.map(|it| body(&it.body))).collect()
    }

    async fn keep_raw(&self, result: &mut ToolResult, larger_than: usize) {
        let Raw::Here(raw) = &mut result.raw else {
            return;
        };
        if self.store.is_some() && raw.get().len() > larger_than {
            let taken = std::mem::replace(raw, RawValue::NULL.to_owned());
            result.raw = self.moved(taken).await;
        }
    }

    /// An answer, moved out where it is too large to stand in its event.
    pub(super) async fn answer(&self, raw: Box<RawValue>) -> Raw {
        if self.store.is_some() && raw.get().len() > RECORDED {
            return self.moved(raw).await;
        }
        Raw::Here(raw)
    }

    async fn moved(&self, raw: Box<RawValue>) -> Raw {
        let text: Box<str> = raw.into();
        let bytes = Bytes::from(String::from(text));
        let kind = "application/json".to_owned();
        if let Ok(artifact) = self.put(bytes.clone(), (None, (kind, None))).await {
            return Raw::Kept(artifact);
        }
        // Nothing is lost: the event has it after all.
        let text = String::from_utf8(bytes.into()).unwrap_or_default();
        Raw::Here(RawValue::from_string(text).unwrap_or_default())
    }

    async fn keep_media(&self, result: &mut ToolResult) {
        let mut images = self.room.result / IMAGE_TOKENS;
        for (at, block) in result.content.iter_mut().enumerate() {
            let (is_image, name, media) = match &mut block.content {
                Content::Image(media) => (true, None, media),
                Content::Audio(media) => (false, None, media),
                Content::Blob { uri, media } => (false, Some(uri.clone()), media),
                _ => continue,
            };
            if media.artifact.is_none() && media.not_kept.is_none() {
                self.keep_one(at, media, (is_image, name)).await;
            }
            if is_image && media.image.is_none() && media.data.is_some() {
                if images == 0 {
                    media.image = Some(ImageFault::NoRoom);
                } else {
                    images -= 1;
                }
            }
            let shown = is_image && media.image.is_none();
            if !shown && media.artifact.is_some() {
                media.data = None;
            }
        }
    }

    async fn keep_one(
        &self,
        at: usize,
        media: &mut Media,
        (is_image, name): (bool, Option<String>),
    ) {
        let Some(bytes) = media.decode() else {
            media.image = media
                .broken
                .clone()
                .map(ImageFault::Broken)
                .filter(|_| is_image);
            // What is no base64 is kept as it came.
            if let Some(data) = media.data.clone().filter(|_| self.store.is_some()) {
                let kind = ("text/plain".to_owned(), name);
                match self.put(data.into(), (Some(at), kind)).await {
                    Ok(artifact) => media.artifact = Some(artifact),
                    Err(why) => media.not_kept = Some(why),
                }
            }
            return;
        };
        if is_image {
            media.image = media.as_image(&bytes).err();
        }
        if self.store.is_none() {
            return;
        }
        let kind = (media.media_type.clone(), name);
        match self.put(bytes.into(), (Some(at), kind)).await {
            Ok(artifact) => media.artifact = Some(artifact),
            Err(why) => media.not_kept = Some(why),
        }
    }

    async fn cut(&self, at: usize, block: &mut Block, ends: u64) {
        let (body, kind) = match &mut block.content {
            Content::Text(body) => (body, ("text/plain".to_owned(), None)),
            Content::Other { body, .. } => (body, ("application/json".to_owned(), None)),
            Content::Resource {
                uri,
                media_type,
                body,
            } => {
                let kind = media_type
                    .clone()
                    .unwrap_or_else(|| "text/plain".to_owned());
                (body, (kind, Some(uri.clone())))
            }
            Content::Image(media) => {
                if media.image.is_none() && media.artifact.is_some() {
                    media.image = Some(ImageFault::NoRoom);
                    media.data = None;
                }
                return;
            }
            Content::Audio(_) | Content::Blob { .. } | Content::Link(_) => return,
        };
        self.cut_body(body, ends, (Some(at), kind)).await;
    }

    async fn cut_body(&self, body: &mut Body, ends: u64, place: Place) {
        match body {
            Body::Cut(preview) => preview.shrink(ends),
            Body::Whole(text) => {
                let mut preview = Preview::of(text, ends);
                if self.store.is_some() {
                    match self.put(std::mem::take(text).into(), place).await {
                        Ok(artifact) => preview.artifact = Some(artifact),
                        Err(why) => preview.not_kept = Some(why),
                    }
                }
                *body = Body::Cut(preview);
            }
        }
    }

    async fn put(
        &self,
        bytes: Bytes,
        (block, (media_type, name)): Place,
    ) -> Result<ArtifactRef, String> {
        let store = self.store.ok_or("this host keeps no artifacts")?;
        let origin = ArtifactOrigin {
            block: block.and_then(|at| u32::try_from(at).ok()),
            ..self.origin.clone()
        };
        let kept = store.put(NewArtifact {
            bytes,
            media_type,
            name,
            origin,
        });
        kept.await.map_err(|error| {
            tracing::warn!(%error, "a part of a result could not be kept");
            error.to_string()
        })
    }
}

/// The position of a block, its type, and its name.
type Place = (Option<usize>, (String, Option<String>));

/// Tokens of a block whose words are as long as they are.
fn fixed(content: &Content) -> u64 {
    const LINE: u64 = 30;
    match content {
        Content::Image(media) if media.image.is_none() && media.data.is_some() => {
            IMAGE_TOKENS + LINE
        }
        Content::Link(link) => {
            let words = [&link.name, &link.title, &link.description, &link.media_type];
            let words: u64 = words
                .into_iter()
                .flatten()
                .map(|text| tokens::estimate(text))
                .sum();
            LINE + tokens::estimate(&link.uri) + words.min(LINE * 4)
        }
        _ => LINE,
    }
}

/// Shows the first `most` blocks and no others.
fn hide_beyond(result: &mut ToolResult, most: usize) {
    let mut shown = 0;
    let mut hidden = result.more.take().map_or(0, |more| more.blocks);
    for block in result.content.iter_mut().filter(|block| block.shown) {
        shown += 1;
        if shown > most {
            block.shown = false;
            hidden += 1;
        }
    }
    if let Some(structured) = result.structured.as_mut().filter(|it| it.shown)
        && shown >= most
    {
        structured.shown = false;
        hidden += 1;
    }
    let artifact = match &result.raw {
        Raw::Kept(artifact) => Some(artifact.clone()),
        Raw::Here(_) => None,
    };
    result.more = Some(More {
        blocks: hidden,
        artifact,
    });
}

fn fits(sizes: &[Option<u64>], room: u64) -> bool {
    let sum = sizes
        .iter()
        .try_fold(0_u64, |sum, size| Some(sum.saturating_add((*size)?)));
    sum.is_some_and(|sum| sum <= room)
}

/// How much each may have where all together have this much room: what the small ones leave is for
/// the others.
pub(crate) fn level(sizes: &[Option<u64>], room: u64) -> u64 {
    let mut sorted: Vec<u64> = sizes.iter().map(|size| size.unwrap_or(u64::MAX)).collect();
    sorted.sort_unstable();
    let (mut left, mut others) = (room, sorted.len() as u64);
    for size in sorted {
        let share = left / others.max(1);
        if size > share {
            return share;
        }
        left -= size;
        others -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_the_small_ones_leave_is_for_the_others() {
        assert_eq!(level(&[Some(10), Some(20)], 30), u64::MAX);
        assert_eq!(level(&[Some(10), Some(200), None], 110), 50);
        assert_eq!(level(&[None, None, None], 99), 33);
        assert_eq!(level(&[], 0), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_level_is_fair_and_fits(sizes in prop::collection::vec(0_u64..1000, 0..30), room in 0_u64..5000) {
            let some: Vec<_> = sizes.iter().copied().map(Some).collect();
            let level = level(&some, room);
            let shown: u64 = sizes.iter().map(|size| *size.min(&level)).sum();
            prop_assert!(shown <= room);
            if sizes.iter().sum::<u64>() <= room {
                prop_assert_eq!(level, u64::MAX);
            } else {
                // Nobody could have more without another having less than that.
                prop_assert!(room - shown < sizes.len() as u64);
            }
        }
    }
}
