//! `outrigger policy replay`: a recorded run under another policy.

use std::path::PathBuf;
use std::process::ExitCode;

use outrigger_host::config::{self, Mode};
use outrigger_host::policy::{Policy, Replayed, replay};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::Common;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{session, storage, surroundings, visible};

/// What was asked for.
pub(super) struct Wanted {
    pub(super) run: String,
    pub(super) policy: PathBuf,
    pub(super) mode: Option<Mode>,
    pub(super) json: bool,
}

pub(super) async fn run(
    common: &Common,
    wanted: &Wanted,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let around = surroundings::of_configuration(common)?;
    let file = surroundings::absolute(&wanted.policy)?;
    let mut other = config::load_instead(&around, &file);
    let problems: Vec<_> = other.problems.clone();
    super::told(&problems, "the policy", screen)?;
    if let Some(mode) = wanted.mode {
        other.policy.choose_mode(mode)?;
    }
    // What servers there are, and which of them only read, is as configured now; the file may add.
    let mut config = session::configuration(common, screen)?;
    config.servers.extend(other.servers.drain(..));
    let policy = Policy::new(&other.policy, &[])?;
    let journal = storage::open_journal(common, screen).await?;
    let found = journal.find(&wanted.run).await?;
    let Some(run) = found else {
        let error = format!("there is no run `{}`", wanted.run);
        return Err(CommandError::usage(error).hint("`outrigger runs` lists them"));
    };
    let events = journal.events(&run.id).await?;
    journal.close().await?;
    let catalog = super::builtin_tools(common, &config, screen, cancel).await?;
    let find = |name: &str| catalog.find(name).cloned();
    let (calls, undecided) = replay(&events, &policy, &config, find);
    if wanted.json {
        let calls: Vec<_> = calls.iter().map(call_as_json).collect();
        let told = json!({"run": run.id.to_string(), "calls": calls, "undecided": undecided});
        screen.json(&told)?;
    } else {
        print(&calls, undecided, screen)?;
    }
    Ok(Exit::Done.into())
}

fn print(calls: &[Replayed], undecided: usize, screen: Screen) -> std::io::Result<()> {
    for call in calls.iter().filter(|call| call.differs()) {
        let head = format!("#{} {} {}", call.call, call.tool, call.arguments);
        let reason = call.now.reason.as_deref().map(|said| format!(": {said}"));
        screen.data(&format!(
            "{}\n  {} {} ({})\n  {} {}{}\n",
            screen.ink(Label::Name, &visible::line(&head)),
            screen.ink(Label::Bad, "- then"),
            call.then,
            visible::line(&call.then_rule),
            screen.ink(Label::Good, "+ now "),
            visible::line(&call.now.to_string()),
            visible::line(&reason.unwrap_or_default()),
        ))?;
    }
    let differ = calls.iter().filter(|call| call.differs()).count();
    let decided = visible::count(calls.len() as u64, "decision");
    screen.data(&format!("{decided}, {differ} would be different\n"))?;
    if undecided > 0 {
        let calls = visible::count(undecided as u64, "call");
        screen.data(&format!("{calls} never came to a decision\n"))?;
    }
    Ok(())
}

fn call_as_json(call: &Replayed) -> serde_json::Value {
    json!({
        "call": call.call,
        "tool": call.tool,
        "arguments": call.arguments,
        "then": call.then.as_str(),
        "then_rule": call.then_rule,
        "now": call.now.decision.as_str(),
        "now_rule": call.now.rule,
        "reason": call.now.reason,
        "differs": call.differs(),
    })
}
