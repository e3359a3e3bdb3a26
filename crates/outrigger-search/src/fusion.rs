//! Several rankings made one: reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009). It needs
//! no comparable scores, so that a ranking by meaning can stand beside one by words. What a query
//! names stays first, whatever the others say.

use std::collections::{BTreeMap, HashSet};

use crate::document::Document;
use crate::index::Index;

/// The constant of reciprocal rank fusion. Its authors set 60, for long lists that are looked through
/// to their end; of tools the first few are read, and the first of a ranking must count for more than
/// the tenth. Found with the weights, as [`Weights`](crate::Weights) says.
const FLATNESS: f64 = 1.0;
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

/// Tools in the order in which they answer a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// The best first.
    pub tools: Vec<ToolKey>,
    /// How many of them, from the first, the query names: wholly, or by how their names begin.
    pub named: usize,
}

/// Something that ranks tools for a query.
pub trait Ranker: Send + Sync {
    /// Makes `documents` the only ones of `server`.
    fn replace(&mut self, server: &str, documents: &[Document]);

    /// The best tools for a query among those that `allowed` (server, name) says. The others must have
    /// no influence on the answer.
    fn rank(&self, query: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize) -> Ranking;
}

impl Ranker for Index {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        Self::replace(self, server, documents.iter().cloned());
    }

    fn rank(&self, query: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize) -> Ranking {
        self.view(allowed).rank(query, limit)
    }
}

/// A ranking by words, and others beside it. A document stands the higher, the higher it stands with
/// each.
#[derive(Default)]
pub struct Fusion {
    words: Index,
    others: Vec<(Box<dyn Ranker>, f64)>,
}

impl Fusion {
    /// The ranking of `words` alone.
    pub fn new(words: Index) -> Self {
        Self {
            words,
            others: Vec::new(),
        }
    }

    /// Adds a ranking, whose places count `weight` times what a place by words counts.
    #[must_use]
    pub fn with(mut self, ranker: Box<dyn Ranker>, weight: f64) -> Self {
        self.others.push((ranker, weight));
        self
    }

    /// Whether there is no ranking but that by words.
    pub fn is_by_words(&self) -> bool {
        self.others.is_empty()
    }

    /// The ranking by words.
    pub fn words(&self) -> &Index {
        &self.words
    }
}

impl Ranker for Fusion {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        Ranker::replace(&mut self.words, server, documents);
        for (ranker, _) in &mut self.others {
            ranker.replace(server, documents);
        }
    }

    fn rank(&self, query: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize) -> Ranking {
        if self.is_by_words() {
            return self.words.rank(query, allowed, limit);
        }
        let depth = limit.saturating_mul(DEPTH);
        let mut rankings = vec![(self.words.rank(query, allowed, depth), 1.0)];
        for (ranker, weight) in &self.others {
            rankings.push((ranker.rank(query, allowed, depth), *weight));
        }
        fuse(rankings, limit)
    }
}

fn fuse(rankings: Vec<(Ranking, f64)>, limit: usize) -> Ranking {
    let mut named = Vec::new();
    let mut first = HashSet::new();
    for key in rankings.iter().flat_map(|(one, _)| &one.tools[..one.named]) {
        if first.insert(key.clone()) {
            named.push(key.clone());
        }
    }
    let mut sums: BTreeMap<ToolKey, f64> = BTreeMap::new();
    for (ranking, weight) in rankings {
        let others = ranking.tools.into_iter();
        let others = others.filter(|key| !first.contains(key));
        for (rank, key) in (1_u32..).zip(others) {
            *sums.entry(key).or_default() += weight / (FLATNESS + f64::from(rank));
        }
    }
    let mut fused: Vec<(ToolKey, f64)> = sums.into_iter().collect();
    // The map gave them by key, and the sort keeps equals as they are.
    fused.sort_by(|one, other| other.1.total_cmp(&one.1));
    let count = named.len().min(limit);
    named.extend(fused.into_iter().map(|(key, _)| key));
    named.truncate(limit);
    Ranking {
        tools: named,
        named: count,
    }
}
