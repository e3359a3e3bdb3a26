//! How a call is mapped back: what was done to which place of a schema, as a small machine that is
//! run over the text of the arguments.
//!
//! Lowering leaves a [`Note`] for each place. Where a schema has alternatives, several notes apply to
//! one value; [`Plan::of`] makes one step of each set of notes that can apply together, or says at
//! which alternatives that cannot be done without guessing ([`Clash`]).

mod mapping;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A note's place in a list of notes.
pub(crate) type NoteId = usize;
/// The note of places where nothing was done, whatever is there.
pub(crate) const KEEP: NoteId = 0;
/// Where nothing was done, and where neither strings nor lists are.
pub(crate) const SCALAR: NoteId = 1;
/// Where nothing was done, and where strings are.
pub(crate) const STRING: NoteId = 2;

/// The notes that every compilation begins with.
pub(crate) fn first_notes() -> Vec<Note> {
    let plain = |plain_strings, plain_lists| Note {
        plain_strings,
        plain_lists,
        ..Note::default()
    };
    vec![plain(true, true), plain(false, false), plain(true, false)]
}

/// What was done at one place of a schema.
#[derive(Debug, Default, Clone)]
pub(crate) struct Note {
    /// Properties that were declared, if this is an object.
    pub(crate) members: Option<Vec<Member>>,
    /// For properties that were not declared.
    pub(crate) rest: NoteId,
    pub(crate) prefix: Vec<NoteId>,
    pub(crate) items: NoteId,
    /// A map that is sent as a list of `{key, value}`; the note is for the values.
    pub(crate) pairs: Option<NoteId>,
    /// A value that is sent as JSON text.
    pub(crate) text: Option<Text>,
    /// Strings and lists are sent as such.
    pub(crate) plain_strings: bool,
    pub(crate) plain_lists: bool,
    /// All of these apply.
    pub(crate) of: Vec<NoteId>,
    /// The place, where `of` are alternatives.
    pub(crate) place: String,
}

/// What JSON text stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    Objects,
    Anything,
}

/// A declared property.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) sent: String,
    pub(crate) original: String,
    pub(crate) null: Null,
    pub(crate) note: NoteId,
    pub(crate) required: bool,
    /// The values it must have, where there are only these.
    pub(crate) only: Vec<Value>,
}

/// What null means as the value of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    /// It cannot be written, or is of no account.
    Never,
    /// It is a value of the server's own schema.
    Itself,
    /// The property is not given.
    Absent,
}

/// Alternatives that cannot be told apart when a call is mapped back.
#[derive(Debug)]
pub(crate) struct Clash {
    pub(crate) place: String,
}

type StepId = usize;

/// The machine. Step 0 keeps what it is given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    start: StepId,
}

#[derive(Debug, Clone, Default)]
struct Step {
    members: BTreeMap<String, Way>,
    rest: StepId,
    prefix: Vec<StepId>,
    items: StepId,
    pairs: Option<StepId>,
    text: Option<Text>,
    /// The objects that the step stands for, for the way forth: there it is seen which one is meant.
    shapes: Vec<Shape>,
}

/// The properties of one object, each with the step of its own.
type Shape = Vec<(Member, StepId)>;

/// Where a property leads.
#[derive(Debug, Clone)]
struct Way {
    original: String,
    null: Null,
    step: StepId,
}

impl Plan {
    pub(crate) fn of(notes: &[Note], start: NoteId) -> Result<Self, Clash> {
        let mut maker = Maker {
            notes,
            steps: vec![Step::default()],
            known: BTreeMap::new(),
        };
        let start = maker.step(&BTreeSet::from([start]), "")?;
        let mut plan = Self {
            steps: maker.steps,
            start,
        };
        plan.simplify();
        Ok(plan)
    }

    pub(crate) fn is_identity(&self) -> bool {
        self.start == 0
    }

    /// Leads steps that change nothing, and lead nowhere else, to step 0.
    fn simplify(&mut self) {
        let mut idle = vec![true; self.steps.len()];
        loop {
            let works = |step: &Step| {
                let renames = step
                    .members
                    .iter()
                    .any(|(sent, way)| *sent != way.original || way.null == Null::Absent);
                let ways = step.members.values().map(|way| way.step);
                let own = step.shapes.iter().flatten().map(|(_, own)| *own);
                let lists = step.prefix.iter().copied().chain([step.rest, step.items]);
                let mut next = ways.chain(own).chain(lists);
                renames
                    || step.text.is_some()
                    || step.pairs.is_some()
                    || next.any(|next| !idle[next])
            };
            let still: Vec<bool> = self.steps.iter().map(|step| !works(step)).collect();
            if still == idle {
                break;
            }
            idle = still;
        }
        let lead = |to: &mut StepId| {
            if idle[*to] {
                *to = 0;
            }
        };
        for step in &mut self.steps {
            step.members
                .values_mut()
                .for_each(|way| lead(&mut way.step));
            step.shapes
                .iter_mut()
                .flatten()
                .for_each(|(_, own)| lead(own));
            step.prefix.iter_mut().for_each(lead);
            lead(&mut step.rest);
            lead(&mut step.items);
            if let Some(pairs) = &mut step.pairs {
                lead(pairs);
            }
        }
        lead(&mut self.start);
    }
}

struct Maker<'n> {
    notes: &'n [Note],
    steps: Vec<Step>,
    known: BTreeMap<BTreeSet<NoteId>, StepId>,
}

impl Maker<'_> {
    /// The step for all of these notes together. `blame` is the place of the nearest alternatives.
    fn step(&mut self, notes: &BTreeSet<NoteId>, blame: &str) -> Result<StepId, Clash> {
        let (set, blame) = self.closed(notes, blame);
        if set.iter().all(|note| *note == KEEP) {
            return Ok(0);
        }
        if let Some(step) = self.known.get(&set) {
            return Ok(*step);
        }
        let id = self.steps.len();
        self.steps.push(Step::default());
        self.known.insert(set.clone(), id);
        let step = self.made(&set, &blame)?;
        self.steps[id] = step;
        Ok(id)
    }

    /// The notes without those that only gather others.
    fn closed(&self, notes: &BTreeSet<NoteId>, blame: &str) -> (BTreeSet<NoteId>, String) {
        let (mut seen, mut set, mut blame) = (BTreeSet::new(), BTreeSet::new(), blame.to_owned());
        let mut next: Vec<NoteId> = notes.iter().copied().collect();
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            let note = &self.notes[id];
            if note.of.is_empty() {
                set.insert(id);
            } else {
                if !note.place.is_empty() {
                    blame.clone_from(&note.place);
                }
                next.extend(&note.of);
            }
        }
        (set, blame)
    }

    fn made(&mut self, set: &BTreeSet<NoteId>, blame: &str) -> Result<Step, Clash> {
        let all = self.notes;
        let notes: Vec<&Note> = set.iter().map(|id| &all[*id]).collect();
        let text = notes.iter().find_map(|note| note.text);
        let texts_differ = notes
            .iter()
            .any(|note| note.text.is_some() && note.text != text);
        let is_ambiguous =
            text.is_some() && notes.iter().any(|note| note.plain_strings) || texts_differ;
        let pairs: BTreeSet<NoteId> = notes.iter().filter_map(|note| note.pairs).collect();
        if is_ambiguous || (!pairs.is_empty() && notes.iter().any(|note| note.plain_lists)) {
            return Err(Clash {
                place: blame.to_owned(),
            });
        }
        let mut step = Step {
            text,
            ..Step::default()
        };
        // Where only names are changed, it does not matter which object is meant.
        let chosen = notes.iter().filter(|note| !note.plain_strings);
        for members in chosen.filter_map(|note| note.members.as_ref()) {
            let mut shape = Shape::new();
            for member in members {
                let own = self.step(&BTreeSet::from([member.note]), blame)?;
                shape.push((member.clone(), own));
            }
            step.shapes.push(shape);
        }
        self.objects(&notes, &mut step, blame)?;
        self.lists(&notes, &mut step, blame)?;
        if !pairs.is_empty() {
            step.pairs = Some(self.step(&pairs, blame)?);
        }
        Ok(step)
    }

    /// Where the properties of all objects among the notes lead.
    fn objects(&mut self, notes: &[&Note], step: &mut Step, blame: &str) -> Result<(), Clash> {
        let objects = notes.iter().copied().filter(|note| note.members.is_some());
        let objects: Vec<&Note> = objects.collect();
        let rest: BTreeSet<NoteId> = objects.iter().map(|note| note.rest).collect();
        let names: BTreeSet<&str> = objects.iter().flat_map(|note| note.names()).collect();
        for name in names {
            let (way, next) = together(&objects, name).ok_or_else(|| Clash {
                place: blame.to_owned(),
            })?;
            let step_id = self.step(&next, blame)?;
            step.members.insert(
                name.to_owned(),
                Way {
                    step: step_id,
                    ..way
                },
            );
        }
        step.rest = self.step(&rest, blame)?;
        Ok(())
    }

    /// Where the items of all lists among the notes lead.
    fn lists(&mut self, notes: &[&Note], step: &mut Step, blame: &str) -> Result<(), Clash> {
        let lists = notes.iter().copied().filter(|note| note.plain_lists);
        let lists: Vec<&Note> = lists.collect();
        let longest = lists.iter().map(|note| note.prefix.len()).max();
        for at in 0..longest.unwrap_or(0) {
            let each = lists
                .iter()
                .map(|note| note.prefix.get(at).copied().unwrap_or(note.items));
            let next = self.step(&each.collect(), blame)?;
            step.prefix.push(next);
        }
        step.items = self.step(&lists.iter().map(|note| note.items).collect(), blame)?;
        Ok(())
    }
}

impl Note {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.members
            .iter()
            .flatten()
            .map(|member| member.sent.as_str())
    }
}

/// What a property means where several objects may be meant; nothing when they do not agree.
fn together(objects: &[&Note], name: &str) -> Option<(Way, BTreeSet<NoteId>)> {
    let (mut way, mut next): (Option<Way>, _) = (None, BTreeSet::new());
    for note in objects {
        let member = note
            .members
            .iter()
            .flatten()
            .find(|member| member.sent == name);
        let Some(member) = member else {
            next.insert(note.rest);
            continue;
        };
        next.insert(member.note);
        let way = way.get_or_insert_with(|| Way {
            original: member.original.clone(),
            null: member.null,
            step: 0,
        });
        if way.original != member.original {
            return None;
        }
        way.null = match (way.null, member.null) {
            (one, other) if one == other => one,
            (Null::Never, other) | (other, Null::Never) => other,
            _ => return None,
        };
    }
    Some((way?, next))
}
