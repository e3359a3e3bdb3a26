//! A run told line by line. Events that another line tells as well have none of their own.

use outrigger_journal::{ArtifactRef, CallLine, Counted, DecidedBy, Event, HookSaid, OutcomeKind};

use crate::answer;
use crate::display::{self, seconds};
use crate::visible;

/// What a person reads of an event: one line, so that no server can add one of its own; the model's
/// text, indented, has lines.
pub(super) fn told(event: &Event, calls: &[CallLine]) -> Option<String> {
    if let Some(told) = of_turn(event) {
        return Some(visible::lines(&told).into_owned());
    }
    let told = of_server(event)
        .or_else(|| of_offer(event))
        .or_else(|| of_call(event, calls))
        .or_else(|| of_run(event))?;
    Some(visible::line(&told).into_owned())
}

fn of_server(event: &Event) -> Option<String> {
    Some(match event {
        Event::ServerReady {
            server,
            tools,
            tokens,
            took_ms,
            era,
            protocol_version,
        } => format!(
            "server {server}: {tools} tools, ~{tokens} tokens, {era} {protocol_version}, {}",
            seconds(*took_ms)
        ),
        Event::ServerFailed {
            server,
            stage,
            error,
            ..
        } => format!("server {server}: failed at {stage}: {error}"),
        Event::ServerEnded { server, reason } => format!("server {server}: ended: {reason}"),
        Event::ServerWarned { server, warning } => format!("server {server}: warning: {warning}"),
        Event::ToolSetAside {
            server,
            tool,
            reason,
        } => {
            format!("server {server}: tool `{tool}` set aside: {reason}")
        }
        Event::QuestionEnded {
            server,
            tool,
            method,
            question,
            answer,
            by,
            reason,
            ..
        } => {
            let during = tool
                .as_deref()
                .map(|tool| format!(" during `{tool}`"))
                .unwrap_or_default();
            format!(
                "server {server}: asked{during} (`{method}`): {question}: {}{}{}",
                answer.as_str(),
                match by {
                    DecidedBy::Person
                    | DecidedBy::Client
                    | DecidedBy::Command
                    | DecidedBy::Page => " by a person",
                    DecidedBy::Grant => " by a grant",
                    DecidedBy::Hook => " by a hook",
                    DecidedBy::Policy => " by configuration",
                    DecidedBy::Nobody => "",
                },
                because(reason.as_deref())
            )
        }
        _ => return None,
    })
}

fn of_offer(event: &Event) -> Option<String> {
    Some(match event {
        Event::FetchWaits { .. } => return of_decision(event),
        Event::PromptFetched {
            server,
            prompt,
            asked_by,
            by,
            rule,
            approval,
            reason,
            outcome,
            error,
            bytes,
            took_ms,
            ..
        } => fetched(
            &format!("server {server}: prompt `{prompt}`"),
            (
                asked_by,
                decision(
                    (*by, rule.as_deref()),
                    (approval.as_deref(), reason.as_deref()),
                ),
            ),
            (*outcome, error.as_deref()),
            (*bytes, *took_ms),
        ),
        Event::ResourceRead {
            server,
            uri,
            asked_by,
            by,
            rule,
            approval,
            reason,
            outcome,
            error,
            bytes,
            took_ms,
        } => fetched(
            &format!("server {server}: resource `{uri}`"),
            (
                asked_by,
                decision(
                    (*by, rule.as_deref()),
                    (approval.as_deref(), reason.as_deref()),
                ),
            ),
            (*outcome, error.as_deref()),
            (*bytes, *took_ms),
        ),
        _ => return None,
    })
}

/// A prompt or resource that somebody wanted: what, who and why, how it ended, how much it was.
fn fetched(
    what: &str,
    (asked_by, decided): (&str, String),
    (outcome, error): (OutcomeKind, Option<&str>),
    (bytes, took_ms): (u64, u64),
) -> String {
    let end = match error {
        Some(error) => format!("{}: {error}", outcome.as_str()),
        None => format!("{bytes} bytes in {}", seconds(took_ms)),
    };
    format!("{what} for a {asked_by}{decided}: {end}")
}

/// Who had the last word about a prompt or resource, where, and with what words.
fn decision(
    (by, rule): (Option<DecidedBy>, Option<&str>),
    (approval, reason): (Option<&str>, Option<&str>),
) -> String {
    let Some((by, rule)) = by.zip(rule) else {
        return String::new();
    };
    // Whoever decided elsewhere did not decide about what waited.
    let in_queue = matches!(by, DecidedBy::Command | DecidedBy::Page);
    let approval = approval.filter(|_| in_queue);
    let waited = approval.map(|approval| format!(" as `{approval}`"));
    // The words of a no are told with how it ended.
    let why = reason.filter(|_| by == DecidedBy::Nobody);
    format!(
        ", decided by {}{} ({rule}{})",
        who(by),
        waited.unwrap_or_default(),
        why.map(|why| format!("; {why}")).unwrap_or_default()
    )
}

fn of_turn(event: &Event) -> Option<String> {
    Some(match event {
        Event::TurnStarted {
            turn,
            tools,
            deferred,
            tokens,
            ..
        } => {
            let left = match deferred {
                0 => String::new(),
                deferred => format!(", {deferred} more left to the provider's search"),
            };
            format!("turn {turn}: {tools} tools, ~{tokens} tokens{left}")
        }
        Event::ProviderSearchUnused { model, reason } => {
            display::search_unused(&visible::line(model), &visible::line(reason))
        }
        Event::PersonSaid { text } => format!("said:\n{}", indented(text)),
        Event::ModelRetry {
            turn,
            attempt,
            reason,
            ..
        } => format!(
            "turn {turn}: attempt {attempt} after: {}",
            visible::line(reason)
        ),
        Event::ModelAnswered {
            turn,
            usage,
            calls,
            took_ms,
            text,
            counted,
            found,
        } => {
            let ours = counted.as_ref().map(ours).unwrap_or_default();
            let found = found_by_provider(found);
            let said = if text.is_empty() {
                String::new()
            } else {
                format!("\n{}", indented(text))
            };
            format!(
                "turn {turn}: {calls} calls asked for, {} in ({} cached), {} out, {}{ours}{found}{said}",
                usage.input,
                usage.cached,
                usage.output,
                seconds(*took_ms)
            )
        }
        _ => return None,
    })
}

/// What the provider's own search found in a turn.
fn found_by_provider(found: &[String]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let names: Vec<_> = found.iter().map(|name| visible::line(name)).collect();
    format!("; the provider's search found {}", names.join(", "))
}

/// What this side counted of a turn's request.
fn ours(counted: &Counted) -> String {
    format!(
        "; counted {} ({}{}), {} of them declarations",
        answer::in_all(counted),
        counted.by,
        answer::corrected(counted.corrected_by),
        visible::thousands(counted.declarations)
    )
}

fn of_call(event: &Event, calls: &[CallLine]) -> Option<String> {
    Some(match event {
        Event::CallProposed {
            call,
            tool,
            arguments,
            client,
            ..
        } => {
            let sent = sent(calls, *call).unwrap_or(arguments);
            let by = client.iter().map(|client| format!(" (by {client})"));
            let by: String = by.collect();
            format!("call {call}: {tool} {}{by}", visible::folded_json(sent))
        }
        Event::CallWaits { .. } | Event::CallDecided { .. } => return of_decision(event),
        Event::HookRan {
            call: Some(call), ..
        } => format!("call {call}: {}", of_hook(event)?),
        Event::CallRetried {
            call,
            attempt,
            reason,
            ..
        } => format!("call {call}: attempt {} after: {reason}", attempt + 1),
        Event::CallEnded {
            call,
            outcome,
            summary,
            took_ms,
            tokens,
            artifacts,
            ..
        } => {
            format!(
                "call {call}: {} in {}, ~{tokens} tokens: {summary}{}",
                outcome.as_str(),
                seconds(*took_ms),
                kept(artifacts)
            )
        }
        Event::LateAnswer {
            call,
            outcome,
            summary,
            ..
        } => {
            format!("call {call}: late answer: {}: {summary}", outcome.as_str())
        }
        _ => return None,
    })
}

/// What was sent. Calls come in order, and there may be many.
fn sent(calls: &[CallLine], call: u32) -> Option<&String> {
    let at = calls.binary_search_by_key(&call, |line| line.call).ok()?;
    Some(&calls.get(at)?.arguments)
}

fn of_run(event: &Event) -> Option<String> {
    match event {
        Event::HookRan { call: None, .. } => of_hook(event),
        Event::ConfigurationRead {
            added,
            removed,
            changed,
        } => Some(super::super::serve::read_again(added, removed, changed)),
        Event::RunResumed { from } => Some(format!("goes on where {from} stopped")),
        Event::CallSettled {
            of,
            call,
            happened,
            note,
        } => Some(format!(
            "call {call} of {of}: settled: {}{}",
            super::settle::word(*happened),
            because(note.as_deref())
        )),
        Event::RunEnded { status, reason, .. } => Some(format!(
            "ended: {}{}",
            status.as_str(),
            because(reason.as_deref())
        )),
        _ => None,
    }
}

fn of_hook(event: &Event) -> Option<String> {
    let Event::HookRan {
        event,
        hook,
        said,
        changed,
        reason,
        took_ms,
        ..
    } = event
    else {
        return None;
    };
    let said = match said {
        HookSaid::Failed => "failed".to_owned(),
        said => format!("said {}", said.as_str()),
    };
    let changed = match (event.as_str(), changed) {
        (_, false) => "",
        ("before_call", true) => ", and changed the arguments",
        (_, true) => ", and changed what the model reads",
    };
    Some(format!(
        "the {event} hook at {hook} {said}{changed} in {}{}",
        seconds(*took_ms),
        because(reason.as_deref())
    ))
}

/// The artifacts of an answer.
fn kept(artifacts: &[ArtifactRef]) -> String {
    let kept = artifacts.iter().map(|artifact| {
        let ArtifactRef {
            handle,
            bytes,
            media_type,
            ..
        } = artifact;
        format!("; {handle} ({media_type}, {bytes} bytes)")
    });
    kept.collect::<Vec<_>>().concat()
}

/// Who is waited for, and who had the last word.
fn of_decision(event: &Event) -> Option<String> {
    Some(match event {
        Event::CallWaits {
            call,
            approval,
            until,
        } => format!(
            "call {call}: waits for a person as `{approval}`, until {}",
            until.strftime("%H:%M:%S UTC")
        ),
        Event::FetchWaits {
            server,
            kind,
            name,
            approval,
            until,
        } => format!(
            "server {server}: {kind} `{name}` waits for a person as `{approval}`, until {}",
            until.strftime("%H:%M:%S UTC")
        ),
        Event::CallDecided {
            call,
            allowed,
            rule,
            by,
            reason,
        } => {
            let word = if *allowed { "allowed" } else { "not allowed" };
            format!(
                "call {call}: {word} by {} ({rule}){}",
                who(*by),
                because(reason.as_deref())
            )
        }
        _ => return None,
    })
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

fn who(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Policy => "policy",
        DecidedBy::Person => "a person",
        DecidedBy::Client => "a person at the client",
        DecidedBy::Command => "a person with `outrigger approvals`",
        DecidedBy::Page => "a person on the gateway's page",
        DecidedBy::Grant => "a grant",
        DecidedBy::Hook => "a hook",
        DecidedBy::Nobody => "nobody: nobody was there to answer",
    }
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
