//! The ranking: names that are the query, then BM25F (Robertson and Zaragoza, *The Probabilistic
//! Relevance Framework*, 2009, section 3.6). A term's occurrences are weighed by field and levelled by
//! its length, then saturate together. Two things are added to it: a document that has more of the
//! query's terms gains, and each gets a share of what its server's documents score on the whole (Liu
//! and Croft, *Cluster-Based Retrieval*, 2004).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use crate::index::Posting;
use crate::view::View;
use crate::words;

/// Terms of a query beyond these say nothing new, and each costs a pass over its documents.
const MOST_TERMS: usize = 64;

/// How near the name is to the query; the nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    Verbatim,
    Same,
    Begins,
    ByWords,
}

/// A word of the query.
struct Said {
    times: usize,
    /// Its term, and compounds that it is part of; only those that stand in a document.
    terms: Vec<u32>,
}

/// A term of the query.
struct Wanted<'a> {
    postings: Cow<'a, [Posting]>,
    /// How much it tells, times how often it is said.
    weight: f32,
    /// How much it tells.
    rarity: f32,
}

/// What a document has gathered.
#[derive(Clone, Copy, Default)]
struct Gathered {
    score: f32,
    /// The rarity of the query's terms that it has.
    rarity: f32,
}

impl View<'_> {
    /// Places in the view's order with their scores, best first.
    pub(crate) fn best(&self, query: &str, limit: usize) -> Vec<(u32, f32)> {
        self.best_and_named(query, limit).0
    }

    /// The same, and how many of them the query names.
    pub(crate) fn best_and_named(&self, query: &str, limit: usize) -> (Vec<(u32, f32)>, usize) {
        let scores = self.scores(query);
        let mut nearness = vec![Nearness::ByWords; self.order.len()];
        let mut found: Vec<u32> = Vec::new();
        for (place, near) in self.named(query) {
            let known = &mut nearness[place as usize];
            if *known == Nearness::ByWords && scores[place as usize] <= 0.0 {
                found.push(place);
            }
            *known = near.min(*known);
        }
        found.extend(
            (0..)
                .zip(&scores)
                .filter(|(_, score)| **score > 0.0)
                .map(|(place, _)| place),
        );
        let better = |one: &u32, other: &u32| -> Ordering {
            let (a, b) = (*one as usize, *other as usize);
            nearness[a]
                .cmp(&nearness[b])
                .then_with(|| scores[b].total_cmp(&scores[a]))
                .then(one.cmp(other))
        };
        if limit < found.len() {
            if limit > 0 {
                found.select_nth_unstable_by(limit - 1, better);
            }
            found.truncate(limit);
        }
        found.sort_unstable_by(better);
        let is_named = |place: &&u32| nearness[**place as usize] < Nearness::ByWords;
        let named = found.iter().take_while(is_named).count();
        let best = found
            .into_iter()
            .map(|place| (place, scores[place as usize]));
        (best.collect(), named)
    }

    /// Documents whose name, alone or behind their server's, is the query or begins with it.
    fn named(&self, query: &str) -> Vec<(u32, Nearness)> {
        let query = query.trim();
        let wanted = words::spelling(query);
        let mut found = Vec::new();
        if wanted.is_empty() {
            return found;
        }
        for (spelling, document) in self.index.spelled_from(&wanted) {
            let Some(place) = self.places[document as usize] else {
                continue;
            };
            let verbatim = |entry: &crate::index::Entry| entry.name == query;
            let near = if self.index.entry(document).is_some_and(verbatim) {
                Nearness::Verbatim
            } else if spelling == wanted {
                Nearness::Same
            } else {
                Nearness::Begins
            };
            found.push((place, near));
        }
        found
    }

    /// By place: the score of each document, 0 where none of the query's words stands in it.
    fn scores(&self, query: &str) -> Vec<f32> {
        let wanted = self.wanted(query);
        let all: f32 = wanted.iter().map(|term| term.rarity).sum();
        let weights = self.index.weights();
        let mut gathered = vec![Gathered::default(); self.order.len()];
        for term in &wanted {
            for posting in term.postings.iter() {
                let Some(place) = self.places[posting.document as usize] else {
                    continue;
                };
                let levels = &self.levels[place as usize];
                let weighed: f32 = posting
                    .counts
                    .iter()
                    .zip(levels)
                    .map(|(count, level)| f32::from(*count) * level)
                    .sum();
                let document = &mut gathered[place as usize];
                document.score += term.weight * weighed / (weights.saturation + weighed);
                document.rarity += term.rarity;
            }
        }
        let mut scores: Vec<f32> = gathered
            .iter()
            .map(|document| {
                let missing = 1.0 - document.rarity / all.max(f32::EPSILON);
                document.score * (1.0 - weights.coverage * missing)
            })
            .collect();
        self.share_with_neighbours(&mut scores);
        scores
    }

    /// Gives each found document its share of its server's mean.
    fn share_with_neighbours(&self, scores: &mut [f32]) {
        for server in &self.servers {
            let scores = &mut scores[server.clone()];
            let mean = scores.iter().sum::<f32>() / count(scores.len());
            let share = self.index.weights().server * mean;
            for score in scores.iter_mut().filter(|score| **score > 0.0) {
                *score += share;
            }
        }
    }

    /// The query's terms that a visible document has, in the query's order. Where a document writes two
    /// neighbours of the query as one word, it has both.
    fn wanted(&self, query: &str) -> Vec<Wanted<'_>> {
        let mut said: Vec<Said> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for spelling in words::terms(query) {
            let terms = self.index.term(&spelling).into_iter().collect();
            let at = *known.entry(spelling).or_insert(said.len());
            match said.get_mut(at) {
                Some(word) => word.times += 1,
                None => said.push(Said { times: 1, terms }),
            }
        }
        for compound in words::compounds(query) {
            let Some(closed) = self.index.term(&compound.closed) else {
                continue;
            };
            for at in compound.parts.iter().filter_map(|part| known.get(part)) {
                let terms = &mut said[*at].terms;
                if !terms.contains(&closed) {
                    terms.push(closed);
                }
            }
        }
        said.retain(|word| !word.terms.is_empty());
        said.truncate(MOST_TERMS);
        said.into_iter()
            .filter_map(|word| self.weigh(self.postings(&word.terms)?, word.times))
            .collect()
    }

    /// Where any of the terms stands.
    fn postings(&self, terms: &[u32]) -> Option<Cow<'_, [Posting]>> {
        let (first, others) = terms.split_first()?;
        let mut postings = Cow::Borrowed(self.index.postings(*first));
        if others.is_empty() {
            return Some(postings);
        }
        let mut places: HashMap<u32, usize> = (0..)
            .zip(postings.iter())
            .map(|(at, posting)| (posting.document, at))
            .collect();
        let merged = postings.to_mut();
        for posting in others.iter().flat_map(|term| self.index.postings(*term)) {
            let at = *places.entry(posting.document).or_insert(merged.len());
            match merged.get_mut(at) {
                Some(known) => known.add(posting),
                None => merged.push(*posting),
            }
        }
        Some(postings)
    }

    fn weigh<'a>(&self, postings: Cow<'a, [Posting]>, times: usize) -> Option<Wanted<'a>> {
        let spread = postings
            .iter()
            .filter(|posting| self.places[posting.document as usize].is_some())
            .count();
        if spread == 0 {
            return None;
        }
        let without = count(self.order.len() - spread);
        let rarity = (1.0 + (without + 0.5) / (count(spread) + 0.5)).ln();
        let repetition = self.index.weights().repetition;
        let times = count(times);
        Some(Wanted {
            postings,
            weight: rarity * times * (repetition + 1.0) / (repetition + times),
            rarity,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of documents are far below 2^23"
)]
fn count(number: usize) -> f32 {
    number as f32
}
