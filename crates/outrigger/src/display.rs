//! The live display: a quiet line on stderr for each server, call and turn, made from the same
//! events that are recorded.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use outrigger_agent::Listener;
use outrigger_host::SAME_IS_UNKNOWN;
use outrigger_journal::{
    DecidedBy, Event, Observer, OutcomeKind, QuestionAnswer, Recorded, Tokens,
};

use crate::screen::{Label, Screen};
use crate::visible;

/// Characters of arguments and results that are shown of a call; `runs show` has the whole.
const SHOWN: usize = 200;

/// What is shown besides servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Nothing: the person typed the one call there is, and is told its outcome.
    Servers,
    /// Calls and turns.
    Run,
    /// Calls and turns, and the model's text on stdout as it comes, for a person to read.
    RunAndText,
}

/// Shows events, and the answer while it is written.
pub(crate) struct Display {
    screen: Screen,
    show: Show,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that were announced with their arguments.
    announced: HashMap<u32, String>,
    /// The model's text of this turn, as far as it was printed.
    printed: String,
    /// Questions of servers that were not answered, as they were told.
    refused: HashSet<String>,
}

impl Display {
    pub(crate) fn new(screen: Screen, show: Show) -> Self {
        Self {
            screen,
            show,
            state: Mutex::default(),
        }
    }

    fn streams(&self) -> bool {
        self.show == Show::RunAndText
    }

    /// Whether this text has been printed as the last thing on stdout.
    pub(crate) fn has_printed(&self, text: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.streams() && !text.is_empty() && state.printed == text
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn server(&self, name: &str, rest: &str) {
        let name = visible::line(name);
        self.screen.say(format_args!(
            "{:<12} {rest}",
            self.screen.talk(Label::Name, &name)
        ));
    }

    fn server_failed(&self, server: &str, error: &str, hints: &[String], stderr_tail: &[String]) {
        let word = self.screen.talk(Label::Bad, "set aside");
        self.server(server, &format!("{word}: {}", visible::line(error)));
        for line in stderr_tail.iter().rev().take(5).rev() {
            let line = format!("  | {}", visible::line(line));
            self.screen.say(self.screen.talk(Label::Dim, &line));
        }
        for hint in hints {
            self.screen.say(format_args!(
                "  {} {}",
                self.screen.talk(Label::Good, "hint:"),
                visible::line(hint)
            ));
        }
    }

    fn call_prepared(&self, call: u32, arguments: &str, repairs: &[String]) {
        let tool = self
            .state(|state| state.announced.get(&call).cloned())
            .unwrap_or_default();
        let arguments = shown(&visible::folded_json(arguments));
        self.screen.say(format_args!(
            "#{call} → {} {arguments}",
            self.screen.talk(Label::Name, &tool)
        ));
        for repair in repairs {
            let line = format!("#{call}   repaired: {}", visible::line(repair));
            self.screen.say(self.screen.talk(Label::Dim, &line));
        }
    }

    fn call_ended(&self, call: u32, label: Label, summary: &str, took_ms: u64) {
        let summary = shown(summary);
        let arrow = self.screen.talk(label, "←");
        let took = if took_ms > 0 {
            format!(" ({})", seconds(took_ms))
        } else {
            String::new()
        };
        let took = self.screen.talk(Label::Dim, &took);
        self.screen
            .say(format_args!("#{call} {arrow} {summary}{took}"));
    }

    fn turn(&self, turn: u32, usage: &Tokens, took_ms: u64) {
        let line = format!(
            "turn {turn}: {} tokens in ({} cached), {} out, {}",
            usage.input,
            usage.cached,
            usage.output,
            seconds(took_ms)
        );
        self.screen.say(self.screen.talk(Label::Dim, &line));
    }

    /// Ends a line that the model's text has begun. `done`: the text was the answer.
    fn end_text(&self, done: bool) {
        let open = self.state(|state| {
            let open = !state.printed.is_empty() && !state.printed.ends_with('\n');
            if !done {
                state.printed.clear();
            }
            open
        });
        if open && self.streams() {
            self.screen.data("\n").ok();
        }
    }
}

impl Observer for Display {
    fn observe(&self, recorded: &Recorded) {
        self.on_server(&recorded.event);
        self.on_late(&recorded.event);
        if self.show != Show::Servers {
            self.on_turn(&recorded.event);
            self.on_offer(&recorded.event);
            self.on_call(&recorded.event);
        }
    }
}

impl Display {
    fn on_server(&self, event: &Event) {
        match event {
            Event::ServerReady {
                server,
                tools,
                tokens,
                took_ms,
                ..
            } => {
                let noun = if *tools == 1 { "tool " } else { "tools" };
                let took = seconds(*took_ms);
                self.server(
                    server,
                    &format!("{tools:>3} {noun} ~{tokens} tokens, ready in {took}"),
                );
            }
            Event::ServerFailed {
                server,
                error,
                hints,
                stderr_tail,
                ..
            } => {
                self.server_failed(server, error, hints, stderr_tail);
            }
            Event::ServerEnded { server, reason } => {
                let reason = visible::line(reason);
                self.server(server, &format!("{reason}; what it kept in memory is gone"));
            }
            Event::ServerWarned { server, warning } => {
                let word = self.screen.talk(Label::Warn, "warning");
                self.server(server, &format!("{word}: {}", visible::line(warning)));
            }
            Event::ToolSetAside {
                server,
                tool,
                reason,
            } => {
                let word = self.screen.talk(Label::Warn, "set aside");
                let (tool, reason) = (visible::line(tool), visible::line(reason));
                self.server(server, &format!("tool `{tool}` {word}: {reason}"));
            }
            // What a person answered, the person knows.
            Event::QuestionEnded {
                server,
                method,
                question,
                answer: QuestionAnswer::Refused,
                reason,
                ..
            } => {
                let word = self.screen.talk(Label::Warn, "not answered");
                let why = reason.as_deref().unwrap_or(question);
                let line = format!("asked `{}`, {word}: {}", visible::line(method), shown(why));
                // Once is enough: a server may ask without end.
                if self.state(|state| state.refused.insert(format!("{server} {line}"))) {
                    self.server(server, &line);
                }
            }
            _ => {}
        }
    }

    fn on_turn(&self, event: &Event) {
        match event {
            // What was printed before was another answer.
            Event::PersonSaid { .. } => self.state(|state| state.printed.clear()),
            Event::ModelRetry {
                attempt,
                wait_ms,
                reason,
                ..
            } => {
                let (wait, reason) = (seconds(*wait_ms), visible::line(reason));
                let line = format!("trying again in {wait} (attempt {attempt}): {reason}");
                self.screen.say(self.screen.talk(Label::Warn, &line));
            }
            Event::ProviderSearchUnused { model, reason } => {
                let word = self.screen.talk(Label::Warn, "warning:");
                let (model, reason) = (visible::line(model), visible::line(reason));
                self.screen
                    .say(format_args!("{word} {}", search_unused(&model, &reason)));
            }
            Event::ModelAnswered {
                turn,
                usage,
                calls,
                took_ms,
                ..
            } => {
                self.end_text(*calls == 0);
                self.turn(*turn, usage, *took_ms);
            }
            _ => {}
        }
    }

    /// What the person asked for by hand. A model's reading is a call.
    fn on_offer(&self, event: &Event) {
        match event {
            Event::PromptFetched {
                server,
                prompt,
                bytes,
                error: None,
                ..
            } => {
                let prompt = visible::beginning(prompt, SHOWN);
                self.server(server, &format!("prompt `{prompt}`, {bytes} bytes"));
            }
            Event::ResourceRead {
                server,
                uri,
                asked_by,
                bytes,
                error: None,
                ..
            } if asked_by == "person" => {
                let uri = visible::beginning(uri, SHOWN);
                self.server(server, &format!("attached `{uri}`, {bytes} bytes"));
            }
            _ => {}
        }
    }

    fn on_call(&self, event: &Event) {
        match event {
            Event::CallProposed { call, tool, .. } => {
                let tool = visible::line(tool).into_owned();
                self.state(|state| state.announced.insert(*call, tool));
            }
            Event::CallPrepared {
                call,
                arguments,
                repairs,
                ..
            } => {
                self.call_prepared(*call, arguments.get(), repairs);
            }
            Event::CallDecided {
                call,
                allowed: false,
                by: DecidedBy::Nobody,
                rule,
                ..
            } => {
                let tool = self
                    .state(|state| state.announced.get(call).cloned())
                    .unwrap_or_default();
                let hint = if rule.starts_with(SAME_IS_UNKNOWN) {
                    "no rule allows a repeat: `outrigger runs unknown` says how to find out what \
                     came of the first, or run in a terminal to be asked"
                        .to_owned()
                } else {
                    format!("allow it with --allow '{tool}', or run in a terminal to be asked")
                };
                self.screen.say(format_args!(
                    "#{call}   {} {hint}",
                    self.screen.talk(Label::Good, "hint:")
                ));
            }
            Event::CallEnded {
                call,
                outcome,
                is_error,
                summary,
                took_ms,
                ..
            } => {
                self.call_ended(*call, label_of(*outcome, *is_error), summary, *took_ms);
            }
            _ => {}
        }
    }

    /// What came after all, and what is tried again, is told whatever else is not.
    fn on_late(&self, event: &Event) {
        match event {
            Event::CallRetried {
                call,
                attempt,
                reason,
                ..
            } => {
                let line = format!(
                    "#{call} → again (attempt {}): {}",
                    attempt + 1,
                    shown(reason)
                );
                self.screen.say(self.screen.talk(Label::Warn, &line));
            }
            Event::LateAnswer { call, summary, .. } => {
                self.screen
                    .say(format_args!("#{call} ← late answer: {}", shown(summary)));
            }
            _ => {}
        }
    }
}

fn label_of(outcome: OutcomeKind, is_error: bool) -> Label {
    match outcome {
        OutcomeKind::Completed if !is_error => Label::Good,
        OutcomeKind::Completed | OutcomeKind::Rejected | OutcomeKind::NotSent => Label::Warn,
        OutcomeKind::Unknown | OutcomeKind::Violated => Label::Bad,
    }
}

impl Listener for Display {
    fn text(&self, delta: &str) {
        if self.streams() {
            self.state(|state| state.printed.push_str(delta));
            self.screen.foreign(delta).ok();
        }
    }

    fn reasoning(&self, _: &str) {}
}

/// On one line, made visible, and not longer than a few lines of a terminal.
fn shown(text: &str) -> String {
    let text = visible::line(text);
    if text.chars().count() <= SHOWN {
        return text.into_owned();
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head}… ({} characters in all)", text.chars().count())
}

/// Milliseconds as a person reads them.
pub(crate) fn seconds(millis: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let seconds = millis as f64 / 1000.0;
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..10_000 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

/// That a provider's search is not used, and why.
pub(crate) fn search_unused(model: &str, reason: &str) -> String {
    format!(
        "`{model}`: its provider's search of tools is not used: {reason}; tools are found by this program instead"
    )
}
