//! PostgreSQL, for tests of replicas: what is on the machine, else Debian's package where this may
//! install one. Nothing of it is started here; tests start their own server, in a folder of their own.

use std::path::PathBuf;

use crate::debian;

/// Sees to it that `initdb` and its siblings are there.
pub(crate) fn install() -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    let missing = "tests of replicas need PostgreSQL's `initdb`, `postgres` and `psql`: install the package `postgresql`, or say with OUTRIGGER_POSTGRES in which folder they are";
    if !debian::may_install() {
        return Err(missing.to_owned());
    }
    debian::install(&["postgresql"])?;
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
