//! Which servers are built in: their names and one line about each.
//!
//! Leaves out what they do; see the module of each.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A server that this crate carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuiltIn {
    /// The current time, days between dates, conversion between time zones.
    Time,
    /// Returns the text that it is given.
    Echo,
    /// Lists, reads and searches the files of one folder.
    Workspace,
    /// Lists and reads the resources of a host's other servers. It needs a host around it.
    Resources,
    /// Reads and searches what its reader finds. It needs a host around it.
    Artifacts,
}

impl BuiltIn {
    /// Every server that can stand alone, in the order to list them.
    pub const ALL: [Self; 3] = [Self::Time, Self::Echo, Self::Workspace];

    /// The name under which it is configured and started, such as `time`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Echo => "echo",
            Self::Workspace => "workspace",
            Self::Resources => "resources",
            Self::Artifacts => "artifacts",
        }
    }

    /// One line for a list of servers, without a full stop.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Time => "the current time, days between dates, time zone conversion",
            Self::Echo => "returns the text that it is given, for trying things out",
            Self::Workspace => "lists, reads and searches the files of one folder, and no others",
            Self::Resources => "lists and reads the resources of the other servers",
            Self::Artifacts => "reads and searches what was too long to be shown at once",
        }
    }
}

impl fmt::Display for BuiltIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for BuiltIn {
    type Err = UnknownBuiltIn;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|server| server.name() == name)
            .ok_or_else(|| UnknownBuiltIn {
                name: name.to_owned(),
            })
    }
}

/// No built-in server has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no built-in server `{name}`; there are `time`, `echo` and `workspace`")]
pub struct UnknownBuiltIn {
    /// The name as it was given.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_found_by_its_name_and_named_in_the_error() {
        let message = "clock".parse::<BuiltIn>().unwrap_err().to_string();
        for server in BuiltIn::ALL {
            assert_eq!(server.name().parse(), Ok(server));
            assert!(message.contains(&format!("`{server}`")), "{message}");
        }
    }
}
