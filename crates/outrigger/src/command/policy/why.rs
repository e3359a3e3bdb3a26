//! `outrigger policy why`: the rules that are about a tool, and the one that decides. The tool's own
//! server is started where there is one, since rules may look at what it says.

use std::process::ExitCode;
use std::sync::Arc;

use outrigger_host::catalog::{Catalog, CatalogTool};
use outrigger_host::config::Config;
use outrigger_host::policy::{
    Call, Considered, Effect, NamedTool, Origins, Policy, Principal, Reach, Subject, Verdict,
};
use outrigger_host::toolset::nearest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::{Common, PolicyWhyArgs};
use crate::command::call::from_pairs;
use crate::command::tools::label_of;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::session::{self, Session};
use crate::visible;

/// What came of it.
struct Told {
    /// The decision in words, with the rule where one decides.
    decision: String,
    verdict: Verdict,
    rules: Vec<Considered>,
    fallback: Verdict,
}

pub(super) async fn run(
    common: &Common,
    args: &PolicyWhyArgs,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let config = session::configuration_in(args.mode, common, screen)?;
    let named = NamedTool::new(&args.tool, None, None, &config);
    let catalog = catalog(common, &config, &named.server, screen, cancel).await?;
    let tool = find(&catalog, &args.tool);
    if tool.is_none() {
        known_at_all(&catalog, &named, &config, screen)?;
    }
    let subject = tool
        .as_ref()
        .map_or(named.subject(), |tool| Subject::from(&**tool));
    let schema = tool
        .as_ref()
        .map_or(&Value::Null, |tool| &tool.input_schema);
    let arguments = arguments(&args.arguments, schema)?;
    let policy = Policy::new(&config.policy, &[])?;
    let origins: Origins = args.origin.iter().collect();
    let told = match &arguments {
        Some(arguments) => {
            let reach = Reach::of(&args.tool, arguments, &config);
            let subject = reach
                .as_ref()
                .map_or(subject, |reach| reach.within(subject));
            of_call(&policy, subject, arguments, &origins)
        }
        None => of_tool(&policy, subject),
    };
    if args.json {
        screen.json(&as_json(&args.tool, arguments.as_deref(), &told))?;
    } else {
        print(&args.tool, arguments.as_deref(), &told, screen)?;
    }
    Ok(Exit::Done.into())
}

fn of_call(policy: &Policy, subject: Subject<'_>, arguments: &str, origins: &Origins) -> Told {
    let explained = policy.explain(&Call {
        subject,
        arguments,
        principal: Principal::Model,
        origins,
        args_from: &Origins::default(),
    });
    Told {
        decision: explained.verdict.decision.to_string(),
        verdict: explained.verdict,
        rules: explained.rules,
        fallback: explained.fallback,
    }
}

fn of_tool(policy: &Policy, subject: Subject<'_>) -> Told {
    let (outlook, explained) = (policy.outlook(subject), policy.explain_tool(subject));
    Told {
        decision: outlook.to_string(),
        verdict: outlook.verdict,
        rules: explained.rules,
        fallback: explained.fallback,
    }
}

/// What the tool's server offers, or all servers where the name does not tell which it is.
async fn catalog(
    common: &Common,
    config: &Config,
    server: &str,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<Catalog, CommandError> {
    let mut config = config.clone();
    let mut one = config.clone();
    if one.keep_only(server) {
        config = one;
    }
    let session = Session::look(common, &config, screen).await?;
    let session = session.settled(session::PATIENCE, cancel, screen).await?;
    let catalog = session.host.catalog();
    session.close(None, screen).await?;
    Ok(catalog)
}

fn find(catalog: &Catalog, name: &str) -> Option<Arc<CatalogTool>> {
    let withheld = catalog.servers.values().flat_map(|server| &server.withheld);
    let mut tools = catalog.tools().chain(withheld);
    tools.find(|tool| tool.name.as_str() == name).cloned()
}

/// A tool that its connected server does not have is most likely misspelt; one whose server is not
/// there is judged by its name.
fn known_at_all(
    catalog: &Catalog,
    named: &NamedTool,
    config: &Config,
    screen: Screen,
) -> Result<(), CommandError> {
    let connected = catalog
        .servers
        .keys()
        .any(|name| name.as_str() == named.server);
    let configured = config
        .servers
        .keys()
        .any(|name| name.as_str() == named.server);
    if configured && !connected {
        screen.say(format_args!(
            "{} the server `{}` is not connected; what is said here goes by the name alone",
            screen.talk(Label::Warn, "note:"),
            named.server
        ));
        return Ok(());
    }
    let offered = catalog.tools().map(|tool| tool.name.as_str());
    let near = nearest(offered, &named.name);
    let error = CommandError::usage(format!("there is no tool `{}`", named.name));
    Err(error.did_you_mean(
        &near,
        "write it as the model sees it, `mcp__SERVER__TOOL`; `outrigger tools` lists them",
    ))
}

/// The arguments as JSON; `None` where none are given, and all calls are meant.
fn arguments(typed: &[String], schema: &Value) -> Result<Option<String>, CommandError> {
    match typed {
        [] => Ok(None),
        [json] if json.trim_start().starts_with('{') => {
            let parsed: Result<Value, _> = serde_json::from_str(json);
            match parsed {
                Ok(_) => Ok(Some(json.clone())),
                Err(error) => Err(CommandError::usage(format!(
                    "the arguments are not JSON: {error}"
                ))),
            }
        }
        pairs => Ok(Some(from_pairs(pairs, schema)?.to_string())),
    }
}

fn print(tool: &str, arguments: Option<&str>, told: &Told, screen: Screen) -> std::io::Result<()> {
    let head = format!("{tool} {}", arguments.unwrap_or("(any call)"));
    let decision = screen.ink(label_of(told.verdict.decision), &told.decision);
    screen.data(&format!(
        "{}\n{decision}: {}\n",
        screen.ink(Label::Name, &visible::line(&head)),
        visible::line(&told.verdict.rule),
    ))?;
    if let Some(reason) = &told.verdict.reason {
        screen.data(&format!("reason: {}\n", visible::line(reason)))?;
    }
    for rule in &told.rules {
        let mark = if rule.won { '*' } else { ' ' };
        let word = format!("{:<5}", rule.decision.as_str());
        let line = format!("{} at {}", rule.tools, rule.origin);
        screen.data(&format!(
            "\n{mark} {} {}\n",
            screen.ink(label_of(rule.decision), &word),
            visible::line(&line),
        ))?;
        if let Some(when) = &rule.when {
            screen.data(&format!("        when {}\n", visible::line(when)))?;
        }
        let effect = screen
            .ink(Label::Dim, &visible::line(&rule.effect.to_string()))
            .to_string();
        screen.data(&format!("        {effect}\n"))?;
    }
    let without = format!("without a rule: {}", told.fallback);
    screen.data(&format!("\n{}\n", screen.ink(Label::Dim, &without)))
}

fn as_json(tool: &str, arguments: Option<&str>, told: &Told) -> Value {
    let rules = told.rules.iter().map(|rule| {
        let (effect, detail) = match &rule.effect {
            Effect::Applies => ("applies", None),
            Effect::ConditionFalse => ("condition_false", None),
            Effect::CannotEvaluate(reason) => ("cannot_evaluate", Some(reason)),
            Effect::Depends => ("depends", None),
            Effect::DoesNotCount => ("does_not_count", None),
        };
        json!({
            "tools": rule.tools,
            "when": rule.when,
            "decision": rule.decision.as_str(),
            "layer": rule.origin.layer.as_str(),
            "file": rule.origin.file.to_string_lossy(),
            "line": rule.origin.line,
            "column": rule.origin.column,
            "effect": effect,
            "detail": detail,
            "won": rule.won,
        })
    });
    json!({
        "tool": tool,
        "arguments": arguments,
        "decision": told.verdict.decision.as_str(),
        "words": told.decision,
        "rule": told.verdict.rule,
        "reason": told.verdict.reason,
        "rules": rules.collect::<Vec<_>>(),
        "without_a_rule": told.fallback.decision.as_str(),
    })
}
