//! What the model is told besides the conversation: a short system message, and the tools.

use std::fmt::Write as _;

use outrigger_host::catalog::CatalogTool;
use outrigger_host::toolset::Toolset;
use outrigger_model::ToolDeclaration;

const SYSTEM: &str = "Answer the user's question, with the tools where they help.";

/// Why a server is missing is for the person; the model needs the fact, and no words of the server.
pub(super) fn system(toolset: &Toolset) -> String {
    let mut text = SYSTEM.to_owned();
    if !toolset.missing().is_empty() {
        let names: Vec<_> = toolset
            .missing()
            .iter()
            .map(|missing| format!("`{}`", missing.server))
            .collect();
        let _ = write!(
            text,
            "\nThese tool servers are configured but not available now: {}.",
            names.join(", ")
        );
    }
    text
}

pub(super) fn declare(tool: &CatalogTool) -> ToolDeclaration {
    ToolDeclaration {
        name: tool.name.to_string(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
    }
}
