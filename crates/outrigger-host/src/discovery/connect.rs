//! Starting a server because a model wants it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::told;
use crate::host::{Host, ServerState};
use crate::result::ToolResult;
use crate::text::shorten;
use crate::toolset::Toolset;
use crate::words::named;

/// Tools that are named of a server which was started.
const NAMES: usize = 30;
/// Bytes of a name that is said back.
const NAME: usize = 100;

#[derive(Deserialize)]
struct ConnectArguments {
    server: String,
}

/// The server that `connect_server` is asked for.
pub(crate) fn wanted_server(arguments: &str) -> Option<String> {
    let arguments: ConnectArguments = serde_json::from_str(arguments).ok()?;
    Some(arguments.server)
}

impl Host {
    /// Answers a call of `connect_server`. Why a server cannot be started is for the person.
    pub(crate) async fn connect(
        &self,
        toolset: &Toolset,
        arguments: &RawValue,
    ) -> Option<ToolResult> {
        let wanted = wanted_server(arguments.get())?;
        let mut servers = toolset.servers().iter().map(|known| &known.server);
        let Some(server) = servers.find(|server| server.as_str() == wanted) else {
            let wanted = named(&shorten(&wanted, NAME));
            let text =
                format!("There is no server `{wanted}`; `list_servers` says which there are.");
            return told(&text, true);
        };
        self.started(server).await;
        let name = named(server.as_str());
        let ready = self
            .watch(server)
            .is_some_and(|state| matches!(*state.borrow(), ServerState::Ready(_)));
        if !ready {
            let text = format!("The server `{name}` is not available. A person has to look at it.");
            return told(&text, true);
        }
        let now = self.toolset();
        let tools: Vec<_> = now
            .tools()
            .iter()
            .filter(|tool| tool.server == *server)
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        let shown = tools[..tools.len().min(NAMES)].join(", ");
        let more = tools.len().saturating_sub(NAMES);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let text = format!(
            "The server `{name}` is ready. Its tools, from the next turn on: {shown}{more}."
        );
        told(&text, false)
    }
}
