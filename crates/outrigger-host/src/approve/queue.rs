//! Questions of policy that wait in the journal until a person decides, with whatever program.
//!
//! Promises: what waits is bound to the call, the tool as it is defined and the arguments, or to the
//! prompt or resource; it stops waiting when whoever asked stops, and a yes is used once, for this. The
//! journal is looked at while something waits, and once for all that wait. Leaves out: who decides, and
//! where.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_journal::{
    Approval, ApprovalSubject, Approvals, AskedApproval, DecidedBy, Event, JournalError, Run,
};
use tokio::time::Instant;

use super::{About, Answer, FetchQuestion, Question, Repeat, RepeatKey};
use crate::grants::{Grants, Pattern};
use crate::kept_file::KeptFileError;
use crate::policy::OfferKind;

/// How often what was decided is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// The queue that calls and fetches of one program wait in.
pub struct Queue {
    approvals: Approvals,
    grants: Arc<Grants>,
    /// The principal whose they are, where it has a name.
    whose: Option<String>,
    looked: tokio::sync::Mutex<Looked>,
}

/// What was decided when it was looked last.
#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    decided: Vec<Approval>,
}

/// A question that waits. Dropped, it does not any more.
pub struct Waiting<'a> {
    queue: &'a Queue,
    about: About<'a>,
    id: String,
    patience: Duration,
    until: Timestamp,
}

impl Queue {
    /// What a person says about calls to come goes to `grants`.
    pub fn new(approvals: Approvals, grants: Arc<Grants>) -> Self {
        Self {
            approvals,
            grants,
            whose: None,
            looked: tokio::sync::Mutex::default(),
        }
    }

    /// The same for what the principal with this name wants.
    #[must_use]
    pub fn of_principal(self, name: Option<&str>) -> Self {
        Self {
            whose: name.map(ToOwned::to_owned),
            ..self
        }
    }

    /// Lets a question wait for up to `patience`, from when this returns on.
    pub async fn enter<'a>(
        &'a self,
        about: About<'a>,
        patience: Duration,
    ) -> Result<Waiting<'a>, JournalError> {
        let now = Timestamp::now();
        let longest = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
        let until = now.saturating_add(longest).unwrap_or(Timestamp::MAX);
        let mut asked = asked(about, until);
        if let Some(name) = &self.whose {
            asked.principal.clone_from(name);
        }
        let id = self.approvals.ask(about.run(), asked).await?;
        about.run().record(waits(about, &id, until));
        Ok(Waiting {
            queue: self,
            about,
            id,
            patience,
            until,
        })
    }

    /// What was decided about this one, as of a moment ago, or `now`.
    async fn decided(
        &self,
        run: &Run,
        id: &str,
        now: bool,
    ) -> Result<Option<Approval>, JournalError> {
        let mut looked = self.looked.lock().await;
        let old = looked.at.is_none_or(|at| at.elapsed() >= LOOK);
        if old || now {
            looked.decided = self.approvals.decided(run.id()).await?;
            looked.at = Some(Instant::now());
        }
        let mut decided = looked.decided.iter();
        Ok(decided.find(|approval| approval.id == id).cloned())
    }
}

impl Waiting<'_> {
    /// What it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for what a person decides, or for the end of its time.
    pub async fn answer(&self) -> Answer {
        loop {
            // Before what was decided is looked for, so that nothing is decided after the last look.
            let over = Timestamp::now() > self.until;
            match self.queue.decided(self.about.run(), &self.id, over).await {
                Ok(Some(approval)) => return self.heard(&approval).await,
                Ok(None) if over => {
                    let patience = self.patience.as_secs();
                    return nobody(format!("nobody decided within {patience} s"));
                }
                Ok(None) => {}
                Err(error) if over => return nobody(error.to_string()),
                Err(error) => tracing::debug!(%error, "the queue of approvals was not read"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn heard(&self, approval: &Approval) -> Answer {
        let Some(decision) = &approval.decision else {
            return Answer::Nobody;
        };
        if !decision.allowed {
            return Answer::No {
                reason: decision.reason.clone(),
            }
            .by(decision.by);
        }
        let (granted, reason) = match &decision.remember {
            None => (None, None),
            Some((pattern, seconds)) => {
                match self.remember(pattern, Duration::from_secs(*seconds)) {
                    Ok(id) => (Some(id.clone()), Some(format!("granted as `{id}`"))),
                    Err(why) => (None, Some(format!("it could not be remembered: {why}"))),
                }
            }
        };
        match self.queue.approvals.take(&self.id, granted.clone()).await {
            Ok(true) => Answer::Decided {
                allowed: true,
                by: decision.by,
                reason,
            },
            taken => {
                if let Some(id) = granted
                    && let Err(error) = self.queue.grants.revoke(|grant| grant.id == id)
                {
                    tracing::warn!(%error, "a grant stays that was not used");
                }
                match taken {
                    Err(error) => nobody(error.to_string()),
                    Ok(_) => Answer::Nobody,
                }
            }
        }
    }

    fn remember(&self, pattern: &str, lasts: Duration) -> Result<String, String> {
        let About::Call(question) = self.about else {
            return Err("that is for calls alone".to_owned());
        };
        let pattern = Pattern::typed(pattern, question.exact).map_err(|error| error.to_string())?;
        let grants = &self.queue.grants;
        grants
            .give(question, pattern, Timestamp::now(), lasts)
            .map(|grant| grant.id)
            .map_err(|error: KeptFileError| error.to_string())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.approvals.close(&self.id);
    }
}

fn nobody(why: String) -> Answer {
    Answer::Decided {
        allowed: false,
        by: DecidedBy::Nobody,
        reason: Some(why),
    }
}

fn asked(about: About<'_>, until: Timestamp) -> AskedApproval {
    match about {
        About::Call(question) => asked_of_call(question, until),
        About::Fetch(question) => asked_of_fetch(question, until),
    }
}

/// What is recorded when it begins to wait.
fn waits(about: About<'_>, id: &str, until: Timestamp) -> Event {
    let approval = id.to_owned();
    match about {
        About::Call(question) => Event::CallWaits {
            call: question.call,
            approval,
            until,
        },
        About::Fetch(question) => {
            // Asked once, it waits once.
            let _ = question.waits_as.set(approval.clone());
            Event::FetchWaits {
                server: question.server.to_string(),
                kind: question.kind.as_str().to_owned(),
                name: question.name.to_owned(),
                approval,
                until,
            }
        }
    }
}

fn asked_of_fetch(question: FetchQuestion<'_>, until: Timestamp) -> AskedApproval {
    AskedApproval {
        subject: match question.kind {
            OfferKind::Prompt => ApprovalSubject::Prompt,
            OfferKind::Resource => ApprovalSubject::Resource,
        },
        until,
        server: question.server.to_string(),
        identity: crate::grants::server(question.identity, question.server),
        tool: question.name.to_owned(),
        raw_tool: question.name.to_owned(),
        definition: String::new(),
        arguments: question.arguments.to_owned(),
        rule: question.rule.to_owned(),
        principal: question.principal.as_str().to_owned(),
        remarks: Vec::new(),
    }
}

fn asked_of_call(question: Question<'_>, until: Timestamp) -> AskedApproval {
    let tool = question.tool;
    let mut remarks: Vec<_> = question.repeats.map(repetition).into_iter().collect();
    let contents = question.artifacts.iter();
    remarks.extend(
        contents.map(|given| format!("contents that would be sent: {}", given.described())),
    );
    AskedApproval {
        subject: ApprovalSubject::Call(question.call),
        until,
        server: tool.server.to_string(),
        identity: crate::grants::server(question.server, &tool.server),
        tool: tool.name.to_string(),
        raw_tool: tool.raw_name.clone(),
        definition: tool.digest.to_string(),
        arguments: question.arguments.to_owned(),
        rule: question.rule.to_owned(),
        principal: question.principal.as_str().to_owned(),
        remarks,
    }
}

fn repetition(repeat: &Repeat) -> String {
    let Repeat { of, why, key, .. } = repeat;
    let again = match key {
        RepeatKey::Same(_) => "with the same idempotency key, by which the server can know it",
        RepeatKey::None | RepeatKey::Other(_) => "if it took effect, it takes effect twice",
    };
    format!(
        "call {} of {} was the same, and nobody knows what came of it ({why}): {again}",
        of.call, of.run
    )
}
