//! The lists of prompts and resources, kept as immutable data. A list is asked for when somebody wants
//! it, by one caller at a time, and again after the server has said that it has changed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use outrigger_connect::{ListError, Listing, Offer, ServerName};
use outrigger_journal::Redactor;

use super::definition::{self, Prompt, Resource, SetAside, Template};
use super::error::OfferError;
use crate::host::Ready;

/// Names that are suggested.
const NEAR: usize = 3;

/// The prompts of one server.
#[derive(Debug, Default)]
pub struct Prompts {
    /// Usable ones, in the server's order.
    pub prompts: Vec<Prompt>,
    /// Those that were set aside.
    pub set_aside: Vec<SetAside>,
    /// Why the list is not whole.
    pub problems: Vec<String>,
}

/// The resources of one server.
#[derive(Debug, Default)]
pub struct Resources {
    /// Usable ones, in the server's order.
    pub resources: Vec<Resource>,
    /// Templates of such.
    pub templates: Vec<Template>,
    /// Those that were set aside.
    pub set_aside: Vec<SetAside>,
    /// Why the lists are not whole.
    pub problems: Vec<String>,
}

/// What has been listed so far, by server.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    prompts: Shelves<Prompts>,
    resources: Shelves<Resources>,
    /// Reads of models that have been permitted and not yet made.
    pub(super) permitted: Mutex<Vec<(ServerName, String)>>,
}

type Shelves<T> = Mutex<HashMap<ServerName, Arc<tokio::sync::Mutex<Option<Kept<T>>>>>>;

/// A list, and what it holds for.
#[derive(Debug)]
struct Kept<T> {
    /// The connection. While this lives, no other takes its place in memory.
    of: Weak<Ready>,
    /// How many announcements of changes had come when it was asked for.
    as_of: u64,
    list: Arc<T>,
}

impl<T> Kept<T> {
    fn holds(&self, ready: &Arc<Ready>, announced: u64) -> bool {
        Weak::ptr_eq(&self.of, &Arc::downgrade(ready)) && self.as_of == announced
    }
}

impl Shelf {
    pub(super) async fn prompts(
        &self,
        server: &ServerName,
        ready: &Arc<Ready>,
        redactor: &Redactor,
    ) -> Result<Arc<Prompts>, OfferError> {
        let announced = *ready.connection.prompts_changed().borrow();
        let slot = slot(&self.prompts, server);
        let mut slot = slot.lock().await;
        if let Some(kept) = slot.as_ref().filter(|kept| kept.holds(ready, announced)) {
            return Ok(Arc::clone(&kept.list));
        }
        let listing = ready.connection.list(Offer::Prompts).await;
        let listing = given(server, "prompts", listing)?;
        let mut list = Prompts::default();
        let entries = clean(listing, redactor, &mut list.problems);
        list.prompts = definition::read_all(server, &entries, &mut list.set_aside);
        Ok(keep(&mut slot, ready, announced, list))
    }

    /// What was last listed of a server that is stopped for being idle: `ready` is what it had.
    pub(super) async fn known_prompts(
        &self,
        server: &ServerName,
        ready: &Arc<Ready>,
    ) -> Option<Arc<Prompts>> {
        let announced = *ready.connection.prompts_changed().borrow();
        known(&self.prompts, server, ready, announced).await
    }

    /// See [`Shelf::known_prompts`].
    pub(super) async fn known_resources(
        &self,
        server: &ServerName,
        ready: &Arc<Ready>,
    ) -> Option<Arc<Resources>> {
        let announced = *ready.connection.resources_changed().borrow();
        known(&self.resources, server, ready, announced).await
    }

    pub(super) async fn resources(
        &self,
        server: &ServerName,
        ready: &Arc<Ready>,
        redactor: &Redactor,
    ) -> Result<Arc<Resources>, OfferError> {
        let announced = *ready.connection.resources_changed().borrow();
        let slot = slot(&self.resources, server);
        let mut slot = slot.lock().await;
        if let Some(kept) = slot.as_ref().filter(|kept| kept.holds(ready, announced)) {
            return Ok(Arc::clone(&kept.list));
        }
        let connection = &ready.connection;
        let listing = given(server, "resources", connection.list(Offer::Resources).await)?;
        let mut list = Resources::default();
        let entries = clean(listing, redactor, &mut list.problems);
        list.resources = definition::read_all(server, &entries, &mut list.set_aside);
        // Many servers have resources and do not know the method.
        match connection.list(Offer::ResourceTemplates).await {
            Ok(Some(listing)) => {
                let entries = clean(listing, redactor, &mut list.problems);
                list.templates = definition::read_all(server, &entries, &mut list.set_aside);
            }
            Ok(None) | Err(ListError::Rpc { code: -32601, .. }) => {}
            Err(error) => list.problems.push(error.to_string()),
        }
        Ok(keep(&mut slot, ready, announced, list))
    }
}

async fn known<T>(
    shelves: &Shelves<T>,
    server: &ServerName,
    ready: &Arc<Ready>,
    announced: u64,
) -> Option<Arc<T>> {
    let slot = slot(shelves, server);
    let slot = slot.lock().await;
    let kept = slot.as_ref().filter(|kept| kept.holds(ready, announced))?;
    Some(Arc::clone(&kept.list))
}

fn slot<T>(shelves: &Shelves<T>, server: &ServerName) -> Arc<tokio::sync::Mutex<Option<Kept<T>>>> {
    let mut shelves = shelves.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = shelves
        .entry(server.clone())
        .or_insert_with(|| Arc::new(tokio::sync::Mutex::new(None)));
    Arc::clone(slot)
}

fn given(
    server: &ServerName,
    what: &'static str,
    listing: Result<Option<Listing>, ListError>,
) -> Result<Listing, OfferError> {
    let server = server.clone();
    match listing {
        Ok(Some(listing)) => Ok(listing),
        // One that never said so may not know the method.
        Ok(None) | Err(ListError::Rpc { code: -32601, .. }) => {
            Err(OfferError::Nothing { server, what })
        }
        Err(error) => Err(OfferError::Listing { server, error }),
    }
}

/// A server knows its own secrets, and may tell them.
fn clean(
    listing: Listing,
    redactor: &Redactor,
    problems: &mut Vec<String>,
) -> Vec<Box<serde_json::value::RawValue>> {
    problems.extend(listing.problems);
    let mut entries = listing.entries;
    for entry in &mut entries {
        if let Cow::Owned(clean) = redactor.redact_json(entry) {
            *entry = clean;
        }
    }
    entries
}

fn keep<T>(slot: &mut Option<Kept<T>>, ready: &Arc<Ready>, as_of: u64, list: T) -> Arc<T> {
    let list = Arc::new(list);
    *slot = Some(Kept {
        of: Arc::downgrade(ready),
        as_of,
        list: Arc::clone(&list),
    });
    list
}

impl Prompts {
    /// The prompt of this name.
    pub fn get(&self, name: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }

    /// Whether there is a prompt that can be told this, and need not be told more.
    pub fn check(
        &self,
        server: &ServerName,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<&Prompt, OfferError> {
        let Some(prompt) = self.get(name) else {
            return Err(self.unknown(server, name));
        };
        let wrong = |what: String, missing: Vec<String>| OfferError::Arguments {
            server: server.clone(),
            prompt: name.to_owned(),
            what,
            missing,
        };
        let known = |given: &&String| !prompt.arguments.iter().any(|one| one.name == **given);
        if let Some(stranger) = arguments.keys().find(known) {
            let names: Vec<_> = prompt
                .arguments
                .iter()
                .map(|one| format!("`{}`", one.name))
                .collect();
            let has = if names.is_empty() {
                "it takes none".to_owned()
            } else {
                format!("it takes {}", names.join(", "))
            };
            return Err(wrong(
                format!("has no argument `{}`; {has}", stranger.escape_debug()),
                Vec::new(),
            ));
        }
        let missing = prompt.missing(arguments);
        if missing.is_empty() {
            return Ok(prompt);
        }
        let names: Vec<_> = missing
            .iter()
            .map(|one| format!("`{}`", one.name))
            .collect();
        Err(wrong(
            format!("needs {}", names.join(", ")),
            missing.iter().map(|one| one.name.clone()).collect(),
        ))
    }

    fn unknown(&self, server: &ServerName, name: &str) -> OfferError {
        if let Some(aside) = self.set_aside.iter().find(|aside| aside.name == name) {
            return OfferError::SetAside {
                server: server.clone(),
                prompt: name.to_owned(),
                reason: aside.reason.clone(),
            };
        }
        OfferError::NoPrompt {
            server: server.clone(),
            prompt: name.to_owned(),
            nearest: nearest(self.prompts.iter().map(|prompt| prompt.name.as_str()), name),
        }
    }
}

impl Prompt {
    /// Arguments that must be given and are not.
    pub fn missing(&self, given: &BTreeMap<String, String>) -> Vec<&definition::PromptArgument> {
        let missing = self.arguments.iter();
        missing
            .filter(|one| one.required && !given.contains_key(&one.name))
            .collect()
    }
}

impl Resources {
    /// Listed addresses near to one that is not among them.
    pub fn nearest(&self, uri: &str) -> Vec<String> {
        nearest(
            self.resources.iter().map(|resource| resource.uri.as_str()),
            uri,
        )
    }
}

fn nearest<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Vec<String> {
    let mut scored: Vec<_> = names
        .map(|name| (strsim::jaro_winkler(wanted, name), name))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored
        .into_iter()
        .take(NEAR)
        .map(|(_, name)| name.to_owned())
        .collect()
}
