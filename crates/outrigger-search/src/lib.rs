//! Finds tools by words.
//!
//! An [`Index`] ranks tools by field-weighted BM25 over their names, descriptions and parameters. What
//! a principal may not see is taken away *before* anything is counted: a [`View`] finds, ranks and
//! suggests as if the rest had never been there. Further rankings are [`fused`](Fusion) with it by
//! reciprocal rank. Nothing here knows connections, policy or models, and nothing has a vocabulary of
//! its own beyond the function words of English: a [`Meaning`] asks a model that is given to it.

mod document;
mod fusion;
mod index;
mod meaning;
mod rank;
mod view;
mod weights;
mod words;

pub use document::{Document, Parameters};
pub use fusion::{Fusion, Ranker, Ranking, ToolKey};
pub use index::Index;
pub use meaning::{Embedder, Meaning, Vectors, VectorsError};
pub use view::{Hit, View};
pub use weights::{FieldWeight, Weights};
