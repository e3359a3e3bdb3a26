//! Names of runs: when they began in UTC, and four random digits. Sortable by time.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Name of a run: `20261130-094210-3f9a`, sortable by time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Not the name of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a run")]
pub struct InvalidRunId(pub String);

impl RunId {
    /// The name for this second and these digits.
    pub(crate) fn new(at: Timestamp, digits: u16) -> Self {
        Self(format!("{}-{digits:04x}", at.strftime("%Y%m%d-%H%M%S")))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, InvalidRunId> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidRunId;

    fn try_from(text: String) -> Result<Self, InvalidRunId> {
        let fits = text.len() == 20
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 15 => byte == b'-',
                16.. => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                _ => byte.is_ascii_digit(),
            });
        if fits {
            Ok(Self(text))
        } else {
            Err(InvalidRunId(text))
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_second_in_utc_and_four_digits() {
        let id = RunId::new("2026-11-30T10:42:10.9+01:00".parse().unwrap(), 0x3f);
        assert_eq!(id.as_str(), "20261130-094210-003f");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn other_text_is_not_a_name() {
        for text in [
            "",
            "20261130-094210",
            "20261130-094210-3F9A",
            "20261130-094210-3f9a1",
            "2026113a-094210-3f9a",
        ] {
            assert_eq!(text.parse::<RunId>(), Err(InvalidRunId(text.to_owned())));
        }
        assert!(serde_json::from_str::<RunId>("\"latest\"").is_err());
    }
}
