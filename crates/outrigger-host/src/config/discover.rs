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

/// A file to be looked for.
pub(crate) struct Wanted {
    pub(crate) layer: Layer,
    pub(crate) path: PathBuf,
    /// What names it, where something does; then it has to exist.
    pub(crate) named_by: Option<&'static str>,
}

/// The files, in order. They need not exist, except those that are named.
pub(crate) fn files(around: &Surroundings) -> Vec<Wanted> {
    let mut files = Vec::new();
    let mut add = |layer: Layer, folder: &Path, names: &[&str]| {
        files.extend(names.iter().map(|name| Wanted {
            layer,
            path: folder.join(name),
            named_by: None,
        }));
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
    files.extend(around.explicit.iter().map(|file| explicit(around, file)));
    files.extend(managed(around));
    files
}

/// One file in the place of the user's and the project's; managed ones still stand.
pub(crate) fn instead(around: &Surroundings, file: &Path) -> Vec<Wanted> {
    let mut files = vec![explicit(around, file)];
    files.extend(managed(around));
    files
}

fn explicit(around: &Surroundings, file: &Path) -> Wanted {
    Wanted {
        layer: Layer::Explicit,
        path: around.workspace.join(file),
        named_by: Some("`--config`"),
    }
}

fn managed(around: &Surroundings) -> Vec<Wanted> {
    let mut files = Vec::new();
    if let Some(folder) = &around.managed_dir {
        files.extend(OWN.iter().map(|name| Wanted {
            layer: Layer::Managed,
            path: folder.join(name),
            named_by: None,
        }));
    }
    files.extend(around.managed_file.iter().map(|file| Wanted {
        layer: Layer::Managed,
        path: file.clone(),
        named_by: Some("`OUTRIGGER_MANAGED_CONFIG`"),
    }));
    files
}
