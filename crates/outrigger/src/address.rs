//! What a person writes to name a prompt or a resource of a server: `SERVER:NAME`, `SERVER:URI`.

use std::collections::BTreeMap;

use outrigger_connect::ServerName;
use outrigger_host::offers::{OfferError, OfferErrorKind};

use crate::error::{CommandError, Exit};
use crate::visible;

/// A server, and something of it; `None`: the server alone was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    pub(crate) server: &'a str,
    pub(crate) name: Option<&'a str>,
}

impl<'a> Address<'a> {
    pub(crate) fn of(written: &'a str) -> Self {
        match written.split_once(':') {
            Some((server, name)) => Self {
                server,
                name: Some(name).filter(|name| !name.is_empty()),
            },
            None => Self {
                server: written,
                name: None,
            },
        }
    }
}

/// A server by the name that a person typed.
pub(crate) fn server(name: &str) -> Result<ServerName, OfferError> {
    ServerName::new(name).map_err(|_| OfferError::NoServer {
        name: name.to_owned(),
        known: Vec::new(),
    })
}

/// `key=value` words as arguments of a prompt, whose values are text.
pub(crate) fn arguments(pairs: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut arguments = BTreeMap::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(CommandError::usage(format!(
                "`{}` is not `key=value`",
                visible::line(pair)
            )));
        };
        if arguments.insert(key.to_owned(), value.to_owned()).is_some() {
            let key = visible::line(key);
            return Err(CommandError::usage(format!("`{key}` is given twice")));
        }
    }
    Ok(arguments)
}

impl From<OfferError> for CommandError {
    fn from(error: OfferError) -> Self {
        let exit = match error.kind() {
            OfferErrorKind::Usage => Exit::Usage,
            OfferErrorKind::Refused => Exit::Refused,
            OfferErrorKind::Unavailable => Exit::Unavailable,
            OfferErrorKind::Failed => Exit::Failed,
            OfferErrorKind::Interrupted => Exit::Interrupted,
        };
        Self::new(exit, error.to_string()).hints(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_colon_divides() {
        let of = |written| {
            let Address { server, name } = Address::of(written);
            (server, name)
        };
        assert_eq!(of("docs"), ("docs", None));
        assert_eq!(of("docs:"), ("docs", None));
        assert_eq!(of("docs:note:///a:b"), ("docs", Some("note:///a:b")));
    }

    #[test]
    fn values_keep_their_equals_signs() {
        let pairs = ["a=b=c".to_owned(), "d=".to_owned()];
        let arguments = arguments(&pairs).unwrap();
        assert_eq!(
            (arguments["a"].as_str(), arguments["d"].as_str()),
            ("b=c", "")
        );
        for wrong in [&["a"][..], &["a=1", "a=2"]] {
            let pairs: Vec<_> = wrong.iter().map(|pair| (*pair).to_owned()).collect();
            assert!(super::arguments(&pairs).is_err());
        }
    }
}
