//! What the command line found around it. The library asks neither the environment nor the
//! system for a folder; everything comes in here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::project::Trust;

/// Where a run stands.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The folder the run is bound to, absolute: `--workspace`, or the current folder.
    pub workspace: PathBuf,
    /// The person's configuration folder (XDG configuration folder + `outrigger`).
    pub user_dir: Option<PathBuf>,
    /// The folder of whoever looks after the machine (`/etc/outrigger`).
    pub managed_dir: Option<PathBuf>,
    /// One file of whoever looks after the machine, which has to exist.
    pub managed_file: Option<PathBuf>,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// `--config FILE`, in the order given; a later one is nearer.
    pub explicit: Vec<PathBuf>,
    /// What the person said about the workspace's own files.
    pub trust: Trust,
    /// The principal whose calls it is for, where clients of the gateway have shown who they are:
    /// `${principal}`.
    pub principal: Option<String>,
    /// Texts of files by their paths, in the place of what is on disk; a file without one is not there.
    pub files: Option<BTreeMap<PathBuf, String>>,
}

// The environment holds secrets: names only.
impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("workspace", &self.workspace)
            .field("user_dir", &self.user_dir)
            .field("managed_dir", &self.managed_dir)
            .field("managed_file", &self.managed_file)
            .field("home", &self.home)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("explicit", &self.explicit)
            .field("trust", &self.trust)
            .field("principal", &self.principal)
            .field(
                "files",
                &self
                    .files
                    .as_ref()
                    .map(|files| files.keys().collect::<Vec<_>>()),
            )
            .finish()
    }
}
