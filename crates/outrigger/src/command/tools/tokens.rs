//! `outrigger tools --tokens`: what each server and each tool costs in every request.

use std::sync::Arc;

use outrigger_host::catalog::CatalogTool;
use outrigger_host::{Host, ServerStatus};
use serde::Serialize;

use super::reader::Reader;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::visible;

/// What a server's declarations cost.
#[derive(Serialize)]
struct ServerCost {
    server: String,
    tools: Vec<ToolCost>,
    tokens: u64,
}

#[derive(Serialize)]
struct ToolCost {
    name: String,
    tokens: u64,
    /// Why it costs nothing: the provider is not told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    provider: String,
    counted_by: &'static str,
    exact: bool,
    /// How many requests an estimate is corrected by.
    corrected_by: u32,
    servers: Vec<ServerCost>,
    tokens: u64,
}

pub(super) fn print(
    servers: &[ServerStatus],
    host: &Host,
    reader: &Reader,
    as_json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let toolset = host.toolset();
    let costs: Vec<ServerCost> = servers
        .iter()
        .map(|server| {
            let of_server = |tool: &&Arc<CatalogTool>| tool.server == server.name;
            let tools: Vec<_> = toolset.tools().iter().filter(of_server).cloned().collect();
            cost(server.name.as_str(), &tools, reader)
        })
        .filter(|cost| !cost.tools.is_empty())
        .collect();
    let tokens = costs.iter().map(|cost| cost.tokens).sum();
    if as_json {
        return screen.json(&Document {
            provider: reader.name().to_owned(),
            counted_by: reader.vocabulary().name(),
            exact: reader.vocabulary().is_known(),
            corrected_by: reader.corrected_by(),
            servers: costs,
            tokens,
        });
    }
    let mark = reader.vocabulary().mark();
    for cost in &costs {
        let server = visible::line(&cost.server);
        let tokens = visible::thousands(cost.tokens);
        let tools = visible::count(cost.tools.len() as u64, "tool");
        screen.data(&format!(
            "[server \"{server}\": {tools}, {mark}{tokens} tokens per request]\n"
        ))?;
        for tool in &cost.tools {
            match &tool.left_out {
                None => {
                    let tokens = format!("{mark}{}", visible::thousands(tool.tokens));
                    screen.data(&format!("  {tokens:>8} {}\n", tool.name))?;
                }
                Some(reason) => {
                    let line = format!("  left out {}: {}", tool.name, visible::line(reason));
                    screen.data(&format!("{}\n", screen.ink(Label::Warn, &line)))?;
                }
            }
        }
    }
    let count: usize = costs.iter().map(|cost| cost.tools.len()).sum();
    let by = match reader.corrected_by() {
        _ if reader.vocabulary().is_known() => format!("counted with {}", reader.vocabulary()),
        0 => "an estimate: the vocabulary is not known".to_owned(),
        by => format!(
            "an estimate, corrected by reports of {}",
            visible::count(by.into(), "request")
        ),
    };
    screen.data(&format!(
        "{} in all, {mark}{} tokens per request, as `{}` is told of them; {by}\n",
        visible::count(count as u64, "tool"),
        visible::thousands(tokens),
        visible::line(reader.name()),
    ))?;
    Ok(())
}

fn cost(server: &str, tools: &[Arc<CatalogTool>], reader: &Reader) -> ServerCost {
    let declared = reader.declared(tools).into_iter();
    let tools: Vec<ToolCost> = declared
        .map(|declared| ToolCost {
            name: declared.tool,
            tokens: declared.said.as_ref().map_or(0, |text| reader.count(text)),
            left_out: declared.said.err(),
        })
        .collect();
    ServerCost {
        server: server.to_owned(),
        tokens: tools.iter().map(|tool| tool.tokens).sum(),
        tools,
    }
}
