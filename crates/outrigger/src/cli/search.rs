//! The flag that says who finds tools which a model is not shown.

use clap::{Args, ValueEnum};
use outrigger_host::config::{Config, Origin, Searcher, Setting};

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct SearchArgs {
    /// Who finds the tools that the model is not shown at once: `host` is this program, `provider` the
    /// search that the model's provider has, where it has one [default: `discovery.search` of the
    /// configuration]
    #[arg(long = "tool-search", value_name = "WHO")]
    pub(crate) by: Option<By>,
}

/// Who finds tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// This program, with tools of its own
    Host,
    /// The model's provider
    Provider,
}

impl SearchArgs {
    /// What was typed is nearer than any file.
    pub(crate) fn applied(self, config: &mut Config) {
        if let Some(by) = self.by {
            config.discovery.search = Setting {
                value: match by {
                    By::Host => Searcher::Host,
                    By::Provider => Searcher::Provider,
                },
                origin: Origin::builtin(),
            };
        }
    }
}
