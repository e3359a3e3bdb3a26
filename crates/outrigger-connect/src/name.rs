//! The name of a server, as configuration gives it. A server never names itself.

use std::fmt;
use std::sync::Arc;

/// A configured server's name: 1 to 128 bytes, no control characters, no white space at the ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot name a server: {reason}", name.escape_debug())]
pub struct InvalidServerName {
    /// What was written.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl ServerName {
    /// Checks and keeps a name.
    pub fn new(name: &str) -> Result<Self, InvalidServerName> {
        let fail = |reason| {
            Err(InvalidServerName {
                name: name.to_owned(),
                reason,
            })
        };
        if name.is_empty() {
            return fail("it is empty");
        }
        if name.len() > 128 {
            return fail("it is longer than 128 bytes");
        }
        if name.chars().any(char::is_control) {
            return fail("it has a control character");
        }
        if name.trim() != name {
            return fail("it begins or ends with white space");
        }
        Ok(Self(name.into()))
    }

    /// The name as configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ServerName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
