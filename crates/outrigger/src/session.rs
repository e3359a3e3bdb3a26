//! What the commands that talk to servers share: configuration, journal, host, and an end that
//! writes everything down.

mod configuration;

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outrigger_connect::{Connector, FileTokens, OAuth, Root, Secret};
use outrigger_host::approve::{Approver, NobodyThere};
use outrigger_host::config::{Config, ProjectStanding};
use outrigger_host::grants::Grants;
use outrigger_host::hooks::{HookRefusal, Hooks};
use outrigger_host::pins::{PinMode, Pins};
use outrigger_host::policy::Policy;
use outrigger_host::questions::{Questions, Respondent, Sampler};
use outrigger_host::{Host, Parts};
use outrigger_journal::{Event, Journal, Observer, Redactor, Run, RunOptions, RunStatus, Tokens};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::builtin;
use crate::cli::Common;
use crate::eras::EraFolder;
use crate::error::{CommandError, Exit};
use crate::keyboard::Keyboard;
use crate::screen::{Label, Screen};
use crate::shelf::HostShelf;
use crate::wire::{self, WireTrace};
use crate::{approver, hooks, questions, surroundings, traces, visible};

pub(crate) use configuration::{configuration, configuration_in, only, trusted, with_secrets};

/// The hidden subcommand that stands between this program and each server it starts.
pub(crate) const SUPERVISE: &str = "__supervise";

/// How long to wait for servers that are still starting before going on without them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long a token that is being renewed is waited for at the end, so that its successor is kept.
const RENEWAL: Duration = Duration::from_secs(10);

/// What a session records into.
pub(crate) enum Record {
    /// The journal, as a run that begins with this event.
    Journal(Event),
    /// Nothing: the command only looks.
    Nothing,
}

impl Record {
    /// The journal, where something is recorded.
    fn journal(&self, common: &Common) -> Result<Option<Journal>, CommandError> {
        match self {
            Self::Journal(_) => Ok(Some(Journal::open(&surroundings::journal(common)?)?)),
            Self::Nothing => Ok(None),
        }
    }

    /// What becomes of tools that are not approved.
    fn pin_mode(&self, common: &Common) -> PinMode {
        match self {
            _ if common.locked => PinMode::Locked,
            Self::Journal(_) => PinMode::FirstUse,
            Self::Nothing => PinMode::Look,
        }
    }
}

/// The first event of a run of `command`.
pub(crate) fn run_started(
    common: &Common,
    command: &str,
    question: Option<&str>,
    model: Option<&str>,
) -> Result<Event, CommandError> {
    Ok(Event::RunStarted {
        command: command.to_owned(),
        question: question.map(ToOwned::to_owned),
        model: model.map(ToOwned::to_owned),
        workspace: surroundings::workspace(common)?.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// A host with its record.
pub(crate) struct Session {
    pub(crate) host: Host,
    pub(crate) run: Run,
    pub(crate) journal: Option<Journal>,
    oauth: Option<OAuth>,
    locked: bool,
    hooks: Arc<Hooks>,
}

/// How a session is to be begun.
pub(crate) struct Opening<'a> {
    pub(crate) common: &'a Common,
    pub(crate) config: &'a Config,
    pub(crate) screen: Screen,
    pub(crate) record: Record,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) person: Asked,
    /// Asks the model of the run for servers, if there is one.
    pub(crate) sampler: Option<Arc<dyn Sampler>>,
    pub(crate) allow: &'a [String],
}

/// Who is asked what only a person may decide.
pub(crate) enum Asked {
    /// The person at the terminal, if one is there, and what they have said earlier.
    Person,
    /// The same, at a keyboard that is used for more than answers.
    PersonAt(Keyboard),
    /// Nobody: the command only looks.
    Nobody,
}

/// Who answers for the person.
struct Person {
    approver: Arc<dyn Approver>,
    respondent: Option<Arc<dyn Respondent>>,
}

impl Person {
    fn of(asked: &Asked, common: &Common, screen: Screen) -> Result<Self, CommandError> {
        let keyboard = match asked {
            Asked::PersonAt(keyboard) => keyboard.clone(),
            Asked::Person | Asked::Nobody => Keyboard::default(),
        };
        Ok(match asked {
            Asked::Person | Asked::PersonAt(_) => Self {
                respondent: questions::respondent(screen, &keyboard),
                approver: approver::approver(grants(common)?, screen, keyboard),
            },
            Asked::Nobody => Self {
                respondent: None,
                approver: Arc::new(NobodyThere),
            },
        })
    }
}

impl Session {
    /// Follows the references to secrets, runs the hooks of the start, and starts the servers.
    pub(crate) async fn open(opening: Opening<'_>) -> Result<Self, CommandError> {
        let Opening {
            common,
            config,
            screen,
            record,
            observers,
            person,
            sampler,
            allow,
        } = opening;
        let policy = Policy::new(&config.policy, allow)?;
        // All that a person could have got wrong is looked at before the run begins.
        let journal = record.journal(common)?;
        let pins = pins(common, config, record.pin_mode(common))?;
        let person = Person::of(&person, common, screen)?;
        let wire = common.wire.as_deref();
        let sink = wire.map(wire::Sink::open).transpose()?;
        let config = with_secrets(config, journal.is_some(), screen).await?;
        let secrets = config.secrets();
        let options = RunOptions { observers, secrets };
        let (run, started) = begun(record, journal.as_ref(), options).await?;
        traces::follow(run.redactor());
        let trace = sink
            .zip(wire)
            .map(|(sink, place)| WireTrace::new(sink, place, run.redactor().clone(), screen));
        let hooks = Arc::new(hooks::of(&config, supervisor())?);
        if let Some(started) = &started
            && let Err(refusal) = hooks.session_start(&run, started).await
        {
            return Err(refused(refusal, run, journal).await);
        }
        let workspace = surroundings::workspace(common)?;
        let shelf = HostShelf::default();
        let builtins = builtin::servers(&config, &workspace, &shelf)?;
        // Without a home there are no tokens, and most servers need none.
        let oauth = oauth(common, run.redactor()).ok();
        let questions = Questions {
            person: person.respondent,
            sampler,
            roots: vec![root(&workspace)?],
        };
        let parts = Parts {
            connector: connector(oauth.as_ref(), trace),
            run: run.clone(),
            builtins,
            approver: person.approver,
            questions,
            policy,
            pins,
            hooks: Arc::clone(&hooks),
        };
        Ok(Self {
            host: shelf.of(Host::start(&config, parts)),
            run,
            journal,
            oauth,
            locked: common.locked,
            hooks,
        })
    }

    /// A session of a command that only looks: nothing is recorded, nobody is asked.
    pub(crate) async fn look(
        common: &Common,
        config: &Config,
        screen: Screen,
    ) -> Result<Self, CommandError> {
        Self::open(Opening {
            common,
            config,
            screen,
            record: Record::Nothing,
            observers: Vec::new(),
            person: Asked::Nobody,
            sampler: None,
            allow: &[],
        })
        .await
    }

    /// Waits until no server is starting any more, or `patience` is over. An interrupt closes the
    /// session and is the error.
    pub(crate) async fn settled(
        self,
        patience: Duration,
        cancel: &CancellationToken,
        screen: Screen,
    ) -> Result<Self, CommandError> {
        let interrupted = tokio::select! {
            biased;
            () = cancel.cancelled() => true,
            _ = self.host.settled(patience) => false,
        };
        if interrupted {
            self.close(None, screen).await?;
            return Err(CommandError::new(Exit::Interrupted, "interrupted"));
        }
        let drift = self.drift();
        if self.locked && !drift.is_empty() {
            self.close(None, screen).await?;
            let error = format!(
                "the run is locked, and not approved are: {}",
                drift.join("; ")
            );
            return Err(CommandError::new(Exit::Refused, error)
                .hint("`outrigger pin` shows what is new or has changed, and asks"));
        }
        Ok(self)
    }

    /// The tools that are held back, each with its server.
    fn drift(&self) -> Vec<String> {
        let servers = self.host.servers();
        let catalogs = servers.iter().filter_map(|server| server.catalog.as_ref());
        catalogs
            .flat_map(|catalog| &catalog.held)
            .map(|held| {
                format!(
                    "`{}` of `{}`",
                    visible::line(&held.tool.raw_name),
                    held.tool.server
                )
            })
            .collect()
    }

    /// Closes the servers and then the journal. What could not be recorded is told.
    pub(crate) async fn close(
        self,
        ended: Option<Event>,
        screen: Screen,
    ) -> Result<(), CommandError> {
        self.host.close().await;
        if let Some(oauth) = &self.oauth {
            oauth.finish(RENEWAL).await;
        }
        if let Some(ended) = ended {
            for failure in self.hooks.session_end(&self.run, &ended).await {
                let warning = screen.talk(Label::Warn, "warning:");
                screen.insist(format_args!("{warning} {}", visible::line(&failure)));
            }
            self.run.record(ended);
        }
        if let Some(journal) = self.journal {
            journal.close().await?;
        }
        if let Some(trouble) = self.host.pins().trouble() {
            screen.insist(format_args!(
                "{} what the servers' tools are now could not be kept, so a change will not be noticed: {}",
                screen.talk(Label::Warn, "warning:"),
                visible::line(&trouble)
            ));
        }
        if let Some(trouble) = self.run.trouble() {
            screen.insist(format_args!(
                "{} not everything was recorded: {trouble}",
                screen.talk(Label::Warn, "warning:")
            ));
        }
        Ok(())
    }
}

/// What the person has said about calls to come.
pub(crate) fn grants(common: &Common) -> Result<Arc<Grants>, CommandError> {
    let grants = Grants::open(surroundings::grants(common)).map_err(|error| {
        CommandError::usage(error.to_string())
            .hint("what was granted is not known, so nothing was started; mend it or remove it")
    })?;
    Ok(Arc::new(grants))
}

/// What was approved. A project's file counts when the project is trusted.
pub(crate) fn pins(common: &Common, config: &Config, mode: PinMode) -> Result<Pins, CommandError> {
    let mut files = surroundings::pins(common)?;
    let project = config.project.as_ref();
    if project.is_none_or(|project| project.standing != ProjectStanding::Trusted) {
        files.project = None;
    }
    Pins::open(files, mode).map_err(|error| {
        CommandError::usage(error.to_string())
            .hint("what it holds back is not known, so nothing was started; mend it, or remove it and approve anew with `outrigger pin`")
    })
}

/// The workspace, as servers are told of it.
fn root(workspace: &Path) -> Result<Root, CommandError> {
    let name = workspace.file_name();
    let uri = Url::from_file_path(workspace).map_err(|()| {
        CommandError::failed(format!(
            "the workspace `{}` has no `file:` address",
            workspace.display()
        ))
    })?;
    Ok(Root {
        uri: uri.into(),
        name: name.map(|name| name.to_string_lossy().into_owned()),
    })
}

/// The run, where it is recorded, and how it began there.
async fn begun(
    record: Record,
    journal: Option<&Journal>,
    options: RunOptions,
) -> Result<(Run, Option<Event>), CommandError> {
    match (record, journal) {
        (Record::Journal(started), Some(journal)) => {
            let run = journal.begin(started.clone(), options).await?;
            Ok((run, Some(started)))
        }
        _ => Ok((Run::unrecorded(options), None)),
    }
}

/// Makes connections, with what is remembered of servers and the tokens of this person.
fn connector(oauth: Option<&OAuth>, trace: Option<Arc<WireTrace>>) -> Connector {
    let mut connector = Connector::new(env!("CARGO_PKG_VERSION"), supervisor());
    if let Some(oauth) = oauth {
        connector = connector.with_oauth(oauth.clone());
    }
    if let Some(folder) = surroundings::eras() {
        connector = connector.with_eras(Arc::new(EraFolder::new(folder)));
    }
    if let Some(trace) = trace {
        connector = connector.with_tap(trace);
    }
    connector
}

/// A run that a hook did not let begin, recorded as such.
async fn refused(refusal: HookRefusal, run: Run, journal: Option<Journal>) -> CommandError {
    let error = refusal.to_string();
    run.record(Event::RunEnded {
        status: RunStatus::Refused,
        reason: Some(error.clone()),
        answer: None,
        usage: Tokens::default(),
    });
    drop(run);
    if let Some(journal) = journal
        && let Err(error) = journal.close().await
    {
        return error.into();
    }
    CommandError::new(Exit::Refused, visible::line(&error).into_owned())
}

/// The tokens of this person; `redactor` learns each of them before it is used. Nobody is sent to
/// sign in: that is `outrigger login`'s.
pub(crate) fn oauth(common: &Common, redactor: &Redactor) -> Result<OAuth, CommandError> {
    let tokens = FileTokens::new(surroundings::tokens(common)?);
    let redactor = redactor.clone();
    let told = move |secret: &Secret| redactor.learn([secret.reveal()]);
    Ok(OAuth::new(Arc::new(tokens)).with_secrets_told(told))
}

/// This program, run as the supervisor of a server.
pub(crate) fn supervisor() -> Option<Vec<OsString>> {
    surroundings::own_program().map(|program| vec![program.into_os_string(), SUPERVISE.into()])
}

/// Runs `work` to its end. The first interrupt cancels `cancel` and lets it end in order; the second
/// does not wait any longer.
pub(crate) async fn interruptible<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = interrupted() => {
                if cancel.is_cancelled() {
                    return Err(CommandError::new(Exit::Interrupted, "interrupted twice; not everything was closed in order"));
                }
                cancel.cancel();
            }
        }
    }
}

/// Returns at an interrupt.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Returns at an interrupt.
#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    tokio::signal::ctrl_c().await.ok();
}
