//! First stage: is the tool in this turn's toolset, and do the arguments fit its schema?

use std::sync::Arc;

use super::ProposedCall;
use crate::arguments::{Arguments, BadArguments};
use crate::catalog::CatalogTool;
use crate::discovery::Facility;
use crate::hooks::Say;
use crate::outcome::Rejection;
use crate::toolset::Toolset;

/// A call that could be made.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tool: Arc<CatalogTool>,
    pub(crate) arguments: Arguments,
    /// What hooks say about whether it may run.
    pub(crate) say: Say,
}

pub(super) fn prepare(toolset: &Toolset, proposed: &ProposedCall) -> Result<Prepared, Rejection> {
    let own = Facility::named(&proposed.tool).and_then(Facility::tool);
    let Some(tool) = own.or_else(|| toolset.get(&proposed.tool)) else {
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
    match Arguments::read(&proposed.arguments, &tool.input, &tool.input_schema) {
        Ok(arguments) => Ok(Prepared {
            tool: Arc::clone(tool),
            arguments,
            say: Say::default(),
        }),
        Err(BadArguments::NotAnObject(reason)) => Err(Rejection::NotAnObject { reason }),
        Err(BadArguments::Unfit(violations)) => Err(Rejection::BadArguments { violations }),
    }
}
