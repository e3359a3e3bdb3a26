//! The life of one call: `prepare → hooks → authorize → dispatch → finish → hooks`, and exactly one end in the
//! journal whatever happens, also when the caller stops waiting. Every way in (agent, command line,
//! gateway, library) comes through [`Host::call`]; there is no other road to a server.

mod authorize;
mod contract;
mod dispatch;
mod finish;
mod hooked;
pub(crate) mod keep;
mod late;
mod prepare;
mod retell;
mod told;
mod unknown;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use outrigger_connect::{MaySend, Progress, ServerName};
use outrigger_journal::{ArtifactRef, CallRef, Event, HandedArtifact, Kept, OutcomeKind, Run};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(crate) use authorize::Sessions;
pub use authorize::{Permit, SAME_IS_UNKNOWN};
pub(crate) use contract::Broken;
pub use late::LateNote;
pub use retell::{KeptCall, Retold};
pub(crate) use unknown::Unknowns;
pub use unknown::{Repeat, RepeatKey};

use self::late::LateAnswers;
use self::told::Told;
use self::unknown::Open;
use crate::catalog::CatalogTool;
use crate::discovery::{self, Facility};
use crate::host::Host;
use crate::outcome::{CallOutcome, Rejection};
use crate::policy::{Origins, Principal};
use crate::toolset::Toolset;
use crate::words::{self, Checks, Words};

/// A call as somebody asked for it. Nothing has been checked.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// Model-facing name, as written.
    pub tool: String,
    /// JSON text of an object, as written; empty counts as `{}`.
    pub arguments: String,
    /// The turn that asked for it, for runs with a model.
    pub turn: Option<u32>,
}

/// How a call is to be made.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Gives up on the call; the server is told.
    pub cancel: CancellationToken,
    /// Instead of the server's own deadline.
    pub deadline: Option<Duration>,
    /// Whose call it is, as a number of the caller's choice: questions of the server that belong to it
    /// carry it.
    pub caller: Option<u64>,
    /// Who wants it, for rules that ask.
    pub principal: Principal,
    /// What the client calls itself, with its version, for the record; a client may call itself
    /// anything.
    pub client: Option<Arc<str>>,
    /// Hears the server's progress.
    pub on_progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Asked directly before anything of it is sent to the server; after a no nothing is.
    pub may_send: Option<MaySend>,
}

/// A finished call.
#[derive(Debug)]
pub struct CallReport {
    /// Its number within the run.
    pub call: u32,
    /// The tool's server and the server's own name for it; `None` when it was not found.
    pub tool: Option<(ServerName, String)>,
    /// What was or would have been sent, with the handles of artifacts in the places of their
    /// contents; `None` when that did not come to be.
    pub arguments: Option<Box<RawValue>>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The servers whose data may be among `words`; none when all of them are ours.
    pub origins: Origins,
    /// What the model reads about it.
    pub words: Vec<Words>,
    /// Hooks have changed them: what the server answered is not to be shown in their place.
    pub hooked: bool,
    /// One line for a person.
    pub summary: String,
    /// From sending to the end; zero when nothing was sent.
    pub took: Duration,
    told: Told,
}

impl Host {
    /// Makes one call out of the tools of `toolset`. One that asks for another through `call_tool` is
    /// that other call, here and in all that is written of it.
    pub async fn call(
        &self,
        toolset: &Toolset,
        proposed: ProposedCall,
        context: CallContext,
    ) -> CallReport {
        let (asked_for, principal) = (proposed.tool.clone(), context.principal);
        let proposed = discovery::unwrapped(toolset, proposed);
        let mut line = LedgerLine::open(self, &proposed, context.client.as_deref());
        let mut outcome = self.stages(toolset, &proposed, context, &mut line).await;
        line.reached(&outcome);
        if let Some(tool) = &line.tool {
            self.watch_contract(tool, &outcome);
        }
        let room = self.room(&proposed.tool, principal);
        self.keep(&mut outcome, &mut line, room).await;
        let mut telling = self.told(&line, asked_for != proposed.tool);
        let mut words = telling.words(self, &outcome);
        let summary = words::for_person(&outcome);
        let summary = self.redactor().redact(&summary).into_owned();
        let took = line.close(&outcome, &words, &summary);
        // Whatever becomes of the hooks, how the call ended is written.
        let mut shown = hooked::Shown {
            words: &mut words,
            remarks: telling.remarks(),
            framed: matches!(outcome, CallOutcome::Completed(_)),
            changed: false,
        };
        if let Some(tool) = &line.tool {
            let about = hooked::About {
                call: Some(line.call),
                turn: proposed.turn,
                tool,
                arguments: line.arguments.as_deref().unwrap_or(RawValue::NULL),
                outcome: outcome.kind(),
                is_error: outcome.is_error(),
            };
            self.after_call(&about, &mut shown).await;
        }
        telling.changed = shown.changed;
        let whose = (&telling.origins, telling.changed);
        self.hand_out(&outcome, whose, &mut words).await;
        CallReport {
            call: line.call,
            tool: line
                .tool
                .as_ref()
                .map(|tool| (tool.server.clone(), tool.raw_name.clone())),
            arguments: line.arguments.take(),
            origins: line.data_of(&outcome),
            outcome,
            words,
            hooked: telling.changed,
            summary,
            took,
            told: telling,
        }
    }

    /// Takes secrets out of what the model reads.
    fn clean(&self, words: &mut [Words]) {
        for words in words {
            if let Words::Text(text) = words
                && let Cow::Owned(clean) = self.redactor().redact(text)
            {
                *text = clean;
            }
        }
    }

    async fn stages(
        &self,
        toolset: &Toolset,
        proposed: &ProposedCall,
        context: CallContext,
        line: &mut LedgerLine,
    ) -> CallOutcome {
        if context.cancel.is_cancelled() {
            return CallOutcome::Rejected(Rejection::Cancelled);
        }
        let prepared = match self.prepare(toolset, proposed, context.principal).await {
            Ok(prepared) => prepared,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        line.prepared(&prepared);
        let asked = hooked::Asked {
            toolset,
            proposed,
            principal: context.principal,
            cancel: &context.cancel,
        };
        let prepared = match self.before_call(&asked, prepared, line).await {
            Ok(prepared) => prepared,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        let permit = match self.authorize(prepared, &context, line).await {
            Ok(permit) => permit,
            Err(rejection) => return CallOutcome::Rejected(rejection),
        };
        line.checks = self.checks(toolset, &proposed.tool);
        line.checks.sent = line.arguments.as_ref().map(|raw| raw.get().to_owned());
        if !self.policy().only_reads(permit.tool()) {
            line.checkable();
        }
        let outcome = match Facility::named(permit.tool().name.as_str()) {
            Some(facility) => self.answer(toolset, facility, permit, line).await,
            None => self.dispatch(permit, context, line).await,
        };
        for server in line.data_of(&outcome).servers() {
            self.came_from(server);
        }
        outcome
    }
}

/// The call's line in the ledger. Dropped without [`LedgerLine::close`] (the caller stopped
/// waiting), it still writes its one end.
pub(crate) struct LedgerLine {
    run: Run,
    call: u32,
    server: Option<ServerName>,
    tool: Option<Arc<CatalogTool>>,
    arguments: Option<Box<RawValue>>,
    /// Whose data the result is.
    origins: Origins,
    sent: Option<Instant>,
    answered: Option<Box<RawValue>>,
    kept: Option<Kept>,
    artifacts: Vec<ArtifactRef>,
    /// How it ended, as soon as that is known.
    reached: Option<(OutcomeKind, bool, String)>,
    late: Arc<LateAnswers>,
    /// What helps when nobody knows what came of it.
    checks: Checks,
    unknowns: Arc<Unknowns>,
    proposed_at: Timestamp,
    closed: bool,
}

impl LedgerLine {
    fn open(host: &Host, proposed: &ProposedCall, client: Option<&str>) -> Self {
        let (run, call) = (host.run(), host.next_call());
        let unknowns = Arc::clone(host.unknowns());
        let late = LateAnswers::new(run.clone(), Arc::clone(&unknowns), call, proposed.turn);
        run.record(Event::CallProposed {
            call,
            turn: proposed.turn,
            tool: proposed.tool.clone(),
            arguments: proposed.arguments.clone(),
            client: client.map(ToOwned::to_owned),
        });
        Self {
            run: run.clone(),
            call,
            server: None,
            tool: None,
            arguments: None,
            origins: Origins::default(),
            sent: None,
            answered: None,
            kept: None,
            artifacts: Vec::new(),
            reached: None,
            late: Arc::new(late),
            checks: Checks::default(),
            unknowns,
            proposed_at: Timestamp::now(),
            closed: false,
        }
    }

    fn prepared(&mut self, prepared: &prepare::Prepared) {
        self.server = Some(prepared.tool.server.clone());
        self.tool = Some(Arc::clone(&prepared.tool));
        self.arguments = Some(prepared.arguments.raw.clone());
        self.origins = prepared.origins.clone();
        let handed = prepared.arguments.artifacts.iter();
        self.run.record(Event::CallPrepared {
            call: self.call,
            server: prepared.tool.server.to_string(),
            raw_tool: prepared.tool.raw_name.clone(),
            arguments: prepared.arguments.raw.clone(),
            repairs: prepared.arguments.repairs.clone(),
            artifacts: handed
                .map(|given| HandedArtifact {
                    artifact: given.artifact.clone(),
                    origins: given.origins.servers().map(ToOwned::to_owned).collect(),
                })
                .collect(),
        });
    }

    /// It is known how the call ends; what is left to do may be given up on.
    fn reached(&mut self, outcome: &CallOutcome) {
        if let CallOutcome::Completed(result) = outcome {
            let raw = result.raw.here();
            self.answered = raw
                .filter(|raw| raw.get().len() <= keep::RECORDED)
                .map(ToOwned::to_owned);
        }
        let summary = self
            .run
            .redactor()
            .redact(&words::for_person(outcome))
            .into_owned();
        self.reached = Some((outcome.kind(), outcome.is_error(), summary));
    }

    /// The servers whose words can be among what is told of the outcome. The host's own tools tell of
    /// definitions, as declarations do; those are no data of a call.
    fn data_of(&self, outcome: &CallOutcome) -> Origins {
        let tool = self.tool.as_ref();
        let ours = tool.is_some_and(|tool| Facility::named(tool.name.as_str()).is_some());
        if ours || matches!(outcome, CallOutcome::Rejected(_)) {
            return Origins::default();
        }
        self.origins.clone()
    }

    /// Writes down how one could look what came of the call, for whoever finds that nobody knows.
    fn checkable(&mut self) {
        let tools = match &self.checks.trusted[..] {
            [] => self.checks.claimed.clone(),
            trusted => trusted.to_vec(),
        };
        if !tools.is_empty() {
            self.run.record(Event::CallCheckable {
                call: self.call,
                tools,
            });
        }
    }

    fn close(&mut self, outcome: &CallOutcome, words: &[Words], summary: &str) -> Duration {
        let tokens = words.iter().map(|words| match words {
            Words::Text(text) => crate::tokens::estimate(text),
            Words::Image { .. } => keep::IMAGE_TOKENS,
        });
        self.end(
            outcome.kind(),
            outcome.is_error(),
            summary.to_owned(),
            tokens.sum(),
        )
    }

    fn end(
        &mut self,
        outcome: OutcomeKind,
        is_error: bool,
        summary: String,
        tokens: u64,
    ) -> Duration {
        let took = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
        self.closed = true;
        if outcome == OutcomeKind::Unknown {
            self.remember(&summary);
        }
        self.run.record(Event::CallEnded {
            call: self.call,
            outcome,
            is_error,
            summary,
            result: self.answered.take(),
            kept: self.kept.take(),
            artifacts: std::mem::take(&mut self.artifacts),
            tokens,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        self.late.ended(outcome);
        took
    }

    /// So that a call which repeats it is recognised.
    fn remember(&self, why: &str) {
        let (Some(tool), Some(arguments)) = (&self.tool, &self.arguments) else {
            return;
        };
        self.unknowns.add(Open {
            of: CallRef {
                run: self.run.id().clone(),
                call: self.call,
            },
            at: self.proposed_at,
            tool: tool.name.to_string(),
            arguments: arguments.get().to_owned(),
            why: why.to_owned(),
        });
    }
}

impl Drop for LedgerLine {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        if let Some((kind, is_error, summary)) = self.reached.take() {
            self.end(kind, is_error, summary, 0);
            return;
        }
        let (kind, summary) = match self.sent {
            Some(_) => (
                OutcomeKind::Unknown,
                "outcome unknown: the host stopped waiting for the answer",
            ),
            None => (
                OutcomeKind::Rejected,
                "the host stopped before anything was sent",
            ),
        };
        self.end(kind, true, summary.to_owned(), 0);
    }
}
