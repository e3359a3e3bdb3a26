//! What rules are asked about: a tool, and one call of it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::catalog::{Annotations, CatalogTool, Standing};
use crate::config::{Config, EntryState};
use crate::offers::{RESOURCE_SERVER, read_tool};

/// A tool, as far as policy looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The name the model sees.
    pub name: &'a str,
    /// The configured name of its server.
    pub server: &'a str,
    /// The server's own name for it.
    pub raw: &'a str,
    /// What the server says about it. Nothing but a condition that names it looks at this.
    pub annotations: Annotations,
    /// What local configuration says about the server.
    pub standing: Standing,
    /// The prompt or resource that is wanted. A model reads resources by a tool, whose names stand
    /// above then; what a person asks for by hand goes through no tool, and they are empty.
    pub offered: Option<Offered<'a>>,
}

/// A prompt or a resource of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered<'a> {
    /// Which.
    pub kind: OfferKind,
    /// The configured name of its server.
    pub server: &'a str,
    /// The name of the prompt, or the address of the resource.
    pub name: &'a str,
    /// Who wants it.
    pub principal: Principal,
}

/// What servers have besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferKind {
    /// Words for a person to begin with.
    Prompt,
    /// Something to read.
    Resource,
}

impl OfferKind {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }
}

impl<'a> Subject<'a> {
    /// A prompt or resource that is not reached through a tool.
    pub fn of_offer(offered: Offered<'a>, standing: Standing) -> Self {
        Self {
            name: "",
            server: offered.server,
            raw: "",
            annotations: Annotations::default(),
            standing,
            offered: Some(offered),
        }
    }

    /// Whether there is a tool in it.
    pub(crate) fn is_tool(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether a person wants it by hand, and no rule need be asked for that alone.
    pub(crate) fn is_by_hand(&self) -> bool {
        !self.is_tool()
            && self
                .offered
                .is_some_and(|offered| offered.principal == Principal::Person)
    }
}

impl<'a> From<&'a CatalogTool> for Subject<'a> {
    fn from(tool: &'a CatalogTool) -> Self {
        Self {
            name: tool.name.as_str(),
            server: tool.server.as_str(),
            raw: &tool.raw_name,
            annotations: tool.annotations,
            standing: tool.standing,
            offered: None,
        }
    }
}

/// One call, as far as policy looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub subject: Subject<'a>,
    /// The arguments as they would be sent: JSON text of an object.
    pub arguments: &'a str,
    /// Who wants it.
    pub principal: Principal,
    /// Where what is known in this conversation came from.
    pub origins: &'a Origins,
    /// Where the artifacts came from whose handles are in the arguments.
    pub args_from: &'a Origins,
}

/// Who wants a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Principal {
    /// A model, out of a conversation.
    #[default]
    Model,
    /// A person, who wrote tool and arguments.
    Person,
    /// Another program, connected to the gateway; a model of its own, as a rule.
    Client,
}

impl Principal {
    /// Reads a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Model, Self::Person, Self::Client]
            .into_iter()
            .find(|principal| principal.as_str() == word)
    }

    /// The word that conditions use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Person => "person",
            Self::Client => "client",
        }
    }
}

/// One place that data came from. Today a server, one of whose results was shown; a finer origin,
/// such as one result that a call takes up, gets fields of its own beside this one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataOrigin {
    /// The configured name of the server.
    pub server: String,
}

/// All places that the data at hand may have come from. It only grows: what was once read cannot be
/// unread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeSet<DataOrigin>);

impl Origins {
    /// Adds one.
    pub fn add(&mut self, origin: DataOrigin) {
        self.0.insert(origin);
    }

    /// Adds a server, one of whose results was shown.
    pub fn add_server(&mut self, server: &str) {
        self.add(DataOrigin {
            server: server.to_owned(),
        });
    }

    /// The servers, each once, by name.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let mut before = None;
        self.0.iter().filter_map(move |origin| {
            let server = origin.server.as_str();
            (before.replace(server) != Some(server)).then_some(server)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Origins {
    fn from_iter<I: IntoIterator<Item = S>>(servers: I) -> Self {
        let mut origins = Self::default();
        for server in servers {
            origins.add_server(server.as_ref());
        }
        origins
    }
}

/// A tool that is known by name only, since its server is not connected.
#[derive(Debug, Clone)]
pub struct NamedTool {
    /// The name the model sees.
    pub name: String,
    /// The configured name of its server; empty where the name does not tell it.
    pub server: String,
    /// The server's own name for it.
    pub raw: String,
    /// What the server is taken to say about it.
    pub annotations: Annotations,
    /// What local configuration says about the server.
    pub standing: Standing,
}

impl NamedTool {
    /// Takes the name apart and looks up the server. A name that carries a hash does not tell the raw
    /// names; `server` and `raw` then have to.
    pub fn new(name: &str, server: Option<&str>, raw: Option<&str>, config: &Config) -> Self {
        let parts = name
            .strip_prefix("mcp__")
            .and_then(|rest| rest.split_once("__"));
        let (told_server, told_raw) = parts.unwrap_or(("", name));
        let server = server.unwrap_or(told_server);
        Self {
            name: name.to_owned(),
            server: server.to_owned(),
            raw: raw.unwrap_or(told_raw).to_owned(),
            annotations: Annotations::default(),
            standing: standing(server, config),
        }
    }

    /// As rules see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            name: &self.name,
            server: &self.server,
            raw: &self.raw,
            annotations: self.annotations,
            standing: self.standing,
            offered: None,
        }
    }
}

/// The resource that a call by name of the reading tool is about, where nothing is connected.
#[derive(Debug, Clone)]
pub struct Reach {
    server: String,
    uri: String,
    standing: Standing,
}

impl Reach {
    /// `None` for every other tool, and for a server that is not there.
    pub fn of(tool: &str, arguments: &str, config: &Config) -> Option<Self> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
            uri: String,
        }
        let reads = tool == read_tool() && config.builtin_servers().contains(&RESOURCE_SERVER);
        let Arguments { server, uri } = serde_json::from_str(arguments).ok().filter(|_| reads)?;
        let known = config
            .servers
            .values()
            .any(|entry| entry.name.as_str() == server)
            || config.builtin_servers().contains(&server.as_str());
        known.then(|| Self {
            standing: standing(&server, config),
            server,
            uri,
        })
    }

    /// Whose it is.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What policy is asked about when that tool is called.
    pub fn within<'a>(&'a self, subject: Subject<'a>) -> Subject<'a> {
        Subject {
            standing: self.standing,
            offered: Some(Offered {
                kind: OfferKind::Resource,
                server: &self.server,
                name: &self.uri,
                principal: Principal::Model,
            }),
            ..subject
        }
    }
}

fn standing(server: &str, config: &Config) -> Standing {
    let entry = config
        .servers
        .values()
        .find(|entry| entry.name.as_str() == server);
    let read_only = entry.is_some_and(|entry| match &entry.state {
        EntryState::Ready(settings) => settings.read_only && entry.origin.layer.may_loosen(),
        _ => false,
    });
    Standing {
        builtin: config.builtin_servers().contains(&server),
        read_only,
        instructions: false,
    }
}
