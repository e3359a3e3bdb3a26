//! Tools that are found instead of shown.
//!
//! When the declarations of all allowed tools would fill too much of a model's context, it is shown
//! an index of a bounded size and three tools of the host: one that finds tools by words, one that
//! shows their definitions, and one that calls them. Nothing is hidden by ranking: whatever is
//! allowed can be described and called by its name, and what is not allowed is nowhere.
//!
//! What the host's own tools answer is made here from a frozen [`Toolset`]; deciding about their
//! calls and recording them is the pipeline's, as for any other.

mod answer;
mod audience;
mod connect;
mod facility;
mod finder;
mod meaning;
mod outline;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::GlobMatcher;
use outrigger_connect::ServerName;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use audience::{Audience, Group, ProviderSearch};
pub(crate) use connect::wanted_server;
pub use facility::{Facility, HOST};
pub(crate) use finder::Finder;
pub use meaning::Embeddings;
pub use outrigger_search::Embedder;

use crate::arguments::filled::Fillings;
use crate::arguments::{Arguments, Wanted as WantedSchema, Written};
use crate::catalog::CatalogTool;
use crate::config::DiscoveryMode;
use crate::pipeline::ProposedCall;
use crate::toolset::Toolset;

/// The least that an index may take, however small the model.
const LEAST_INDEX: u64 = 150;

/// Which tools are declared however many there are, by server: globs over raw names.
pub(crate) type Always = BTreeMap<ServerName, Vec<GlobMatcher>>;

/// What a model is shown of a toolset.
#[derive(Debug)]
pub struct Exposure {
    /// The tools that are declared, sorted: the host's own, then by server and name.
    pub tools: Vec<Arc<CatalogTool>>,
    /// The tools that are left to the search of the model's provider, by server. With these, the
    /// host's own are not among `tools`.
    pub deferred: Vec<Group>,
    /// When there are more than `tools`: where they are, within a budget of tokens. Models that see
    /// groups need none.
    pub index: Option<String>,
    /// Why the provider's search is not used although it was asked for.
    pub not_searched: Option<String>,
}

impl Toolset {
    /// What a model that reads `context_tokens` is shown.
    pub fn exposure(&self, context_tokens: u64) -> Exposure {
        self.exposure_to(&Audience::new(context_tokens))
    }

    /// What a model is shown of which more is known.
    pub fn exposure_to(&self, audience: &Audience) -> Exposure {
        let share = self.share(audience);
        let too_many = self.is_too_many(audience, share);
        let (shown, hidden): (Vec<_>, Vec<_>) = self
            .sorted()
            .into_iter()
            .partition(|tool| !too_many || self.is_kept(tool));
        let servers = Facility::SERVERS
            .into_iter()
            .filter(|_| self.has_lazy())
            .filter_map(|facility| facility.tool().cloned());
        let tools: Vec<_> = servers.chain(shown).collect();
        let budget = self.discovery().index_tokens.value;
        let budget = audience.scale.within(budget.min(share.max(LEAST_INDEX)));
        let search = self.provider_search(audience, (tools.len(), &hidden));
        let not_searched = search.as_ref().err().cloned().flatten();
        if hidden.is_empty() {
            return Exposure {
                tools,
                deferred: Vec::new(),
                index: None,
                not_searched,
            };
        }
        if let Ok(search) = search {
            return self.left_to(search, (tools, &hidden), budget);
        }
        Exposure {
            tools: Facility::TOOLS
                .into_iter()
                .filter_map(|facility| facility.tool().cloned())
                .chain(tools)
                .collect(),
            deferred: Vec::new(),
            index: Some(outline::outline(&hidden, budget)),
            not_searched,
        }
    }

    /// The tokens that declarations may take before they are too many.
    fn share(&self, audience: &Audience) -> u64 {
        let percent = self.discovery().context_percent.value;
        audience.context_tokens.saturating_mul(percent.into()) / 100
    }

    fn is_too_many(&self, audience: &Audience, share: u64) -> bool {
        let settings = self.discovery();
        // What is cheap anywhere is not cheap for a model that reads little.
        let floor = settings.floor_tokens.value.min(audience.context_tokens / 4);
        match settings.mode.value {
            DiscoveryMode::Auto => audience.scale.tokens(self.tokens()) > share.max(floor),
            DiscoveryMode::Always => true,
            DiscoveryMode::Never => false,
        }
    }

    /// All tools, in an order that depends on nothing but them: by server and name. Our own servers
    /// keep their order, since it is the same in each run and small models lean on it.
    fn sorted(&self) -> Vec<Arc<CatalogTool>> {
        let mut tools = self.tools().to_vec();
        tools.sort_by(|one, other| {
            one.server.cmp(&other.server).then_with(|| {
                if one.standing.builtin {
                    std::cmp::Ordering::Equal
                } else {
                    one.raw_name.cmp(&other.raw_name)
                }
            })
        });
        tools
    }

    fn is_kept(&self, tool: &CatalogTool) -> bool {
        let globs = self.always().get(&tool.server);
        tool.standing.builtin
            || globs.is_some_and(|globs| globs.iter().any(|glob| glob.is_match(&tool.raw_name)))
    }

    /// The allowed tool that a name means: a model-facing name, or what is written for one where that
    /// can be one tool alone (`server/tool`, `tool`).
    pub fn resolve(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        let name = name.trim().trim_matches(['`', '"', '\'']);
        if let Some(tool) = self.get(name) {
            return Some(tool);
        }
        let mut meant = self.tools().iter().filter(|tool| {
            let qualified = name.strip_prefix(tool.server.as_str()).and_then(|rest| {
                ["/", ".", ":", "__"]
                    .into_iter()
                    .find_map(|separator| rest.strip_prefix(separator))
            });
            tool.raw_name == name || qualified == Some(tool.raw_name.as_str())
        });
        let first = meant.next()?;
        meant.next().is_none().then_some(first)
    }

    /// The tool that a call reaches: the one that it names, or the one that it wants called.
    pub fn called(&self, name: &str, arguments: &str) -> Option<&Arc<CatalogTool>> {
        match Facility::named(name) {
            Some(Facility::Call) => {
                let wanted = wanted(name, arguments)?;
                self.resolve(&wanted.name)
            }
            Some(facility) => facility.tool(),
            None => self.get(name),
        }
    }
}

/// The arguments of `call_tool`.
#[derive(Deserialize)]
struct Wanted {
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

fn wanted(name: &str, arguments: &str) -> Option<Wanted> {
    let tool = Facility::named(name).filter(|facility| *facility == Facility::Call)?;
    let tool = tool.tool()?;
    let wanted = WantedSchema {
        schema: &tool.input,
        declared: &tool.input_schema,
    };
    let written = Written::read(arguments).ok()?;
    let read = Arguments::check(written, wanted, Fillings::new()).ok()?;
    serde_json::from_str(read.raw.get()).ok()
}

/// The call that is to be made, for one that asks for it through `call_tool`. Any other, and one
/// whose arguments cannot be read, is the call itself.
pub(crate) fn unwrapped(toolset: &Toolset, proposed: ProposedCall) -> ProposedCall {
    let Some(Wanted { name, arguments }) = wanted(&proposed.tool, &proposed.arguments) else {
        return proposed;
    };
    let tool = toolset
        .resolve(&name)
        .map_or(name, |tool| tool.name.to_string());
    ProposedCall {
        tool,
        arguments: arguments.map_or_else(String::new, |raw| raw.get().to_owned()),
        turn: proposed.turn,
    }
}
