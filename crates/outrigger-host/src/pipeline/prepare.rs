//! First stage: is the tool in this turn's toolset, and do the arguments fit its schema? An
//! idempotency key that the model left out is filled in, and a call that was made before, and of which
//! nobody knows what came, is recognised.

use std::fmt::Write as _;
use std::sync::Arc;

use super::ProposedCall;
use super::unknown::{Repeat, RepeatKey};
use crate::arguments::{Arguments, BadArguments, Fill};
use crate::catalog::CatalogTool;
use crate::hooks::Say;
use crate::host::Host;
use crate::outcome::Rejection;
use crate::toolset::Toolset;

/// A call that could be made.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tool: Arc<CatalogTool>,
    pub(crate) arguments: Arguments,
    /// What hooks say about whether it may run.
    pub(crate) say: Say,
    /// The call that it would repeat, where that is not known to be harmless.
    pub(crate) repeats: Option<Repeat>,
}

impl Host {
    pub(super) fn prepare(
        &self,
        toolset: &Toolset,
        proposed: &ProposedCall,
    ) -> Result<Prepared, Rejection> {
        let Some(tool) = toolset.get(&proposed.tool) else {
            let nearest = toolset
                .nearest(&proposed.tool)
                .into_iter()
                .map(ToOwned::to_owned)
                .collect();
            return Err(Rejection::UnknownTool {
                name: proposed.tool.clone(),
                nearest,
            });
        };
        let key = self.idempotency_key(tool);
        let mut arguments = match key {
            Some(key) => read(proposed, tool, Some((key, &fresh_key()?)))?,
            None => read(proposed, tool, None)?,
        };
        let earlier = self
            .unknowns()
            .find(tool.name.as_str(), arguments.raw.get(), key);
        let repeats = match earlier.filter(|_| self.retries(tool).is_none()) {
            None => None,
            Some((open, sent_key)) => {
                if let (Some(key), Some(sent)) = (key, &sent_key) {
                    arguments = read(proposed, tool, Some((key, sent)))?;
                }
                let same = sent_key.is_some() && sent_key == arguments.key;
                Some(Repeat {
                    here: open.of.run == *self.run().id(),
                    of: open.of,
                    at: open.at,
                    why: open.why,
                    key: match (key, &arguments.key) {
                        (Some(key), _) if same => RepeatKey::Same(key.to_owned()),
                        (Some(key), Some(_)) => RepeatKey::Other(key.to_owned()),
                        _ => RepeatKey::None,
                    },
                })
            }
        };
        Ok(Prepared {
            tool: Arc::clone(tool),
            arguments,
            say: Say::default(),
            repeats,
        })
    }
}

fn read(
    proposed: &ProposedCall,
    tool: &CatalogTool,
    key: Option<(&str, &str)>,
) -> Result<Arguments, Rejection> {
    let fill = key.map(|(member, value)| Fill { member, value });
    Arguments::read_filled(&proposed.arguments, &tool.input, &tool.input_schema, fill).map_err(
        |bad| match bad {
            BadArguments::NotAnObject(reason) => Rejection::NotAnObject { reason },
            BadArguments::Unfit(violations) => Rejection::BadArguments { violations },
        },
    )
}

/// A random UUID (RFC 9562, version 4): what most servers take.
fn fresh_key() -> Result<String, Rejection> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Rejection::NotRecorded {
        reason: format!("no idempotency key could be made: {error}"),
    })?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut key = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            key.push('-');
        }
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}
