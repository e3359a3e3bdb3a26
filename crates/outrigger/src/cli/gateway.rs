//! The arguments of `outrigger gateway`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    pub(crate) command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Make a token for a client of `serve --http`: it is shown once, and configuration gets its hash
    Token {
        /// Who is known by it (`[gateway.principals.NAME]`)
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}
