//! `/`: servers, tools, and calls. Whoever is on this machine may read it: no arguments, no results. A principal
//! that shows who it is reads what is its own.

use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use outrigger_host::{ServerState, ServerStatus};
use outrigger_journal::{Approval, OutcomeKind};

use super::approvals::wanted;
use super::layout::{lasting, layout, since, when};
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
            div.wide id="open" data-live { (under_way(&open, Whose::Of(None))) }
        }
        section aria-labelledby="recent-title" {
            h2 id="recent-title" { "Ended last" }
            div.wide id="recent" data-live { (ended(&recent, Whose::Of(None))) }
        }
    };
    layout("Status", "/", waiting, &content)
}

/// What belongs to one principal.
pub(super) async fn own(shared: &Shared, name: &str) -> Markup {
    let cores = shared.tenants.cores();
    let core = cores.iter().find(|core| core.who.name() == Some(name));
    let run = core.and_then(|core| core.record.run.as_ref());
    let is_own = |call: &Call| run.is_some_and(|run| *run.id() == call.run);
    let (mut open, mut recent) = shared.activity.calls();
    open.retain(is_own);
    recent.retain(is_own);
    let waits = waiting(core).await;
    let content = html! {
        h1 { "What is yours" }
        p id="state" data-live role="status" { "You are known here as " code { (told(name)) } "." }
        section aria-labelledby="servers-title" {
            h2 id="servers-title" { "Servers" }
            div.wide id="servers" data-live {
                @if let Some(core) = core { (of_servers(&core.host().servers(), Whose::Own)) }
                @else { p.dim { "They are started with the first request of a client of yours." } }
            }
        }
        section aria-labelledby="waits-title" {
            h2 id="waits-title" { "Waiting for approval" }
            div.wide id="waits" data-live { (to_look_at(&waits)) }
        }
        section aria-labelledby="open-title" {
            h2 id="open-title" { "Under way" }
            div.wide id="open" data-live { (under_way(&open, Whose::Own)) }
        }
        section aria-labelledby="recent-title" {
            h2 id="recent-title" { "Ended last" }
            div.wide id="recent" data-live { (ended(&recent, Whose::Own)) }
        }
    };
    layout("Yours", "", 0, &content)
}

/// What of a principal waits for somebody who decides.
async fn waiting(core: Option<&Arc<Core>>) -> Vec<Approval> {
    let record = core.map(|core| &core.record);
    let Some((journal, run)) =
        record.and_then(|record| record.journal.as_ref().zip(record.run.as_ref()))
    else {
        return Vec::new();
    };
    let now = Timestamp::now();
    let mut all = journal.approvals().list(0).await.unwrap_or_default();
    all.retain(|it| it.run == *run.id() && it.waits(now));
    all
}

fn to_look_at(waits: &[Approval]) -> Markup {
    let now = Timestamp::now();
    html! {
        @if waits.is_empty() { p.dim { "Nothing of yours waits." } }
        @else {
            table {
                thead { tr {
                    th scope="col" { "Id" } th scope="col" { "What" } th scope="col" { "Server" }
                    th scope="col" { "Asked by" } th scope="col" { "Left" }
                } }
                tbody {
                    @for approval in waits {
                        tr {
                            th scope="row" { code { (approval.id) } }
                            td { (wanted(approval)) }
                            td { (told(&approval.asked.server)) }
                            td { (told(&approval.asked.rule)) }
                            td { (lasting(approval.asked.until.duration_since(now))) }
                        }
                    }
                }
            }
            p.dim { "Whoever runs the gateway decides." }
        }
    }
}

/// Who reads a table, and about whom.
#[derive(Clone, Copy)]
enum Whose<'a> {
    /// Whoever runs the gateway, about a principal that may have a name.
    Of(Option<&'a str>),
    /// A principal about itself.
    Own,
}

impl Whose<'_> {
    fn is_own(self) -> bool {
        matches!(self, Self::Own)
    }

    fn name(&self) -> &str {
        match self {
            Self::Of(name) => name.unwrap_or_default(),
            Self::Own => "",
        }
    }
}

/// Those of each principal. With only whoever runs the gateway, nothing is said about principals.
fn of_principals(cores: &[Arc<Core>]) -> Markup {
    html! {
        @if cores.is_empty() { p.dim { "Servers are started for whoever comes." } }
        @for core in cores {
            @if let Some(name) = core.who.name() { h3 { "For " (told(name)) } }
            @else if cores.len() > 1 { h3 { "For whoever runs the gateway" } }
            (of_servers(&core.host().servers(), Whose::Of(core.who.name())))
        }
    }
}

fn of_servers(servers: &[ServerStatus], whose: Whose<'_>) -> Markup {
    html! {
        @if servers.is_empty() { p.dim { "No servers are configured." } }
        @else {
            table {
                thead { tr { th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Tools" } } }
                tbody {
                    @for server in servers {
                        tr {
                            th scope="row" { (told(server.name.as_str())) }
                            td { (state(server, whose)) }
                            td { (tools(server, whose)) }
                        }
                    }
                }
            }
        }
    }
}

fn state(server: &ServerStatus, whose: Whose<'_>) -> Markup {
    let word = server.state.as_str();
    let kind = match word {
        "ready" => "good",
        "idle" | "starting" | "disabled" | "elsewhere" => "calm",
        _ => "bad",
    };
    html! {
        span class={ "badge " (kind) } { (word.replace('_', " ")) }
        // A principal is told with its calls what it may know of that.
        @if let Some(failure) = server.state.failure().filter(|_| !whose.is_own()) {
            p.why { (beginning(&failure.error, 500)) }
            @for hint in &failure.hints { p.why.dim { (beginning(hint, 300)) } }
        }
    }
}

fn tools(server: &ServerStatus, whose: Whose<'_>) -> Markup {
    let Some(catalog) = &server.catalog else {
        let known = matches!(server.state, ServerState::Disabled);
        return html! { @if !known { span.dim { "not known" } } };
    };
    let count = catalog.tools.len();
    let aside = catalog.set_aside.len();
    html! {
        @if count == 0 { span.dim { "none" } }
        @else {
            details id={ "tools-" (whose.name()) "-" (server.name.as_str()) } {
                summary { (count) " " @if count == 1 { "tool" } @else { "tools" } }
                ul.tools {
                    @for tool in catalog.tools.iter().take(TOOLS) {
                        li { code { (beginning(&tool.raw_name, 200)) } }
                    }
                    @if count > TOOLS { li.dim { "and " (count - TOOLS) " more" } }
                }
            }
        }
        @if aside > 0 { p.why { (aside) " set aside"
            @if !whose.is_own() { "; " code { "outrigger doctor" } " says why" }
        } }
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

fn under_way(calls: &[Call], whose: Whose<'_>) -> Markup {
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
                                    @if whose.is_own() { code { (id) } }
                                    @else { a href={ "/approvals#a-" (id) } { code { (id) } } }
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

fn ended(calls: &[Call], whose: Whose<'_>) -> Markup {
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
            @if !whose.is_own() { p.dim { "The journal has all of them: " code { "outrigger runs show" } "." } }
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
