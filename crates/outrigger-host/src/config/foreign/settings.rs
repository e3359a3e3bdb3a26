//! A server in our words, as it will be written: values may hold our variables, and know which part of
//! them is a secret.

use std::fmt;

use indexmap::IndexMap;

use crate::config::reference::Reference;

/// A value, in the words of our files.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    pub(super) value: String,
    pub(super) secret: Option<String>,
}

impl Text {
    /// The secret that stands in it, for whoever moves it elsewhere.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// The value as it is to be written; its secret, if it has one, is where `reference` says.
    pub fn written(&self, reference: Option<&Reference>) -> String {
        match (&self.secret, reference) {
            (Some(secret), Some(reference)) if self.value.trim() == secret => reference.to_string(),
            (Some(secret), Some(reference)) => {
                self.value.replacen(secret, &format!("${{{reference}}}"), 1)
            }
            _ => self.value.clone(),
        }
    }

    /// The value for people: its secret masked.
    pub fn masked(&self) -> String {
        match &self.secret {
            Some(secret) => self
                .value
                .replace(secret.as_str(), crate::config::secret::MASK),
            None => self.value.clone(),
        }
    }
}

// It may hold a secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A program to start.
    Program {
        /// The program.
        command: String,
        /// Its arguments. One that is a secret stays one: no reference can stand there.
        args: Vec<Text>,
        /// Variables of its own.
        env: IndexMap<String, Text>,
        /// Where it is started.
        cwd: Option<String>,
    },
    /// Something on the network.
    Network {
        /// `sse` or `ws`, where it is not Streamable HTTP.
        kind: Option<&'static str>,
        /// The address.
        url: Text,
        /// What is sent with every request.
        headers: IndexMap<String, Text>,
    },
}

/// How long things may take, in our words for times (`"30s"`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Until it is ready.
    pub start: Option<String>,
    /// Until its tools are listed.
    pub list: Option<String>,
    /// Until a call is answered.
    pub call: Option<String>,
}

/// A server in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where it is. Two entries with the same one are the same server.
    pub address: Address,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is switched on.
    pub enabled: bool,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Globs: only these tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Globs: not these.
    pub disabled_tools: Vec<String>,
    /// How to sign in: the client's name.
    pub client_id: Option<String>,
    /// The client's secret.
    pub client_secret: Option<Text>,
    /// What is asked for.
    pub scopes: Vec<String>,
}
