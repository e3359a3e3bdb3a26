//! A browser for tests of pages: Debian's Chromium with its driver, where it is absent and `apt-get` can
//! install it.

use std::process::Command;

use crate::steps::run;

/// Installs what is not there yet. Where nothing can be installed, its tests say what is missing.
pub(crate) fn install() -> Result<(), String> {
    let there = |program: &str| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    if there("chromedriver") || !there("apt-get") {
        return Ok(());
    }
    run("apt-get", &["update", "-qq"])?;
    run(
        "apt-get",
        &[
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "chromium",
            "chromium-driver",
        ],
    )
}
