//! A small language model in the process, behind the same trait as every provider.

mod answer_text;
mod engine;
mod envelope;
mod gguf;
mod grammar;
mod kv_cache;
mod local_model;
mod matrix;
mod schema;
mod signature;
mod template;
mod tokenizer;
mod transformer;

pub use gguf::LoadError;
pub use local_model::{LoadOptions, LocalModel};
