//! `outrigger approvals watch`: each call, prompt and resource as it comes, and a question about it where
//! somebody can be asked. What has gone meanwhile is told of, and its question with it.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_host::grants::LASTS;
use outrigger_journal::{Approval, Approvals, DecidedBy, Decision};

use super::{checked, decide, described, told};
use crate::error::CommandError;
use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::{session, visible};

/// How often the queue is looked at.
const LOOK: Duration = Duration::from_millis(500);

const PROMPT: &str = "Run it? [y]es, [a]lways, [l]ater, [n]o (or say why not): ";
/// What is allowed once.
const ONCE: &str = "Let it be read? [y]es, [l]ater, [n]o (or say why not): ";
const WHICH: &str = "Always for which arguments? Enter: exactly these; `*`: any; or KEY=GLOB, for example path=docs/*: ";

pub(super) async fn run(
    approvals: &Approvals,
    as_json: bool,
    screen: Screen,
) -> Result<(), CommandError> {
    let watch = Watch {
        approvals,
        keyboard: Keyboard::default(),
        as_json,
        screen,
    };
    if !as_json {
        screen.say("watching for what waits for approval; Ctrl-C ends it");
    }
    tokio::select! {
        ended = watch.follow() => ended,
        () = session::interrupted() => Ok(()),
    }
}

struct Watch<'a> {
    approvals: &'a Approvals,
    keyboard: Keyboard,
    as_json: bool,
    screen: Screen,
}

enum Said {
    Decided(Decision),
    Later,
    /// There is nobody any more.
    End,
}

impl Watch<'_> {
    async fn follow(&self) -> Result<(), CommandError> {
        let mut seen = HashSet::new();
        loop {
            let now = Timestamp::now();
            let waiting = self.approvals.list(0).await?;
            seen.retain(|id| waiting.iter().any(|approval| approval.id == *id));
            for approval in waiting {
                if approval.waits(now)
                    && seen.insert(approval.id.clone())
                    && !self.take(&approval).await?
                {
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Shows what waits, and asks about it; false when nobody is there any more.
    async fn take(&self, approval: &Approval) -> Result<bool, CommandError> {
        let screen = self.screen;
        if self.as_json {
            let line = serde_json::to_string(approval).unwrap_or_default();
            screen.data(&format!("{}\n", visible::json(&line)))?;
            return Ok(true);
        }
        let subject = approval.asked.subject;
        let heading = format!("A {} waits for approval:", subject.kind());
        let heading = screen.talk(Label::Warn, &heading);
        screen.insist(format_args!("\n{heading}"));
        for line in described(approval, false) {
            screen.insist(format_args!("  {line}"));
        }
        if !screen.can_ask() {
            return Ok(true);
        }
        let said = tokio::select! {
            said = self.ask(approval) => said,
            gone = self.gone(&approval.id) => {
                screen.insist(format_args!("\n{}", gone?));
                return Ok(true);
            }
        };
        match said {
            Said::End => Ok(false),
            Said::Later => {
                let id = &approval.id;
                screen.say(format_args!(
                    "it waits on: `outrigger approvals approve {id}`"
                ));
                Ok(true)
            }
            Said::Decided(decision) => {
                match decide(self.approvals, &approval.id, decision).await {
                    Ok(after) => screen.say(told(&after)),
                    Err(error) => screen.insist(error.to_string()),
                }
                Ok(true)
            }
        }
    }

    async fn ask(&self, approval: &Approval) -> Said {
        let calls = approval.asked.subject.call().is_some();
        loop {
            self.screen.prompt(if calls { PROMPT } else { ONCE });
            let Some(line) = self.keyboard.line().await else {
                return Said::End;
            };
            let decision = |allowed, reason| Decision {
                allowed,
                by: DecidedBy::Command,
                reason,
                remember: None,
            };
            let line = line.trim();
            let said = match line.to_lowercase().as_str() {
                "" => continue,
                "l" | "later" => return Said::Later,
                "y" | "yes" => decision(true, None),
                "n" | "no" => decision(false, None),
                "a" | "always" if !calls => {
                    let kind = approval.asked.subject.kind();
                    self.screen.insist(format_args!(
                        "a {kind} is allowed once; nothing is said about it yet"
                    ));
                    continue;
                }
                "a" | "always" => match self.pattern(approval).await {
                    None => return Said::End,
                    Some(pattern) => Decision {
                        remember: Some((pattern, LASTS.as_secs())),
                        ..decision(true, None)
                    },
                },
                _ => decision(false, Some(line.to_owned())),
            };
            return Said::Decided(said);
        }
    }

    async fn pattern(&self, approval: &Approval) -> Option<String> {
        loop {
            self.screen.prompt(WHICH);
            let pattern = self.keyboard.line().await?;
            match checked(&pattern, approval) {
                Ok(()) => return Some(pattern.trim().to_owned()),
                Err(error) => self.screen.insist(error.to_string()),
            }
        }
    }

    /// Returns when somebody else has decided, or nobody waits any more.
    async fn gone(&self, id: &str) -> Result<String, CommandError> {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = super::find(self.approvals, id).await?;
            if !now.waits(Timestamp::now()) {
                return Ok(format!("`{id}`: {}", super::state(&now)));
            }
        }
    }
}
