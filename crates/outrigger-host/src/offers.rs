//! What servers have besides tools: prompts and resources. Listed when somebody wants them, kept until
//! the server says that they have changed, and fetched under policy, each time with a record.
//!
//! A person asks by hand; a model reads resources by a tool of the built-in server `resources`, whose
//! calls go through [`Host::call`] as all do, and nothing is read for a model without such a call.
//! What comes back is data of its server ([`words`](crate::words)), and the run knows whose.

mod definition;
mod error;
mod fetched;
mod gate;
mod list;
mod template;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connection, Followed, MaySend, Offer, Reference, ServerName, Updates};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use definition::{Prompt, PromptArgument, Resource, SetAside, Template};
pub use error::{OfferError, OfferErrorKind};
pub use fetched::{PromptMessage, PromptText, ResourceText, Role};
pub use list::{Prompts, Resources};
pub use template::Variable;

pub(crate) use gate::Target;
pub(crate) use list::Shelf;

use crate::catalog::CatalogTool;
use crate::host::{Host, InUse, LOST, Ready, ServerState};
use crate::policy::Principal;

/// The built-in server by which a model reaches the resources of others.
pub const RESOURCE_SERVER: &str = "resources";
/// Its tool that lists them.
pub const LIST_TOOL: &str = "list_resources";
/// Its tool that reads one.
pub const READ_TOOL: &str = "read_resource";

/// What a model calls the tool that reads one.
pub(crate) fn read_tool() -> String {
    format!("mcp__{RESOURCE_SERVER}__{READ_TOOL}")
}

/// Whether calls of a tool are about what other servers have: policy looks at those.
pub(crate) fn reaches(tool: &CatalogTool) -> bool {
    tool.standing.builtin && tool.server.as_str() == RESOURCE_SERVER
}

/// A request by hand.
#[derive(Clone, Default)]
pub struct ByHand {
    /// Somebody sits at the terminal: typing it is a yes where a rule asks.
    pub attended: bool,
    /// A client of the gateway asks, in the call of this number; where a rule asks, whoever approves for
    /// clients is asked.
    pub client: Option<u64>,
    /// Gives it up; the server is told.
    pub cancel: CancellationToken,
    /// Instead of the server's own deadline.
    pub deadline: Option<Duration>,
    /// Asked directly before anything of it is sent to the server; after a no nothing is.
    pub may_send: Option<MaySend>,
}

/// A resource that is followed.
#[derive(Debug)]
pub struct Following {
    /// The connection to its server.
    pub connection: Connection,
    /// Dropped, the server is told, unless somebody else follows it over this connection.
    pub followed: Followed,
    /// The updates that the server tells of, counted.
    pub updates: watch::Receiver<Updates>,
    /// Those that it had told of before.
    pub before: Updates,
    /// Its server stays while this lives.
    pub in_use: Option<InUse>,
}

/// A server that is ready, and stays while this lives.
struct InReach {
    ready: Arc<Ready>,
    in_use: Option<InUse>,
}

impl ByHand {
    fn principal(&self) -> Principal {
        match self.client {
            Some(_) => Principal::Client,
            None => Principal::Person,
        }
    }
}

impl Host {
    /// The servers that say they have this, by name: those that are connected, and those that are
    /// stopped for being idle.
    pub fn offering(&self, offer: Offer) -> Vec<ServerName> {
        let servers = self.server_names();
        let offers = |name: &&ServerName| {
            let ready = match self.state_of(name) {
                Some(ServerState::Ready(ready)) => Some(ready),
                _ => self.resting(name),
            };
            ready.is_some_and(|ready| ready.connection.declares(offer))
        };
        servers.iter().filter(offers).cloned().collect()
    }

    /// The prompts of a server, as it lists them now.
    pub async fn prompts(&self, server: &ServerName) -> Result<Arc<Prompts>, OfferError> {
        if let Some(known) = self.resting(server)
            && let Some(listed) = self.shelf().known_prompts(server, &known).await
        {
            return Ok(listed);
        }
        let InReach {
            ready,
            in_use: _in_use,
        } = self.ready(server).await?;
        self.shelf().prompts(server, &ready, self.redactor()).await
    }

    /// The resources of a server, and the templates of such, as it lists them now.
    pub async fn resources(&self, server: &ServerName) -> Result<Arc<Resources>, OfferError> {
        if let Some(known) = self.resting(server)
            && let Some(listed) = self.shelf().known_resources(server, &known).await
        {
            return Ok(listed);
        }
        let InReach {
            ready,
            in_use: _in_use,
        } = self.ready(server).await?;
        self.shelf()
            .resources(server, &ready, self.redactor())
            .await
    }

    /// The messages of a prompt, for a person who asks by hand.
    pub async fn get_prompt(
        &self,
        server: &ServerName,
        name: &str,
        arguments: &BTreeMap<String, String>,
        by: &ByHand,
    ) -> Result<PromptText, OfferError> {
        let reach = self.ready(server).await?;
        let prompts = self.prompts(server).await?;
        prompts.check(server, name, arguments)?;
        self.fetch_prompt(reach, server, (name, arguments), by)
            .await
    }

    /// What a resource holds, for a person who asks by hand.
    pub async fn read_resource(
        &self,
        server: &ServerName,
        uri: &str,
        by: &ByHand,
    ) -> Result<ResourceText, OfferError> {
        let reach = self.ready(server).await?;
        definition::address(uri).map_err(|reason| OfferError::BadAddress {
            uri: uri.to_owned(),
            reason,
        })?;
        self.read_by_hand(reach, server, uri, by).await
    }

    /// What a server would complete an argument of a prompt, or a variable of a template, to; nothing
    /// where it does not say.
    pub async fn complete(
        &self,
        server: &ServerName,
        reference: Reference<'_>,
        argument: (&str, &str),
        given: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let Ok(InReach {
            ready,
            in_use: _in_use,
        }) = self.ready(server).await
        else {
            return Vec::new();
        };
        match ready.connection.complete(reference, argument, given).await {
            Ok(found) => found.map(|found| found.values).unwrap_or_default(),
            Err(error) => {
                tracing::debug!(%server, %error, "no completion");
                Vec::new()
            }
        }
    }

    /// Follows a resource, for as long as what is returned lives and the connection does.
    pub async fn follow_resource(
        &self,
        server: &ServerName,
        uri: &str,
    ) -> Result<Following, OfferError> {
        let InReach { ready, in_use } = self.ready(server).await?;
        let connection = ready.connection.clone();
        if !connection.tells_of_updates() {
            return Err(OfferError::Nothing {
                server: server.clone(),
                what: "updates of resources",
            });
        }
        let mut updates = connection.updates();
        // From before: the first update may come with the answer.
        let before = updates.borrow_and_update().clone();
        let followed = connection.follow(uri).await;
        let followed = followed.map_err(|error| OfferError::Listing {
            server: server.clone(),
            error,
        })?;
        Ok(Following {
            connection,
            followed,
            updates,
            before,
            in_use,
        })
    }

    /// A server that is ready now, or as soon as it is started again.
    async fn ready(&self, server: &ServerName) -> Result<InReach, OfferError> {
        let in_use = self.using(server);
        let elsewhere = matches!(self.state_of(server), Some(ServerState::Elsewhere(_)));
        if elsewhere || self.resting(server).is_some() {
            self.started(server).await;
        }
        match self.state_of(server) {
            Some(ServerState::Ready(ready)) if ready.is_lost() => Err(OfferError::NotReady {
                server: server.clone(),
                reason: format!("busy: {LOST}"),
                signed_off: false,
            }),
            Some(ServerState::Ready(ready)) => Ok(InReach { ready, in_use }),
            Some(state) => Err(OfferError::NotReady {
                server: server.clone(),
                reason: state
                    .why_missing()
                    .unwrap_or_else(|| "it is switched off".to_owned()),
                signed_off: matches!(state, ServerState::AuthRequired(_)),
            }),
            None => Err(OfferError::NoServer {
                name: server.to_string(),
                known: self
                    .server_names()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            }),
        }
    }

    /// What a model is told that servers have to read: whose, and of one server all that policy lets
    /// it read.
    pub async fn resources_in_words(&self, server: Option<&str>) -> Result<String, String> {
        let Some(name) = server else {
            return Ok(self.servers_with_resources().await);
        };
        let found = self.offering(Offer::Resources);
        let Some(server) = found.iter().find(|known| known.as_str() == name) else {
            return Err(self.no_resources_of(name));
        };
        let resources = self.resources(server).await.map_err(|e| e.to_string())?;
        let mut text = String::new();
        for resource in &resources.resources {
            if self.may_be_read_by_a_model(server, &resource.uri) {
                let _ = writeln!(text, "{}", resource.line());
            }
        }
        for template in &resources.templates {
            let _ = writeln!(text, "{}", template.line());
        }
        if text.is_empty() {
            text.push_str("(nothing)");
        }
        Ok(text)
    }

    async fn servers_with_resources(&self) -> String {
        let mut text = String::new();
        for server in self.offering(Offer::Resources) {
            let count = match self.resources(&server).await {
                Ok(list) => format!(
                    "resources {}, templates {}",
                    list.resources.len(),
                    list.templates.len()
                ),
                Err(_) => "cannot be listed now".to_owned(),
            };
            let _ = writeln!(text, "{server}: {count}");
        }
        if text.is_empty() {
            text.push_str("no connected server has resources");
        }
        text
    }

    fn no_resources_of(&self, name: &str) -> String {
        let found = self.offering(Offer::Resources);
        let known: Vec<_> = found.iter().map(|known| format!("`{known}`")).collect();
        let known = if known.is_empty() {
            "no connected server has any".to_owned()
        } else {
            format!("those that have are {}", known.join(", "))
        };
        format!(
            "there is no server `{}` with resources; {known}",
            crate::words::named(name)
        )
    }
}
