//! Vectors by the text that they are of, and as bytes that can be kept: small, bounded, and refused
//! when a single bit of them is not as it was written.
//!
//! A vector is kept in one byte a direction. What that loses is far below what two wordings of one
//! thing differ by.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Standing;

/// How many vectors are kept; the longest unused go first.
const MOST: usize = 20_000;
/// The most directions that a vector may have.
const MOST_DIRECTIONS: usize = 4_096;
/// How the bytes begin. Another format begins otherwise.
const HEAD: &[u8] = b"outrigger vectors 1\n";
const HASH: usize = 32;

/// The text of a vector, by its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key([u8; HASH]);

impl Key {
    pub(super) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

/// A direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vector {
    parts: Box<[i8]>,
    length: f32,
}

impl Vector {
    /// `None` where there is no direction: all parts are zero, or one is no number.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "between -127 and 127, and rounded"
    )]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "made to be passed on by name"
    )]
    pub(super) fn new(parts: Vec<f32>) -> Option<Self> {
        let largest = parts
            .iter()
            .fold(0.0_f32, |most, part| most.max(part.abs()));
        let usable = largest > 0.0 && parts.iter().all(|part| part.is_finite());
        if !usable || parts.len() > MOST_DIRECTIONS {
            return None;
        }
        let parts = parts
            .iter()
            .map(|part| (part / largest * 127.0).round() as i8);
        Self::of(parts.collect())
    }

    fn of(parts: Box<[i8]>) -> Option<Self> {
        let length = real(product(&parts, &parts)).sqrt();
        (length > 0.0).then_some(Self { parts, length })
    }

    /// The cosine of the angle between the two; 0 for vectors of different models.
    pub(super) fn nearness(&self, other: &Self) -> f32 {
        if self.parts.len() != other.parts.len() {
            return 0.0;
        }
        real(product(&self.parts, &other.parts)) / (self.length * other.length)
    }
}

/// At most 4,096 times 127 times 127, which is far from overflowing; said so, it is many at once.
fn product(one: &[i8], other: &[i8]) -> i32 {
    let products = one
        .iter()
        .zip(other)
        .map(|(a, b)| i32::from(*a) * i32::from(*b));
    products.fold(0, i32::wrapping_add)
}

#[expect(clippy::cast_precision_loss, reason = "the last digits do not matter")]
fn real(number: i32) -> f32 {
    number as f32
}

/// Bytes that are no kept vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VectorsError {
    /// They were not written here, or by another version.
    #[error("it is no file of vectors, or one of another version")]
    Foreign,
    /// They are not as they were written.
    #[error("it is damaged")]
    Damaged,
}

/// What a model made of texts. A text that says nothing to the model is known, too.
#[derive(Clone, Default)]
pub struct Vectors {
    model: String,
    known: HashMap<Key, Option<Arc<Vector>>>,
    /// All keys, the last used first.
    order: Vec<Key>,
}

impl Vectors {
    /// None yet, of the model with this [name](super::Embedder::id).
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// How many texts are known.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Takes over what `other` knows besides, as longer unused, if it is of the same model.
    pub fn merge(&mut self, other: Self) {
        if other.model != self.model {
            return;
        }
        let Self {
            mut known, order, ..
        } = other;
        for key in order {
            if let Some(vector) = known.remove(&key)
                && !self.known.contains_key(&key)
            {
                self.known.insert(key, vector);
                self.order.push(key);
            }
        }
    }

    pub(super) fn standing(&self, key: &Key) -> Standing {
        match self.known.get(key) {
            None => Standing::Waits,
            Some(None) => Standing::Nothing,
            Some(Some(vector)) => Standing::Ready(Arc::clone(vector)),
        }
    }

    pub(super) fn put(&mut self, key: Key, vector: Option<Vector>) {
        if self.known.insert(key, vector.map(Arc::new)).is_none() {
            self.order.push(key);
        }
    }

    /// Puts these first, and forgets the longest unused beyond the bound.
    pub(super) fn used(&mut self, keys: &HashSet<Key>) {
        let (mut used, unused): (Vec<_>, Vec<_>) =
            self.order.drain(..).partition(|key| keys.contains(key));
        // Whatever is in use stays, so that nothing is embedded twice in one run.
        let room = MOST.saturating_sub(used.len());
        let kept = unused.len().min(room);
        for key in &unused[kept..] {
            self.known.remove(key);
        }
        used.extend(&unused[..kept]);
        self.order = used;
    }

    /// As bytes: the head, the model, the vectors, and a SHA-256 over all of it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        put_count(&mut bytes, self.model.len());
        bytes.extend(self.model.as_bytes());
        let kept = &self.order[..self.order.len().min(MOST)];
        put_count(&mut bytes, kept.len());
        for key in kept {
            bytes.extend(key.0);
            let parts: &[i8] = match self.known.get(key) {
                Some(Some(vector)) => &vector.parts,
                _ => &[],
            };
            put_count(&mut bytes, parts.len());
            bytes.extend(parts.iter().map(|part| part.cast_unsigned()));
        }
        let hash = Sha256::digest(&bytes);
        bytes.extend(hash);
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VectorsError> {
        if !bytes.starts_with(HEAD) {
            return Err(VectorsError::Foreign);
        }
        let body = bytes.len().checked_sub(HASH).ok_or(VectorsError::Damaged)?;
        let (body, hash) = bytes.split_at(body);
        if Sha256::digest(body)[..] != *hash {
            return Err(VectorsError::Damaged);
        }
        let mut rest = Rest(&body[HEAD.len()..]);
        rest.vectors().ok_or(VectorsError::Damaged)
    }
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    fn vectors(&mut self) -> Option<Vectors> {
        let length = self.count()?;
        let model = std::str::from_utf8(self.take(length)?).ok()?;
        let mut vectors = Vectors::new(model);
        for _ in 0..self.count()? {
            let key = Key(self.take(HASH)?.try_into().ok()?);
            let directions = self.count()?;
            let parts = self.take(directions)?;
            let parts = parts.iter().map(|part| part.cast_signed());
            vectors.put(key, Vector::of(parts.collect()));
        }
        self.0.is_empty().then_some(vectors)
    }
}
