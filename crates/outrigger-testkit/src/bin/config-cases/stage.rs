//! A folder for one case: its configuration with the placeholders filled, an empty home, and a
//! place to stand that is neither.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Failure;
use crate::expect::Case;

/// Where a case is played.
pub(crate) struct Stage {
    pub(crate) binary: PathBuf,
    /// The folder that the program is bound to.
    pub(crate) workspace: PathBuf,
    /// For `--config`; `None` for a project's own file, which has to be found.
    pub(crate) explicit: Option<PathBuf>,
    /// Whether the person has said that the folder is to be trusted.
    trusted: bool,
    pub(crate) home: PathBuf,
    pub(crate) elsewhere: PathBuf,
    pub(crate) env: BTreeMap<String, OsString>,
    /// The configuration, wherever it is.
    pub(crate) file: PathBuf,
    written: Vec<u8>,
    /// Values of the case's own variables.
    values: Vec<String>,
    _folder: TempDir,
}

impl Stage {
    /// Whether `got` is how the program tells `given`: as it is, or hidden where a variable that
    /// looks like a secret is in it.
    pub(crate) fn tells(&self, got: &str, given: &str) -> bool {
        let secret = |value: &String| value.len() >= 6 && given.contains(value.as_str());
        got == given || got == "[redacted]" && self.values.iter().any(secret)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the program is found, and finds servers, by the path of this one"
    )]
    pub(crate) fn set(kit: &Path, binary: &Path, case: &Case, port: u16) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?;
        let below = case.config.strip_prefix("shared/configs")?;
        let file = root.join("configs").join(below);
        let workspace = file.parent().ok_or("a file has a folder")?.to_owned();
        let (home, elsewhere) = (root.join("home"), root.join("elsewhere"));
        for folder in [&workspace.join("sub dir"), &home, &elsewhere] {
            fs::create_dir_all(folder)?;
        }
        let text = fs::read_to_string(kit.join(&case.config))?;
        let text = text
            .replace("{KIT}", &kit.display().to_string())
            .replace("{PORT}", &port.to_string());
        fs::write(&file, &text)?;
        let mut env: BTreeMap<String, OsString> = case
            .env
            .iter()
            .map(|(k, v)| (k.clone(), v.into()))
            .collect();
        env.insert(
            "PATH".to_owned(),
            std::env::var_os("PATH").unwrap_or_default(),
        );
        env.insert("HOME".to_owned(), home.clone().into());
        env.insert(
            "OUTRIGGER_MANAGED_DIR".to_owned(),
            root.join("managed").into(),
        );
        Ok(Self {
            binary: binary.to_owned(),
            workspace,
            explicit: (!file.ends_with(".mcp.json")).then(|| file.clone()),
            trusted: case.expect.state.is_none(),
            home,
            elsewhere,
            env,
            file,
            written: text.into_bytes(),
            values: case.env.values().cloned().collect(),
            _folder: folder,
        })
    }

    /// What the program is told about the folder.
    pub(crate) fn trust(&self) -> Option<&'static str> {
        self.trusted.then_some("--trust-project")
    }

    /// Plays on with another text in the configuration.
    pub(crate) fn rewrite(&mut self, text: &str) -> Result<(), Failure> {
        text.as_bytes().clone_into(&mut self.written);
        Ok(fs::write(&self.file, text)?)
    }

    /// Whether the configuration is as it was written.
    pub(crate) fn untouched(&self) -> Result<bool, Failure> {
        Ok(fs::read(&self.file)? == self.written)
    }

    /// An expected value: `$HOME` stands for the home of the case.
    pub(crate) fn meant(&self, expected: &str) -> String {
        expected.replace("$HOME", &self.home.display().to_string())
    }
}
