//! `outrigger gateway`: what those who may connect to `outrigger serve` are known by.

use std::process::ExitCode;

use outrigger_gateway::Token;
use outrigger_host::config::is_principal_name;
use serde_json::json;

use crate::cli::{GatewayArgs, GatewayCommand};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;

pub(crate) fn run(args: &GatewayArgs, screen: Screen) -> Result<ExitCode, CommandError> {
    let GatewayCommand::Token { name, json } = &args.command;
    if !is_principal_name(name) {
        let error = format!("`{}` cannot name a principal", name.escape_debug());
        return Err(CommandError::usage(error).hint(
            "a name has letters, digits, `_`, `-`, `.`, `@`, at most 64, and begins with a letter or digit",
        ));
    }
    let token = Token::new().map_err(|error| CommandError::failed(error.to_string()))?;
    if *json {
        let made = json!({ "principal": name, "token": token.reveal(), "hash": token.hash() });
        screen.json(&made)?;
        return Ok(Exit::Done.into());
    }
    screen.data(&format!("{}\n", token.reveal()))?;
    // A dot would begin another table.
    let key = if name.contains(['.', '@']) {
        format!("\"{name}\"")
    } else {
        name.clone()
    };
    screen.insist(format_args!(
        "This token is not shown again. What follows goes into your configuration:\n\n\
         [gateway.principals.{key}]\ntoken = \"{}\"",
        token.hash()
    ));
    Ok(Exit::Done.into())
}
