//! The model in the process: weights from the store, fetched when they are not there, and said so.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrigger_local::{
    LoadError, LoadOptions, LocalModel, ModelKind, PullError, PullEvent, PullOptions, Store,
    StoreError, StoredModel,
};
use outrigger_model::Model;
use serde_json::json;

use crate::error::{CommandError, Exit};
use crate::screen::{Label, Screen};
use crate::{surroundings, visible};

/// Bytes of a megabyte, as downloads count.
const MEGABYTE: u64 = 1_000_000;

/// Loads a model by name, after fetching it where that is needed.
pub(crate) async fn load(
    name: Option<&str>,
    threads: Option<usize>,
    screen: Screen,
) -> Result<Arc<dyn Model>, CommandError> {
    let store = store()?;
    let name = name.unwrap_or("default");
    let kind = store.manifest().find(name).map(|model| model.kind);
    if kind == Some(ModelKind::Embedding) {
        let error = format!("`{name}` finds tools and does not answer");
        return Err(CommandError::usage(error).hint(
            "`outrigger model list` says what each is for; `[discovery] embeddings` names this one",
        ));
    }
    let stored = fetch(&store, name, screen).await?;
    let options = LoadOptions {
        name: Some(stored.name.clone()),
        threads,
        ..LoadOptions::default()
    };
    let began = Instant::now();
    let path = stored.path.clone();
    let loaded = tokio::task::spawn_blocking(move || LocalModel::load(&path, &options)).await;
    let model = loaded
        .map_err(|error| {
            CommandError::failed(format!("loading `{}` broke off: {error}", stored.name))
        })?
        .map_err(|error| unusable(&stored, &error))?;
    let line = format!(
        "model {} loaded in {:.1} s",
        model.id(),
        began.elapsed().as_secs_f64()
    );
    screen.say(screen.talk(Label::Dim, &line));
    Ok(Arc::new(model))
}

/// `outrigger model list`.
pub(crate) fn list(as_json: bool, screen: Screen) -> Result<(), CommandError> {
    let store = store()?;
    let here = store.list().map_err(|error| of_store(&error))?;
    let is_here = |name: &str| here.iter().any(|model| model.name == name);
    if as_json {
        let known: Vec<_> = store
            .manifest()
            .models
            .iter()
            .map(|model| {
                let sources: Vec<_> = model.sources.iter().map(ToString::to_string).collect();
                json!({
                    "name": model.name, "about": model.about, "bytes": model.bytes, "licence": model.licence,
                    "sha256": model.sha256, "sources": sources, "here": is_here(&model.name),
                })
            })
            .collect();
        return screen.json(&known);
    }
    for model in &store.manifest().models {
        let mark = if is_here(&model.name) {
            screen.ink(Label::Good, "here")
        } else {
            screen.ink(Label::Dim, "-   ")
        };
        let name = screen.ink(Label::Name, &model.name);
        screen.data(&format!(
            "{mark} {name:<24} {:>5} MB  {}\n",
            model.bytes / MEGABYTE,
            model.licence
        ))?;
        let sources = model
            .sources
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        screen.data(&format!("     {}; from {sources}\n", model.about))?;
    }
    let unknown = |model: &&StoredModel| store.manifest().find(&model.name).is_none();
    for model in here.iter().filter(unknown) {
        let (mark, name) = (
            screen.ink(Label::Good, "here"),
            screen.ink(Label::Name, &model.name),
        );
        screen.data(&format!(
            "{mark} {name:<24} {:>5} MB\n",
            model.bytes / MEGABYTE
        ))?;
    }
    Ok(())
}

/// `outrigger model pull`.
pub(crate) async fn pull(name: &str, screen: Screen) -> Result<(), CommandError> {
    let stored = fetch(&store()?, name, screen).await?;
    Ok(screen.data(&format!("{}\n", stored.path.display()))?)
}

/// `outrigger model rm`.
pub(crate) fn remove(name: &str, screen: Screen) -> Result<(), CommandError> {
    let freed = store()?.remove(name).map_err(|error| of_store(&error))?;
    screen.say(format_args!("removed `{name}`, {} MB", freed / MEGABYTE));
    Ok(())
}

fn store() -> Result<Store, CommandError> {
    Ok(Store::new(surroundings::weights()?))
}

async fn fetch(store: &Store, name: &str, screen: Screen) -> Result<StoredModel, CommandError> {
    let mut options = PullOptions::default();
    if let Some(hub) = surroundings::set("HF_ENDPOINT") {
        hub.trim_end_matches('/').clone_into(&mut options.hub);
    }
    if let Some(python) = surroundings::set("OUTRIGGER_PYTHON") {
        options.python = PathBuf::from(python);
    }
    let mut told = Told::new(screen);
    let pulled = store
        .pull(name, &options, &mut |event| told.tell(&event))
        .await;
    pulled.map_err(|error| match error {
        PullError::Store(error) => of_store(&error),
        PullError::Disk(error) => CommandError::failed(error.to_string()),
        PullError::AllFailed { .. } => CommandError::new(Exit::Unavailable, error.to_string())
            .hint("or name a GGUF file that you have: `--model local:file:PATH`"),
    })
}

fn of_store(error: &StoreError) -> CommandError {
    let hint = "`outrigger model list` shows the known ones";
    match error {
        StoreError::Unknown { .. } | StoreError::NotHere { .. } | StoreError::NoFile { .. } => {
            CommandError::usage(error.to_string()).hint(hint)
        }
        _ => CommandError::failed(error.to_string()),
    }
}

fn unusable(stored: &StoredModel, error: &LoadError) -> CommandError {
    let error = format!("the model `{}` cannot be used: {error}", stored.name);
    CommandError::failed(error).hint(format!(
        "`outrigger model rm {}` and fetch it again",
        stored.name
    ))
}

/// What happens during a pull, on stderr: on a terminal a line that counts, elsewhere a line for each
/// tenth.
struct Told {
    screen: Screen,
    live: bool,
    last: Option<Instant>,
    tenth: u64,
    open: bool,
}

impl Told {
    fn new(screen: Screen) -> Self {
        Self {
            screen,
            live: std::io::stderr().is_terminal(),
            last: None,
            tenth: 0,
            open: false,
        }
    }

    fn tell(&mut self, event: &PullEvent) {
        if let PullEvent::Progress { done, total } = event {
            return self.progress(*done, *total);
        }
        if std::mem::take(&mut self.open) {
            self.screen.say("");
        }
        match event {
            PullEvent::Waiting { model } => {
                self.screen.say(format_args!(
                    "another process fetches `{model}`; waiting for it"
                ));
            }
            PullEvent::Trying { model, source } => {
                self.tenth = 0;
                self.screen
                    .say(format_args!("fetching `{model}` from {source}"));
            }
            PullEvent::Verifying => self.screen.say("verifying"),
            PullEvent::SourceFailed { source, reason } => {
                let word = self.screen.talk(Label::Warn, "failed");
                self.screen
                    .say(format_args!("{source} {word}: {}", visible::lines(reason)));
            }
            PullEvent::Done { model, path } => {
                self.screen
                    .say(format_args!("`{model}` is in {}", path.display()));
            }
            PullEvent::Progress { .. } => {}
        }
    }

    fn progress(&mut self, done: u64, total: Option<u64>) {
        let megabytes = done / MEGABYTE;
        let of = total
            .map(|total| format!(" of {}", total / MEGABYTE))
            .unwrap_or_default();
        if self.live {
            let due = self
                .last
                .is_none_or(|last| last.elapsed() > Duration::from_millis(200));
            if due || Some(done) == total {
                self.last = Some(Instant::now());
                self.open = true;
                self.screen.count(format_args!("  {megabytes}{of} MB"));
            }
            return;
        }
        let tenth = total.map_or(0, |total| done * 10 / total.max(1));
        if tenth > self.tenth {
            self.tenth = tenth;
            self.screen.say(format_args!("  {megabytes}{of} MB"));
        }
    }
}
