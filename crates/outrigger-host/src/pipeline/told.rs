//! What is told of one call, and told again in fewer words where a turn has too many.

use outrigger_journal::{ArtifactOrigin, Kept};

use super::keep::{IMAGE_TOKENS, Keeper, Room, level};
use super::{CallReport, LedgerLine};
use crate::host::Host;
use crate::outcome::{CallOutcome, Rejection};
use crate::policy::{Origins, Principal};
use crate::preview::Preview;
use crate::result::{Raw, ToolResult};
use crate::words::{self, Checks, Whose, Words};
use crate::{hidden, tokens};

/// What the words of a call are made from, besides its outcome.
#[derive(Debug)]
pub(super) struct Told {
    server: Option<String>,
    tool: Option<String>,
    /// Whose data a result is.
    pub(super) origins: Origins,
    is_ours: bool,
    checks: Checks,
    /// The server was started again before the call.
    restarted: Option<String>,
    /// The model may not have seen the schema of the tool.
    by_search: bool,
    place: Option<ArtifactOrigin>,
    /// A hook has changed the words.
    pub(super) changed: bool,
}

impl Told {
    /// How many remarks of ours stand before a result.
    pub(super) fn remarks(&self) -> usize {
        usize::from(self.restarted.is_some())
    }

    pub(super) fn words(&self, host: &Host, outcome: &CallOutcome) -> Vec<Words> {
        let whose = Whose {
            server: self.server.as_deref(),
            tool: self.tool.as_deref(),
            origins: &self.origins,
            is_ours: self.is_ours,
        };
        let mut words = words::for_model(outcome, whose, &self.checks);
        if let Some(server) = &self.restarted {
            words.insert(0, words::restarted(server));
        }
        if self.by_search
            && matches!(
                outcome,
                CallOutcome::Rejected(Rejection::BadArguments { .. })
            )
        {
            words.push(words::look_it_up());
        }
        host.clean(&mut words);
        words
    }
}

impl Host {
    /// What is known around a call for telling it. `by_search`: it was asked for through `call_tool`.
    pub(super) fn told(&self, line: &LedgerLine, by_search: bool) -> Told {
        let server = line.server.as_ref();
        let restarted = server.filter(|server| self.take_restarted(server));
        Told {
            server: server.map(ToString::to_string),
            tool: line.tool.as_ref().map(|tool| tool.raw_name.clone()),
            origins: line.origins.clone(),
            is_ours: line.tool.as_ref().is_some_and(|tool| tool.standing.builtin),
            checks: line.checks.clone(),
            by_search,
            restarted: restarted.map(ToString::to_string),
            place: place(line),
            changed: false,
        }
    }

    /// Moves what is large or no text out of a result, and tells the ledger where it is.
    pub(super) async fn keep(&self, outcome: &mut CallOutcome, line: &mut LedgerLine, room: Room) {
        let Some(origin) = place(line) else { return };
        let keeper = Keeper {
            store: self.artifacts(),
            origin,
            room,
        };
        match outcome {
            CallOutcome::Completed(result) => {
                keeper.keep(result).await;
                line.artifacts = result.artifacts();
                (line.answered, line.kept) = recorded(&result.raw);
            }
            CallOutcome::Violated(_) => {
                if let Some(raw) = line.answered.take() {
                    (line.answered, line.kept) = recorded(&keeper.answer(raw).await);
                }
            }
            _ => {}
        }
    }

    /// The same for a result that is told later than its call ended; the ledger has it already.
    pub(super) async fn keep_told(
        &self,
        result: &mut ToolResult,
        origin: ArtifactOrigin,
        tool: &str,
    ) {
        let keeper = Keeper {
            store: self.artifacts(),
            origin,
            room: self.room(tool, Principal::Model),
        };
        keeper.keep(result).await;
    }

    /// Gives the run the artifacts of a result. What a hook has changed or kept back is not handed out
    /// by another way.
    pub(super) async fn hand_out(
        &self,
        outcome: &CallOutcome,
        (origins, changed): (&Origins, bool),
        words: &mut [Words],
    ) {
        let CallOutcome::Completed(result) = outcome else {
            return;
        };
        for artifact in result.artifacts() {
            if !changed {
                self.give(&artifact, origins).await;
                continue;
            }
            for words in words.iter_mut() {
                if let Words::Text(text) = words
                    && text.contains(&artifact.handle)
                {
                    *text = text.replace(&artifact.handle, "kept back by a hook");
                }
            }
        }
    }

    /// Cuts the results of one turn to what they may cost together. What the small ones leave is for
    /// the others.
    pub async fn fit_turn(&self, reports: &mut [CallReport]) {
        let most = self.scale().within(self.results().turn_max_tokens.value);
        let sizes: Vec<_> = reports
            .iter()
            .map(|report| Some(cost(&report.words)))
            .collect();
        let level = level(&sizes, most);
        for (report, size) in reports.iter_mut().zip(sizes) {
            if size.is_some_and(|size| size > level) {
                self.shorten(report, level).await;
            }
        }
    }

    async fn shorten(&self, report: &mut CallReport, level: u64) {
        let told = &report.told;
        let CallOutcome::Completed(result) = &mut report.outcome else {
            return;
        };
        let frame = cost(&report.words[..(told.remarks() + 1).min(report.words.len())]);
        let room = level.saturating_sub(frame);
        match &told.place {
            Some(origin) if !told.changed => {
                let keeper = Keeper {
                    store: self.artifacts(),
                    origin: origin.clone(),
                    room: Room {
                        result: room,
                        preview: self
                            .scale()
                            .within(self.results().preview_tokens.value)
                            .min(room),
                    },
                };
                keeper.keep(result).await;
                report.words = told.words(self, &report.outcome);
                let whose = (&told.origins, told.changed);
                self.hand_out(&report.outcome, whose, &mut report.words)
                    .await;
            }
            _ => cut_in_place(&mut report.words, level),
        }
    }
}

/// Where the data of a call is said to come from.
fn place(line: &LedgerLine) -> Option<ArtifactOrigin> {
    let tool = line.tool.as_ref()?;
    let server = line.origins.servers().next();
    Some(ArtifactOrigin {
        run: line.run.id().clone(),
        call: line.call,
        server: server.unwrap_or(tool.server.as_str()).to_owned(),
        tool: tool.raw_name.clone(),
        block: None,
    })
}

/// The answer for its event, or where it is.
fn recorded(raw: &Raw) -> (Option<Box<serde_json::value::RawValue>>, Option<Kept>) {
    match raw {
        Raw::Here(raw) => (Some(raw.clone()), None),
        Raw::Kept(artifact) => {
            let (digest, bytes) = (artifact.digest, artifact.bytes);
            (None, Some(Kept { digest, bytes }))
        }
    }
}

fn cost(words: &[Words]) -> u64 {
    let costs = words.iter().map(|words| match words {
        Words::Text(text) => tokens::estimate(text),
        Words::Image { .. } => IMAGE_TOKENS,
    });
    costs.sum()
}

/// Cuts words that a hook has made; the whole of them is nowhere else.
fn cut_in_place(words: &mut Vec<Words>, level: u64) {
    let mut left = level;
    words.retain_mut(|words| {
        let size = cost(std::slice::from_ref(words));
        if size <= left {
            left -= size;
            return true;
        }
        let Words::Text(text) = words else {
            return false;
        };
        let cut = Preview::of(text, left.saturating_sub(IMAGE_TOKENS / 25)).text();
        *text = hidden::escape(&cut).into_owned();
        left = 0;
        true
    });
}
