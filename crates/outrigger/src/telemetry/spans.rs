//! The spans of a run: run, turns, requests to the model, calls, questions of servers, connections.
//!
//! Promises: every span that is begun ends, by the end of the run at the latest; times are those of
//! the recorded events; words of people, models and servers are attributes only where content is
//! wanted. What is recorded has passed the redactor, so no attribute holds a known secret.
//!
//! Source: OpenTelemetry semantic conventions for generative AI (spans, agent spans) and for MCP.

mod attributes;
mod calls;
mod servers;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use outrigger_connect::TraceContext;
use outrigger_host::Traces;
use outrigger_host::config::Config;
use outrigger_journal::{Event, Observer, QuestionAnswer, Recorded, RunStatus, Tokens};

use self::attributes as key;
use self::servers::Servers;
use super::{messages, parent};

/// Questions whose methods are known; others are named alike, so that a server cannot make up names.
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// Makes spans of the events of one run.
pub(super) struct Spans {
    tracer: SdkTracer,
    /// What the run is a child of.
    above: Context,
    /// What people, models and servers wrote is wanted.
    content: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    servers: Servers,
    run: Context,
    model: Option<String>,
    turn: Option<(u32, Context)>,
    /// The request to the model that is under way.
    asking: Option<Context>,
    calls: HashMap<u32, Call>,
}

/// A call, also after its end: a late answer belongs to it.
struct Call {
    span: Context,
    server: Option<String>,
    tool: Option<String>,
}

impl Spans {
    pub(super) fn new(tracer: SdkTracer, above: Context, config: &Config, content: bool) -> Self {
        let state = State {
            servers: Servers::of(config),
            ..State::default()
        };
        Self {
            tracer,
            above,
            content,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a span.
    fn begin(
        &self,
        (name, kind): (String, SpanKind),
        under: &Context,
        at: SystemTime,
        attributes: Vec<KeyValue>,
    ) -> Context {
        let builder = self
            .tracer
            .span_builder(name)
            .with_kind(kind)
            .with_start_time(at)
            .with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, under);
        Context::new().with_span(span)
    }

    /// An attribute that holds what somebody wrote.
    fn written(&self, key: &'static str, text: impl FnOnce() -> String) -> Option<KeyValue> {
        self.content.then(|| KeyValue::new(key, text()))
    }

    fn run_started(&self, recorded: &Recorded, at: SystemTime) {
        let Event::RunStarted {
            command,
            question,
            model,
            ..
        } = &recorded.event
        else {
            return;
        };
        let mut state = self.state();
        let mut attributes = vec![
            KeyValue::new(key::COMMAND, command.clone()),
            KeyValue::new(key::RUN, recorded.run.to_string()),
        ];
        let name = match model {
            Some(model) => {
                attributes.extend(attributes::agent(recorded.run.as_str(), model));
                "invoke_agent outrigger".to_owned()
            }
            None => format!("outrigger {command}"),
        };
        attributes.extend(
            question
                .as_ref()
                .and_then(|question| self.written(key::INPUT, || messages::asked(question))),
        );
        state.model.clone_from(model);
        state.run = self.begin((name, SpanKind::Internal), &self.above, at, attributes);
    }

    fn run_ended(&self, event: &Event, at: SystemTime) {
        let Event::RunEnded {
            status,
            answer,
            usage,
            ..
        } = event
        else {
            return;
        };
        let mut state = self.state();
        state.end_turn(at, Some(status.as_str()));
        for (_, call) in state.calls.drain() {
            call.span.span().end_with_timestamp(at);
        }
        let span = state.run.span();
        span.set_attribute(KeyValue::new(key::STATUS, status.as_str()));
        if *usage != Tokens::default() {
            span.set_attributes(attributes::usage(usage));
        }
        let answer = answer.as_ref();
        span.set_attributes(
            answer
                .and_then(|answer| self.written(key::OUTPUT, || messages::answered(answer, false))),
        );
        if *status != RunStatus::Done {
            failed(&state.run, status.as_str());
        }
        span.end_with_timestamp(at);
    }

    fn on_turn(&self, event: &Event, at: SystemTime) {
        let mut state = self.state();
        match event {
            Event::TurnStarted { turn, tools, .. } => {
                state.end_turn(at, None);
                let attributes = vec![
                    KeyValue::new(key::TURN, i64::from(*turn)),
                    KeyValue::new(key::TOOLS, number(*tools)),
                ];
                let name = ("turn".to_owned(), SpanKind::Internal);
                let here = self.begin(name, &state.run, at, attributes);
                let model = state.model.as_deref().unwrap_or_default();
                let (name, kind) = attributes::chat(model);
                let asking = self.begin((name, kind), &here, at, attributes::model(model));
                state.asking = Some(asking);
                state.turn = Some((*turn, here));
            }
            Event::ModelRetry {
                attempt,
                wait_ms,
                reason,
                ..
            } => {
                let Some(asking) = &state.asking else {
                    return;
                };
                let attributes = vec![
                    KeyValue::new(key::ATTEMPT, i64::from(*attempt)),
                    KeyValue::new(key::WAIT, number(*wait_ms)),
                    KeyValue::new(key::REASON, reason.clone()),
                ];
                asking
                    .span()
                    .add_event_with_timestamp("retry", at, attributes);
            }
            Event::ModelAnswered {
                text, calls, usage, ..
            } => {
                let Some(asking) = state.asking.take() else {
                    return;
                };
                let span = asking.span();
                span.set_attributes(attributes::usage(usage));
                span.set_attributes(
                    self.written(key::OUTPUT, || messages::answered(text, *calls > 0)),
                );
                span.end_with_timestamp(at);
                if *calls == 0 {
                    state.end_turn(at, None);
                }
            }
            _ => {}
        }
    }

    fn on_server(&self, event: &Event, at: SystemTime) {
        let mut state = self.state();
        match event {
            Event::ServerReady {
                server,
                era,
                protocol_version,
                took_ms,
                ..
            } => {
                state.servers.speaks(server, protocol_version);
                let began = earlier(at, *took_ms);
                let mut attributes = state.servers.attributes(server);
                attributes.push(KeyValue::new(key::ERA, era.clone()));
                let name = ("connect".to_owned(), SpanKind::Internal);
                let span = self.begin(name, &state.run, began, attributes);
                span.span().end_with_timestamp(at);
            }
            Event::ServerFailed { server, stage, .. } => {
                let attributes = state.servers.attributes(server);
                let name = ("connect".to_owned(), SpanKind::Internal);
                let span = self.begin(name, &state.run, at, attributes);
                failed(&span, stage);
                span.span().end_with_timestamp(at);
            }
            Event::ServerEnded { server, .. } => {
                let attributes = vec![KeyValue::new(key::SERVER, server.clone())];
                let span = state.run.span();
                span.add_event_with_timestamp("server ended", at, attributes);
            }
            _ => {}
        }
    }

    /// A question is known when it has ended.
    fn question(&self, event: &Event, at: SystemTime) {
        let Event::QuestionEnded {
            server,
            tool,
            method,
            answer,
            traceparent,
            took_ms,
            ..
        } = event
        else {
            return;
        };
        let state = self.state();
        let said = traceparent
            .as_ref()
            .and_then(|said| TraceContext::new(said, None));
        let said = said.map(|said| parent::span_context(&said));
        let here = state.during(server, tool.as_deref());
        // Within this trace the server knows best; another trace is only pointed at.
        let ours =
            |said: &SpanContext| said.trace_id() == state.run.span().span_context().trace_id();
        let (under, link) = match said {
            Some(said) if ours(&said) => (Context::new().with_remote_span_context(said), None),
            said => (here, said),
        };
        let known = QUESTIONS.contains(&method.as_str());
        let name = if known { method } else { "question" };
        let mut attributes = state.servers.attributes(server);
        attributes.push(KeyValue::new(key::METHOD, name.to_owned()));
        attributes.push(KeyValue::new(key::ANSWER, answer.as_str()));
        attributes.extend(
            tool.iter()
                .map(|tool| KeyValue::new(key::TOOL, tool.clone())),
        );
        let builder = self
            .tracer
            .span_builder(name.to_owned())
            .with_kind(SpanKind::Server)
            .with_start_time(earlier(at, took_ms.unwrap_or_default()))
            .with_attributes(attributes)
            .with_links(
                link.into_iter()
                    .map(|said| Link::new(said, Vec::new(), 0))
                    .collect(),
            );
        let mut span = self.tracer.build_with_context(builder, &under);
        if *answer == QuestionAnswer::Refused {
            span.set_attribute(KeyValue::new(key::ERROR, answer.as_str()));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(at);
    }
}

impl State {
    /// Ends the turn and what is under way in it; `error` says why the model has not answered.
    fn end_turn(&mut self, at: SystemTime, error: Option<&str>) {
        if let Some(asking) = self.asking.take() {
            failed(&asking, error.unwrap_or("_OTHER"));
            asking.span().end_with_timestamp(at);
        }
        if let Some((_, turn)) = self.turn.take() {
            turn.span().end_with_timestamp(at);
        }
    }

    /// The call that a question of a server belongs to, else the run.
    fn during(&self, server: &str, tool: Option<&str>) -> Context {
        let calls = self.calls.values().filter(|call| {
            call.span.span().is_recording()
                && call.server.as_deref() == Some(server)
                && (tool.is_none() || call.tool.as_deref() == tool)
        });
        let calls: Vec<_> = calls.collect();
        match calls.as_slice() {
            [call] => call.span.clone(),
            _ => self.run.clone(),
        }
    }
}

/// `error.type`, and the status that goes with it.
fn failed(span: &Context, kind: &str) {
    span.span()
        .set_attribute(KeyValue::new(key::ERROR, kind.to_owned()));
    span.span().set_status(Status::error(""));
}

fn earlier(at: SystemTime, millis: u64) -> SystemTime {
    at.checked_sub(Duration::from_millis(millis)).unwrap_or(at)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Observer for Spans {
    fn observe(&self, recorded: &Recorded) {
        let since = recorded.at.as_duration().unsigned_abs();
        let at = SystemTime::UNIX_EPOCH + since;
        let event = &recorded.event;
        match event {
            Event::RunStarted { .. } => self.run_started(recorded, at),
            Event::RunEnded { .. } => self.run_ended(event, at),
            Event::TurnStarted { .. } | Event::ModelRetry { .. } | Event::ModelAnswered { .. } => {
                self.on_turn(event, at);
            }
            Event::ServerReady { .. } | Event::ServerFailed { .. } | Event::ServerEnded { .. } => {
                self.on_server(event, at);
            }
            Event::QuestionEnded { .. } => self.question(event, at),
            _ => self.on_call(event, at),
        }
    }
}

impl Traces for Spans {
    fn of_call(&self, call: u32) -> Option<TraceContext> {
        let state = self.state();
        parent::place(state.calls.get(&call)?.span.span().span_context())
    }

    /// The last one stands: the request that was answered.
    fn sent(&self, call: u32, request: &str) {
        if let Some(call) = self.state().calls.get(&call) {
            let id = KeyValue::new(key::REQUEST, request.to_owned());
            call.span.span().set_attribute(id);
        }
    }
}
