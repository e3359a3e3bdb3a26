//! What clients are shown: the listing, written out once for each change, and where each name leads.
//!
//! Promises: a server that is starting, or has gone, keeps the tools that were last known of it, so
//! that a listing never waits for it and never shrinks because of it; a tool that is held back is shown as
//! it was when it was approved, so that a call says what has to be done; what changed is told only when the
//! listing is another one. Leaves out: whether a call may run.

pub(crate) mod definition;
mod kept;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_connect::ServerName;
use outrigger_host::catalog::CatalogTool;
use outrigger_host::toolset::Toolset;
use outrigger_host::{Host, ServerState};
use tokio::sync::watch;

use crate::names::{self, Named};
use crate::renew::{Numbered, Present};
use definition::{Definition, Written};

/// How long a client may take a listing for true once all servers have started, in milliseconds.
const TTL_MS: u32 = 5000;

/// A tool as clients are shown it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The host's name for it.
    pub(crate) host: String,
    /// Its server's.
    pub(crate) own: String,
    pub(crate) definition: Arc<Definition>,
}

impl Shown {
    /// `None`: the definition is no object.
    fn of(tool: &CatalogTool) -> Option<Self> {
        Some(Self {
            host: tool.name.to_string(),
            own: tool.raw_name.clone(),
            definition: Arc::new(Definition::read(&tool.raw)?),
        })
    }
}

/// The tools last known of each server.
pub(crate) type Known = BTreeMap<ServerName, Vec<Shown>>;

/// What clients are shown at one moment.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Counts up whenever the listing is another one.
    pub(crate) number: u64,
    /// Which host, and its catalog's revision.
    revision: (u64, u64),
    toolset: Arc<Toolset>,
    entries: HashMap<String, Entry>,
    /// By the host's name.
    names: HashMap<String, String>,
    /// A `tools/list` result for each era.
    pub(crate) legacy: String,
    pub(crate) modern: String,
}

/// Where a name leads.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) server: ServerName,
    pub(crate) host: String,
}

impl View {
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The servers of all tools, as often as they have one.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.entries.values().map(|entry| entry.server.as_str())
    }

    /// A text of the host's with its names for tools replaced by those that clients know.
    pub(crate) fn in_their_names(&self, text: &str) -> String {
        let mut pieces: Vec<String> = text.split('`').map(ToOwned::to_owned).collect();
        // Every second piece stands between backticks.
        for piece in pieces.iter_mut().skip(1).step_by(2) {
            if let Some(name) = self.names.get(piece.as_str()) {
                piece.clone_from(name);
            }
        }
        pieces.join("`")
    }
}

fn is(host: &Host, name: &ServerName, what: impl Fn(&ServerState) -> bool) -> bool {
    host.watch(name).is_some_and(|state| what(&state.borrow()))
}

/// Keeps the view in step with the catalog.
pub(crate) struct Views {
    present: Arc<Present>,
    own_names: bool,
    file: Mutex<Option<PathBuf>>,
    known: Mutex<Known>,
    current: watch::Sender<Arc<View>>,
    /// `serverInfo` as JSON.
    info: String,
}

impl Views {
    /// `file`: where it is kept what was last known, for the next start.
    pub(crate) fn new(
        present: Arc<Present>,
        own_names: bool,
        file: Option<PathBuf>,
        info: String,
    ) -> Self {
        let known = file.as_deref().map(kept::read).unwrap_or_default();
        let views = Self {
            present,
            own_names,
            file: Mutex::new(file),
            known: Mutex::new(known),
            current: watch::Sender::default(),
            info,
        };
        views.meet();
        views.refresh();
        views
    }

    /// Another host has taken the place of the one before.
    pub(crate) fn renewed(&self, file: Option<PathBuf>) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        self.meet();
        self.refresh();
    }

    /// Takes in what was seen of servers of which nothing else is known.
    fn meet(&self) {
        let (host, mut known) = (self.present.host(), self.known());
        // Another folder, or another entry in the configuration, makes nobody a stranger.
        for name in host.server_names() {
            if let Slot::Vacant(vacant) = known.entry(name) {
                let seen = host.last_seen(vacant.key());
                let seen: Vec<_> = seen.iter().filter_map(|tool| Shown::of(tool)).collect();
                if !seen.is_empty() {
                    vacant.insert(seen);
                }
            }
        }
    }

    pub(crate) fn current(&self) -> Arc<View> {
        self.current.borrow().clone()
    }

    /// Counts with [`View::number`].
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.current.subscribe()
    }

    /// The tools that may be called now.
    pub(crate) fn toolset(&self) -> Arc<Toolset> {
        self.for_call().1
    }

    /// The host of a call that begins now, and its tools.
    pub(crate) fn for_call(&self) -> (Host, Arc<Toolset>) {
        let Numbered { number, host } = self.present.numbered();
        let view = self.current();
        let toolset = if view.revision == (number, *host.published().borrow()) {
            Arc::clone(&view.toolset)
        } else {
            host.toolset()
        };
        (host, toolset)
    }

    /// Takes in what the catalog is by now, where that is another one: nobody waits for a server that
    /// has just started, and its tools are to be listed all the same.
    pub(crate) fn catch_up(&self) {
        let Numbered { number, host } = self.present.numbered();
        let revision = (number, *host.published().borrow());
        if self.current().revision != revision {
            self.refresh();
        }
    }

    /// Servers that are starting, and of which nothing is known from before.
    pub(crate) fn waits_for_the_unknown(&self) -> bool {
        let (host, known) = (self.present.host(), self.known());
        let names = host.server_names();
        let mut unknown = names.iter().filter(|name| !known.contains_key(*name));
        unknown.any(|name| is(&host, name, ServerState::is_starting))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the catalog is now.
    pub(crate) fn refresh(&self) {
        // Held to the end, so that views follow one another.
        let mut known = self.known();
        let Numbered { number, host } = self.present.numbered();
        let revision = (number, *host.published().borrow());
        let catalog = host.catalog();
        let toolset = host.toolset();
        known.retain(|name, _| {
            host.watch(name).is_some()
                && !is(&host, name, |state| matches!(state, ServerState::Disabled))
        });
        let mut before = Known::new();
        for name in catalog.servers.keys() {
            let tools = known.insert(name.clone(), Vec::new());
            before.extend(tools.map(|tools| (name.clone(), tools)));
        }
        for tool in toolset.tools() {
            if let Some(shown) = Shown::of(tool) {
                known.entry(tool.server.clone()).or_default().push(shown);
            }
        }
        for (name, tools) in before {
            let held = catalog
                .servers
                .get(&name)
                .map_or(&[][..], |server| &server.held);
            let is_held = |shown: &Shown| {
                held.iter()
                    .any(|held| held.tool.name.as_str() == shown.host)
            };
            let shown = known.entry(name).or_default();
            shown.extend(tools.into_iter().filter(is_held));
        }
        let settled = !host
            .server_names()
            .iter()
            .any(|name| is(&host, name, ServerState::is_starting));
        self.publish(&known, (revision, toolset), settled);
    }

    fn publish(
        &self,
        known: &Known,
        (revision, toolset): ((u64, u64), Arc<Toolset>),
        settled: bool,
    ) {
        let tools: Vec<_> = known
            .iter()
            .flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)))
            .collect();
        let named: Vec<_> = tools
            .iter()
            .map(|(_, tool)| Named {
                host: &tool.host,
                own: &tool.own,
            })
            .collect();
        let written = names::all(&named, self.own_names);
        let mut view = View {
            revision,
            toolset,
            legacy: String::from("{\"tools\":["),
            ..View::default()
        };
        let mut modern = String::from("\"tools\":[");
        for (index, ((server, tool), name)) in tools.iter().zip(written).enumerate() {
            if index > 0 {
                view.legacy.push(',');
                modern.push(',');
            }
            let told = names::tells(&name, server.as_str(), &tool.own);
            let own = (!told).then(|| (server.as_str(), tool.own.as_str()));
            let how = |modern| Written {
                name: &name,
                own,
                modern,
            };
            tool.definition.write(how(false), &mut view.legacy);
            tool.definition.write(how(true), &mut modern);
            view.names.insert(tool.host.clone(), name.clone());
            let entry = Entry {
                server: (*server).clone(),
                host: tool.host.clone(),
            };
            view.entries.insert(name, entry);
        }
        view.legacy.push_str("]}");
        let ttl = if settled { TTL_MS } else { 0 };
        view.modern = format!(
            "{{\"resultType\":\"complete\",{modern}],\"ttlMs\":{ttl},\"cacheScope\":\"private\",\
             \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{}}}}}",
            self.info
        );
        self.current.send_modify(|current| {
            let same = current.number > 0 && current.legacy == view.legacy;
            view.number = current.number + u64::from(!same);
            *current = Arc::new(view);
        });
    }

    /// Follows the catalog, of one host after the other; keeps what is known.
    pub(crate) async fn follow(&self) {
        let (mut present, mut kept) = (self.present.watch(), 0);
        loop {
            // Let go with the turn: a host that another one has taken the place of is not kept here.
            let host = present.borrow_and_update().host.clone();
            tokio::select! {
                changed = present.changed() => if changed.is_err() { return },
                () = self.follow_one(&host, &mut kept) => return,
            }
        }
    }

    async fn follow_one(&self, host: &Host, kept: &mut u64) {
        let mut published = host.published();
        let settled = host.settled(std::time::Duration::MAX);
        tokio::pin!(settled);
        let mut waiting = true;
        loop {
            tokio::select! {
                changed = published.changed() => if changed.is_err() { return },
                _ = &mut settled, if waiting => waiting = false,
            }
            self.refresh();
            let number = self.current().number;
            // Also of some servers only: hosts end before the slowest of them is there.
            if number != *kept {
                *kept = number;
                self.keep();
            }
        }
    }

    fn keep(&self) {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.clone() else { return };
        if let Err(error) = kept::write(&file, &self.known()) {
            tracing::debug!(file = %file.display(), %error, "what is known of the tools is not kept");
        }
    }
}
