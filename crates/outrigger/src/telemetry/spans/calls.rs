//! Calls: one span for each, from its proposal to its end, with what was decided on the way.

use std::time::SystemTime;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, TraceContextExt as _};
use outrigger_journal::{Event, OutcomeKind};

use super::attributes::{self, self as key};
use super::{Call, Spans, failed};
use crate::telemetry::messages;

impl Spans {
    pub(super) fn on_call(&self, event: &Event, at: SystemTime) {
        match event {
            Event::CallProposed { call, turn, .. } => {
                let mut state = self.state();
                let under = match &state.turn {
                    Some((number, here)) if Some(*number) == *turn => here.clone(),
                    _ => state.run.clone(),
                };
                let attributes = attributes::call(*call);
                let name = ("execute_tool".to_owned(), SpanKind::Client);
                let span = self.begin(name, &under, at, attributes);
                let (server, tool) = (None, None);
                state.calls.insert(*call, Call { span, server, tool });
            }
            Event::CallPrepared {
                call,
                server,
                raw_tool,
                arguments,
                ..
            } => {
                let mut state = self.state();
                let mut attributes = state.servers.attributes(server);
                attributes.push(KeyValue::new(key::TOOL, raw_tool.clone()));
                attributes.extend(self.written(key::ARGUMENTS, || messages::cut(arguments.get())));
                if let Some(call) = state.calls.get_mut(call) {
                    call.server = Some(server.clone());
                    call.tool = Some(raw_tool.clone());
                    call.span
                        .span()
                        .update_name(format!("execute_tool {raw_tool}"));
                    call.span.span().set_attributes(attributes);
                }
            }
            Event::CallEnded { .. } | Event::LateAnswer { .. } => self.call_ended(event, at),
            _ => self.within_call(event, at),
        }
    }

    /// What happens to a call between its proposal and its end.
    fn within_call(&self, event: &Event, at: SystemTime) {
        let (call, name, attributes) = match event {
            Event::CallDecided {
                call,
                allowed,
                rule,
                by,
                ..
            } => {
                let by = serde_json::to_value(by).unwrap_or_default();
                let attributes = vec![
                    KeyValue::new(key::ALLOWED, *allowed),
                    KeyValue::new(key::RULE, rule.clone()),
                    KeyValue::new(key::DECIDED_BY, by.as_str().unwrap_or_default().to_owned()),
                ];
                (call, "decided", attributes)
            }
            Event::HookRan {
                call: Some(call),
                hook,
                said,
                changed,
                ..
            } => {
                let attributes = vec![
                    KeyValue::new(key::HOOK, hook.clone()),
                    KeyValue::new(key::SAID, said.as_str()),
                    KeyValue::new(key::CHANGED, *changed),
                ];
                (call, "hook", attributes)
            }
            Event::CallIntent { call } => (call, "intent", Vec::new()),
            _ => return,
        };
        if let Some(call) = self.state().calls.get(call) {
            let span = call.span.span();
            span.add_event_with_timestamp(name, at, attributes);
            if name == "intent" {
                span.set_attribute(KeyValue::new(key::METHOD, "tools/call"));
            }
        }
    }

    fn call_ended(&self, event: &Event, at: SystemTime) {
        let (call, outcome, result) = match event {
            Event::CallEnded {
                call,
                outcome,
                result,
                ..
            }
            | Event::LateAnswer {
                call,
                outcome,
                result,
                ..
            } => (call, *outcome, result.as_deref()),
            _ => return,
        };
        let is_error = match event {
            Event::CallEnded { is_error, .. } => *is_error,
            _ => false,
        };
        let state = self.state();
        let Some(call) = state.calls.get(call) else {
            return;
        };
        let answered = attributes::error_code(result);
        let mut attributes = vec![KeyValue::new(key::OUTCOME, outcome.as_str())];
        attributes.extend(answered.map(|code| KeyValue::new(key::RPC_STATUS, code.to_string())));
        attributes.extend(
            result.and_then(|result| self.written(key::RESULT, || messages::cut(result.get()))),
        );
        let error = match outcome {
            OutcomeKind::Completed if !is_error => None,
            OutcomeKind::Completed => {
                Some(answered.map_or_else(|| "tool_error".to_owned(), |code| code.to_string()))
            }
            other => Some(other.as_str().to_owned()),
        };
        let late = matches!(event, Event::LateAnswer { .. });
        let span = if late {
            let name = ("late answer".to_owned(), SpanKind::Internal);
            self.begin(name, &call.span, at, Vec::new())
        } else {
            call.span.clone()
        };
        span.span().set_attributes(attributes);
        if let Some(error) = error {
            failed(&span, &error);
        }
        span.span().end_with_timestamp(at);
    }
}
