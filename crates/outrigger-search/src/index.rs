//! The inverted index: which term stands where, how often in which field. One server's documents are
//! replaced without touching another's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::document::Document;
use crate::view::View;
use crate::weights::Weights;
use crate::words;

/// The parts of a document that weigh differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Server,
    Name,
    Title,
    Description,
    ParameterNames,
    ParameterDescriptions,
    Values,
}

impl Field {
    pub(crate) const COUNT: usize = 7;
}

/// How often a term stands in each field of one document; more than 255 times is 255 times.
#[derive(Clone, Copy)]
pub(crate) struct Posting {
    pub(crate) document: u32,
    pub(crate) counts: [u8; Field::COUNT],
}

impl Posting {
    /// Counts what `other` counts, too.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}

/// One indexed document.
pub(crate) struct Entry {
    pub(crate) server: String,
    pub(crate) name: String,
    /// The name without separators and case, and the same behind the server's.
    pub(crate) spelling: String,
    pub(crate) qualified_spelling: String,
    /// Terms in each field.
    pub(crate) lengths: [u32; Field::COUNT],
    /// The distinct terms, so that they can be taken out again.
    terms: Vec<u32>,
}

/// All documents, by their terms.
#[derive(Default)]
pub struct Index {
    weights: Weights,
    /// By document number; a number whose document was taken out is empty until it is used again.
    entries: Vec<Option<Entry>>,
    /// By term number.
    postings: Vec<Vec<Posting>>,
    spellings: Vec<String>,
    vocabulary: HashMap<String, u32>,
    /// Names without separators and case, alone and behind their server's, each with its document.
    names: BTreeSet<(String, u32)>,
    /// The documents of each server, by name.
    servers: BTreeMap<String, Vec<u32>>,
    free_entries: Vec<u32>,
    free_terms: Vec<u32>,
}

impl Index {
    /// An empty index that weighs as told.
    pub fn new(weights: Weights) -> Self {
        Self {
            weights,
            ..Self::default()
        }
    }

    /// Makes `documents` the only ones of `server`; an empty list takes the server out. Documents are
    /// filed under this server, whatever they name; of two with one name the later stays.
    pub fn replace(&mut self, server: &str, documents: impl IntoIterator<Item = Document>) {
        self.remove(server);
        let by_name: BTreeMap<String, Document> = documents
            .into_iter()
            .map(|document| (document.name.clone(), document))
            .collect();
        if by_name.is_empty() {
            return;
        }
        let numbers = by_name
            .into_values()
            .map(|document| self.insert(server, &document))
            .collect();
        self.servers.insert(server.to_owned(), numbers);
    }

    /// The servers that have documents here, in order.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free_entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is there for someone who may see the documents that `allowed` says, by server and name.
    pub fn view(&self, allowed: impl Fn(&str, &str) -> bool) -> View<'_> {
        View::new(self, allowed)
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn entry(&self, document: u32) -> Option<&Entry> {
        self.entries.get(document as usize)?.as_ref()
    }

    /// Document numbers are below this.
    pub(crate) fn numbers(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn documents_by_server(&self) -> impl Iterator<Item = &[u32]> {
        self.servers.values().map(Vec::as_slice)
    }

    pub(crate) fn term(&self, spelling: &str) -> Option<u32> {
        self.vocabulary.get(spelling).copied()
    }

    pub(crate) fn postings(&self, term: u32) -> &[Posting] {
        &self.postings[term as usize]
    }

    /// The names that begin with `start`, each with its document.
    pub(crate) fn spelled_from(&self, start: &str) -> impl Iterator<Item = (&str, u32)> {
        self.names
            .range((start.to_owned(), 0)..)
            .take_while(move |(spelling, _)| spelling.starts_with(start))
            .map(|(spelling, document)| (spelling.as_str(), *document))
    }

    fn remove(&mut self, server: &str) {
        let mut touched = Vec::new();
        for number in self.servers.remove(server).unwrap_or_default() {
            if let Some(entry) = self.entries[number as usize].take() {
                self.names.remove(&(entry.spelling, number));
                self.names.remove(&(entry.qualified_spelling, number));
                touched.extend(entry.terms);
                self.free_entries.push(number);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let gone: Vec<bool> = self.entries.iter().map(Option::is_none).collect();
        for term in touched {
            let postings = &mut self.postings[term as usize];
            postings.retain(|posting| !gone[posting.document as usize]);
            if postings.is_empty() {
                self.vocabulary.remove(&self.spellings[term as usize]);
                self.free_terms.push(term);
            }
        }
    }

    fn insert(&mut self, server: &str, document: &Document) -> u32 {
        let number = self.free_entries.pop().unwrap_or_else(|| {
            self.entries.push(None);
            number(self.entries.len() - 1)
        });
        let mut lengths = [0; Field::COUNT];
        let mut counts: BTreeMap<u32, [u8; Field::COUNT]> = BTreeMap::new();
        for (field, text) in texts(server, document) {
            for spelling in words::terms(text) {
                lengths[field as usize] += 1;
                let term = self.intern(spelling);
                let count = &mut counts.entry(term).or_default()[field as usize];
                *count = count.saturating_add(1);
            }
        }
        let mut terms = Vec::with_capacity(counts.len());
        for (term, counts) in counts {
            self.postings[term as usize].push(Posting {
                document: number,
                counts,
            });
            terms.push(term);
        }
        let spelling = words::spelling(&document.name);
        let qualified_spelling = words::spelling(server) + &spelling;
        self.names.insert((spelling.clone(), number));
        self.names.insert((qualified_spelling.clone(), number));
        self.entries[number as usize] = Some(Entry {
            server: server.to_owned(),
            name: document.name.clone(),
            spelling,
            qualified_spelling,
            lengths,
            terms,
        });
        number
    }

    fn intern(&mut self, spelling: String) -> u32 {
        if let Some(term) = self.vocabulary.get(&spelling) {
            return *term;
        }
        let term = self.free_terms.pop().unwrap_or_else(|| {
            self.postings.push(Vec::new());
            self.spellings.push(String::new());
            number(self.postings.len() - 1)
        });
        self.spellings[term as usize].clone_from(&spelling);
        self.vocabulary.insert(spelling, term);
        term
    }
}

/// The texts of a document with the fields that they are counted in.
fn texts<'a>(server: &'a str, document: &'a Document) -> impl Iterator<Item = (Field, &'a str)> {
    let parameters = &document.parameters;
    let single = [
        (Field::Server, server),
        (Field::Name, document.name.as_str()),
        (Field::Title, document.title.as_str()),
        (Field::Description, document.description.as_str()),
    ];
    let lists = [
        (Field::ParameterNames, &parameters.names),
        (Field::ParameterDescriptions, &parameters.descriptions),
        (Field::Values, &parameters.values),
    ];
    single.into_iter().chain(
        lists
            .into_iter()
            .flat_map(|(field, texts)| texts.iter().map(move |text| (field, text.as_str()))),
    )
}

/// Documents and terms fit into memory, and so their numbers into 32 bits.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
