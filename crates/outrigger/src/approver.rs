//! Asking the person at the terminal, after looking at what they have said earlier.

pub(crate) mod arguments;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_host::approve::{Answer, Approver, Question, Repeat, RepeatKey};
use outrigger_host::grants::{Grant, Grants, LASTS, Pattern};

use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::visible;

const PROMPT: &str = "Run it? [y]es, yes for this [s]ession, [a]lways, [n]o (or say why not): ";
const WHICH: &str = "Always for which arguments? Enter: exactly these; `*`: any; or KEY=GLOB, for example path=docs/*: ";

/// The person, if one is there, and what they have said earlier.
pub(crate) fn approver(
    grants: Arc<Grants>,
    screen: Screen,
    keyboard: Keyboard,
) -> Arc<dyn Approver> {
    Arc::new(Person {
        grants,
        screen,
        keyboard,
    })
}

struct Person {
    grants: Arc<Grants>,
    screen: Screen,
    keyboard: Keyboard,
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: Question<'_>) -> Answer {
        if let Err(error) = self.grants.refresh().await {
            tracing::warn!(%error, "what was granted is not known");
        }
        let earlier = self.grants.find(question, Timestamp::now());
        if let Some(grant) = earlier.filter(|_| !question.anew) {
            return Answer::Granted {
                grant: described(&grant),
            };
        }
        if !self.screen.can_ask() {
            return Answer::Nobody;
        }
        self.show(question);
        let folded = arguments::folds(question.arguments);
        loop {
            if folded {
                self.screen.prompt("[v]iew what is folded. ");
            }
            self.screen.prompt(PROMPT);
            let Some(line) = self.keyboard.line().await else {
                return Answer::Nobody;
            };
            match understand(&line) {
                None => {}
                Some(Understood::View) if folded => self.arguments(question.arguments, true),
                Some(Understood::View) => {
                    return Answer::No {
                        reason: Some(line.trim().to_owned()),
                    };
                }
                Some(Understood::Always) => {
                    if let Some(answer) = self.always(question).await {
                        return answer;
                    }
                }
                Some(Understood::Answer(answer)) => return answer,
            }
        }
    }
}

/// A grant as the journal names it.
fn described(grant: &Grant) -> String {
    format!("{} of {}", grant.id, grant.since.strftime("%F"))
}

impl Person {
    /// Asks for which arguments, and keeps it. `None`: it could not be kept, and is asked about again.
    async fn always(&self, question: Question<'_>) -> Option<Answer> {
        loop {
            self.screen.prompt(WHICH);
            let Some(line) = self.keyboard.line().await else {
                return Some(Answer::Nobody);
            };
            let pattern = match Pattern::typed(&line, question.exact) {
                Ok(pattern) => pattern,
                Err(error) => {
                    self.screen.insist(visible::line(&error.to_string()));
                    continue;
                }
            };
            return match self.grants.give(question, pattern, Timestamp::now(), LASTS) {
                Ok(grant) => {
                    self.screen.insist(format_args!(
                        "granted until {} as `{}`; `outrigger grants` lists it and takes it back",
                        grant.until.strftime("%F"),
                        grant.id
                    ));
                    Some(Answer::Granted {
                        grant: described(&grant),
                    })
                }
                Err(error) => {
                    self.screen.insist(format_args!(
                        "it cannot be kept: {}",
                        visible::line(&error.to_string())
                    ));
                    None
                }
            };
        }
    }

    fn show(&self, question: Question<'_>) {
        let Question {
            tool,
            rule,
            repeats,
            ..
        } = question;
        let title = |text| self.screen.talk(Label::Dim, text);
        let heading = match repeats {
            None => "A call needs your approval:",
            Some(_) => "This call was made before, and nobody knows what came of it:",
        };
        self.screen
            .insist(format_args!("\n{}", self.screen.talk(Label::Warn, heading)));
        let raw = visible::line(&tool.raw_name);
        self.screen.insist(format_args!(
            "  {} {} (`{raw}` of the server `{}`)",
            title("tool     "),
            tool.name,
            visible::line(tool.server.as_str())
        ));
        self.arguments(question.arguments, false);
        if let Some(repeat) = repeats {
            let (before, again) = repetition(repeat);
            self.screen
                .insist(format_args!("  {} {before}", title("before   ")));
            self.screen
                .insist(format_args!("  {} {again}", title("again    ")));
        }
        let mut label = "contents ";
        for given in question.artifacts {
            let given = given.described();
            self.screen
                .insist(format_args!("  {} {}", title(label), visible::line(&given)));
            label = "         ";
        }
        self.screen.insist(format_args!(
            "  {} {}",
            title("asked by "),
            visible::line(rule)
        ));
    }

    fn arguments(&self, arguments: &str, whole: bool) {
        let mut title = "arguments";
        for line in arguments::lines(arguments, whole) {
            self.screen.insist(format_args!(
                "  {} {line}",
                self.screen.talk(Label::Dim, &format!("{title:<9}"))
            ));
            title = "";
        }
    }
}

/// The earlier call, and what making it again would mean.
fn repetition(repeat: &Repeat) -> (String, String) {
    let at = repeat.at.strftime("%F %H:%M:%S UTC");
    let of = if repeat.here {
        format!("call {}", repeat.of.call)
    } else {
        format!("call {} of {}", repeat.of.call, repeat.of.run)
    };
    let before = format!("{of}, {at}: {}", visible::line(&repeat.why));
    let again = match &repeat.key {
        RepeatKey::None => {
            "without an idempotency key: if it took effect, it takes effect twice".to_owned()
        }
        RepeatKey::Same(argument) => format!(
            "with the same idempotency key (`{}`), by which the server can know it",
            visible::line(argument)
        ),
        RepeatKey::Other(argument) => format!(
            "with another idempotency key (`{}`): if it took effect, it takes effect twice",
            visible::line(argument)
        ),
    };
    (before, again)
}

#[derive(Debug, PartialEq, Eq)]
enum Understood {
    Answer(Answer),
    Always,
    View,
}

/// `None` when nothing was answered. Anything but yes is a no, and longer words are its reason.
fn understand(line: &str) -> Option<Understood> {
    let line = line.trim();
    let answer = match line.to_lowercase().as_str() {
        "" => return None,
        "v" | "view" => return Some(Understood::View),
        "a" | "always" => return Some(Understood::Always),
        "y" | "yes" => Answer::Once,
        "s" | "session" => Answer::Session,
        "n" | "no" => Answer::No { reason: None },
        _ => Answer::No {
            reason: Some(line.to_owned()),
        },
    };
    Some(Understood::Answer(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_says_what_it_may_do() {
        let repeat = |here, key| Repeat {
            of: outrigger_journal::CallRef {
                run: "20261130-094210-3f9a".parse().unwrap(),
                call: 3,
            },
            here,
            at: Timestamp::UNIX_EPOCH,
            why: "outcome unknown: no answer came within 0.3 s".to_owned(),
            key,
        };
        let told = [
            repeat(true, RepeatKey::None),
            repeat(false, RepeatKey::Same("request_id".to_owned())),
            repeat(false, RepeatKey::Other("request_id".to_owned())),
        ];
        let told = told.map(|repeat| {
            let (before, again) = repetition(&repeat);
            format!("{before}\n{again}")
        });
        insta::assert_snapshot!(told.join("\n"), @"
        call 3, 1970-01-01 00:00:00 UTC: outcome unknown: no answer came within 0.3 s
        without an idempotency key: if it took effect, it takes effect twice
        call 3 of 20261130-094210-3f9a, 1970-01-01 00:00:00 UTC: outcome unknown: no answer came within 0.3 s
        with the same idempotency key (`request_id`), by which the server can know it
        call 3 of 20261130-094210-3f9a, 1970-01-01 00:00:00 UTC: outcome unknown: no answer came within 0.3 s
        with another idempotency key (`request_id`): if it took effect, it takes effect twice
        ");
    }

    #[test]
    fn only_yes_is_yes() {
        let answer = |line| match understand(line) {
            Some(Understood::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer("Y\n"), Answer::Once);
        assert_eq!(answer("session"), Answer::Session);
        assert_eq!(understand(" \n"), None);
        assert_eq!(understand("a"), Some(Understood::Always));
        assert_eq!(answer("no"), Answer::No { reason: None });
        assert_eq!(
            answer("yes but later"),
            Answer::No {
                reason: Some("yes but later".to_owned())
            }
        );
    }
}
