//! A small language model in the process, behind the same trait as every provider; and a smaller one
//! that turns texts into vectors.

mod answer_text;
mod embedding;
mod engine;
mod envelope;
mod gguf;
mod grammar;
mod kv_cache;
mod leaning;
mod local_model;
mod manifest;
mod matrix;
mod pull;
mod schema;
mod signature;
mod store;
mod template;
mod tokenizer;
mod transformer;

pub use embedding::{EmbeddingError, EmbeddingModel};
pub use gguf::LoadError;
pub use local_model::{LoadOptions, LocalModel};
pub use manifest::{HubFile, KnownModel, Manifest, ModelKind, Source, Text, WheelMember};
pub use pull::{PullError, PullEvent, PullOptions, SourceError};
pub use store::{Store, StoreError, StoredModel};
