//! [`EmbeddingModel`]: a static model for meanings. Each token has a vector, and a text the mean of
//! those of its tokens, so that one takes microseconds and no thread of its own.
//!
//! The file is one table of vectors in the safetensors format, followed by the `tokenizer.json` that
//! belongs to it. Leaves out models that read words in their context: on a CPU they take thousands of
//! times as long.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, safetensors};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokenizers::Tokenizer;

/// Tokens of a text that are read.
const LONGEST: usize = 512;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 30;
/// Bytes in front of the header, which say how long it is.
const LENGTH: usize = 8;
/// Up to this cosine the known model finds texts alike that have nothing to do with each other.
const UNRELATED: f32 = 0.15;
/// Bytes of the file's hash that tell it apart from others.
const SHORT: usize = 8;

/// A model of embeddings could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The file could not be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is none of the files that this reads.
    #[error(
        "`{}` is no table of embeddings with its tokenizer: {reason}", path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A static embedding model in this process.
pub struct EmbeddingModel {
    id: String,
    tokenizer: Tokenizer,
    /// By token: its vector, one after the other.
    table: Vec<f32>,
    directions: usize,
}

#[derive(Deserialize)]
struct Shape {
    data_offsets: (usize, usize),
}

impl EmbeddingModel {
    /// Reads a file: some 100 ms, and twice as much memory as it is large. It blocks.
    pub fn load(path: &Path) -> Result<Self, EmbeddingError> {
        let read = |source| EmbeddingError::Read {
            path: path.to_owned(),
            source,
        };
        let unusable = |reason: String| EmbeddingError::Unusable {
            path: path.to_owned(),
            reason,
        };
        if fs::metadata(path).map_err(read)?.len() > LARGEST {
            return Err(unusable(format!("it has more than {LARGEST} bytes")));
        }
        let bytes = fs::read(path).map_err(read)?;
        let (weights, tokenizer) = parts(&bytes).map_err(unusable)?;
        let table = table(weights).map_err(unusable)?;
        let directions = table.dim(1).map_err(|error| unusable(error.to_string()))?;
        let table = flat(&table).map_err(|error| unusable(error.to_string()))?;
        let tokenizer =
            Tokenizer::from_bytes(tokenizer).map_err(|error| unusable(error.to_string()))?;
        let hash = Sha256::digest(&bytes);
        let hash = hash[..SHORT].iter().map(|byte| format!("{byte:02x}"));
        let hash = hash.collect::<Vec<_>>().concat();
        Ok(Self {
            id: format!("static-{hash}"),
            tokenizer,
            table,
            directions,
        })
    }

    /// Names the model by its content: `[a-z0-9-]`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The cosine up to which two texts have nothing to do with each other.
    pub fn unrelated(&self) -> f32 {
        UNRELATED
    }

    /// The vector of a text. `None` where none of its tokens has one.
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let tokens = self.tokenizer.encode_fast(text, false).ok()?;
        let mut sum = vec![0.0; self.directions];
        let mut known = 0_usize;
        for token in tokens.get_ids().iter().take(LONGEST) {
            let start = usize::try_from(*token).ok()? * self.directions;
            let Some(vector) = self.table.get(start..start + self.directions) else {
                continue;
            };
            known += 1;
            for (sum, part) in sum.iter_mut().zip(vector) {
                *sum += part;
            }
        }
        // The sum points where the mean does.
        (known > 0).then_some(sum)
    }
}

/// The two files in one: the first says how long it is.
fn parts(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let short = || "it ends too early".to_owned();
    let (length, rest) = bytes.split_at_checked(LENGTH).ok_or_else(short)?;
    let length = length
        .try_into()
        .map(u64::from_le_bytes)
        .map_err(|_| short())?;
    let length = usize::try_from(length).map_err(|_| short())?;
    let header = rest.get(..length).ok_or_else(short)?;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(header).map_err(|error| worded("its header", &error))?;
    let mut end = 0;
    for (name, tensor) in header {
        if name == "__metadata__" {
            continue;
        }
        let tensor: Shape =
            serde_json::from_value(tensor).map_err(|error| worded("its header", &error))?;
        end = end.max(tensor.data_offsets.1);
    }
    let end = LENGTH
        .checked_add(length)
        .and_then(|start| start.checked_add(end));
    end.and_then(|end| bytes.split_at_checked(end))
        .ok_or_else(short)
}

/// The only tensor, which has two dimensions.
fn table(weights: &[u8]) -> Result<Tensor, String> {
    let tensors = safetensors::load_buffer(weights, &Device::Cpu)
        .map_err(|error| worded("its tensors", &error))?;
    let mut tensors = tensors.into_values();
    match (tensors.next(), tensors.next()) {
        (Some(table), None) if table.rank() == 2 => Ok(table),
        _ => Err("it has not just one tensor of two dimensions".to_owned()),
    }
}

fn flat(table: &Tensor) -> Result<Vec<f32>, candle_core::Error> {
    table.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

fn worded(what: &str, error: &dyn Display) -> String {
    format!("{what} cannot be read: {error}")
}
