//! Redaction of events. Every field is named, so that a new one does not compile until it is
//! decided about here.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Redactor;
use crate::Event;

impl Redactor {
    /// Redacts every string and JSON value of an event in place.
    pub fn redact_event(&self, event: &mut Event) {
        if self.is_empty() {
            return;
        }
        match event {
            Event::RunStarted {
                command,
                question,
                model,
                workspace,
                version,
                principal,
            } => {
                self.texts([command, workspace, version]);
                self.texts([question, model, principal].into_iter().flatten());
            }
            Event::RunEnded {
                reason,
                answer,
                status: _,
                usage: _,
            } => self.texts([reason, answer].into_iter().flatten()),
            Event::MessageAdded { .. } => self.message_event(event),
            Event::RunResumed { from: _ }
            | Event::TurnStarted {
                turn: _,
                revision: _,
                tools: _,
                deferred: _,
                tokens: _,
            } => {}
            Event::ModelRetry { .. }
            | Event::ModelAnswered { .. }
            | Event::ProviderSearchUnused { .. } => self.model_event(event),
            Event::PersonSaid { text } => self.text(text),
            Event::HookRan { .. } => self.hook_event(event),
            Event::ServerReady { .. }
            | Event::ServerFailed { .. }
            | Event::ServerEnded { .. }
            | Event::ServerWarned { .. }
            | Event::ToolSetAside { .. }
            | Event::ConfigurationRead { .. }
            | Event::QuestionEnded { .. } => {
                self.server_event(event);
            }
            Event::FetchWaits { .. } | Event::PromptFetched { .. } | Event::ResourceRead { .. } => {
                self.offer_event(event);
            }
            Event::CallProposed { .. }
            | Event::CallPrepared { .. }
            | Event::CallWaits { .. }
            | Event::CallDecided { .. }
            | Event::CallIntent { .. }
            | Event::CallEnded { .. }
            | Event::LateAnswer { .. } => self.call_event(event),
            Event::CallCheckable { .. } | Event::CallRetried { .. } | Event::CallSettled { .. } => {
                self.repeat_event(event);
            }
        }
    }

    fn model_event(&self, event: &mut Event) {
        match event {
            Event::ModelRetry {
                reason,
                turn: _,
                attempt: _,
                wait_ms: _,
            } => self.text(reason),
            Event::ProviderSearchUnused { model, reason } => self.texts([model, reason]),
            Event::ModelAnswered {
                text,
                turn: _,
                calls: _,
                usage: _,
                took_ms: _,
                counted,
                found,
            } => {
                self.text(text);
                self.texts(found);
                let servers = counted.iter_mut().flat_map(|counted| &mut counted.servers);
                servers.for_each(|server| self.text(&mut server.server));
            }
            _ => {}
        }
    }

    fn message_event(&self, event: &mut Event) {
        if let Event::MessageAdded {
            message,
            origins,
            turn: _,
            makes_known: _,
        } = event
        {
            self.json(message);
            self.texts(origins);
        }
    }

    /// What is about finding out, and about making a call once more.
    fn repeat_event(&self, event: &mut Event) {
        match event {
            Event::CallCheckable { tools, call: _ } => self.texts(tools),
            Event::CallRetried {
                reason,
                call: _,
                attempt: _,
                wait_ms: _,
            } => self.text(reason),
            Event::CallSettled {
                note,
                of: _,
                call: _,
                happened: _,
            } => self.texts(note),
            _ => {}
        }
    }

    fn server_event(&self, event: &mut Event) {
        match event {
            Event::ConfigurationRead {
                added,
                removed,
                changed,
            } => self.texts(added.iter_mut().chain(removed).chain(changed)),
            Event::ServerReady {
                server,
                era,
                protocol_version,
                tools: _,
                tokens: _,
                took_ms: _,
            } => {
                self.texts([server, era, protocol_version]);
            }
            Event::ServerFailed {
                server,
                stage,
                error,
                hints,
                stderr_tail,
            } => {
                self.texts([server, stage, error]);
                self.texts(hints.iter_mut().chain(stderr_tail));
            }
            Event::ServerEnded { server, reason } => self.texts([server, reason]),
            Event::ServerWarned { server, warning } => self.texts([server, warning]),
            Event::ToolSetAside {
                server,
                tool,
                reason,
            } => self.texts([server, tool, reason]),
            Event::QuestionEnded {
                server,
                tool,
                method,
                question,
                reason,
                traceparent,
                answer: _,
                by: _,
                took_ms: _,
            } => {
                self.texts([server, method, question]);
                self.texts([tool, reason, traceparent].into_iter().flatten());
            }
            _ => {}
        }
    }

    fn offer_event(&self, event: &mut Event) {
        match event {
            Event::FetchWaits {
                server,
                name,
                kind: _,
                approval: _,
                until: _,
            } => self.texts([server, name]),
            Event::PromptFetched {
                server,
                prompt,
                arguments,
                asked_by,
                rule,
                reason,
                error,
                by: _,
                approval: _,
                outcome: _,
                bytes: _,
                took_ms: _,
            } => {
                self.texts([server, prompt, asked_by]);
                self.texts([rule, reason, error].into_iter().flatten());
                *arguments = std::mem::take(arguments)
                    .into_iter()
                    .map(|(mut name, mut value)| {
                        self.texts([&mut name, &mut value]);
                        (name, value)
                    })
                    .collect();
            }
            Event::ResourceRead {
                server,
                uri,
                asked_by,
                rule,
                reason,
                error,
                by: _,
                approval: _,
                outcome: _,
                bytes: _,
                took_ms: _,
            } => {
                self.texts([server, uri, asked_by]);
                self.texts([rule, reason, error].into_iter().flatten());
            }
            _ => {}
        }
    }

    fn hook_event(&self, event: &mut Event) {
        if let Event::HookRan {
            event,
            hook,
            reason,
            call: _,
            said: _,
            changed: _,
            took_ms: _,
        } = event
        {
            self.texts([event, hook]);
            self.texts(reason);
        }
    }

    fn call_event(&self, event: &mut Event) {
        match event {
            Event::CallProposed {
                tool,
                arguments,
                call: _,
                turn: _,
                client,
            } => {
                self.text(tool);
                self.json_or_text(arguments);
                self.texts(client.iter_mut());
            }
            Event::CallPrepared {
                server,
                raw_tool,
                arguments,
                repairs,
                artifacts,
                call: _,
            } => {
                self.texts([server, raw_tool]);
                self.json(arguments);
                self.texts(repairs);
                for handed in artifacts {
                    self.text(&mut handed.artifact.media_type);
                    self.texts(&mut handed.origins);
                }
            }
            Event::CallDecided {
                rule,
                reason,
                call: _,
                allowed: _,
                by: _,
            } => {
                self.text(rule);
                self.texts(reason);
            }
            Event::CallWaits {
                call: _,
                approval: _,
                until: _,
            } => {}
            _ => self.end_event(event),
        }
    }

    fn end_event(&self, event: &mut Event) {
        match event {
            Event::CallEnded {
                summary,
                result,
                artifacts,
                kept: _,
                call: _,
                outcome: _,
                is_error: _,
                tokens: _,
                took_ms: _,
            } => {
                self.answer(summary, result);
                self.texts(
                    artifacts
                        .iter_mut()
                        .map(|artifact| &mut artifact.media_type),
                );
            }
            Event::LateAnswer {
                summary,
                result,
                kept: _,
                call: _,
                outcome: _,
            } => self.answer(summary, result),
            _ => {}
        }
    }

    fn answer(&self, summary: &mut String, result: &mut Option<Box<RawValue>>) {
        self.text(summary);
        if let Some(result) = result {
            self.json(result);
        }
    }

    fn text(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redact(text) {
            *text = redacted;
        }
    }

    fn texts<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        texts.into_iter().for_each(|text| self.text(text));
    }

    fn json(&self, value: &mut Box<RawValue>) {
        if let Cow::Owned(redacted) = self.redact_json(value) {
            *value = redacted;
        }
    }

    /// Text that is JSON stays valid JSON.
    fn json_or_text(&self, text: &mut String) {
        let redacted = serde_json::from_str::<&RawValue>(text).ok().map(|value| {
            match self.redact_json(value) {
                Cow::Owned(redacted) => Some(redacted.get().to_owned()),
                Cow::Borrowed(_) => None,
            }
        });
        match redacted {
            Some(Some(redacted)) => *text = redacted,
            Some(None) => {}
            None => self.text(text),
        }
    }
}
