//! May it be fetched, and the fetching itself: one record of each, whatever becomes of it.
//!
//! By hand, a rule that denies stands, and one that asks is answered by who typed the request, if
//! somebody sits there; for a client of the gateway by whoever approves for clients, and while that takes
//! its time no server is held. For a model the call of the reading tool has been decided about, with the
//! resource in view ([`Target`]); what no permitted call is about is not read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

use outrigger_connect::{CallError, CallOptions, ServerName};
use outrigger_journal::{DecidedBy, Event, OutcomeKind};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::error::OfferError;
use super::fetched::{PromptText, ResourceText};
use super::{ByHand, InReach, LIST_TOOL, READ_TOOL, reaches, read_tool};
use crate::approve::{Answer, FetchQuestion};
use crate::catalog::CatalogTool;
use crate::config::Decision;
use crate::hidden;
use crate::host::{Host, Ready};
use crate::policy::{Call, OfferKind, Offered, Origins, Principal, Subject, Verdict};
use crate::text::shorten;

/// Bytes of a name or an address within a sentence.
const NAMED_BYTES: usize = 200;

/// What a call of a tool of the built-in server `resources` is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Whose resources.
    pub(crate) server: ServerName,
    /// Which; `None` for the list.
    pub(crate) uri: Option<String>,
}

impl Target {
    /// `None` for every other tool, and for a list of servers.
    pub(crate) fn of(tool: &CatalogTool, arguments: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Arguments {
            server: String,
            #[serde(default)]
            uri: Option<String>,
        }
        if !reaches(tool) {
            return None;
        }
        let Arguments { server, uri } = serde_json::from_str(arguments).ok()?;
        let server = ServerName::new(&server).ok()?;
        let uri = match tool.raw_name.as_str() {
            READ_TOOL => Some(uri?),
            LIST_TOOL => None,
            _ => return None,
        };
        Some(Self { server, uri })
    }
}

/// While it lives, what a permitted call is about may be read for a model.
pub(crate) struct Permitted {
    host: Host,
    read: (ServerName, String),
}

impl Drop for Permitted {
    fn drop(&mut self) {
        let permitted = self.host.shelf().permitted.lock();
        let mut permitted = permitted.unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = permitted.iter().position(|read| *read == self.read) {
            permitted.swap_remove(at);
        }
    }
}

/// What is fetched.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    server: &'a ServerName,
    kind: OfferKind,
    name: &'a str,
    arguments: Option<&'a BTreeMap<String, String>>,
    principal: Principal,
}

/// What was decided about it, where that was here.
struct Decided {
    by: DecidedBy,
    rule: String,
    /// What it waited as.
    approval: Option<String>,
    /// What was said by whoever was asked.
    reason: Option<String>,
}

impl Decided {
    /// Nothing was asked.
    fn at_once(by: DecidedBy, rule: String) -> Self {
        Self {
            by,
            rule,
            approval: None,
            reason: None,
        }
    }
}

impl Wanted<'_> {
    /// For a sentence.
    fn words(&self) -> String {
        let name = shorten(&hidden::visible(self.name, |_| false), NAMED_BYTES);
        let kind = self.kind.as_str();
        format!("the {kind} `{name}` of the server `{}`", self.server)
    }

    fn offered(&self) -> Offered<'_> {
        Offered {
            kind: self.kind,
            server: self.server.as_str(),
            name: self.name,
            principal: self.principal,
        }
    }
}

impl Host {
    /// What policy is asked about when a model calls `tool` with these arguments.
    pub(crate) fn subject<'a>(
        &self,
        tool: &'a CatalogTool,
        target: Option<&'a Target>,
    ) -> Subject<'a> {
        let mut subject = Subject::from(tool);
        let Some(Target {
            server,
            uri: Some(uri),
        }) = target
        else {
            return subject;
        };
        // A server that is not there has nothing that could be read: the tool says so.
        let Some(standing) = self.standing_of(server) else {
            return subject;
        };
        subject.standing = standing;
        subject.offered = Some(Offered {
            kind: OfferKind::Resource,
            server: server.as_str(),
            name: uri,
            principal: Principal::Model,
        });
        subject
    }

    /// Whether any call of a model may read this.
    pub(super) fn may_be_read_by_a_model(&self, server: &ServerName, uri: &str) -> bool {
        let offered = Offered {
            kind: OfferKind::Resource,
            server: server.as_str(),
            name: uri,
            principal: Principal::Model,
        };
        let name = read_tool();
        let standing = self.standing_of(server).unwrap_or_default();
        let subject = Subject {
            name: &name,
            raw: READ_TOOL,
            ..Subject::of_offer(offered, standing)
        };
        self.policy().outlook(subject).verdict.decision != Decision::Deny
    }

    /// Lets the call that a permit was given for read what it is about.
    pub(crate) fn permit_read(&self, tool: &CatalogTool, arguments: &str) -> Option<Permitted> {
        let Target { server, uri } = Target::of(tool, arguments)?;
        let read = (server, uri?);
        let permitted = self.shelf().permitted.lock();
        permitted
            .unwrap_or_else(PoisonError::into_inner)
            .push(read.clone());
        Some(Permitted {
            host: self.clone(),
            read,
        })
    }

    /// What a resource holds, for a model whose call has been permitted. Only the built-in server
    /// that such calls reach asks for this.
    pub async fn read_resource_for_model(
        &self,
        server: &str,
        uri: &str,
        cancel: CancellationToken,
    ) -> Result<ResourceText, OfferError> {
        let server = ServerName::new(server).map_err(|_| OfferError::NoServer {
            name: server.to_owned(),
            known: Vec::new(),
        })?;
        let InReach {
            ready,
            in_use: _in_use,
        } = self.ready(&server).await?;
        let wanted = Wanted {
            server: &server,
            kind: OfferKind::Resource,
            name: uri,
            arguments: None,
            principal: Principal::Model,
        };
        let read = (server.clone(), uri.to_owned());
        let permitted = {
            let all = self.shelf().permitted.lock();
            all.unwrap_or_else(PoisonError::into_inner).contains(&read)
        };
        if !permitted {
            return Err(OfferError::NobodyToAsk {
                what: wanted.words(),
                rule: "no permitted call is about it; the host".to_owned(),
                reason: None,
            });
        }
        let by = ByHand {
            cancel,
            ..ByHand::default()
        };
        self.fetch_resource(&ready, wanted, None, &by).await
    }

    pub(super) async fn read_by_hand(
        &self,
        reach: InReach,
        server: &ServerName,
        uri: &str,
        by: &ByHand,
    ) -> Result<ResourceText, OfferError> {
        let wanted = Wanted {
            server,
            kind: OfferKind::Resource,
            name: uri,
            arguments: None,
            principal: by.principal(),
        };
        let (decided, reach) = self.decide_by_hand(wanted, reach, by).await?;
        let read = self
            .fetch_resource(&reach.ready, wanted, Some(decided), by)
            .await?;
        self.came_from(server.as_str());
        Ok(read)
    }

    async fn fetch_resource(
        &self,
        ready: &Ready,
        wanted: Wanted<'_>,
        decided: Option<Decided>,
        by: &ByHand,
    ) -> Result<ResourceText, OfferError> {
        let began = Instant::now();
        let _asks = self.asks_for(wanted.server, by.client);
        let fetched = ready
            .connection
            .read_resource(wanted.name, options(ready, by))
            .await;
        let read = self.without_secrets(wanted, fetched).and_then(|raw| {
            ResourceText::read(wanted.server, wanted.name, raw)
                .map_err(|reason| malformed(wanted, reason))
        });
        let bytes = read.as_ref().map(ResourceText::bytes);
        self.fetched(wanted, decided, bytes.map_err(Clone::clone), began);
        read
    }

    pub(super) async fn fetch_prompt(
        &self,
        reach: InReach,
        server: &ServerName,
        (name, arguments): (&str, &BTreeMap<String, String>),
        by: &ByHand,
    ) -> Result<PromptText, OfferError> {
        let wanted = Wanted {
            server,
            kind: OfferKind::Prompt,
            name,
            arguments: Some(arguments),
            principal: by.principal(),
        };
        let (decided, reach) = self.decide_by_hand(wanted, reach, by).await?;
        let began = Instant::now();
        let sent = serde_json::value::to_raw_value(arguments)
            .unwrap_or_else(|_| RawValue::NULL.to_owned());
        let _asks = self.asks_for(server, by.client);
        let options = options(&reach.ready, by);
        let connection = &reach.ready.connection;
        let fetched = connection.get_prompt(name, &sent, options).await;
        let read = self.without_secrets(wanted, fetched).and_then(|raw| {
            PromptText::read(server, name, raw).map_err(|reason| malformed(wanted, reason))
        });
        let bytes = read.as_ref().map(PromptText::bytes);
        self.fetched(wanted, Some(decided), bytes.map_err(Clone::clone), began);
        let read = read?;
        self.came_from(server.as_str());
        Ok(read)
    }

    /// Decides about a request by hand. A refusal is recorded here. Where somebody is asked, its server is
    /// let go of meanwhile, and had again after a yes.
    async fn decide_by_hand(
        &self,
        wanted: Wanted<'_>,
        reach: InReach,
        by: &ByHand,
    ) -> Result<(Decided, InReach), OfferError> {
        let standing = self.standing_of(wanted.server).unwrap_or_default();
        let arguments = match wanted.arguments {
            Some(arguments) => json!(arguments),
            None => json!({ "server": wanted.server.as_str(), "uri": wanted.name }),
        };
        let Verdict {
            decision,
            rule,
            reason,
        } = self.policy().decide(&Call {
            subject: Subject::of_offer(wanted.offered(), standing),
            arguments: &arguments.to_string(),
            principal: wanted.principal,
            origins: &self.origins(),
            args_from: &Origins::default(),
        });
        let (decided, allowed) = match decision {
            Decision::Allow => return Ok((Decided::at_once(DecidedBy::Policy, rule), reach)),
            // Who typed it has decided.
            Decision::Ask if by.attended => {
                return Ok((Decided::at_once(DecidedBy::Person, rule), reach));
            }
            Decision::Deny => {
                let what = wanted.words();
                let decided = Decided::at_once(DecidedBy::Policy, rule.clone());
                (decided, Err(OfferError::Denied { what, rule, reason }))
            }
            Decision::Ask => {
                drop(reach);
                self.ask_for_client(wanted, rule, by).await
            }
        };
        let reach = match allowed {
            Ok(()) => self.had_again(wanted, by).await,
            Err(refusal) => Err(refusal),
        };
        match reach {
            Ok(reach) => Ok((decided, reach)),
            Err(refusal) => {
                let refused = Err(refusal.clone());
                self.fetched(wanted, Some(decided), refused, Instant::now());
                Err(refusal)
            }
        }
    }

    /// The server of what was allowed, started where it has stopped meanwhile, unless that is given up.
    async fn had_again(&self, wanted: Wanted<'_>, by: &ByHand) -> Result<InReach, OfferError> {
        let _in_use = self.using(wanted.server);
        tokio::select! {
            () = by.cancel.cancelled() => {
                let what = wanted.words();
                return Err(OfferError::GivenUp { what });
            }
            () = self.started(wanted.server) => {}
        }
        self.ready(wanted.server).await
    }

    /// Asks whoever approves for clients.
    async fn ask_for_client(
        &self,
        wanted: Wanted<'_>,
        rule: String,
        by: &ByHand,
    ) -> (Decided, Result<(), OfferError>) {
        let waits_as = OnceLock::new();
        let identity = self.identity(wanted.server);
        let arguments = json!(wanted.arguments.cloned().unwrap_or_default()).to_string();
        let question = FetchQuestion {
            run: self.run(),
            principal: wanted.principal,
            kind: wanted.kind,
            server: wanted.server,
            identity: identity.as_ref(),
            name: wanted.name,
            arguments: &arguments,
            rule: &rule,
            waits_as: &waits_as,
        };
        let answer = tokio::select! {
            () = by.cancel.cancelled() => None,
            answer = self.approver().ask_fetch(question) => Some(answer),
        };
        let what = wanted.words();
        let (by, reason, end) = match answer.map(Answer::heard) {
            None => (DecidedBy::Nobody, None, Err(OfferError::GivenUp { what })),
            Some((true, by, reason)) => (by, reason, Ok(())),
            Some((false, DecidedBy::Nobody, why)) => {
                let rule = rule.clone();
                let reason = why.clone();
                let nobody = OfferError::NobodyToAsk { what, rule, reason };
                (DecidedBy::Nobody, why, Err(nobody))
            }
            Some((false, by, reason)) => {
                let said = reason.clone();
                (by, said, Err(OfferError::Declined { what, reason }))
            }
        };
        let approval = waits_as.into_inner();
        let decided = Decided {
            by,
            rule,
            approval,
            reason,
        };
        (decided, end)
    }

    /// A server knows its own secrets, and may tell them.
    fn without_secrets(
        &self,
        wanted: Wanted<'_>,
        fetched: Result<Box<RawValue>, CallError>,
    ) -> Result<Box<RawValue>, OfferError> {
        match fetched {
            Ok(raw) => Ok(match self.redactor().redact_json(&raw) {
                Cow::Owned(clean) => clean,
                Cow::Borrowed(_) => raw,
            }),
            Err(error) => Err(OfferError::Fetch {
                what: wanted.words(),
                error,
            }),
        }
    }

    /// The one record of it.
    fn fetched(
        &self,
        wanted: Wanted<'_>,
        decided: Option<Decided>,
        bytes: Result<u64, OfferError>,
        began: Instant,
    ) {
        let outcome = match &bytes {
            Ok(_) => OutcomeKind::Completed,
            Err(error) => outcome(error),
        };
        let took_ms = match outcome {
            OutcomeKind::Rejected | OutcomeKind::NotSent => 0,
            _ => u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let error = bytes.as_ref().err().map(ToString::to_string);
        let (server, name) = (wanted.server.to_string(), wanted.name.to_owned());
        let asked_by = wanted.principal.as_str().to_owned();
        let by = decided.as_ref().map(|decided| decided.by);
        let (rule, approval, reason) = decided.map_or((None, None, None), |decided| {
            (Some(decided.rule), decided.approval, decided.reason)
        });
        let bytes = bytes.unwrap_or_default();
        self.run().record(match wanted.kind {
            OfferKind::Prompt => Event::PromptFetched {
                server,
                prompt: name,
                arguments: wanted.arguments.cloned().unwrap_or_default(),
                asked_by,
                by,
                rule,
                approval,
                reason,
                outcome,
                error,
                bytes,
                took_ms,
            },
            OfferKind::Resource => Event::ResourceRead {
                server,
                uri: name,
                asked_by,
                by,
                rule,
                approval,
                reason,
                outcome,
                error,
                bytes,
                took_ms,
            },
        });
    }
}

fn options(ready: &Ready, by: &ByHand) -> CallOptions {
    CallOptions {
        may_send: ready.last_look(by.may_send.clone()),
        cancel: by.cancel.clone(),
        deadline: by.deadline,
        caller: by.client,
        ..CallOptions::default()
    }
}

fn malformed(wanted: Wanted<'_>, reason: String) -> OfferError {
    OfferError::Malformed {
        what: wanted.words(),
        reason,
    }
}

fn outcome(error: &OfferError) -> OutcomeKind {
    match error {
        OfferError::Malformed { .. } => OutcomeKind::Violated,
        // It was ready before somebody was asked.
        OfferError::NotReady { .. } => OutcomeKind::NotSent,
        OfferError::Fetch { error, .. } => match error {
            CallError::NotSent(_) => OutcomeKind::NotSent,
            CallError::Malformed(_) => OutcomeKind::Violated,
            CallError::Rpc { .. } | CallError::Http { refused: true, .. } => OutcomeKind::Completed,
            _ => OutcomeKind::Unknown,
        },
        _ => OutcomeKind::Rejected,
    }
}
