//! `outrigger why`: how far one tool comes on its way to the model, and what holds it back.

use std::process::ExitCode;
use std::sync::Arc;

use outrigger_connect::ServerName;
use outrigger_host::catalog::CatalogTool;
use outrigger_host::config::{Config, EntryState};
use outrigger_host::toolset::nearest;
use outrigger_host::{Host, ServerState, ToolName};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Common, WhyArgs};
use crate::command::tools::label_of;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::visible;

/// The built-in servers, which a profile may leave out too.
const BUILT_IN: [&str; 4] = ["time", "workspace", "echo", "resources"];

/// One tool, stage by stage.
struct Way {
    name: String,
    server: String,
    raw: String,
    /// Why its definition cannot be used.
    set_aside: Option<String>,
    /// What in the configuration of its server keeps it back.
    withheld: Option<String>,
    /// What policy says of it; `None` where it does not come that far.
    policy: Option<Allowed>,
    active: bool,
}

struct Allowed {
    decision: outrigger_host::config::Decision,
    words: String,
    rule: String,
}

pub(crate) async fn run(
    common: &Common,
    args: &WhyArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    let cancel = CancellationToken::new();
    session::interruptible(&cancel, Box::pin(why(common, args, screen, &cancel))).await
}

async fn why(
    common: &Common,
    args: &WhyArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let config = session::configuration(common, screen)?;
    let session = Session::look(common, &config, screen).await?;
    let session = session.settled(session::PATIENCE, cancel, screen).await?;
    let ways = ways(&session.host, &config, &args.tool);
    let unseen = hidden_with_its_server(&config, &args.tool);
    let missing = if ways.is_empty() && unseen.is_none() {
        Some(not_there(&session.host, &config, &args.tool))
    } else {
        None
    };
    session.close(None, screen).await?;
    if let Some(error) = missing {
        return Err(error);
    }
    if let Some(unseen) = unseen.filter(|_| ways.is_empty()) {
        return say_unseen(args, &unseen, screen);
    }
    if args.json {
        screen.json(&ways.iter().map(as_json).collect::<Vec<_>>())?;
    } else {
        for way in &ways {
            print(way, screen)?;
        }
    }
    Ok(Exit::Done.into())
}

/// All tools of this name, the model's or the server's own.
fn ways(host: &Host, config: &Config, wanted: &str) -> Vec<Way> {
    let (catalog, toolset) = (host.catalog(), host.toolset());
    let meant = |tool: &&Arc<CatalogTool>| tool.name.as_str() == wanted || tool.raw_name == wanted;
    let mut ways = Vec::new();
    for (server, offered) in &catalog.servers {
        for tool in offered.tools.iter().filter(meant) {
            let active = toolset.get(tool.name.as_str()).is_some();
            ways.push(Way::of(tool, host, None, active));
        }
        for tool in offered.withheld.iter().filter(meant) {
            let why = keeps_back(config, tool);
            ways.push(Way::of(tool, host, Some(why), false));
        }
        for tool in &offered.set_aside {
            let name = ToolName::new(server, &tool.tool).to_string();
            if name == wanted || tool.tool == wanted {
                ways.push(Way {
                    name,
                    server: server.to_string(),
                    raw: tool.tool.clone(),
                    set_aside: Some(tool.reason.clone()),
                    withheld: None,
                    policy: None,
                    active: false,
                });
            }
        }
    }
    ways
}

impl Way {
    fn of(tool: &CatalogTool, host: &Host, withheld: Option<String>, active: bool) -> Self {
        let outlook = host.policy().outlook(tool);
        let allowed = Allowed {
            decision: outlook.verdict.decision,
            words: outlook.to_string(),
            rule: outlook.verdict.rule,
        };
        Self {
            name: tool.name.to_string(),
            server: tool.server.to_string(),
            raw: tool.raw_name.clone(),
            set_aside: None,
            policy: withheld.is_none().then_some(allowed),
            withheld,
            active,
        }
    }
}

/// Why the server of a tool is not there, when a profile leaves it out: what it would have is not known.
fn hidden_with_its_server(config: &Config, wanted: &str) -> Option<String> {
    let mut gone = config
        .left_out
        .iter()
        .map(ServerName::as_str)
        .chain(BUILT_IN);
    let profile = gone.find_map(|server| {
        let named = wanted.starts_with(&format!("mcp__{server}__"));
        config
            .hiding_server(server)
            .filter(|_| named)
            .map(|profile| (server, profile))
    });
    let (server, profile) = profile?;
    Some(format!(
        "the profile `{}` at {} does not name the server `{server}`, which is not started",
        profile.name, profile.origin
    ))
}

fn say_unseen(args: &WhyArgs, why: &str, screen: Screen) -> Result<ExitCode, CommandError> {
    if args.json {
        screen.json(&json!([{
            "name": args.tool,
            "discovered": false,
            "withheld": why,
            "active": false,
        }]))?;
        return Ok(Exit::Done.into());
    }
    let name = visible::line(&args.tool);
    screen.data(&format!("{}\n", screen.ink(Label::Name, &name)))?;
    for (key, text) in [
        ("let through", format!("no: {why}")),
        ("active", "no".to_owned()),
    ] {
        let text = visible::line(&text);
        screen.data(&format!("  {key:<12} {}\n", screen.ink(Label::Bad, &text)))?;
    }
    Ok(Exit::Done.into())
}

/// Which list of the server's entry it is, or which profile, and where that stands.
fn keeps_back(config: &Config, tool: &CatalogTool) -> String {
    if let Some(profile) = config.hiding_tool(tool.name.as_str()) {
        return format!(
            "the profile `{}` at {} does not name it",
            profile.name, profile.origin
        );
    }
    let entry = config.servers.get(&tool.server);
    let Some(EntryState::Ready(settings)) = entry.map(|entry| &entry.state) else {
        return "the configuration of its server".to_owned();
    };
    let key = if settings.disables(&tool.raw_name) {
        "disabled_tools"
    } else {
        "allowed_tools"
    };
    let origin = settings.origins().find(|(written, _)| written == key);
    match (key, origin) {
        ("disabled_tools", Some((_, at))) => format!("`disabled_tools` at {at} names it"),
        (_, Some((_, at))) => format!("`allowed_tools` at {at} does not name it"),
        (key, None) => format!("`{key}` of its server"),
    }
}

/// Nothing of that name: its server may be missing, or the name be misspelt.
fn not_there(host: &Host, config: &Config, wanted: &str) -> CommandError {
    let server = wanted
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .map(|(server, _)| server);
    let status = host
        .servers()
        .into_iter()
        .find(|status| Some(status.name.as_str()) == server);
    if let Some(status) = status
        && !matches!(status.state, ServerState::Ready(_))
    {
        let reason = status.state.why_missing().unwrap_or_default();
        let error = format!(
            "nothing is known of `{wanted}`: the server `{}` is not connected: {reason}",
            status.name
        );
        let hint = format!("`outrigger tools {}` has the particulars", status.name);
        return CommandError::new(Exit::Unavailable, error).hint(hint);
    }
    let catalog = host.catalog();
    let withheld = catalog.servers.values().flat_map(|server| &server.withheld);
    let offered = catalog.tools().chain(withheld);
    let near = nearest(offered.map(|tool| tool.name.as_str()), wanted);
    let mut error = CommandError::usage(format!("no connected server has a tool `{wanted}`"));
    if let Some(profile) = config.chosen.last() {
        error = error.hint(format!(
            "the profile `{}` may leave its server out: try it without `--profile`",
            profile.name
        ));
    }
    error.did_you_mean(&near, "`outrigger tools` lists what they have")
}

fn print(way: &Way, screen: Screen) -> std::io::Result<()> {
    let mut rows = vec![(
        "discovered",
        Label::Good,
        format!("yes: `{}` of the server `{}`", way.raw, way.server),
    )];
    rows.push(match &way.set_aside {
        Some(reason) => ("set aside", Label::Bad, format!("yes: {reason}")),
        None => ("set aside", Label::Good, "no".to_owned()),
    });
    if way.set_aside.is_none() {
        rows.push(match &way.withheld {
            Some(why) => ("let through", Label::Bad, format!("no: {why}")),
            None => ("let through", Label::Good, "yes".to_owned()),
        });
    }
    if let Some(Allowed {
        decision,
        words,
        rule,
    }) = &way.policy
    {
        rows.push(("policy", label_of(*decision), format!("{words}: {rule}")));
    }
    rows.push(if way.active {
        ("active", Label::Good, "yes: models are shown it".to_owned())
    } else {
        ("active", Label::Bad, "no".to_owned())
    });
    screen.data(&format!(
        "{}\n",
        screen.ink(Label::Name, &visible::line(&way.name))
    ))?;
    for (key, label, text) in rows {
        let text = visible::line(&text);
        screen.data(&format!("  {key:<12} {}\n", screen.ink(label, &text)))?;
    }
    Ok(())
}

fn as_json(way: &Way) -> Value {
    let policy = way.policy.as_ref().map(|allowed| {
        json!({
            "decision": allowed.decision.as_str(),
            "words": allowed.words,
            "rule": allowed.rule,
        })
    });
    json!({
        "name": way.name,
        "server": way.server,
        "raw_name": way.raw,
        "discovered": true,
        "set_aside": way.set_aside,
        "withheld": way.withheld,
        "policy": policy,
        "active": way.active,
    })
}
