//! `outrigger policy test`: a table of calls against the policy in force, for people and for CI.

use std::path::Path;
use std::process::ExitCode;

use outrigger_host::catalog::Catalog;
use outrigger_host::config::{self, Config, PolicyCase};
use outrigger_host::policy::{Call, NamedTool, Origins, Policy, Reach, Subject, Verdict};
use outrigger_host::toolset::nearest;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::Common;
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{session, surroundings, visible};

/// A case and what came of it.
struct Tried {
    case: PolicyCase,
    verdict: Verdict,
}

impl Tried {
    fn differs(&self) -> bool {
        self.verdict.decision != self.case.expect
    }
}

pub(super) async fn run(
    common: &Common,
    file: &Path,
    as_json: bool,
    screen: Screen,
    cancel: &CancellationToken,
) -> Result<ExitCode, CommandError> {
    let config = session::configuration(common, screen)?;
    let file = surroundings::absolute(file)?;
    let cases = match config::policy_cases(&file) {
        Ok(cases) => cases,
        Err(problems) => {
            super::told(&problems, "the table of cases", screen)?;
            Vec::new()
        }
    };
    let catalog = super::builtin_tools(common, &config, screen, cancel).await?;
    for case in &cases {
        has_it(case, &config, &catalog)?;
    }
    let policy = Policy::new(&config.policy, &[])?;
    let tried: Vec<Tried> = cases
        .into_iter()
        .map(|case| {
            let verdict = decide(&case, &policy, &config, &catalog);
            Tried { case, verdict }
        })
        .collect();
    if as_json {
        let lines: Vec<_> = tried.iter().map(line_as_json).collect();
        screen.json(&lines)?;
    } else {
        print(&tried, screen)?;
    }
    let exit = if tried.iter().any(Tried::differs) {
        Exit::Failed
    } else {
        Exit::Done
    };
    Ok(exit.into())
}

/// The tools of built-in servers are known; a case about another one is a mistake.
fn has_it(case: &PolicyCase, config: &Config, catalog: &Catalog) -> Result<(), CommandError> {
    let named = NamedTool::new(&case.tool, case.server.as_deref(), None, config);
    if !named.standing.builtin || catalog.find(&case.tool).is_some() {
        return Ok(());
    }
    let error = format!(
        "the built-in server `{}` has no tool `{}` ({})",
        named.server, case.tool, case.origin
    );
    let offered = catalog.tools().map(|tool| tool.name.as_str());
    let near = nearest(offered, &case.tool);
    Err(CommandError::usage(error).did_you_mean(&near, "`outrigger tools` lists its tools"))
}

fn decide(case: &PolicyCase, policy: &Policy, config: &Config, catalog: &Catalog) -> Verdict {
    let mut named = NamedTool::new(
        &case.tool,
        case.server.as_deref(),
        case.raw.as_deref(),
        config,
    );
    named.annotations = case.annotations;
    let builtin = catalog.find(&case.tool);
    let subject = builtin.map_or(named.subject(), |tool| Subject::from(&**tool));
    let reach = Reach::of(&case.tool, &case.arguments, config);
    let subject = reach
        .as_ref()
        .map_or(subject, |reach| reach.within(subject));
    let origins: Origins = case.origins.iter().collect();
    let args_from: Origins = case.args_from.iter().collect();
    let policy = policy.in_mode(case.mode.unwrap_or(policy.mode()));
    policy.decide(&Call {
        subject,
        arguments: &case.arguments,
        principal: case.principal,
        origins: &origins,
        args_from: &args_from,
    })
}

fn print(tried: &[Tried], screen: Screen) -> std::io::Result<()> {
    for Tried { case, verdict } in tried.iter().filter(|tried| tried.differs()) {
        let about = case.about.as_deref().map(|about| format!("  # {about}"));
        let head = format!(
            "{} {}{}",
            case.tool,
            case.arguments,
            about.unwrap_or_default()
        );
        let reason = verdict.reason.as_deref().map(|said| format!(": {said}"));
        screen.data(&format!(
            "{}\n  at {}\n  {} {}\n  {} {verdict}{}\n",
            screen.ink(Label::Name, &visible::line(&head)),
            visible::line(&case.origin.to_string()),
            screen.ink(Label::Good, "- expected"),
            case.expect,
            screen.ink(Label::Bad, "+ decided "),
            visible::line(&reason.unwrap_or_default()),
        ))?;
    }
    let differ = tried.iter().filter(|tried| tried.differs()).count();
    let told = match differ {
        0 => "all as expected".to_owned(),
        1 => "1 differs".to_owned(),
        many => format!("{many} differ"),
    };
    let cases = visible::count(tried.len() as u64, "case");
    screen.data(&format!("{cases}, {told}\n"))
}

fn line_as_json(tried: &Tried) -> serde_json::Value {
    let Tried { case, verdict } = tried;
    json!({
        "tool": case.tool,
        "arguments": case.arguments,
        "about": case.about,
        "at": case.origin.to_string(),
        "expected": case.expect.as_str(),
        "decided": verdict.decision.as_str(),
        "rule": verdict.rule,
        "reason": verdict.reason,
        "differs": tried.differs(),
    })
}
