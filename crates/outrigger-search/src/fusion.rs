//! Several rankings made one: reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009). It needs
//! no comparable scores, so that a ranking by meaning can stand beside one by words.

use std::collections::BTreeMap;

use crate::document::Document;
use crate::index::Index;

/// The constant of reciprocal rank fusion, as its authors set it.
const FLATNESS: f64 = 60.0;
/// How many of each ranking are looked at for each that is wanted.
const DEPTH: usize = 5;

/// The identity of a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolKey {
    /// The server it is filed under.
    pub server: String,
    /// The server's own name for it.
    pub name: String,
}

/// Something that ranks tools for a query.
pub trait Ranker: Send + Sync {
    /// Makes `documents` the only ones of `server`.
    fn replace(&mut self, server: &str, documents: &[Document]);

    /// The best tools for a query among those that `allowed` (server, name) says, best first. The
    /// others must have no influence on the answer.
    fn rank(&self, query: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize)
    -> Vec<ToolKey>;
}

impl Ranker for Index {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        Self::replace(self, server, documents.iter().cloned());
    }

    fn rank(
        &self,
        query: &str,
        allowed: &dyn Fn(&str, &str) -> bool,
        limit: usize,
    ) -> Vec<ToolKey> {
        self.view(allowed)
            .search(query, limit)
            .into_iter()
            .map(|hit| ToolKey {
                server: hit.server.to_owned(),
                name: hit.name.to_owned(),
            })
            .collect()
    }
}

/// Several rankers that answer as one. A document stands the higher, the higher it stands with each.
#[derive(Default)]
pub struct Fusion {
    rankers: Vec<Box<dyn Ranker>>,
}

impl Fusion {
    /// A fusion of these; with one, that one's ranking.
    pub fn new(rankers: Vec<Box<dyn Ranker>>) -> Self {
        Self { rankers }
    }
}

impl Ranker for Fusion {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        for ranker in &mut self.rankers {
            ranker.replace(server, documents);
        }
    }

    fn rank(
        &self,
        query: &str,
        allowed: &dyn Fn(&str, &str) -> bool,
        limit: usize,
    ) -> Vec<ToolKey> {
        let mut sums: BTreeMap<ToolKey, f64> = BTreeMap::new();
        for ranker in &self.rankers {
            let ranked = ranker.rank(query, allowed, limit.saturating_mul(DEPTH));
            for (rank, key) in (1_u32..).zip(ranked) {
                *sums.entry(key).or_default() += 1.0 / (FLATNESS + f64::from(rank));
            }
        }
        let mut fused: Vec<(ToolKey, f64)> = sums.into_iter().collect();
        // The map gave them by key, and the sort keeps equals as they are.
        fused.sort_by(|one, other| other.1.total_cmp(&one.1));
        fused.truncate(limit);
        fused.into_iter().map(|(key, _)| key).collect()
    }
}
