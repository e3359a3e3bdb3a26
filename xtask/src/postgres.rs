//! PostgreSQL, for tests of replicas: what is on the machine, else Debian's package where this may
//! install one. Nothing of it is started here; tests start their own server, in a folder of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::run;

/// Sees to it that `initdb` and its siblings are there.
pub(crate) fn install() -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    let missing = "tests of replicas need PostgreSQL's `initdb`, `postgres` and `psql`: install the package `postgresql`, or say with OUTRIGGER_POSTGRES in which folder they are";
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        return Err(missing.to_owned());
    }
    let install = ["install", "-y", "--no-install-recommends", "postgresql"];
    let quiet = |words: &[&str]| {
        let mut all = vec!["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"];
        all.extend(words);
        run("env", &all)
    };
    if quiet(&install).is_err() {
        quiet(&["update"])?;
        quiet(&install)?;
    }
    if is_there() {
        Ok(())
    } else {
        Err(missing.to_owned())
    }
}

fn is_there() -> bool {
    if let Some(said) = std::env::var_os("OUTRIGGER_POSTGRES") {
        return PathBuf::from(said).join("initdb").is_file();
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    folders
        .iter()
        .any(|folder| folder.join("initdb").is_file() && folder.join("psql").is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
