//! The flags of `import` and `install`.

use clap::Args;
use outrigger_host::config::foreign::Host;
use url::Url;

use super::Store;

/// A host by the name that its flag has.
fn host(name: &str) -> Result<Host, String> {
    Host::named(name).ok_or_else(|| {
        let names: Vec<_> = Host::ALL.iter().map(|host| host.name()).collect();
        format!("known are {}", names.join(", "))
    })
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ImportArgs {
    /// Whose: claude, claude-desktop, codex, vscode, cursor, gemini, opencode, zed; with commas between
    /// them [default: all that are found]
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = host)]
    pub(crate) from: Vec<Host>,
    /// Only servers whose name matches (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) server: Vec<String>,
    /// Write `.outrigger/outrigger.toml` of the workspace instead of your own file
    #[arg(long)]
    pub(crate) project: bool,
    /// Replace servers of the same name in that file
    #[arg(long)]
    pub(crate) replace: bool,
    /// Take servers whose name is taken under another one: NAME-2
    #[arg(long, conflicts_with = "replace")]
    pub(crate) rename: bool,
    /// Where secrets go that stand in their files
    #[arg(long, value_name = "STORE", default_value = "file")]
    pub(crate) to: Store,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// What was found as JSON, without secrets; nothing is written
    #[arg(long, conflicts_with = "yes")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct InstallArgs {
    /// Whose list: claude, claude-desktop, codex, vscode, cursor, gemini, opencode, zed; with commas
    /// between them
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = host, required = true)]
    pub(crate) into: Vec<Host>,
    /// The entry's name
    #[arg(long, value_name = "NAME", default_value = "outrigger")]
    pub(crate) name: String,
    /// Where `outrigger serve --http` listens: the host connects there instead of starting the program
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<Url>,
    /// The host's file in the workspace instead of your own
    #[arg(long)]
    pub(crate) project: bool,
    /// Take the entry out again
    #[arg(long, conflicts_with = "http")]
    pub(crate) remove: bool,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}
