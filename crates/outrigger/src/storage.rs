//! Where state is kept: in files of this machine, or in a database that replicas share.
//!
//! Promises: the configuration says where, and nothing is kept anywhere else when that cannot be used.
//! Leaves out: what is kept ([`outrigger_journal`], [`outrigger_host`]).

use std::sync::Arc;
use std::time::Duration;

use outrigger_host::SharedTexts;
use outrigger_host::config::{ConfigProblem, Resolver, Severity, StorageSettings};
use outrigger_host::grants::Grants;
use outrigger_host::pins::PinFiles;
#[cfg(feature = "postgres")]
use outrigger_journal::Bucket;
use outrigger_journal::{Artifacts, Database, Journal, Leases, Place};

use crate::cli::Common;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::secrets::Secrets;
use crate::session::supervisor;
use crate::{surroundings, visible};

#[cfg(feature = "postgres")]
mod bucket;
#[cfg(feature = "postgres")]
mod texts;

/// Where state is kept.
pub(crate) struct Storage {
    place: Place,
    /// What was said and approved, where replicas share that.
    shared: Option<Arc<dyn SharedTexts>>,
    /// Where artifacts are, where replicas share them.
    #[cfg(feature = "postgres")]
    bucket: Option<Bucket>,
    /// What must not be recorded or shown.
    secrets: Vec<String>,
    /// How long a lease lasts without its holder, where that is said.
    term: Option<Duration>,
}

impl Storage {
    /// Reads what the configuration says, and follows its references. What else is wrong in it is not
    /// this one's business.
    pub(crate) async fn of(common: &Common) -> Result<Self, CommandError> {
        let files = |term| {
            Ok(Self {
                place: Place::File(surroundings::journal(common)?),
                shared: None,
                #[cfg(feature = "postgres")]
                bucket: None,
                secrets: Vec::new(),
                term,
            })
        };
        if common.playback.is_some() {
            return files(None);
        }
        let mut config = outrigger_host::config::load(&surroundings::of_configuration(common)?);
        let wrong = config.fatal().find(|problem| is_ours(problem));
        if let Some(problem) = wrong {
            return Err(unusable(problem));
        }
        if !config.storage.is_database() {
            return files(config.storage.grace);
        }
        let resolver: Arc<dyn Resolver> = Arc::new(Secrets::new(supervisor()));
        if let Some(problem) = config.resolve_storage(&*resolver).await.first() {
            return Err(unusable(problem));
        }
        let database = database(&config.storage)?;
        #[cfg(feature = "postgres")]
        let (bucket, keys) = bucket::of(&config)?;
        #[cfg(not(feature = "postgres"))]
        let keys = Vec::new();
        Ok(Self {
            shared: Some(texts(&database)?),
            place: Place::Database(database),
            #[cfg(feature = "postgres")]
            bucket,
            secrets: [config.secrets(), keys].concat(),
            term: config.storage.grace,
        })
    }

    /// Where the journal is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// What must not be recorded or shown.
    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Opens the journal, and says when that has changed its format.
    pub(crate) fn open(&self, screen: Screen) -> Result<Journal, CommandError> {
        let journal = Journal::open_in(&self.place)?;
        if let Some(backup) = journal.backup() {
            screen.say(format_args!(
                "{} the journal had an older format and was brought up; as it was it is kept in `{}`",
                screen.talk(Label::Warn, "note:"),
                visible::line(&backup.display().to_string())
            ));
        }
        Ok(journal)
    }

    /// Who has the servers that may run in one place at a time.
    pub(crate) fn leases(&self, journal: &Journal) -> Leases {
        let leases = journal.leases();
        match self.term {
            Some(term) => leases.lasting(term),
            None => leases,
        }
    }

    /// What was said about calls to come.
    pub(crate) fn grants(&self, common: &Common) -> Result<Grants, CommandError> {
        let grants = match &self.shared {
            Some(texts) => Grants::open_shared(Arc::clone(texts)),
            None => Grants::open(surroundings::grants(common)),
        };
        grants.map_err(|error| {
            CommandError::usage(error.to_string())
                .hint("what was granted is not known, so nothing was started; mend it or remove it")
        })
    }

    /// Where it is kept what was approved of the servers' tools.
    pub(crate) fn pins(&self, common: &Common) -> Result<PinFiles, CommandError> {
        Ok(PinFiles {
            shared: self.shared.clone(),
            ..surroundings::pins(common)?
        })
    }

    /// The artifacts of this journal.
    pub(crate) fn artifacts(
        &self,
        common: &Common,
        journal: &Journal,
    ) -> Result<Artifacts, CommandError> {
        #[cfg(feature = "postgres")]
        if let Some(bucket) = &self.bucket {
            return Ok(Artifacts::open_in_bucket(bucket, journal));
        }
        Ok(Artifacts::open(&surroundings::artifacts(common)?, journal))
    }
}

/// The journal alone, for commands that look at it.
pub(crate) async fn open_journal(common: &Common, screen: Screen) -> Result<Journal, CommandError> {
    Storage::of(common).await?.open(screen)
}

fn database(settings: &StorageSettings) -> Result<Database, CommandError> {
    let own = surroundings::name();
    let replica = settings.replica().unwrap_or(&own);
    let mut database = Database::new(settings.url().unwrap_or_default(), replica)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    if let Some(grace) = settings.grace {
        database.grace = grace;
    }
    Ok(database)
}

#[cfg(feature = "postgres")]
fn texts(database: &Database) -> Result<Arc<dyn SharedTexts>, CommandError> {
    let documents = outrigger_journal::Documents::open(database)?;
    Ok(Arc::new(texts::Texts(documents)))
}

#[cfg(not(feature = "postgres"))]
fn texts(database: &Database) -> Result<Arc<dyn SharedTexts>, CommandError> {
    // Says what is missing.
    Err(Journal::open_in(&Place::Database(database.clone()))
        .err()
        .map_or_else(|| CommandError::failed("no database"), Into::into))
}

fn is_ours(problem: &ConfigProblem) -> bool {
    problem.severity == Severity::Error
        && (problem.key == "storage" || problem.key.starts_with("storage."))
}

fn unusable(problem: &ConfigProblem) -> CommandError {
    let error = CommandError::usage(visible::lines(&problem.to_string()).to_string());
    error.hint("where state is kept is not known, so nothing was started")
}
