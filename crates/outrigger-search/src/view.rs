//! The index as one principal may see it. Counts, lengths and ranks are those of the allowed documents
//! alone: the answers are those of an index in which the others never were.

use std::collections::HashSet;
use std::ops::Range;

use crate::fusion::{Ranking, ToolKey};
use crate::index::{Entry, Field, Index};
use crate::words;

/// How unlike a name may be that is suggested for another, as a share of its letters.
const FARTHEST: f64 = 0.4;

/// One found document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit<'a> {
    /// The server it is filed under.
    pub server: &'a str,
    /// The server's own name for it.
    pub name: &'a str,
    /// Comparable within one answer alone; 0 where only the name was alike.
    pub score: f32,
}

/// What of an index someone may see. Made once, it serves any number of queries.
pub struct View<'a> {
    pub(crate) index: &'a Index,
    /// The documents that may be seen, by server and name. All ranks and sums follow this order, so
    /// that equal catalogs give equal answers, however they came about.
    pub(crate) order: Vec<u32>,
    /// Where in `order` each server's documents stand.
    pub(crate) servers: Vec<Range<usize>>,
    /// By document number: where in `order` it stands.
    pub(crate) places: Vec<Option<u32>>,
    /// By place in `order`: what one occurrence in each field weighs there.
    pub(crate) levels: Vec<[f32; Field::COUNT]>,
}

impl<'a> View<'a> {
    pub(crate) fn new(index: &'a Index, allows: impl Fn(&str, &str) -> bool) -> Self {
        let mut order = Vec::with_capacity(index.len());
        let mut servers = Vec::new();
        for documents in index.documents_by_server() {
            let start = order.len();
            order.extend(documents.iter().copied().filter(|document| {
                index
                    .entry(*document)
                    .is_some_and(|entry| allows(&entry.server, &entry.name))
            }));
            if order.len() > start {
                servers.push(start..order.len());
            }
        }
        let mut places = vec![None; index.numbers()];
        for (place, document) in (0..).zip(&order) {
            places[*document as usize] = Some(place);
        }
        let levels = levels(index, &order);
        Self {
            index,
            order,
            servers,
            places,
            levels,
        }
    }

    /// How many documents may be seen.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none may be seen.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The best documents for a query, best first. Names that are the query come first, then names
    /// that begin with it, then what the words find; equals stand by server and name.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit<'a>> {
        self.best(query, limit)
            .into_iter()
            .filter_map(|(place, score)| self.hit(place, score))
            .collect()
    }

    /// The same, as identities, with how many of them the query names.
    pub(crate) fn rank(&self, query: &str, limit: usize) -> Ranking {
        let (best, named) = self.best_and_named(query, limit);
        let hits = best
            .into_iter()
            .filter_map(|(place, score)| self.hit(place, score));
        let tools = hits.map(|hit| ToolKey {
            server: hit.server.to_owned(),
            name: hit.name.to_owned(),
        });
        Ranking {
            tools: tools.collect(),
            named,
        }
    }

    /// The documents that someone may have meant who wrote `name`, a tool's name or a server's and a
    /// tool's: the most alike first, then what its words find.
    pub fn suggest(&self, name: &str, limit: usize) -> Vec<Hit<'a>> {
        let wanted = words::spelling(name);
        let mut alike: Vec<(f64, u32)> = Vec::new();
        for (place, document) in (0..).zip(&self.order) {
            let Some(entry) = self.index.entry(*document) else {
                continue;
            };
            let distance = distance(&wanted, &entry.spelling)
                .min(distance(&wanted, &entry.qualified_spelling));
            if distance <= FARTHEST {
                alike.push((distance, place));
            }
        }
        alike.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let by_words = self.best(name, limit);
        let mut seen = HashSet::new();
        alike
            .into_iter()
            .map(|(_, place)| (place, 0.0))
            .chain(by_words)
            .filter(|(place, _)| seen.insert(*place))
            .take(limit)
            .filter_map(|(place, score)| self.hit(place, score))
            .collect()
    }

    fn hit(&self, place: u32, score: f32) -> Option<Hit<'a>> {
        let entry: &'a Entry = self.index.entry(*self.order.get(place as usize)?)?;
        Some(Hit {
            server: &entry.server,
            name: &entry.name,
            score,
        })
    }
}

/// Edits from one spelling to another, as a share of the longer.
fn distance(one: &str, other: &str) -> f64 {
    let (one_length, other_length) = (one.chars().count(), other.chars().count());
    let longer = one_length.max(other_length).max(1);
    // What differs this much in length alone need not be compared.
    if share(one_length.abs_diff(other_length), longer) > FARTHEST {
        return 1.0;
    }
    share(strsim::osa_distance(one, other), longer)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "lengths of names are far below 2^52"
)]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// What an occurrence weighs in each field of each document, by the lengths of those in `order`.
#[expect(
    clippy::cast_precision_loss,
    reason = "lengths of texts and their mean; the last digits do not matter"
)]
fn levels(index: &Index, order: &[u32]) -> Vec<[f32; Field::COUNT]> {
    let lengths: Vec<[u32; Field::COUNT]> = order
        .iter()
        .map(|document| index.entry(*document).map_or([0; _], |entry| entry.lengths))
        .collect();
    let mut totals = [0_u64; Field::COUNT];
    for lengths in &lengths {
        for (total, length) in totals.iter_mut().zip(lengths) {
            *total += u64::from(*length);
        }
    }
    let means = totals.map(|total| (total as f32 / order.len().max(1) as f32).max(1.0));
    let level = |lengths: &[u32; Field::COUNT]| {
        std::array::from_fn(|field| {
            let weight = index.weights().fields[field];
            let long = lengths[field] as f32 / means[field];
            let length: f32 = 1.0 - weight.levelling + weight.levelling * long;
            weight.weight / length.max(f32::EPSILON)
        })
    };
    lengths.iter().map(level).collect()
}
