//! What a session reaches beyond this program: the person, servers, hooks. Each is watched where the run
//! is recorded, and out of a recording where one is replayed.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use outrigger_connect::{Connector, OAuth, Tap};
use outrigger_gateway::Approvers;
use outrigger_host::Upkeep;
use outrigger_host::approve::{Approver, NobodyThere, Queue};
use outrigger_host::config::Config;
use outrigger_host::hooks::HookRunner;
use outrigger_host::questions::{Questions, Respondent};
use outrigger_journal::{Journal, Leases, Observer, Run};

use super::{Asked, Opening, supervisor};
use crate::cli::Common;
use crate::eras::EraFolder;
use crate::error::CommandError;
use crate::keyboard::Keyboard;
use crate::screen::Screen;
use crate::storage::Storage;
use crate::wire::{Sink, WireTrace};
use crate::{approver, hooks, questions, recording, replay, surroundings};

/// Who answers for the person, and what servers ask.
pub(super) struct Person {
    pub(super) approver: Arc<dyn Approver>,
    pub(super) questions: Questions,
}

impl Person {
    pub(super) fn of(
        opening: &Opening<'_>,
        storage: &Storage,
        journal: Option<&Journal>,
    ) -> Result<Self, CommandError> {
        let common = opening.common;
        let person = Self::there(opening, storage, journal)?;
        let Some(recorder) = &common.recorder else {
            return Ok(person);
        };
        let respondent = person.questions.person;
        Ok(Self {
            approver: recorder.approver(person.approver),
            questions: Questions {
                person: respondent.map(|person| recorder.respondent(person)),
                ..person.questions
            },
        })
    }

    fn there(
        opening: &Opening<'_>,
        storage: &Storage,
        journal: Option<&Journal>,
    ) -> Result<Self, CommandError> {
        let (asked, common, screen) = (&opening.person, opening.common, opening.screen);
        let keyboard = match asked {
            Asked::PersonAt(keyboard) => keyboard.clone(),
            Asked::Person | Asked::Clients(..) | Asked::Nobody => Keyboard::default(),
        };
        let person = |person: Option<Arc<dyn Respondent>>| Questions {
            person,
            ..Questions::default()
        };
        Ok(match (asked, &common.playback) {
            (Asked::Person | Asked::PersonAt(_), Some(playback)) => {
                let recorded = Arc::new(replay::Recorded(playback.clone()));
                let attended = playback.manifest().attended;
                Self {
                    questions: person(attended.then(|| recorded.clone() as Arc<dyn Respondent>)),
                    approver: recorded,
                }
            }
            (Asked::Person | Asked::PersonAt(_), None) => Self {
                questions: person(questions::respondent(screen, &keyboard)),
                approver: approver::approver(storage.grants(common)?.into(), screen, keyboard),
            },
            (Asked::Clients(served), _) => {
                let (clients, whose) = (&served.clients, &served.whose);
                let grants = Arc::new(storage.grants(common)?.of_principal(whose.name()));
                let queue = |journal: &Journal| {
                    Queue::new(journal.approvals(), Arc::clone(&grants)).of_principal(whose.name())
                };
                let approvers = Approvers {
                    queue: journal.map(queue),
                    earlier: approver::approver(grants, screen.unattended(), keyboard),
                };
                Self {
                    questions: clients.questions(),
                    approver: clients.approver(approvers),
                }
            }
            (Asked::Nobody, _) => Self {
                questions: Questions::default(),
                approver: Arc::new(NobodyThere),
            },
        })
    }
}

impl Asked {
    /// A gateway runs for as long as it is wanted, and keeps no server for nobody.
    pub(super) fn upkeep(&self, config: &Config) -> Option<Upkeep> {
        matches!(self, Self::Clients(..)).then(|| Self::upkeep_of_all(config))
    }

    /// One for all principals: what is bounded is this program.
    pub(super) fn upkeep_of_all(config: &Config) -> Upkeep {
        static OF_ALL: OnceLock<Upkeep> = OnceLock::new();
        let upkeep = OF_ALL.get_or_init(|| Upkeep::new(config.limits.max_servers.value));
        upkeep.clone()
    }
}

/// Where `--wire` goes, if anywhere.
pub(super) struct Wire(Option<(Sink, PathBuf)>);

impl Wire {
    pub(super) fn open(common: &Common) -> Result<Self, CommandError> {
        let place = common.wire.as_ref();
        let open = place.map(|place| Ok::<_, CommandError>((Sink::open(place)?, place.clone())));
        open.transpose().map(Self)
    }

    /// Who sees what crosses the wire. What the run keeps secret they keep out.
    pub(super) fn taps(self, run: &Run, common: &Common, screen: Screen) -> Vec<Arc<dyn Tap>> {
        let mut taps: Vec<Arc<dyn Tap>> = Vec::new();
        if let Some((sink, place)) = self.0 {
            let redactor = run.redactor().clone();
            taps.push(WireTrace::new(sink, &place, redactor, screen));
        }
        if let Some(recorder) = &common.recorder {
            recorder.follow(run.redactor());
            taps.push(recorder.clone());
        }
        taps
    }
}

/// Who records besides the journal.
pub(super) fn observer(common: &Common) -> Option<Arc<dyn Observer>> {
    let recorder = common.recorder.clone()?;
    Some(recorder)
}

/// Makes connections, with what is remembered of servers and the tokens of this person.
pub(super) fn connector(
    oauth: Option<&OAuth>,
    taps: Vec<Arc<dyn Tap>>,
    common: &Common,
) -> Connector {
    let mut connector = Connector::new(env!("CARGO_PKG_VERSION"), supervisor());
    if let Some(oauth) = oauth {
        connector = connector.with_oauth(oauth.clone());
    }
    if !taps.is_empty() {
        connector = connector.with_tap(Arc::new(recording::All(taps)));
    }
    if let Some(playback) = common.playback.clone() {
        return connector.with_stand_ins(move |server| playback.server(server.as_str()));
    }
    if let Some(folder) = surroundings::eras() {
        connector = connector.with_eras(Arc::new(EraFolder::new(folder)));
    }
    connector
}

/// Runs hooks, or tells what came of them in the recording.
pub(super) fn runner(common: &Common) -> Arc<dyn HookRunner> {
    if let Some(playback) = &common.playback {
        return Arc::new(replay::Recorded(playback.clone()));
    }
    let runner = hooks::runner(supervisor());
    match &common.recorder {
        Some(recorder) => recorder.runner(runner),
        None => runner,
    }
}

/// Who has the servers that may run in one place at a time. A command that only looks takes what nobody
/// has, and wants nothing of others.
pub(super) async fn leases(
    opening: &Opening<'_>,
    storage: &Storage,
    journal: Option<&Journal>,
) -> Result<Option<Leases>, CommandError> {
    if let Some(journal) = journal {
        return Ok(Some(storage.leases(journal)));
    }
    if !opening.config.has_single() {
        return Ok(None);
    }
    // Nothing is recorded there; leases have a connection of their own.
    let journal = storage.open(opening.screen)?;
    let leases = storage.leases(&journal).without_wishes();
    journal.close().await?;
    Ok(Some(leases))
}
