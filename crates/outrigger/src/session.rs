//! What the commands that talk to servers share: configuration, journal, host, and an end that
//! writes everything down.

mod configuration;
mod pool;
mod renewal;
mod world;

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_connect::{FileTokens, OAuth, Root, Secret};
use outrigger_gateway::{Clients, Identity};
use outrigger_host::config::{Config, ProjectStanding};
use outrigger_host::hooks::{HookRefusal, Hooks};
use outrigger_host::pins::{PinMode, Pins};
use outrigger_host::policy::Policy;
use outrigger_host::questions::{Questions, Sampler};
use outrigger_host::{Builtin, Host, Parts, Upstreams};
use outrigger_journal::{
    Event, Journal, Observer, Redactor, Run, RunId, RunOptions, RunStatus, Tokens, UnknownCall,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::builtin;
use crate::cli::Common;
use crate::error::{CommandError, Exit};
use crate::keyboard::Keyboard;
use crate::recording::{self, Recorder};
use crate::screen::{Label, Screen};
use crate::shelf::HostShelf;
use crate::storage::Storage;
use crate::telemetry::Telemetry;
use crate::{hooks, surroundings, traces, visible};

use world::{Person, Wire};

pub(crate) use renewal::Renewal;

pub(crate) use configuration::{
    configuration, configuration_again, configuration_in, configuration_of, narrowed, only,
    trusted, with_secrets,
};

pub(crate) use pool::Pool;

/// The hidden subcommand that stands between this program and each server it starts.
pub(crate) const SUPERVISE: &str = "__supervise";

/// How long to wait for servers that are still starting before going on without them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// For how long a call whose outcome is unknown is recognised when another run makes it again.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

/// How long a token that is being renewed is waited for at the end, so that its successor is kept.
const RENEWAL: Duration = Duration::from_secs(10);

/// What a session records into.
pub(crate) enum Record {
    /// The journal, as a run that begins with this event.
    Journal(Event),
    /// The same, of a run that goes on where another stopped.
    Resumed(Event, RunId),
    /// Nothing: the command only looks.
    Nothing,
}

impl Record {
    /// The journal, where something is recorded.
    fn journal(&self, storage: &Storage, screen: Screen) -> Result<Option<Journal>, CommandError> {
        match self {
            Self::Journal(_) | Self::Resumed(..) => Ok(Some(storage.open(screen)?)),
            Self::Nothing => Ok(None),
        }
    }

    /// What becomes of tools that are not approved.
    fn pin_mode(&self, common: &Common) -> PinMode {
        match self {
            _ if common.locked => PinMode::Locked,
            Self::Journal(_) | Self::Resumed(..) => PinMode::FirstUse,
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
        principal: None,
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
    shelf: HostShelf,
    /// Those that were ever wanted.
    builtins: Vec<Builtin>,
    telemetry: Telemetry,
    recorder: Option<Arc<Recorder>>,
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
    /// The clients of a principal of the gateway, each about its own calls, after what the person has
    /// said earlier about calls of theirs.
    Clients(Served),
    /// The same, at a keyboard that is used for more than answers.
    PersonAt(Keyboard),
    /// Nobody: the command only looks.
    Nobody,
}

/// Whose clients are served, and how they are reached.
pub(crate) struct Served {
    pub(crate) clients: Clients,
    pub(crate) whose: Identity,
    pub(crate) shared: Option<Upstreams>,
}

impl Asked {
    /// The principal of the gateway whose clients are asked, where that has a name.
    fn principal(&self) -> Option<&str> {
        match self {
            Self::Clients(served) => served.whose.name(),
            _ => None,
        }
    }

    /// Lends servers that others use too.
    fn shared(&self) -> Option<Upstreams> {
        match self {
            Self::Clients(served) => served.shared.clone(),
            _ => None,
        }
    }
}

/// Who sees what is recorded, and what is kept out of it.
fn options(
    observers: Vec<Arc<dyn Observer>>,
    telemetry: &Telemetry,
    common: &Common,
    config: &Config,
) -> RunOptions {
    let more = telemetry.observer().into_iter();
    RunOptions {
        observers: observers
            .into_iter()
            .chain(more)
            .chain(world::observer(common))
            .collect(),
        secrets: config.secrets(),
    }
}

impl Opening<'_> {
    /// The configuration with its references followed, and where traces of the run go.
    async fn followed(
        &self,
        storage: &Storage,
        is_recorded: bool,
    ) -> Result<(Config, Telemetry), CommandError> {
        let (common, screen) = (self.common, self.screen);
        let mut config = with_secrets(self.config, is_recorded, common, screen).await?;
        config.hide(storage.secrets().to_vec());
        if common.playback.is_some() {
            // What is played back runs nowhere.
            config.forget_single();
        }
        recording::begin(common, &config)?;
        let exported = matches!(self.record, Record::Journal(_)) && common.playback.is_none();
        let telemetry = Telemetry::begin(exported.then_some(&config), screen);
        Ok((config, telemetry))
    }

    fn policy(&self) -> Result<Policy, CommandError> {
        let policy = Policy::new(&self.config.policy, self.allow)?;
        Ok(match self.person.principal() {
            Some(name) => policy.of_client(name),
            None => policy,
        })
    }
}

impl Session {
    /// Follows the references to secrets, runs the hooks of the start, and starts the servers.
    pub(crate) async fn open(opening: Opening<'_>) -> Result<Self, CommandError> {
        let storage = Storage::of(opening.common).await?;
        Self::open_in(opening, &storage).await
    }

    /// The same, where state is kept here, whatever the configuration says by now.
    pub(crate) async fn open_in(
        opening: Opening<'_>,
        storage: &Storage,
    ) -> Result<Self, CommandError> {
        // Much is held on the way.
        Box::pin(Self::opened(opening, storage)).await
    }

    async fn opened(opening: Opening<'_>, storage: &Storage) -> Result<Self, CommandError> {
        let (common, screen, record) = (opening.common, opening.screen, &opening.record);
        let policy = opening.policy()?;
        // All that a person could have got wrong is looked at before the run begins.
        let journal = record.journal(storage, screen)?;
        let pins = pins(storage, common, opening.config, record.pin_mode(common))?;
        let person = Person::of(&opening, storage, journal.as_ref())?;
        let wire = Wire::open(common)?;
        let leases = world::leases(&opening, storage, journal.as_ref()).await?;
        let (config, telemetry) = opening.followed(storage, journal.is_some()).await?;
        let options = options(opening.observers, &telemetry, common, &config);
        let (run, started) = begun(opening.record, journal.as_ref(), options).await?;
        traces::follow(run.redactor());
        let taps = wire.taps(&run, common, screen);
        let hooks = Arc::new(hooks::of(&config, world::runner(common))?);
        if let Some(started) = &started
            && let Err(refusal) = hooks.session_start(&run, started).await
        {
            let refused = refused(refusal, run, journal).await;
            telemetry.finish(screen).await;
            return Err(refused);
        }
        let workspace = surroundings::workspace(common)?;
        let shelf = HostShelf::default();
        let kept = |journal| storage.artifacts(common, journal);
        let artifacts = journal.as_ref().map(kept).transpose()?;
        let builtins = builtin::all(&config, &workspace, &shelf, artifacts.as_ref())?;
        let oauth = tokens(common, &run, opening.person.principal());
        let parts = Parts {
            connector: world::connector(oauth.as_ref(), taps, common),
            run: run.clone(),
            builtins: builtins.clone(),
            approver: person.approver,
            questions: Questions {
                sampler: opening.sampler,
                roots: vec![root(&workspace)?],
                ..person.questions
            },
            policy,
            pins: Arc::new(pins),
            shared: opening.person.shared(),
            upkeep: opening.person.upkeep(&config),
            leases,
            hooks: Arc::clone(&hooks),
            artifacts,
            traces: telemetry.traces(),
        };
        Ok(Self {
            host: shelf.of(Host::start(&config, parts)),
            run,
            journal,
            oauth,
            locked: common.locked,
            hooks,
            shelf,
            builtins,
            telemetry,
            recorder: common.recorder.clone(),
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

    /// Makes calls known to the host whose outcome is unknown: those of this folder of the last day,
    /// and those of `chain`, whenever that was. Where that cannot be, the session is closed.
    pub(crate) async fn knowing_what_is_unknown(
        self,
        common: &Common,
        chain: &[RunId],
        screen: Screen,
    ) -> Result<Self, CommandError> {
        match self.unknown(common, chain).await {
            Ok(calls) => {
                self.host.remember_unknown(calls);
                Ok(self)
            }
            Err(error) => {
                let ended = Event::RunEnded {
                    status: RunStatus::Failed,
                    reason: Some(error.to_string()),
                    answer: None,
                    usage: Tokens::default(),
                };
                self.close(Some(ended), screen).await?;
                Err(error)
            }
        }
    }

    async fn unknown(
        &self,
        common: &Common,
        chain: &[RunId],
    ) -> Result<Vec<UnknownCall>, CommandError> {
        let Some(journal) = &self.journal else {
            return Ok(Vec::new());
        };
        let workspace = surroundings::workspace(common)?.display().to_string();
        let now = Timestamp::now();
        let recent = |call: &UnknownCall| {
            call.workspace == workspace && now.duration_since(call.at) < REMEMBERED
        };
        let mut calls = journal.unknown().await?;
        calls.retain(|call| recent(call) || chain.contains(&call.run));
        Ok(calls)
    }

    /// Waits until no server is starting any more, or `patience` is over. An interrupt closes the
    /// session and is the error.
    pub(crate) async fn settled(
        self,
        patience: Duration,
        cancel: &CancellationToken,
        screen: Screen,
    ) -> Result<Self, CommandError> {
        // Of the others it is known what they have.
        self.host.wake(false);
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
        if let Some(recorder) = &self.recorder {
            recorder.closing();
        }
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
        self.telemetry.finish(screen).await;
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

/// Without a home there are no tokens, and most servers need none; a recording has none.
fn tokens(common: &Common, run: &Run, principal: Option<&str>) -> Option<OAuth> {
    let offline = common.playback.is_some();
    oauth(common, run.redactor(), principal)
        .ok()
        .filter(|_| !offline)
}

/// What was approved. A project's file counts when the project is trusted.
pub(crate) fn pins(
    storage: &Storage,
    common: &Common,
    config: &Config,
    mode: PinMode,
) -> Result<Pins, CommandError> {
    let mut files = storage.pins(common)?;
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
        (Record::Resumed(started, from), Some(journal)) => {
            let run = journal.begin(started.clone(), options).await?;
            // At once: until it is known what it goes on with, it has no conversation.
            run.record_durable(Event::RunResumed { from }).await?;
            Ok((run, Some(started)))
        }
        _ => Ok((Run::unrecorded(options), None)),
    }
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

/// The tokens of this person, or those that were got for a principal of the gateway; `redactor` learns each of them before it is used. Nobody is sent to
/// sign in: that is `outrigger login`'s.
pub(crate) fn oauth(
    common: &Common,
    redactor: &Redactor,
    principal: Option<&str>,
) -> Result<OAuth, CommandError> {
    let tokens = FileTokens::new(surroundings::tokens(common, principal)?);
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

/// Waits for an interrupt, or to be asked to end. From the moment of the call on neither ends this
/// program by itself, also while nobody has polled what is returned.
#[cfg(unix)]
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::interrupt())
        .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
    async {
        let Ok((mut interrupt, mut terminate)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Waits for an interrupt. From the moment of the call on it does not end this program by itself,
/// also while nobody has polled what is returned.
#[cfg(not(unix))]
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let interrupt = tokio::signal::windows::ctrl_c();
    async {
        let Ok(mut interrupt) = interrupt else {
            return std::future::pending().await;
        };
        interrupt.recv().await;
    }
}
