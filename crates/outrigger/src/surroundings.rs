//! The only reader of environment, home and current folder.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the room that the others take these values from"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outrigger_host::Digest;
use outrigger_host::config::foreign::{Places, Platform};
use outrigger_host::config::{Surroundings, Trust};
use outrigger_host::pins::PinFiles;

use crate::cli::Common;
use crate::error::CommandError;
use crate::trust::TrustStore;

/// The folder of whoever looks after the machine.
const MANAGED: &str = "/etc/outrigger";

/// Where configuration may be, and the values it may use.
pub(crate) fn of_configuration(common: &Common) -> Result<Surroundings, CommandError> {
    if let Some(playback) = &common.playback {
        return Ok(playback.surroundings());
    }
    let here = current_folder()?;
    let workspace = workspace(common)?;
    // Without a home nothing was ever said about trust.
    let trust = if common.trust_project {
        Trust::ThisRun
    } else {
        TrustStore::of(common).map_or(Trust::Unsaid, |store| store.about(&workspace))
    };
    Ok(Surroundings {
        workspace,
        user_dir: xdg("XDG_CONFIG_HOME", ".config"),
        managed_dir: Some(managed()),
        managed_file: managed_file(),
        home: home(),
        env: environment(),
        explicit: common.config.iter().map(|file| here.join(file)).collect(),
        trust,
        principal: None,
        files: None,
    })
}

/// The folder of whoever looks after the machine. The variable is for machines without it, so that
/// nobody switches off what is there.
fn managed() -> PathBuf {
    let usual = PathBuf::from(MANAGED);
    match set("OUTRIGGER_MANAGED_DIR") {
        Some(named) if !usual.exists() => named.into(),
        _ => usual,
    }
}

/// One file in the place of that folder, under the same condition.
fn managed_file() -> Option<PathBuf> {
    let named = set("OUTRIGGER_MANAGED_CONFIG").map(PathBuf::from);
    named.filter(|_| !Path::new(MANAGED).exists())
}

/// The folder that the run is bound to, absolute and existing.
pub(crate) fn workspace(common: &Common) -> Result<PathBuf, CommandError> {
    if let Some(playback) = &common.playback {
        return Ok(playback.manifest().workspace.clone());
    }
    let here = current_folder()?;
    let Some(dir) = &common.workspace else {
        return Ok(here);
    };
    let dir = here.join(dir);
    match std::fs::canonicalize(&dir) {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(CommandError::usage(format!(
            "the workspace `{}` is not a folder",
            dir.display()
        ))),
        Err(error) => Err(CommandError::usage(format!(
            "the workspace `{}` cannot be used: {error}",
            dir.display()
        ))),
    }
}

/// The folder of the person's own configuration.
pub(crate) fn configuration_folder() -> Result<PathBuf, CommandError> {
    xdg("XDG_CONFIG_HOME", ".config").ok_or_else(|| no_home("XDG_CONFIG_HOME"))
}

/// The journal's file.
pub(crate) fn journal(common: &Common) -> Result<PathBuf, CommandError> {
    state(common).map(|dir| dir.join("journal.db"))
}

/// The folder of what tools returned that does not stand in the journal's file.
pub(crate) fn artifacts(common: &Common) -> Result<PathBuf, CommandError> {
    state(common).map(|dir| dir.join("artifacts"))
}

/// What stands in for what configuration does not say of a bucket, under the names that all tools of
/// Amazon's know.
#[cfg(feature = "postgres")]
pub(crate) fn of_buckets() -> BTreeMap<String, String> {
    const NAMES: [&str; 13] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    ];
    let said = |name: &&str| {
        let value = set(name)?;
        Some(((*name).to_owned(), value))
    };
    NAMES.iter().filter_map(said).collect()
}

/// Where it is kept what was said about calls to come; without a home nothing was.
pub(crate) fn grants(common: &Common) -> Option<PathBuf> {
    state(common).ok().map(|dir| dir.join("grants.toml"))
}

/// Where it is kept what was approved of the servers' tools.
pub(crate) fn pins(common: &Common) -> Result<PinFiles, CommandError> {
    // Without a home nothing can be kept, and nothing was.
    let state = state(common).ok();
    let project = match &common.playback {
        Some(playback) => playback.project_lock(),
        None => workspace(common)?.join("outrigger.lock"),
    };
    Ok(PinFiles {
        user: state.as_ref().map(|dir| dir.join("outrigger.lock")),
        project: Some(project),
        definitions: state.map(|dir| dir.join("definitions")),
        shared: None,
    })
}

/// The folder of who may decide on the page of a gateway.
pub(crate) fn page_keys(common: &Common) -> Result<PathBuf, CommandError> {
    state(common).map(|dir| dir.join("gateway"))
}

/// What was typed in chats; without a home it is not kept.
pub(crate) fn chat_history(common: &Common) -> Option<PathBuf> {
    state(common).ok().map(|dir| dir.join("chat_history"))
}

/// The folder of what was said about projects.
pub(crate) fn trust(common: &Common) -> Result<PathBuf, CommandError> {
    state(common).map(|dir| dir.join("trust"))
}

/// A path as typed, made absolute; without links where it exists.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    let path = current_folder()?.join(path);
    Ok(std::fs::canonicalize(&path).unwrap_or(path))
}

/// The folder of the person's tokens, or of those of a principal of the gateway.
pub(crate) fn tokens(common: &Common, principal: Option<&str>) -> Result<PathBuf, CommandError> {
    let dir = state(common)?.join("oauth");
    Ok(match principal {
        // Names that differ in case only are one on some file systems, and fingerprints are not.
        Some(name) => dir
            .join("principals")
            .join(Digest::of(&name.into()).to_string()),
        None => dir,
    })
}

/// How people know this process among others: the machine and its number.
pub(crate) fn name() -> String {
    #[cfg(unix)]
    let machine = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let machine = set("COMPUTERNAME").unwrap_or_default();
    format!("{machine}:{}", std::process::id())
}

fn state(common: &Common) -> Result<PathBuf, CommandError> {
    let dir = match &common.state_dir {
        Some(dir) => Some(current_folder()?.join(dir)),
        None => xdg("XDG_STATE_HOME", ".local/state"),
    };
    dir.ok_or_else(|| no_home("--state-dir DIR"))
}

/// The folder where it is kept which era each server speaks; `None` without a home.
pub(crate) fn eras() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("eras"))
}

/// The folder where it is kept what providers report of requests; `None` without a home.
pub(crate) fn reports() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("reports"))
}

/// The folder where it is kept what the gateway last knew of servers' tools; `None` without a home.
pub(crate) fn gateway() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("gateway"))
}

/// Where other hosts keep their server lists.
pub(crate) fn hosts(common: &Common) -> Result<Places, CommandError> {
    let folder = |name: &str| {
        let path = set(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = home().or_else(|| folder("USERPROFILE"));
    Ok(Places {
        platform: Platform::HERE,
        home: home.ok_or_else(|| no_home("HOME"))?,
        xdg_config: folder("XDG_CONFIG_HOME"),
        app_data: folder("APPDATA"),
        claude: folder("CLAUDE_CONFIG_DIR"),
        codex: folder("CODEX_HOME"),
        workspace: workspace(common)?,
    })
}

/// The folder where it is kept what models of embeddings made of tools; `None` without a home.
#[cfg(feature = "local")]
pub(crate) fn vectors() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("vectors"))
}

/// The folder of weights.
#[cfg(feature = "local")]
pub(crate) fn weights() -> Result<PathBuf, CommandError> {
    xdg("XDG_CACHE_HOME", ".cache")
        .map(|dir| dir.join("models"))
        .ok_or_else(|| no_home("XDG_CACHE_HOME"))
}

/// What was typed after the program's name.
pub(crate) fn words() -> Vec<String> {
    let words = std::env::args_os().skip(1);
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// A variable; an empty one counts as not set.
pub(crate) fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// `NO_COLOR` (no-color.org).
pub(crate) fn no_color() -> bool {
    set("NO_COLOR").is_some()
}

/// The program itself, to be started as the supervisor of servers.
pub(crate) fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// Variables whose name or value is not Unicode cannot be named in configuration, and are left out.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

pub(crate) fn home() -> Option<PathBuf> {
    set("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
}

/// A folder of the XDG base directory specification; relative values must be ignored.
fn xdg(variable: &str, default: &str) -> Option<PathBuf> {
    let base = set(variable)
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    base.or_else(|| home().map(|home| home.join(default)))
        .map(|dir| dir.join("outrigger"))
}

fn current_folder() -> Result<PathBuf, CommandError> {
    let here = std::env::current_dir();
    here.and_then(|dir| std::fs::canonicalize(Path::new(&dir)))
        .map_err(|error| {
            CommandError::failed(format!("the current folder cannot be used: {error}"))
        })
}

fn no_home(instead: &str) -> CommandError {
    CommandError::usage("there is no home folder (`HOME` is not set)")
        .hint(format!("set `HOME`, or give {instead}"))
}
