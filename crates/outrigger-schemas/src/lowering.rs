//! The ground that all compilers stand on: what is being compiled, what was noted on the way, and the
//! rounds until every call can be mapped back without guessing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::change::{Change, Effect};
use crate::document::Document;
use crate::family::Family;
use crate::names::Aliases;
use crate::plan::{KEEP, Note, NoteId, Plan, first_notes};
use crate::{Compiled, SetAside, limits, root};

/// Schemas that one tool may come to when its references are followed; the rest takes anything.
const LARGEST: usize = 20_000;
/// How often the compilation begins anew because alternatives could not be told apart.
const ROUNDS: usize = 64;

/// What one compilation knows.
pub(crate) struct Lowering<'d> {
    pub(crate) family: Family,
    pub(crate) document: &'d Document,
    pub(crate) aliases: Aliases,
    pub(crate) notes: Vec<Note>,
    pub(crate) changes: Vec<Change>,
    /// Definitions as they are sent, and their notes.
    pub(crate) defs: BTreeMap<String, (Value, NoteId)>,
    /// Places that are sent as JSON text, because their alternatives could not be told apart.
    pub(crate) as_text: &'d BTreeSet<String>,
    /// References that are being followed.
    pub(crate) following: Vec<String>,
    /// Schemas written so far.
    pub(crate) written: usize,
}

/// A schema as it is sent, and what was done to it.
pub(crate) struct Lowered {
    pub(crate) schema: Value,
    pub(crate) note: NoteId,
}

/// Where in the schema.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) depth: usize,
}

impl Place {
    pub(crate) fn root() -> Self {
        Self {
            path: String::new(),
            depth: 0,
        }
    }

    /// The place below a keyword; `deeper` when a value there lies within the value here.
    pub(crate) fn below(&self, step: &str, deeper: bool) -> Self {
        Self {
            path: format!("{}/{step}", self.path),
            depth: self.depth + usize::from(deeper),
        }
    }
}

pub(crate) fn run(family: Family, schema: &Value) -> Result<Compiled, SetAside> {
    let document = Document::read(schema);
    let mut as_text = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut lowering = Lowering {
            family,
            document: &document,
            aliases: Aliases::of(&document, family),
            notes: first_notes(),
            changes: document.changes.clone(),
            defs: BTreeMap::new(),
            as_text: &as_text,
            following: Vec::new(),
            written: 0,
        };
        let lowered = root::lower(&mut lowering)?;
        let plan = match Plan::of(&lowering.notes, lowered.note) {
            Ok(plan) => plan,
            Err(clash) => {
                if !as_text.insert(clash.place) {
                    break;
                }
                continue;
            }
        };
        let schema = limits::within(&mut lowering, lowered.schema)?;
        return Ok(Compiled {
            schema,
            changes: once(lowering.changes),
            plan,
        });
    }
    Err(SetAside(
        "what its alternatives take cannot be told apart again".to_owned(),
    ))
}

/// Changes without those that are said twice, because a definition is used in two places.
fn once(changes: Vec<Change>) -> Vec<Change> {
    let mut seen = BTreeSet::new();
    let mut once = changes;
    once.retain(|change| seen.insert((change.path.clone(), change.what.clone())));
    once
}

impl Lowering<'_> {
    pub(crate) fn change(
        &mut self,
        at: &Place,
        what: impl Into<String>,
        why: &str,
        effect: Effect,
    ) {
        self.changes.push(Change {
            path: at.path.clone(),
            what: what.into(),
            why: why.to_owned(),
            effect,
        });
    }

    /// Files a note; one that says nothing is [`KEEP`].
    pub(crate) fn note(&mut self, note: Note) -> NoteId {
        self.notes.push(note);
        self.notes.len() - 1
    }

    /// A note for places where all of these apply; `place` where they are alternatives.
    pub(crate) fn gathered(&mut self, of: Vec<NoteId>, place: &str) -> NoteId {
        match of[..] {
            [] => KEEP,
            [only] => only,
            _ => self.note(Note {
                of,
                place: place.to_owned(),
                ..Note::default()
            }),
        }
    }

    /// Whether there is room for another schema.
    pub(crate) fn has_room(&mut self, at: &Place) -> bool {
        self.written += 1;
        self.written < LARGEST && at.depth <= self.family.depth()
    }

    /// The definitions that `schema` refers to, and those that they refer to.
    pub(crate) fn used_defs(&self, schema: &Value) -> Map<String, Value> {
        let (mut used, mut next) = (BTreeSet::new(), BTreeSet::new());
        crate::document::references(schema, &mut next);
        while let Some(name) = next.pop_first() {
            if let Some((schema, _)) = self.defs.get(&name)
                && used.insert(name)
            {
                crate::document::references(schema, &mut next);
            }
        }
        let used = used.into_iter();
        used.filter_map(|name| Some((name.clone(), self.defs.get(&name)?.0.clone())))
            .collect()
    }
}

/// `text` with another sentence.
pub(crate) fn with_words(keywords: &mut Map<String, Value>, words: &str) {
    let before = keywords
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let text = match before.trim_end() {
        "" => words.to_owned(),
        before if before.ends_with(['.', '!', '?', ':', ')']) => format!("{before} {words}"),
        before => format!("{before}. {words}"),
    };
    keywords.insert("description".to_owned(), Value::String(text));
}
