//! The suites over the shared cases: fake servers with faults from real bug reports, odd
//! configuration files, and real tool catalogs. They are read from where they are.

use std::path::PathBuf;

use crate::steps::{cargo, root, run};

pub(crate) fn all() -> Result<(), String> {
    let shared = folder()?;
    cargo(&["build", "--package", "outrigger-testkit", "--package", "outrigger", "--bins"])?;
    let binary = |name: &str| root().join("target/debug").join(name).into_os_string();
    run(binary("corpus-check"), &[shared.join("corpus/tools-list")])?;
    run(binary("config-cases"), &[shared.join("cases").into_os_string(), binary("outrigger")])
}

fn folder() -> Result<PathBuf, String> {
    let named = std::env::var_os("OUTRIGGER_SHARED").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared"));
    if folder.join("cases/README.md").is_file() {
        return Ok(folder);
    }
    Err(format!("the shared cases are not at `{}`; OUTRIGGER_SHARED says where they are", folder.display()))
}
