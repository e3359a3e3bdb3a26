//! `/`: servers, tools, and calls. Whoever is on this machine may read it: no arguments, no results.

use std::sync::Arc;

use maud::{Markup, html};
use outrigger_host::{ServerState, ServerStatus};
use outrigger_journal::OutcomeKind;

use super::layout::{layout, since, when};
use super::{beginning, told, troubles};
use crate::activity::Call;
use crate::gateway::{Core, Shared};

/// Tools that are listed of one server.
const TOOLS: usize = 200;

pub(super) async fn page(shared: &Shared) -> Markup {
    let troubles = troubles(shared).await;
    let (open, recent) = shared.activity.calls();
    let (_, waiting) = shared.activity.counts();
    let cores = shared.tenants.cores();
    let sessions: usize = cores.iter().map(|core| core.sessions.len()).sum();
    let content = html! {
        h1 { "Status" }
        p id="state" data-live role="status" {
            @if troubles.is_empty() {
                span.badge.good { "ready" } " takes calls since " (when(shared.began))
            } @else {
                span.badge.bad { "not ready" } " " (told(&troubles.join("; ")))
            }
            span.dim {
                " · " (sessions) " sessions, " (shared.slots.taken()) " connections"
            }
        }
        section aria-labelledby="servers-title" {
            h2 id="servers-title" { "Servers" }
            div.wide id="servers" data-live { (of_principals(&cores)) }
        }
        section aria-labelledby="open-title" {
            h2 id="open-title" { "Under way" }
            div.wide id="open" data-live { (under_way(&open)) }
        }
        section aria-labelledby="recent-title" {
            h2 id="recent-title" { "Ended last" }
            div.wide id="recent" data-live { (ended(&recent)) }
        }
    };
    layout("Status", "/", waiting, &content)
}

/// Those of each principal. With only whoever runs the gateway, nothing is said about principals.
fn of_principals(cores: &[Arc<Core>]) -> Markup {
    html! {
        @if cores.is_empty() { p.dim { "Servers are started for whoever comes." } }
        @for core in cores {
            @if let Some(name) = core.who.name() { h3 { "For " (told(name)) } }
            @else if cores.len() > 1 { h3 { "For whoever runs the gateway" } }
            (of_servers(&core.host().servers(), core.who.name()))
        }
    }
}

fn of_servers(servers: &[ServerStatus], whose: Option<&str>) -> Markup {
    html! {
        @if servers.is_empty() { p.dim { "No servers are configured." } }
        @else {
            table {
                thead { tr { th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Tools" } } }
                tbody {
                    @for server in servers {
                        tr {
                            th scope="row" { (told(server.name.as_str())) }
                            td { (state(server)) }
                            td { (tools(server, whose)) }
                        }
                    }
                }
            }
        }
    }
}

fn state(server: &ServerStatus) -> Markup {
    let word = server.state.as_str();
    let kind = match word {
        "ready" => "good",
        "idle" | "starting" | "disabled" => "calm",
        _ => "bad",
    };
    html! {
        span class={ "badge " (kind) } { (word.replace('_', " ")) }
        @if let Some(failure) = server.state.failure() {
            p.why { (beginning(&failure.error, 500)) }
            @for hint in &failure.hints { p.why.dim { (beginning(hint, 300)) } }
        }
    }
}

fn tools(server: &ServerStatus, whose: Option<&str>) -> Markup {
    let Some(catalog) = &server.catalog else {
        let known = matches!(server.state, ServerState::Disabled);
        return html! { @if !known { span.dim { "not known" } } };
    };
    let count = catalog.tools.len();
    let aside = catalog.set_aside.len();
    html! {
        @if count == 0 { span.dim { "none" } }
        @else {
            details id={ "tools-" (whose.unwrap_or_default()) "-" (server.name.as_str()) } {
                summary { (count) " " @if count == 1 { "tool" } @else { "tools" } }
                ul.tools {
                    @for tool in catalog.tools.iter().take(TOOLS) {
                        li { code { (beginning(&tool.raw_name, 200)) } }
                    }
                    @if count > TOOLS { li.dim { "and " (count - TOOLS) " more" } }
                }
            }
        }
        @if aside > 0 { p.why { (aside) " set aside; " code { "outrigger doctor" } " says why" } }
    }
}

fn named(call: &Call) -> Markup {
    html! {
        th scope="row" title={ "run " (call.run.as_str()) } { (call.number) }
        td { code { (told(&call.tool)) } }
        td {
            @if let Some(server) = &call.server { (told(server)) } @else { span.dim { "none" } }
        }
    }
}

fn under_way(calls: &[Call]) -> Markup {
    html! {
        @if calls.is_empty() { p.dim { "No call is under way." } }
        @else {
            table {
                thead { tr {
                    th scope="col" { "Call" } th scope="col" { "Tool" } th scope="col" { "Server" }
                    th scope="col" { "For" } th scope="col" { "State" }
                } }
                tbody {
                    @for call in calls {
                        tr {
                            (named(call))
                            td { (since(call.at)) }
                            td {
                                @if let Some(id) = &call.waits {
                                    span.badge.warn { "waits" } " "
                                    a href={ "/approvals#a-" (id) } { code { (id) } }
                                } @else if call.sent { span.badge.calm { "sent" } }
                                @else { span.badge.calm { "begun" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn ended(calls: &[Call]) -> Markup {
    html! {
        @if calls.is_empty() { p.dim { "No call has ended yet." } }
        @else {
            table {
                thead { tr {
                    th scope="col" { "Call" } th scope="col" { "Tool" } th scope="col" { "Server" }
                    th scope="col" { "Begun" } th scope="col" { "Outcome" } th scope="col" { "Took" }
                    th scope="col" { "Decided by" }
                } }
                tbody {
                    @for call in calls {
                        tr {
                            (named(call))
                            td { (when(call.at)) }
                            td { (outcome(call)) }
                            td { @if let Some(end) = call.end.filter(|_| call.sent) { (end.took_ms) " ms" } }
                            td { @if let Some((_, by)) = call.decided { (by.as_str()) } }
                        }
                    }
                }
            }
            p.dim { "The journal has all of them: " code { "outrigger runs show" } "." }
        }
    }
}

fn outcome(call: &Call) -> Markup {
    let Some(end) = call.end else {
        return html! {};
    };
    let (kind, word) = match end.outcome {
        OutcomeKind::Completed if end.is_error => ("warn", "completed, an error"),
        OutcomeKind::Completed => ("good", "completed"),
        OutcomeKind::Rejected => ("calm", "rejected"),
        OutcomeKind::NotSent => ("warn", "not sent"),
        OutcomeKind::Unknown => ("bad", "unknown"),
        OutcomeKind::Violated => ("bad", "broke its contract"),
    };
    html! { span class={ "badge " (kind) } { (word) } }
}
