//! Debian's packages, where they are missing and may be installed.

use std::path::Path;
use std::process::Command;

use crate::steps::run;

/// Whether packages may be installed here.
pub(crate) fn may_install() -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    is_root && Path::new("/usr/bin/apt-get").exists()
}

/// Installs packages; the lists are fetched where they are missing or too old.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    let words = [&["install", "-y", "--no-install-recommends"], packages].concat();
    if quiet(&words).is_err() {
        quiet(&["update"])?;
        quiet(&words)?;
    }
    Ok(())
}

fn quiet(words: &[&str]) -> Result<(), String> {
    let apt = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"];
    run("env", &[&apt, words].concat())
}
