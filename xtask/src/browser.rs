//! A browser for tests of pages: Debian's Chromium with its driver, where it is absent and may be
//! installed.

use std::process::Command;

use crate::debian;

/// Installs what is not there yet. Where nothing can be installed, its tests say what is missing.
pub(crate) fn install() -> Result<(), String> {
    let version = Command::new("chromedriver").arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) || !debian::may_install() {
        return Ok(());
    }
    debian::install(&["chromium", "chromium-driver"])
}
