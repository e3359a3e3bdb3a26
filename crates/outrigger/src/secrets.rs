//! Fetches secrets for references in configuration: the one place that does.
//!
//! Promises: each reference is followed once in a run, also when many ask for it at the same time;
//! nothing that is fetched is printed. A program is given this program's whole environment, since
//! keepers of secrets need their own variables, and starts in the home folder, so that no file of a
//! checkout is meant by a relative name.

pub(crate) mod store;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use outrigger_host::config::{Reference, Resolver, Unresolved};
use outrigger_sandbox::Launch;
use tokio::sync::OnceCell;

use crate::{program, surroundings};

/// A file with a secret in it may have this many bytes.
const MOST: u64 = 1 << 20;

type Fetched = Arc<OnceCell<Result<String, Unresolved>>>;

/// What follows references.
pub(crate) struct Secrets {
    env: BTreeMap<String, String>,
    home: Option<PathBuf>,
    supervisor: Option<Vec<OsString>>,
    fetched: Mutex<HashMap<Reference, Fetched>>,
}

impl Secrets {
    /// `supervisor` stands between this program and the programs of `cmd:`.
    pub(crate) fn new(supervisor: Option<Vec<OsString>>) -> Self {
        Self {
            env: surroundings::environment(),
            home: surroundings::home(),
            supervisor,
            fetched: Mutex::default(),
        }
    }

    async fn fetch(&self, reference: &Reference) -> Result<String, Unresolved> {
        match reference {
            Reference::Env(name) => self.variable(name),
            Reference::File(path) => {
                let path = path.clone();
                aside(move || file(&path)).await
            }
            Reference::Cmd(argv) => self.program(argv).await,
            Reference::Keyring(name) => {
                let name = name.clone();
                aside(move || store::keyring::read(&name)).await
            }
            Reference::Age(name) => {
                let name = name.clone();
                aside(move || store::age::read(&store::folder()?, &name)).await
            }
        }
    }

    fn variable(&self, name: &str) -> Result<String, Unresolved> {
        self.env.get(name).cloned().ok_or_else(|| {
            Unresolved::new(format!("no variable `{name}` is set"))
                .hint(format!("set `{name}` in the environment"))
        })
    }

    async fn program(&self, argv: &[String]) -> Result<String, Unresolved> {
        let [name, rest @ ..] = argv else {
            return Err(Unresolved::new("it names no program"));
        };
        let mut launch = Launch::new(name, rest);
        launch.env = self.env.clone();
        launch.cwd = self.home.clone().unwrap_or(launch.cwd);
        launch.supervisor.clone_from(&self.supervisor);
        let ended = program::run(launch, b"").await.map_err(Unresolved::new)?;
        if !ended.report.success() {
            let reason = format!("`{name}` ended with {}", ended.told());
            return Err(Unresolved::new(reason)
                .hint("it is started without a shell and without a terminal to ask at"));
        }
        String::from_utf8(ended.out)
            .map_err(|_| Unresolved::new(format!("what `{name}` printed is not UTF-8")))
    }
}

#[async_trait]
impl Resolver for Secrets {
    async fn resolve(&self, reference: &Reference) -> Result<String, Unresolved> {
        let fetched = {
            let mut all = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(reference.clone()).or_default())
        };
        fetched.get_or_init(|| self.fetch(reference)).await.clone()
    }
}

/// Reading may block, so it is done where that holds up nobody.
async fn aside(
    work: impl FnOnce() -> Result<String, Unresolved> + Send + 'static,
) -> Result<String, Unresolved> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Unresolved::new("it could not be read")),
    }
}

/// A pipe could hold up its reader for ever, so only plain files are read.
fn file(path: &Path) -> Result<String, Unresolved> {
    let failed = |error: std::io::Error| Unresolved::new(format!("it cannot be read: {error}"));
    let kind = std::fs::metadata(path).map_err(failed)?;
    if !kind.is_file() {
        return Err(Unresolved::new("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MOST {
        return Err(Unresolved::new(format!(
            "it has more than {} MiB, which is no secret",
            MOST >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|_| Unresolved::new("it is not UTF-8"))
}
