//! `outrigger approvals`: what clients of a gateway want and a person has to decide about: calls, prompts and
//! resources.

mod open;
mod watch;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_host::grants::{LASTS, Pattern};
use outrigger_journal::{
    Approval, ApprovalState, ApprovalSubject, Approvals, AskedApproval, DecidedBy, Decision,
};

use crate::approver::arguments;
use crate::cli::{ApprovalsArgs, ApprovalsCommand, ApproveArgs, Common};
use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{storage, visible};

/// How long it is waited for the gateway to take a yes. It looks five times a second.
const TAKEN: Duration = Duration::from_secs(3);
/// How often that is looked for.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    common: &Common,
    args: ApprovalsArgs,
    screen: Screen,
) -> Result<ExitCode, CommandError> {
    if let Some(ApprovalsCommand::Open(args)) = &args.command {
        open::run(common, args, screen)?;
        return Ok(Exit::Done.into());
    }
    let journal = storage::open_journal(common, screen).await?;
    let approvals = journal.approvals();
    let listing = ApprovalsCommand::List {
        limit: 0,
        json: false,
    };
    let done = match args.command.unwrap_or(listing) {
        ApprovalsCommand::List { limit, json } => list(&approvals, limit, json, screen).await,
        ApprovalsCommand::Show { id, json } => show(&approvals, &id, json, screen).await,
        ApprovalsCommand::Approve(args) => approve(&approvals, args, screen).await,
        ApprovalsCommand::Decline { id, reason, json } => {
            decline(&approvals, &id, reason, (json, screen)).await
        }
        ApprovalsCommand::Open(_) => Ok(()),
        ApprovalsCommand::Watch { json } => watch::run(&approvals, json, screen).await,
    };
    journal.close().await?;
    done?;
    Ok(Exit::Done.into())
}

async fn list(
    approvals: &Approvals,
    limit: u32,
    as_json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let now = Timestamp::now();
    let mut all = approvals.list(limit).await?;
    // What a gateway has not closed yet.
    all.retain(|approval| approval.state != ApprovalState::Waiting || approval.waits(now));
    if as_json {
        return screen.json(&all);
    }
    if all.is_empty() {
        screen.say("nothing waits for approval");
    }
    for approval in &all {
        line(approval, now, screen)?;
    }
    Ok(())
}

fn line(approval: &Approval, now: Timestamp, screen: Screen) -> Result<(), CommandError> {
    let asked = &approval.asked;
    let state = if approval.state == ApprovalState::Waiting {
        format!("waits, {} left", left(asked.until, now))
    } else {
        format!("{} {}", approval.state.as_str(), visible::age(approval.at))
    };
    let what = match asked.subject {
        ApprovalSubject::Call(_) => visible::line(&asked.tool).into_owned(),
        ApprovalSubject::Prompt | ApprovalSubject::Resource => named(asked),
    };
    let arguments = if asked.subject == ApprovalSubject::Resource {
        String::new()
    } else {
        let arguments = visible::folded_json_line(&asked.arguments);
        format!(" {}", visible::beginning(&arguments, 200))
    };
    let text = format!(
        "{} {what}{arguments} {}",
        screen.ink(Label::Name, &approval.id),
        screen.ink(Label::Dim, &state)
    );
    Ok(screen.line(&text, 2)?)
}

fn left(until: Timestamp, now: Timestamp) -> String {
    let seconds = until.duration_since(now).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    }
}

async fn show(
    approvals: &Approvals,
    id: &str,
    as_json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let approval = find(approvals, id).await?;
    if as_json {
        return screen.json(&approval);
    }
    for line in described(&approval, true) {
        screen.data(&format!("{line}\n"))?;
    }
    Ok(())
}

/// What a person should know to decide, and what became of it, line by line.
fn described(approval: &Approval, whole: bool) -> Vec<String> {
    let asked = &approval.asked;
    let mut lines = vec![format!("approval   {}", approval.id)];
    let mut put = |title: &str, text: &str| {
        lines.push(format!("{title:<10} {text}"));
    };
    let server = visible::line(&asked.server);
    let raw = visible::line(&asked.raw_tool);
    match asked.subject {
        ApprovalSubject::Call(_) => {
            let tool = visible::line(&asked.tool);
            put(
                "tool",
                &format!("{tool} (`{raw}` of the server `{server}`)"),
            );
        }
        ApprovalSubject::Prompt | ApprovalSubject::Resource => {
            let kind = asked.subject.kind();
            put(kind, &format!("`{raw}` of the server `{server}`"));
        }
    }
    if asked.subject != ApprovalSubject::Resource {
        let mut title = "arguments";
        for line in arguments::lines(&asked.arguments, whole) {
            put(title, &line);
            title = "";
        }
    }
    for remark in &asked.remarks {
        put("note", &visible::line(remark));
    }
    put("asked by", &visible::line(&asked.rule));
    let (run, by) = (&approval.run, visible::line(&asked.principal));
    match asked.subject.call() {
        Some(call) => {
            put("call", &format!("{call} of {run}, wanted by {by}"));
            let definition: String = asked.definition.chars().take(16).collect();
            put("definition", &definition);
        }
        None => put("run", &format!("{run}, wanted by {by}")),
    }
    put(
        "since",
        &approval.at.strftime("%F %H:%M:%S UTC").to_string(),
    );
    put("state", &state(approval));
    lines
}

/// A prompt or resource, for a sentence.
fn named(asked: &AskedApproval) -> String {
    let name = visible::line(&asked.raw_tool);
    let server = visible::line(&asked.server);
    format!("{} `{name}` of {server}", asked.subject.kind())
}

/// How far it has come, and what was decided.
fn state(approval: &Approval) -> String {
    let mut text = match approval.state {
        ApprovalState::Waiting if !approval.waits(Timestamp::now()) => {
            "its time is over".to_owned()
        }
        ApprovalState::Waiting => {
            let until = approval.asked.until.strftime("%H:%M:%S UTC");
            format!("waits until {until}")
        }
        state => state.as_str().to_owned(),
    };
    let Some((decision, at)) = approval.decision.as_ref().zip(approval.decided) else {
        return text;
    };
    let word = if decision.allowed { "yes" } else { "no" };
    let by = match decision.by {
        DecidedBy::Page => "on the page",
        _ => "with `outrigger approvals`",
    };
    let _ = write!(text, "; {word} {by}, {}", at.strftime("%F %H:%M:%S UTC"));
    if let Some(reason) = &decision.reason {
        let _ = write!(text, ": {}", visible::line(reason));
    }
    if let Some(grant) = &approval.granted {
        let _ = write!(text, "; granted as `{}`", visible::line(grant));
    }
    text
}

async fn find(approvals: &Approvals, id: &str) -> Result<Approval, CommandError> {
    approvals.find(id).await?.ok_or_else(|| {
        let error = format!("nothing waits or waited as `{}`", visible::line(id));
        CommandError::usage(error).hint("`outrigger approvals` lists those that wait")
    })
}

async fn approve(
    approvals: &Approvals,
    args: ApproveArgs,
    screen: Screen,
) -> Result<(), CommandError> {
    let approval = find(approvals, &args.id).await?;
    let remember = args
        .remember
        .map(|pattern| {
            checked(&pattern, &approval)?;
            Ok::<_, CommandError>((pattern, args.lasts.unwrap_or(LASTS).as_secs().max(1)))
        })
        .transpose()?;
    let decision = Decision {
        allowed: true,
        by: DecidedBy::Command,
        reason: None,
        remember,
    };
    let after = decide(approvals, &approval.id, decision).await?;
    if args.json {
        return screen.json(&after);
    }
    screen.say(told(&after));
    Ok(())
}

async fn decline(
    approvals: &Approvals,
    id: &str,
    reason: Option<String>,
    (as_json, screen): (bool, Screen),
) -> Result<(), CommandError> {
    let approval = find(approvals, id).await?;
    let decision = Decision {
        allowed: false,
        by: DecidedBy::Command,
        reason,
        remember: None,
    };
    let after = decide(approvals, &approval.id, decision).await?;
    if as_json {
        return screen.json(&after);
    }
    screen.say(told(&after));
    Ok(())
}

/// What was typed about calls to come, as far as it can be judged before it is meant.
fn checked(pattern: &str, approval: &Approval) -> Result<(), CommandError> {
    if let Some(error) = approval.asked.subject.only_once() {
        return Err(
            CommandError::usage(error).hint("approve it without `--remember`, or write a rule")
        );
    }
    Pattern::typed(pattern, &approval.asked.arguments)
        .map(drop)
        .map_err(|error| CommandError::usage(visible::line(&error.to_string()).into_owned()))
}

/// Decides, and waits for a moment until whoever waited has heard it; how it is then.
async fn decide(
    approvals: &Approvals,
    id: &str,
    decision: Decision,
) -> Result<Approval, CommandError> {
    if !approvals.decide(id, decision).await? {
        let now = find(approvals, id).await?;
        let error = format!("`{id}` cannot be decided any more: {}", state(&now));
        return Err(CommandError::failed(error));
    }
    let heard = tokio::time::Instant::now() + TAKEN;
    loop {
        let now = find(approvals, id).await?;
        if now.closed.is_some() || tokio::time::Instant::now() > heard {
            return Ok(now);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What came of a decision, in a line.
fn told(approval: &Approval) -> String {
    let asked = &approval.asked;
    let call = match asked.subject.call() {
        Some(call) => {
            let (run, tool) = (&approval.run, visible::line(&asked.tool));
            format!("call {call} of {run} (`{tool}`)")
        }
        None => format!("the {}", named(asked)),
    };
    let granted = approval.granted.as_deref().map(|id| {
        format!(
            "; calls like it are granted as `{}`, see `outrigger grants`",
            visible::line(id)
        )
    });
    let granted = granted.unwrap_or_default();
    match approval.state {
        ApprovalState::Used => format!("{call} goes on{granted}"),
        ApprovalState::Declined => format!("{call} is declined"),
        ApprovalState::Expired => format!("too late: nobody waits for {call} any more"),
        ApprovalState::Approved | ApprovalState::Waiting => {
            format!("{call} is approved; its gateway has not taken note yet")
        }
    }
}
