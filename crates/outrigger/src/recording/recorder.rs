//! Writes a recording while a run goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use outrigger_agent::{Estimates, Learned};
use outrigger_host::config::{Config, ProjectStanding, Surroundings, kept, show};
use outrigger_journal::{Event, Observer, Recorded, Redactor};
use outrigger_model::Model;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    AS_MEANT, CONFIGURATION, FORMAT, Found, Kind, Line, MANIFEST, Manifest, TRAFFIC, UsedModel,
    UsedSearch,
};
use crate::cli::Common;
use crate::error::CommandError;
use crate::screen::{Label, Screen};
use crate::{surroundings, visible};

/// The recording of one run.
pub(crate) struct Recorder {
    folder: PathBuf,
    began: Instant,
    /// What must not be written; known once the run has begun, before anything is sent.
    redactor: OnceLock<Redactor>,
    state: Mutex<State>,
}

struct State {
    file: File,
    /// Of the last line.
    seq: u64,
    manifest: Manifest,
    trouble: Option<String>,
}

/// Says where, never what.
impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins one in a folder that is new or empty.
    pub(crate) fn begin(
        folder: &Path,
        words: Vec<String>,
        workspace: PathBuf,
        attended: bool,
    ) -> Result<Arc<Self>, CommandError> {
        let cannot = |why: &dyn std::fmt::Display| {
            let folder = folder.display();
            CommandError::usage(format!(
                "the recording `{folder}` of `--record` cannot be written: {why}"
            ))
            .hint("name a folder that is new or empty")
        };
        make(folder).map_err(|error| cannot(&error))?;
        let file = create(&folder.join(TRAFFIC)).map_err(|error| cannot(&error))?;
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            recorded_at: jiff::Timestamp::now(),
            command: words,
            question: None,
            workspace,
            attended,
            model: None,
            servers: std::collections::BTreeMap::new(),
            exit: None,
        };
        let state = State {
            file,
            seq: 0,
            manifest,
            trouble: None,
        };
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            began: Instant::now(),
            redactor: OnceLock::new(),
            state: Mutex::new(state),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on this knows what is secret.
    pub(crate) fn follow(&self, redactor: &Redactor) {
        self.redactor.set(redactor.clone()).ok();
    }

    /// Adds a line. Without a redactor nothing is written.
    pub(super) fn add(&self, mut line: Line) {
        let Some(redactor) = self.redactor.get() else {
            return;
        };
        line.body = line
            .body
            .map(|body| on_one_line(redactor.redact_json(&body).get()));
        line.text = line.text.map(|text| redactor.redact(&text).into_owned());
        let mut state = self.state();
        if state.trouble.is_some() {
            return;
        }
        state.seq += 1;
        line.seq = state.seq;
        line.ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let written = serde_json::to_string(&line)
            .map_err(io::Error::from)
            .and_then(|text| state.file.write_all(format!("{text}\n").as_bytes()));
        if let Err(error) = written {
            state.trouble = Some(error.to_string());
        }
    }

    /// What the run ended with follows: servers that end now were asked to.
    pub(crate) fn closing(&self) {
        self.add(Line::new(Kind::Closing));
    }

    /// What is known at the start of how the model counts.
    pub(crate) fn estimates(&self, estimates: &Estimates) {
        if let Some(model) = &mut self.state().manifest.model {
            let Learned {
                reported,
                estimated,
                requests,
            } = estimates.of(&model.id);
            model.reported = (requests > 0).then_some((reported, estimated, requests));
        }
    }

    /// The model of the run, with what it is asked and says recorded.
    pub(crate) fn model(self: &Arc<Self>, model: Arc<dyn Model>) -> Arc<dyn Model> {
        let limits = model.limits();
        self.state().manifest.model = Some(UsedModel {
            id: model.id().to_owned(),
            context_tokens: limits.context_tokens,
            sees_images: limits.sees_images,
            tool_search: model.tool_search().ok().map(|search| UsedSearch {
                most_tools: search.most_tools,
                most_entries: search.most_entries,
                shows_groups: search.shows_groups,
            }),
            reported: None,
        });
        super::model::recorded(Arc::clone(self), model)
    }

    /// Keeps the configuration, before it is used. `locks` are what was approved: the person's file and
    /// the project's.
    pub(crate) fn configuration(
        &self,
        config: &Config,
        around: &Surroundings,
        locks: [Option<&Path>; 2],
    ) -> Result<(), CommandError> {
        let redactor = Redactor::new(config.secrets());
        let redact = |text: &str| redactor.redact(text).into_owned();
        let kept = kept(config, around, &redact);
        let project = config.project.as_ref();
        let [user_lock, project_lock] =
            locks.map(|file| file.and_then(|file| std::fs::read_to_string(file).ok()));
        let found = Found {
            user_dir: around.user_dir.clone(),
            managed_dir: around.managed_dir.clone(),
            managed_file: around.managed_file.clone(),
            home: around.home.clone(),
            explicit: around.explicit.clone(),
            trusted: project.is_some_and(|project| project.standing == ProjectStanding::Trusted),
            variables: kept.variables,
            files: kept.files,
            user_lock: user_lock.map(|text| redact(&text)),
            project_lock: project_lock.map(|text| redact(&text)),
        };
        let as_meant = redact(&show::render(config, true));
        self.write(CONFIGURATION, &pretty(&found))?;
        self.write(AS_MEANT, &as_meant)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), CommandError> {
        let path = self.folder.join(name);
        let written = create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            CommandError::failed(format!("`{}` cannot be written: {error}", path.display()))
        })
    }

    /// Writes how it ended, and tells what could not be recorded.
    pub(crate) fn finish(&self, exit: u8, screen: Screen) {
        let (text, mut trouble) = {
            let mut state = self.state();
            state.manifest.exit = Some(exit);
            (pretty(&state.manifest), state.trouble.take())
        };
        // Words of the command line may hold what has turned out to be secret.
        let redactor = self.redactor.get();
        let text = redactor.map(|redactor| redactor.redact(&text).into_owned());
        if text.is_none() {
            trouble = trouble.or_else(|| Some("the run did not begin".to_owned()));
        }
        if let (None, Some(text)) = (&trouble, text) {
            trouble = self.write(MANIFEST, &text).err().map(|error| error.error);
        }
        match trouble {
            None => screen.say(format_args!(
                "recorded in {}; `outrigger replay` runs it again",
                visible::line(&self.folder.display().to_string())
            )),
            Some(why) => screen.insist(format_args!(
                "{} the recording cannot be used: {}",
                screen.talk(Label::Warn, "warning:"),
                visible::line(&why)
            )),
        }
    }
}

/// Keeps what a run is about to use, where it is recorded.
pub(crate) fn begin(common: &Common, config: &Config) -> Result<(), CommandError> {
    let Some(recorder) = &common.recorder else {
        return Ok(());
    };
    let around = surroundings::of_configuration(common)?;
    let pins = surroundings::pins(common)?;
    let locks = [pins.user.as_deref(), pins.project.as_deref()];
    recorder.configuration(config, &around, locks)
}

impl Observer for Recorder {
    fn observe(&self, recorded: &Recorded) {
        let mut state = self.state();
        let servers = &mut state.manifest.servers;
        match &recorded.event {
            Event::RunStarted { question, .. } => state.manifest.question.clone_from(question),
            Event::ServerReady {
                server,
                era,
                protocol_version,
                ..
            } => {
                let used = servers.entry(server.clone()).or_default();
                used.era = Some(era.clone());
                used.protocol_version = Some(protocol_version.clone());
            }
            Event::ServerFailed { server, error, .. } => {
                servers.entry(server.clone()).or_default().failed = Some(error.clone());
            }
            _ => {}
        }
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Within strings line breaks cannot stand as they are, so they stand between tokens.
fn on_one_line(json: &str) -> Box<RawValue> {
    let line = json.replace(['\n', '\r'], " ");
    RawValue::from_string(line).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A folder for its owner only.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    match std::fs::read_dir(folder)?.next() {
        None => Ok(()),
        Some(_) => Err(io::Error::other("it is not empty")),
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
