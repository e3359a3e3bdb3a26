//! Which files are looked for, from the farthest to the nearest.

use std::path::{Path, PathBuf};

use super::origin::Layer;
use super::surroundings::Surroundings;

/// Our own file in each format. When a folder has several, all are read and the last is nearest.
const OWN: &[&str] = &[
    "outrigger.json",
    "outrigger.yml",
    "outrigger.yaml",
    "outrigger.toml",
];

/// The files, in order. They need not exist, except those named by `--config`.
pub(crate) fn files(around: &Surroundings) -> Vec<(Layer, PathBuf)> {
    let mut files = Vec::new();
    let mut add = |layer: Layer, folder: &Path, names: &[&str]| {
        files.extend(names.iter().map(|name| (layer, folder.join(name))));
    };
    if let Some(folder) = &around.user_dir {
        add(Layer::User, folder, &["mcp.json"]);
        add(Layer::User, folder, OWN);
    }
    // `.vscode/mcp.json` is not read by itself: its servers are for the editor, its inputs are a
    // dialogue. `--config .vscode/mcp.json` reads it.
    add(
        Layer::Project,
        &around.workspace,
        &[".mcp.json", "mcp.json"],
    );
    add(Layer::Project, &around.workspace.join(".outrigger"), OWN);
    files.extend(
        around
            .explicit
            .iter()
            .map(|file| (Layer::Explicit, around.workspace.join(file))),
    );
    if let Some(folder) = &around.managed_dir {
        files.extend(OWN.iter().map(|name| (Layer::Managed, folder.join(name))));
    }
    files
}
