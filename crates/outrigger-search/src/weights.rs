//! What counts how much. The numbers were found on three sets of tools and queries of different kind,
//! one half of the queries each, and hold on the other halves; `retrieval-eval` measures them.

use crate::index::Field;

/// How much a field counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldWeight {
    /// The weight of one occurrence.
    pub weight: f32,
    /// BM25's `b`: how far an occurrence loses weight in a field that is longer than the mean, from 0
    /// (not at all) to 1 (in proportion).
    pub levelling: f32,
}

/// All that the ranking can be set by.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// By field: server, name, title, description, and of the parameters the names, the descriptions
    /// and the values.
    pub fields: [FieldWeight; Field::COUNT],
    /// BM25's `k1`: the weighed occurrences that give half of a term's score.
    pub saturation: f32,
    /// BM25's `k3`: the same for a term that the query repeats.
    pub repetition: f32,
    /// How much a document loses that misses all but one of the query's terms, from 0 to 1.
    pub coverage: f32,
    /// How much of the mean score of a server's documents each of them gets: a tool is the likelier
    /// meant, the more all of its server is about what was asked.
    pub server: f32,
}

impl Default for Weights {
    fn default() -> Self {
        let field = |weight, levelling| FieldWeight { weight, levelling };
        Self {
            fields: [
                field(0.5, 0.5),
                field(5.0, 0.3),
                field(5.0, 0.3),
                field(1.5, 0.6),
                field(0.5, 0.6),
                field(0.5, 0.8),
                field(0.5, 0.0),
            ],
            saturation: 1.2,
            repetition: 0.5,
            coverage: 0.3,
            server: 0.5,
        }
    }
}
