//! `/approvals`: what waits for a person, calls and what clients want fetched, and forms to decide about it.
//!
//! Promises: a decision is taken only from a form that this browser was given here: by its cookie, the
//! token in the form, and what the browser says about where it comes from.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, Method, Request, StatusCode};
use jiff::Timestamp;
use maud::{Markup, html};
use outrigger_host::grants::{LASTS, Pattern};
use outrigger_journal::{
    Approval, ApprovalState, ApprovalSubject, Approvals, DecidedBy, Decision, Journal,
};

use super::key::{Notice, Visit};
use super::layout::{lasting, layout, since};
use super::{page, told};
use crate::gateway::Shared;
use crate::http::{Answer, empty, not_found, whole};

const HERE: &str = "/approvals";
/// Bytes of a form.
const FORM: usize = 16 << 10;
/// Said of an id that is none.
const UNKNOWN: &str = "nothing waits, or waited, by that name";
/// Those that do not wait any more, and are shown.
const OTHERS: u32 = 10;
/// Characters of arguments that are shown before one asks for the rest.
const SHOWN: usize = 2000;

pub(super) async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let read = matches!(*request.method(), Method::GET | Method::HEAD);
    let post = *request.method() == Method::POST;
    let cores = shared.tenants.cores();
    let mut journals = cores.iter().filter_map(|core| core.record.journal.as_ref());
    // All have the same one, and without anybody there nothing waits.
    let approvals = journals.next().map(Journal::approvals);
    let approvals = approvals.as_ref();
    let visit = shared
        .door
        .visit(request.headers(), &cookie_name(request.headers()));
    match (request.uri().path(), visit) {
        ("/approvals/open", _) if read => open(shared, &request),
        (HERE, Some(visit)) if read => show(shared, approvals, &visit).await,
        ("/approvals/decide", Some(visit)) if post => {
            decide(shared, approvals, visit, request).await
        }
        (HERE, None) if read => closed(StatusCode::UNAUTHORIZED),
        ("/approvals/decide", None) if post => closed(StatusCode::FORBIDDEN),
        _ => not_found(),
    }
}

/// Cookies do not tell ports apart.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':'));
    format!("outrigger_{}", port.map_or("80", |(_, port)| port))
}

/// Lets a browser in that has a key.
fn open(shared: &Shared, request: &Request<Incoming>) -> Answer {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let key = pairs.find(|(name, _)| name == "key");
    let Some(cookie) = key.and_then(|(_, key)| shared.door.enter(&key)) else {
        return closed(StatusCode::FORBIDDEN);
    };
    let name = cookie_name(request.headers());
    let cookie = format!("{name}={cookie}; Path={HERE}; HttpOnly; SameSite=Strict; Max-Age=43200");
    let mut answer = elsewhere(HERE);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

fn elsewhere(place: &'static str) -> Answer {
    let mut answer = empty(StatusCode::SEE_OTHER);
    answer
        .headers_mut()
        .insert(LOCATION, HeaderValue::from_static(place));
    answer
}

fn closed(status: StatusCode) -> Answer {
    let content = html! {
        h1 { "Approvals" }
        p {
            "Arguments are shown, and what waits decided about, to the person who runs this gateway alone. On its machine, "
            code { "outrigger approvals open" } " opens this page."
        }
        p.dim { "An address that it has printed is good once." }
    };
    page(status, &layout("Approvals", HERE, 0, &content))
}

async fn show(shared: &Shared, approvals: Option<&Approvals>, visit: &Visit) -> Answer {
    let now = Timestamp::now();
    let all = match approvals {
        Some(approvals) => approvals.list(OTHERS).await,
        None => Ok(Vec::new()),
    };
    let all = match all {
        Ok(all) => all,
        Err(error) => {
            let content =
                html! { h1 { "Approvals" } p role="alert" { (told(&error.to_string())) } };
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return page(status, &layout("Approvals", HERE, 0, &content));
        }
    };
    let (waiting, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|approval| approval.state == ApprovalState::Waiting);
    let waiting: Vec<_> = waiting.into_iter().filter(|it| it.waits(now)).collect();
    let notice = shared.door.take_notice(visit);
    let content = html! {
        h1 { "Approvals" }
        @if let Some(Notice { good, words }) = notice {
            p.notice.bad[!good] role="status" { (told(&words)) }
        }
        div id="waiting" data-live {
            @if waiting.is_empty() { p.dim { "Nothing waits for you." } }
            @for approval in &waiting { (card(approval, visit, now)) }
        }
        section aria-labelledby="others-title" {
            h2 id="others-title" { "Decided last" }
            div.wide id="others" data-live { (decided(&others)) }
        }
    };
    let waiting = waiting.len();
    page(
        StatusCode::OK,
        &layout("Approvals", HERE, waiting, &content),
    )
}

fn card(approval: &Approval, visit: &Visit, now: Timestamp) -> Markup {
    let Approval { id, asked, .. } = approval;
    let title = format!("a-{id}");
    let calls = matches!(asked.subject, ApprovalSubject::Call(_));
    html! {
        article id=(title) aria-labelledby={ (title) "-title" } {
            h2 id={ (title) "-title" } {
                (wanted(approval)) " of " (told(&asked.server))
            }
            p.dim {
                code { (id) } " · "
                @if let Some(call) = asked.subject.call() { "call " (call) " of " } @else { "in " }
                code { (approval.run) } " · wanted by "
                (told(&asked.principal)) " · " (lasting(asked.until.duration_since(now))) " left"
            }
            @if asked.subject != ApprovalSubject::Resource { (arguments(&asked.arguments)) }
            @for remark in &asked.remarks { p.remark { (told(remark)) } }
            p.dim { "Asked by " (told(&asked.rule)) }
            form method="post" action="/approvals/decide" {
                input type="hidden" name="token" value=(visit.token);
                input type="hidden" name="id" value=(id);
                div.choices {
                    button.yes name="decision" value="approve" {
                        @if calls { "Let it run" } @else { "Let it be read" }
                    }
                    button.no name="decision" value="decline" { "Decline" }
                }
                details id={ (title) "-more" } {
                    summary { "Say more" }
                    @if calls { (calls_to_come()) }
                    label {
                        "Why not, for whoever wanted it"
                        input type="text" name="reason" autocomplete="off" maxlength="500";
                    }
                }
            }
        }
    }
}

/// What can be said with a yes about calls like it.
fn calls_to_come() -> Markup {
    html! {
        label {
            "Also calls to come, with these arguments"
            select name="remember" {
                option value="" selected { "no, this one only" }
                option value="exact" { "exactly these arguments" }
                option value="any" { "any arguments" }
                option value="pattern" { "as written below" }
            }
        }
        label {
            "Arguments, as " code { "key=glob" }
            input type="text" name="pattern" autocomplete="off" spellcheck="false" placeholder="path=docs/*";
        }
    }
}

/// One argument a line; what is not an object as it is.
fn arguments(text: &str) -> Markup {
    let read: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
    let Ok(object) = read else {
        return html! { pre { (told(text)) } };
    };
    html! {
        @if object.is_empty() { p { "Without arguments." } }
        @else {
            dl {
                @for (key, value) in &object {
                    dt { code { (told(key)) } }
                    dd { (value_of(&value.to_string())) }
                }
            }
        }
    }
}

fn value_of(text: &str) -> Markup {
    let count = text.chars().count();
    if count <= SHOWN {
        return html! { pre { (told(text)) } };
    }
    let (beginning, rest): (String, String) = (
        text.chars().take(SHOWN).collect(),
        text.chars().skip(SHOWN).collect(),
    );
    html! {
        pre { (told(&beginning)) }
        details { summary { "and " (count - SHOWN) " characters more" } pre { (told(&rest)) } }
    }
}

fn decided(all: &[Approval]) -> Markup {
    html! {
        @if all.is_empty() { p.dim { "Nothing yet." } }
        @else {
            table {
                thead { tr {
                    th scope="col" { "Id" } th scope="col" { "What" } th scope="col" { "Server" }
                    th scope="col" { "Asked" } th scope="col" { "Became" } th scope="col" { "Decided by" }
                } }
                tbody {
                    @for approval in all {
                        tr {
                            th scope="row" { code { (approval.id) } }
                            td { (wanted(approval)) }
                            td { (told(&approval.asked.server)) }
                            td { (since(approval.at)) " ago" }
                            td { (became(approval.state)) }
                            td { @if let Some(decision) = &approval.decision { (decision.by.as_str()) } }
                        }
                    }
                }
            }
        }
    }
}

/// The name of a tool, or which prompt or resource.
pub(super) fn wanted(approval: &Approval) -> Markup {
    let asked = &approval.asked;
    html! {
        @if asked.subject.call().is_none() { (asked.subject.kind()) " " }
        code { (told(&asked.raw_tool)) }
    }
}

fn became(state: ApprovalState) -> Markup {
    let kind = match state {
        ApprovalState::Used | ApprovalState::Approved => "good",
        ApprovalState::Declined => "bad",
        ApprovalState::Waiting | ApprovalState::Expired => "calm",
    };
    html! { span class={ "badge " (kind) } { (state.as_str()) } }
}

/// Takes a decision out of a form.
async fn decide(
    shared: &Shared,
    approvals: Option<&Approvals>,
    visit: Visit,
    request: Request<Incoming>,
) -> Answer {
    let (head, body) = request.into_parts();
    if !is_from_here(&head.headers) {
        return closed(StatusCode::FORBIDDEN);
    }
    let Ok(body) = whole(body, FORM).await else {
        return closed(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let fields: HashMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| fields.get(name).map_or("", String::as_str).trim();
    if !visit.gave(field("token")) {
        return closed(StatusCode::FORBIDDEN);
    }
    let notice = match (Wanted::of(&field), approvals) {
        (Ok(wanted), Some(approvals)) => wanted.make(approvals, field("id")).await,
        (Ok(_), None) => Notice {
            good: false,
            words: UNKNOWN.to_owned(),
        },
        (Err(words), _) => Notice { good: false, words },
    };
    shared.door.notice(&visit, notice);
    elsewhere(HERE)
}

/// Whether the browser says that a form was sent from a page of ours: both headers are set by browsers
/// alone.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |value: Option<&HeaderValue>| {
        value
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let origin = text(headers.get(ORIGIN));
    let host = text(headers.get(HOST)).map(|host| format!("http://{host}"));
    let form = text(headers.get(CONTENT_TYPE))
        .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    let site = text(headers.get("sec-fetch-site"));
    form && origin.is_some() && origin == host && site.is_none_or(|site| site == "same-origin")
}

/// What a form wants.
struct Wanted {
    allowed: bool,
    reason: Option<String>,
    /// A pattern as it is typed.
    remember: Option<String>,
}

impl Wanted {
    fn of<'a>(field: &impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let allowed = match field("decision") {
            "approve" => true,
            "decline" => false,
            _ => return Err("neither yes nor no was said".to_owned()),
        };
        let remember = match field("remember") {
            "exact" => Some(String::new()),
            "any" => Some("*".to_owned()),
            "pattern" if field("pattern").is_empty() => {
                return Err("calls to come are to be described: `key=glob`".to_owned());
            }
            "pattern" => Some(field("pattern").to_owned()),
            _ => None,
        };
        let reason = Some(field("reason")).filter(|reason| !reason.is_empty());
        Ok(Self {
            allowed,
            reason: reason.filter(|_| !allowed).map(ToOwned::to_owned),
            remember: remember.filter(|_| allowed),
        })
    }

    async fn make(self, approvals: &Approvals, id: &str) -> Notice {
        let bad = |words: String| Notice { good: false, words };
        let approval = match approvals.find(id).await {
            Ok(Some(approval)) if approval.id == id => approval,
            Ok(_) => return bad(UNKNOWN.to_owned()),
            Err(error) => return bad(error.to_string()),
        };
        if let Some(pattern) = &self.remember {
            if let Some(why) = approval.asked.subject.only_once() {
                return bad(why);
            }
            if let Err(error) = Pattern::typed(pattern, &approval.asked.arguments) {
                return bad(error.to_string());
            }
        }
        let decision = Decision {
            allowed: self.allowed,
            by: DecidedBy::Page,
            reason: self.reason,
            remember: self.remember.map(|pattern| (pattern, LASTS.as_secs())),
        };
        let tool = &approval.asked.raw_tool;
        match approvals.decide(id, decision).await {
            Ok(true) if self.allowed => Notice {
                good: true,
                words: format!("{tool} is approved"),
            },
            Ok(true) => Notice {
                good: true,
                words: format!("{tool} is declined"),
            },
            Ok(false) => bad(format!(
                "too late: {tool} does not wait any more, or somebody else was first"
            )),
            Err(error) => bad(error.to_string()),
        }
    }
}
