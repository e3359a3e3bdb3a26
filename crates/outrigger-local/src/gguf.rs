//! Reads the two halves of a GGUF file: its metadata by key, and its tensors by name.
//!
//! A thin layer over candle's reader that turns missing keys and broken files into errors which
//! name the file and the key. What the keys mean is known by the modules that ask for them
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>).

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::{
    Device,
    quantized::{
        QTensor,
        gguf_file::{Content, TensorInfo, Value},
    },
};

/// Why a model file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the model file `{}`: {source}", path.display())]
    Read {
        /// The model file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not GGUF, or is damaged.
    #[error("`{}` is not a usable GGUF file: {reason}; download it again", path.display())]
    Broken {
        /// The model file.
        path: PathBuf,
        /// What the reader stumbled over.
        reason: String,
    },
    /// The file lacks a metadata key that every instruct model has.
    #[error("`{}` has no metadata `{key}`: it is not an instruct model in GGUF form", path.display())]
    MissingKey {
        /// The model file.
        path: PathBuf,
        /// The key.
        key: String,
    },
    /// The file is fine, but needs something that this crate does not do.
    #[error("`{}` cannot be run here: {what}", path.display())]
    Unsupported {
        /// The model file.
        path: PathBuf,
        /// What is not supported, and what is.
        what: String,
    },
    /// Threads could not be started.
    #[error("cannot start {threads} threads for the model: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the operating system said.
        reason: String,
    },
}

/// An open GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    content: Content,
    reader: BufReader<File>,
}

impl Gguf {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let read = |source| LoadError::Read {
            path: path.to_owned(),
            source,
        };
        let mut reader = BufReader::new(File::open(path).map_err(read)?);
        let content = Content::read(&mut reader).map_err(|error| LoadError::Broken {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            content,
            reader,
        })
    }

    /// The text under `key`, or nothing when the key is absent or holds something else.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.content
            .metadata
            .get(key)?
            .to_string()
            .ok()
            .map(String::as_str)
    }

    /// The whole number under `key`, of any width.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        whole(self.content.metadata.get(key)?)
    }

    /// The floating-point number under `key`.
    pub(crate) fn float(&self, key: &str) -> Option<f32> {
        self.content.metadata.get(key)?.to_f32().ok()
    }

    /// The list of texts under `key`.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        let values = self.content.metadata.get(key)?.to_vec().ok()?;
        values
            .iter()
            .map(|value| value.to_string().ok().cloned())
            .collect()
    }

    /// The list of whole numbers under `key`.
    pub(crate) fn numbers(&self, key: &str) -> Option<Vec<u64>> {
        self.content
            .metadata
            .get(key)?
            .to_vec()
            .ok()?
            .iter()
            .map(whole)
            .collect()
    }

    pub(crate) fn has_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// Size of all tensors together, as they are in the file.
    pub(crate) fn tensor_bytes(&self) -> u64 {
        let bytes = |info: &TensorInfo| {
            info.shape.elem_count() / info.ggml_dtype.block_size() * info.ggml_dtype.type_size()
        };
        self.content
            .tensor_infos
            .values()
            .map(|info| u64::try_from(bytes(info)).unwrap_or(u64::MAX))
            .sum()
    }

    /// Number of weights.
    pub(crate) fn parameters(&self) -> u64 {
        let weights = self
            .content
            .tensor_infos
            .values()
            .map(|info| info.shape.elem_count());
        u64::try_from(weights.sum::<usize>()).unwrap_or(u64::MAX)
    }

    /// Reads one tensor into memory, quantised as it is in the file.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<QTensor, LoadError> {
        self.content
            .tensor(&mut self.reader, name, &Device::Cpu)
            .map_err(|error| LoadError::Broken {
                path: self.path.clone(),
                reason: error.to_string(),
            })
    }

    pub(crate) fn missing(&self, key: &str) -> LoadError {
        LoadError::MissingKey {
            path: self.path.clone(),
            key: key.to_owned(),
        }
    }

    pub(crate) fn broken(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Broken {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> LoadError {
        LoadError::Unsupported {
            path: self.path.clone(),
            what: what.into(),
        }
    }
}

fn whole(value: &Value) -> Option<u64> {
    match *value {
        Value::U8(number) => Some(u64::from(number)),
        Value::U16(number) => Some(u64::from(number)),
        Value::U32(number) => Some(u64::from(number)),
        Value::U64(number) => Some(number),
        Value::I8(number) => u64::try_from(number).ok(),
        Value::I16(number) => u64::try_from(number).ok(),
        Value::I32(number) => u64::try_from(number).ok(),
        Value::I64(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
