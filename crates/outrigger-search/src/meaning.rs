//! Ranks tools by what they mean: the nearest of their vectors to the query's, as a model gives them.
//!
//! Promises: a text is embedded once, whatever becomes of its server; until every tool that may be seen
//! has its vector, nothing is ranked, so that what stands first never depends on which were ready; a
//! tool that may not be seen has no part in that either. Embedding is done by whoever calls
//! [`Meaning::learn`], on a thread that may be blocked. Leaves out the model itself, and where vectors
//! are kept between runs: [`Vectors`] only turns them into bytes.

mod vectors;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::document::Document;
use crate::fusion::{Ranker, Ranking, ToolKey};
use crate::words;

use vectors::{Key, Vector};
pub use vectors::{Vectors, VectorsError};

/// What of a description or a query is embedded, in characters: the first of it says what it is about.
const LONGEST_TEXT: usize = 2_000;
/// Texts that are embedded before the lock is taken again.
const BATCH: usize = 64;

/// Turns texts into vectors whose angle says how near their meanings are.
pub trait Embedder: Send + Sync {
    /// Names the model and all that its vectors depend on: those of one name can be compared.
    fn id(&self) -> &str;

    /// The vector of a text; of any length but none, and the same for all texts. `None` where the text
    /// says nothing to the model. May block for as long as the model takes.
    fn embed(&self, text: &str) -> Option<Vec<f32>>;

    /// The cosine up to which two texts have nothing to do with each other.
    fn unrelated(&self) -> f32 {
        0.0
    }
}

/// A ranking by meaning. Clones share it.
#[derive(Clone, Default)]
pub struct Meaning(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    embedder: Option<Arc<dyn Embedder>>,
    servers: BTreeMap<String, Vec<Entry>>,
    vectors: Vectors,
}

/// One tool.
struct Entry {
    name: String,
    text: String,
    key: Key,
    standing: Standing,
}

enum Standing {
    /// Not embedded yet.
    Waits,
    /// The text says nothing to the model.
    Nothing,
    Ready(Arc<Vector>),
}

impl Meaning {
    /// How much a place by meaning counts beside one by words: so much that the first by meaning is
    /// among the first eight, and no more. Found with the weights, as [`Weights`](crate::Weights) says.
    pub const WEIGHT: f64 = 0.25;

    /// From now on texts are embedded by `embedder`; `known` is what it made of them earlier. Until
    /// then nothing is ranked.
    pub fn begin(&self, embedder: Arc<dyn Embedder>, known: Vectors) {
        let mut held = self.held();
        held.vectors = if known.model() == embedder.id() {
            known
        } else {
            Vectors::new(embedder.id())
        };
        held.embedder = Some(embedder);
        let Held {
            servers, vectors, ..
        } = &mut *held;
        for entry in servers.values_mut().flatten() {
            entry.standing = vectors.standing(&entry.key);
        }
    }

    /// Embeds some of what waits, and says how many texts: 0 when nothing waits, or there is no model.
    /// Blocks, and holds up no query meanwhile.
    pub fn learn(&self) -> usize {
        let (embedder, waiting) = {
            let held = self.held();
            let Some(embedder) = held.embedder.clone() else {
                return 0;
            };
            (embedder, held.waiting())
        };
        let known: Vec<_> = waiting
            .into_iter()
            .map(|(key, text)| (key, embedder.embed(&text).and_then(Vector::new)))
            .collect();
        let learned = known.len();
        self.held().settle(known);
        learned
    }

    /// Whether nothing waits to be embedded.
    pub fn is_ready(&self) -> bool {
        let held = self.held();
        held.embedder.is_some() && held.waiting().is_empty()
    }

    /// All vectors that are known, those of the tools that are here as the last used.
    pub fn vectors(&self) -> Vectors {
        let mut held = self.held();
        let Held {
            servers, vectors, ..
        } = &mut *held;
        let used: HashSet<Key> = servers.values().flatten().map(|entry| entry.key).collect();
        vectors.used(&used);
        vectors.clone()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while it was held leaves entries that wait at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The next texts to embed, each once.
    fn waiting(&self) -> Vec<(Key, String)> {
        let mut seen = HashSet::new();
        self.servers
            .values()
            .flatten()
            .filter(|entry| matches!(entry.standing, Standing::Waits) && seen.insert(entry.key))
            .take(BATCH)
            .map(|entry| (entry.key, entry.text.clone()))
            .collect()
    }

    fn settle(&mut self, embedded: Vec<(Key, Option<Vector>)>) {
        for (key, vector) in embedded {
            self.vectors.put(key, vector);
        }
        let Self {
            servers, vectors, ..
        } = self;
        for entry in servers.values_mut().flatten() {
            if matches!(entry.standing, Standing::Waits) {
                entry.standing = vectors.standing(&entry.key);
            }
        }
    }
}

impl Ranker for Meaning {
    fn replace(&mut self, server: &str, documents: &[Document]) {
        let mut held = self.held();
        let by_name: BTreeMap<&str, &Document> = documents
            .iter()
            .map(|document| (document.name.as_str(), document))
            .collect();
        let entry = |(name, document): (&str, &Document)| {
            let text = text(document);
            let key = Key::of(&text);
            Entry {
                name: name.to_owned(),
                standing: held.vectors.standing(&key),
                text,
                key,
            }
        };
        let entries: Vec<Entry> = by_name.into_iter().map(entry).collect();
        if entries.is_empty() {
            held.servers.remove(server);
        } else {
            held.servers.insert(server.to_owned(), entries);
        }
    }

    fn rank(&self, query: &str, allowed: &dyn Fn(&str, &str) -> bool, limit: usize) -> Ranking {
        let Some(embedder) = self.held().embedder.clone() else {
            return Ranking::default();
        };
        let query: String = query.chars().take(LONGEST_TEXT).collect();
        let wanted = embedder.embed(&query.to_lowercase());
        let Some(wanted) = wanted.and_then(Vector::new) else {
            return Ranking::default();
        };
        let unrelated = embedder.unrelated();
        let held = self.held();
        let mut near: Vec<(f32, &str, &str)> = Vec::new();
        for (server, entries) in &held.servers {
            for entry in entries.iter().filter(|entry| allowed(server, &entry.name)) {
                match &entry.standing {
                    Standing::Waits => return Ranking::default(),
                    Standing::Nothing => {}
                    Standing::Ready(vector) => {
                        near.push((wanted.nearness(vector), server, &entry.name));
                    }
                }
            }
        }
        near.retain(|(nearness, ..)| *nearness > unrelated);
        let better = |one: &(f32, &str, &str), other: &(f32, &str, &str)| {
            let by_name = || (one.1, one.2).cmp(&(other.1, other.2));
            other.0.total_cmp(&one.0).then_with(by_name)
        };
        if limit == 0 {
            near.clear();
        } else if limit < near.len() {
            near.select_nth_unstable_by(limit - 1, better);
            near.truncate(limit);
        }
        near.sort_unstable_by(better);
        let tools = near.into_iter().map(|(_, server, name)| ToolKey {
            server: server.to_owned(),
            name: name.to_owned(),
        });
        Ranking {
            tools: tools.collect(),
            named: 0,
        }
    }
}

/// What of a tool is embedded: its name in words, and what it says that it does. Without capitals,
/// which small models take for other words.
fn text(document: &Document) -> String {
    let name = words::spaced(&document.name);
    let title = document.title.to_lowercase();
    let description: String = document.description.chars().take(LONGEST_TEXT).collect();
    let description = description.to_lowercase();
    if title.is_empty() || words::spaced(&document.title) == name {
        format!("{name}. {description}")
    } else {
        format!("{name}. {title}. {description}")
    }
}
