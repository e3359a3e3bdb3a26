//! `outrigger tools --schema NAME`: what a provider is told of one tool, and what that changes.

use std::sync::Arc;

use outrigger_host::Host;
use outrigger_host::catalog::CatalogTool;
use outrigger_schemas::{Compiled, compile};
use serde_json::json;

use super::reader::Reader;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::visible;

pub(super) fn print(
    host: &Host,
    name: &str,
    reader: &Reader,
    as_json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let tool = find(host, name)?;
    let compiled = compile(reader.family(), &tool.input_schema);
    if as_json {
        let told = match &compiled {
            Ok(Compiled {
                schema, changes, ..
            }) => json!({"schema": schema, "changes": changes}),
            Err(reason) => json!({"left_out": reason.to_string()}),
        };
        let mut document = json!({"tool": tool.name.as_str(), "provider": reader.family().name()});
        for (key, value) in told.as_object().into_iter().flatten() {
            document[key] = value.clone();
        }
        return screen.json(&document);
    }
    let name = screen.ink(Label::Name, tool.name.as_str()).to_string();
    match compiled {
        Err(reason) => {
            let word = screen.ink(Label::Bad, "left out").to_string();
            let reason = visible::line(&reason.to_string()).into_owned();
            screen.data(&format!(
                "{name} for {}: {word}: {reason}\n",
                reader.family()
            ))?;
        }
        Ok(compiled) => {
            screen.data(&format!("{name} for {}\n", reader.family()))?;
            print_schema(&compiled, screen)?;
        }
    }
    Ok(())
}

fn print_schema(compiled: &Compiled, screen: Screen) -> Result<(), CommandError> {
    let schema = match &compiled.schema {
        Some(schema) => serde_json::to_string_pretty(schema).unwrap_or_default(),
        None => "no parameters".to_owned(),
    };
    for line in schema.lines().map(visible::folded_json_line) {
        screen.data(&format!("  {line}\n"))?;
    }
    if compiled.changes.is_empty() {
        screen.data("nothing is said otherwise than by the server\n")?;
    }
    for change in &compiled.changes {
        let path = if change.path.is_empty() {
            "/"
        } else {
            &change.path
        };
        let (path, what, why) = (
            visible::line(path),
            visible::line(&change.what),
            visible::line(&change.why),
        );
        let effect = change.effect.as_str();
        screen.data(&format!(
            "{effect:<8} {}: {what} ({why})\n",
            screen.ink(Label::Dim, &path)
        ))?;
    }
    Ok(())
}

/// A tool by the name that models know, or by its own where only one server has it.
fn find(host: &Host, name: &str) -> Result<Arc<CatalogTool>, CommandError> {
    let servers = host.servers();
    let all = servers.iter().filter_map(|server| server.catalog.as_ref());
    let all: Vec<_> = all
        .flat_map(|catalog| catalog.tools.iter().cloned())
        .collect();
    let (exact, own): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|tool| tool.name.as_str() == name || tool.raw_name == name)
        .partition(|tool| tool.name.as_str() == name);
    match (exact.first(), &own[..]) {
        (Some(tool), _) | (None, [tool]) => Ok(Arc::clone(tool)),
        (None, []) => {
            let names = all.iter().map(|tool| tool.name.as_str());
            let near = outrigger_host::toolset::nearest(names, name);
            let error = CommandError::new(Exit::Usage, format!("there is no tool `{name}`"));
            Err(if near.is_empty() {
                error
            } else {
                error.hint(format!("perhaps {}", near.join(", ")))
            })
        }
        (None, several) => {
            let names: Vec<_> = several.iter().map(|tool| tool.name.as_str()).collect();
            let error = format!("several servers have a tool `{name}`");
            Err(CommandError::usage(error).hint(format!("one of {}", names.join(", "))))
        }
    }
}
