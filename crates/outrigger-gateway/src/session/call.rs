//! `tools/call`, of both eras.
//!
//! Promises: one call of the host for each call of a client, however many rounds of questions it takes. A
//! client of the modern era that goes away gives its call up; one of the legacy era has to say so.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_connect::Progress;
use outrigger_host::offers::OfferError;
use outrigger_host::outcome::{CallOutcome, Rejection};
use outrigger_host::policy::Principal;
use outrigger_host::{CallContext, CallReport, ProposedCall};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Session, Task, busy};
use crate::answer;
use crate::client::{Client, Meta};
use crate::flight::{Ask, Flight};
use crate::message::{self, Fault};
use crate::outlet::Reply;
use crate::reason;
use crate::tasks::{self, Answered, Answers, Question};
use crate::view::Entry;

/// Questions within this time are put to the client together.
pub(super) const TOGETHER: Duration = Duration::from_millis(5);
/// A call that takes longer than this becomes a task, where its client takes one for an answer.
const LONG: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "inputResponses", default)]
    answers: Option<Answers>,
    #[serde(rename = "requestState", default)]
    state: Option<String>,
    /// The client wants it to be a task (MCP 2025-11-25, "Tasks").
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
}

/// For how long a task is to be kept.
#[derive(Deserialize)]
struct Lasting {
    #[serde(rename = "ttl", default)]
    milliseconds: Option<u64>,
}

/// A call that is being made.
pub(crate) struct Made {
    /// What its client wants: the method, and a name or an address.
    subject: (String, String),
    /// Where its name leads.
    entry: Option<Entry>,
    pub(super) flight: Arc<Flight>,
    pub(super) ended: oneshot::Receiver<Ended>,
    pub(super) cancel: CancellationToken,
    began: Instant,
    /// Questions that are put to the client in results; `None` where it is asked by requests.
    pub(super) asked: Option<mpsc::Receiver<Ask>>,
    /// Those that were put to it, by our name for each.
    pub(super) open: Vec<(String, Ask)>,
    /// The names of all that were ever put to it.
    names: HashSet<String>,
}

/// What came of it.
pub(crate) enum Ended {
    Call(Box<CallReport>),
    Fetch(Result<Box<RawValue>, OfferError>),
}

impl Session {
    pub(super) async fn call(self: &Arc<Self>, task: Task) {
        let reply = match self.answer(&task).await {
            Ok(reply) => reply,
            Err(fault) => Some(fault.reply(Some(&task.id))),
        };
        if let Some(reply) = reply {
            task.outlet.end(reply).await;
        }
    }

    async fn answer(self: &Arc<Self>, task: &Task) -> Result<Option<Reply>, Fault> {
        let text = task.params.as_deref().map_or("null", RawValue::get);
        let params: Params<'_> = serde_json::from_str(text)
            .map_err(|error| Fault::params(format!("`tools/call` cannot be read: {error}")))?;
        let progress = Meta::of(task.params.as_deref()).and_then(|meta| meta.progress);
        let mut made = match &params.state {
            Some(state) if task.client.modern => {
                let subject = (task.method.as_str(), params.name.as_str());
                self.resume(task, subject, (state, params.answers.unwrap_or_default()))?
            }
            _ => {
                // A member that the modern era does not know.
                let wanted = params.task.filter(|_| !task.client.modern);
                let lasts = wanted.map(lasting).transpose()?;
                let made = self.make(task, params, progress, lasts.is_some()).await?;
                if let Some(lasts) = lasts {
                    return self.begin_task(task, made, lasts).map(Some);
                }
                made
            }
        };
        self.drive(task, &mut made).await
    }

    /// Takes up what was left for its client's answers.
    pub(super) fn resume(
        &self,
        task: &Task,
        (method, name): (&str, &str),
        (state, answers): (&str, Answers),
    ) -> Result<Made, Fault> {
        let fits = |made: &Made| made.subject.0 == method && made.subject.1 == name;
        let mut made = self.core.parked.take(state, fits).ok_or_else(|| {
            Fault::params("`requestState` is none that was given for this, or was used before")
        })?;
        let progress = Meta::of(task.params.as_deref()).and_then(|meta| meta.progress);
        made.flight.goes_on(task.outlet.clone(), progress);
        made.take(answers);
        Ok(made)
    }

    /// Begins a call.
    async fn make(
        self: &Arc<Self>,
        task: &Task,
        params: Params<'_>,
        progress: Option<&RawValue>,
        as_task: bool,
    ) -> Result<Made, Fault> {
        let core = &self.core;
        let entry = self.lead(task, &params.name).await;
        let server = entry.as_ref().map(|entry| &entry.server);
        let slot = core.enter(server, (&task.cancel, &self.pass)).await?;
        let host_name = entry.as_ref().map_or(&params.name, |entry| &entry.host);
        let (flight, asked) = self.flight(task, progress, as_task);
        let known = core.clients.enter(Arc::clone(&flight));
        let cancel = core.abort.child_token();
        let (heard, pass) = (Arc::clone(&flight), self.pass().clone());
        let context = CallContext {
            cancel: cancel.clone(),
            deadline: None,
            caller: Some(known.number),
            principal: Principal::Client,
            client: task.client.name.clone(),
            on_progress: Some(Arc::new(move |progress: Progress| {
                heard.progressed(&progress);
            })),
            may_send: Some(Arc::new(move || !pass.is_over())),
        };
        let proposed = ProposedCall {
            tool: host_name.clone(),
            arguments: params.arguments.map_or("", RawValue::get).to_owned(),
            turn: None,
        };
        let (done, ended) = oneshot::channel();
        let (host, toolset) = core.views.for_call();
        // The call goes on without its client, so that how it ended is written.
        core.tasks.spawn(async move {
            let call = Box::pin(host.call(&toolset, proposed, context));
            let report = known.make(call).await;
            drop((known, slot));
            let _ = done.send(Ended::Call(Box::new(report)));
        });
        let made = Made::new(
            (task.method.clone(), params.name),
            (flight, asked),
            ended,
            cancel,
        );
        Ok(Made { entry, ..made })
    }

    /// How the client of a request is reached while it is under way.
    pub(super) fn flight(
        self: &Arc<Self>,
        task: &Task,
        progress: Option<&RawValue>,
        as_task: bool,
    ) -> (Arc<Flight>, Option<mpsc::Receiver<Ask>>) {
        let (client, outlet) = (Arc::clone(&task.client), task.outlet.clone());
        if client.modern || as_task {
            let (flight, asked) = Flight::of_rounds(self, client, outlet, progress);
            (Arc::new(flight), Some(asked))
        } else {
            (
                Arc::new(Flight::of_session(self, client, outlet, progress)),
                None,
            )
        }
    }

    /// From here to an answer: the call's end, questions, or a task.
    pub(super) async fn drive(
        self: &Arc<Self>,
        task: &Task,
        made: &mut Made,
    ) -> Result<Option<Reply>, Fault> {
        if !made.open.is_empty() {
            return self.park(task, made).map(Some);
        }
        let takes_tasks = task.client.tasks && task.method == "tools/call";
        let long = tokio::time::sleep_until((made.began + LONG).into());
        tokio::pin!(long);
        let mut waits = takes_tasks;
        loop {
            tokio::select! {
                biased;
                ended = &mut made.ended => {
                    let asker = (&*task.id, &*task.client);
                    return match ended {
                        Ok(Ended::Call(report)) => self.told(asker, made, &report).await,
                        Ok(Ended::Fetch(fetched)) => super::fetch::fetched(task, fetched),
                        Err(_) => Err(Fault::new(message::FAILED, "the gateway is ending")),
                    };
                }
                Some(ask) = next(&mut made.asked) => {
                    // Those that were asked with it come at once.
                    tokio::time::sleep(TOGETHER).await;
                    made.ask(ask);
                    return self.park(task, made).map(Some);
                }
                () = task.cancel.cancelled(), if !made.cancel.is_cancelled() => made.cancel.cancel(),
                () = &mut long, if waits => {
                    waits = false;
                    if let Some(reply) = self.hand_over(task, made) {
                        return Ok(Some(reply));
                    }
                }
            }
        }
    }

    /// What the client is told of the end of its call; `None`: nothing, since it gave the call up.
    pub(super) async fn told(
        &self,
        (id, client): (&RawValue, &Client),
        made: &Made,
        report: &CallReport,
    ) -> Result<Option<Reply>, Fault> {
        if let Some(fault) = missing(made, client, report) {
            return Err(fault);
        }
        let view = self.core.views.current();
        let entry = made.entry.as_ref();
        let missing = if is_unknown(report) {
            self.why_missing(entry, &made.subject.1)
        } else {
            None
        };
        let state = entry.and_then(|entry| self.core.host().watch(&entry.server));
        let state = state.map(|state| state.borrow().clone());
        let asked = answer::Asked {
            id,
            modern: client.modern,
            view: &view,
            reason: reason::of(&report.outcome, state.as_ref()),
        };
        let whole = match &report.outcome {
            CallOutcome::Completed(result) => self.core.host().whole(result).await,
            _ => Ok(Cow::Borrowed(RawValue::NULL)),
        };
        let whole = whole.map_err(|error| {
            let what = format!("the call was made, and its answer cannot be read again: {error}");
            Fault::new(-32603, what)
        })?;
        Ok(asked.answer((report, &whole), missing.as_ref()))
    }

    /// Puts the open questions to the client, which is to come back.
    fn park(&self, task: &Task, made: &mut Made) -> Result<Reply, Fault> {
        let questions = tasks::asked(&made.questions());
        let parked = made.taken();
        let state = self.core.parked.put(parked);
        let state =
            state.ok_or_else(|| busy("too many calls wait for answers of their clients"))?;
        let result = format!(
            "{{\"resultType\":\"input_required\",\"inputRequests\":{questions},\"requestState\":\"{state}\"}}"
        );
        Ok(message::result(&task.id, &result))
    }
}

impl Made {
    pub(super) fn new(
        subject: (String, String),
        (flight, asked): (Arc<Flight>, Option<mpsc::Receiver<Ask>>),
        ended: oneshot::Receiver<Ended>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            subject,
            entry: None,
            flight,
            ended,
            cancel,
            began: Instant::now(),
            asked,
            open: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// All of it, for somebody else to go on with.
    pub(super) fn taken(&mut self) -> Self {
        Self {
            subject: self.subject.clone(),
            entry: self.entry.clone(),
            flight: Arc::clone(&self.flight),
            ended: std::mem::replace(&mut self.ended, oneshot::channel().1),
            cancel: self.cancel.clone(),
            began: self.began,
            asked: self.asked.take(),
            open: std::mem::take(&mut self.open),
            names: std::mem::take(&mut self.names),
        }
    }

    /// The questions that are open, as they are put to the client.
    pub(super) fn questions(&self) -> Vec<Question> {
        let question = |(name, ask): &(String, Ask)| Question {
            name: name.clone(),
            method: ask.method,
            params: ask.params.clone(),
        };
        self.open.iter().map(question).collect()
    }

    pub(super) fn ask(&mut self, first: Ask) {
        let mut more = vec![first];
        while let Some(Ok(ask)) = self.asked.as_mut().map(mpsc::Receiver::try_recv) {
            more.push(ask);
        }
        for ask in more {
            // A name is used once in the life of a call, so that no answer is taken for another's.
            let number = self.names.len() + 1;
            let named = ask.name.clone().filter(|name| !self.names.contains(name));
            let mut name = named.unwrap_or_else(|| format!("question-{number}"));
            while !self.names.insert(name.clone()) {
                name.push('+');
            }
            self.open.push((name, ask));
        }
    }

    /// The same with those that the client has refused to answer: who asked is told that nobody does.
    pub(super) fn take_some(&mut self, answers: Answered) {
        self.open
            .retain(|(name, _)| !matches!(answers.get(name), Some(None)));
        let given = answers.into_iter();
        self.take(given.filter_map(|(name, raw)| Some((name, raw?))).collect());
    }

    /// Hands answers to who asked. What was not answered stays open.
    pub(super) fn take(&mut self, mut answers: Answers) {
        for (name, ask) in std::mem::take(&mut self.open) {
            match answers.remove(&name) {
                Some(answer) => drop(ask.answer.send(answer)),
                None if ask.answer.is_closed() => {}
                None => self.open.push((name, ask)),
            }
        }
    }
}

/// For how long a task is wanted, where that is said.
fn lasting(task: &RawValue) -> Result<Option<Duration>, Fault> {
    let read = serde_json::from_str::<Lasting>(task.get());
    let Lasting { milliseconds } =
        read.map_err(|error| Fault::params(format!("`task` cannot be read: {error}")))?;
    Ok(milliseconds.map(Duration::from_millis))
}

/// A call that came to nothing because a client of the modern era cannot be asked (MCP 2026-07-28,
/// "Missing Required Client Capability").
fn missing(made: &Made, client: &Client, report: &CallReport) -> Option<Fault> {
    let completed = matches!(report.outcome, CallOutcome::Completed(_));
    let capability = made
        .flight
        .lacks()
        .filter(|_| client.modern && !completed)?;
    let words = format!("the tool needs a client with the capability `{capability}`");
    let mut fault = Fault::new(message::MISSING_CAPABILITY, words);
    fault.data = Some(json!({ "requiredCapabilities": { capability: {} } }));
    Some(fault)
}

/// The host knows no such tool.
fn is_unknown(report: &CallReport) -> bool {
    matches!(
        report.outcome,
        CallOutcome::Rejected(Rejection::UnknownTool { .. })
    )
}

pub(super) async fn next(asked: &mut Option<mpsc::Receiver<Ask>>) -> Option<Ask> {
    match asked {
        Some(asked) => asked.recv().await,
        None => None,
    }
}
