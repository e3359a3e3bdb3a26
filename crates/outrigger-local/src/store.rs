//! The folder that holds pulled models: one file each, under the model's name, `.gguf` for language
//! models and `.embedding` for those of embeddings.
//!
//! A file appears there only when it is complete and verified; what is under way lies in `partial/`.
//! Lock files keep two processes from pulling the same model at once. The folder is given by the
//! caller. Fetching is in [`crate::pull`].

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::manifest::{HubFile, KnownModel, Manifest, ModelKind};

/// A store could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No model has this name.
    #[error(
        "there is no model `{name}`; known are {known}, and `file:PATH` or `hf:OWNER/NAME/FILE.gguf` name any other"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that would have worked.
        known: String,
    },
    /// The model is known, but not in the store.
    #[error("the model `{name}` is not in the store `{}`", root.display())]
    NotHere {
        /// What was asked for.
        name: String,
        /// The store.
        root: PathBuf,
    },
    /// `file:` names a file that is not there.
    #[error("there is no model file `{}`", path.display())]
    NoFile {
        /// The path behind `file:`.
        path: PathBuf,
    },
    /// The model is being pulled right now.
    #[error("the model `{name}` is being pulled by another process; wait for it or end it")]
    Busy {
        /// The model.
        name: String,
    },
    /// A file of the store could not be read or changed.
    #[error("the model store failed at `{}`: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// A model in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModel {
    /// The name to load it by.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A folder of models.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) root: PathBuf,
    pub(crate) manifest: Manifest,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// Models to try in this order; one, unless `default` was asked for.
    Models(Vec<KnownModel>),
    /// A file outside of the store.
    File(PathBuf),
    /// A file on the hub that the manifest does not know.
    Hub { name: String, file: HubFile },
    /// A model in the store that the manifest does not know.
    Stored(String),
}

impl Store {
    /// A store in `root`, which need not exist yet, with the built-in manifest.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_manifest(root, Manifest::built_in())
    }

    /// A store that knows other models.
    pub fn with_manifest(root: impl Into<PathBuf>, manifest: Manifest) -> Self {
        Self {
            root: root.into(),
            manifest,
        }
    }

    /// The models that can be pulled by name.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The models in the store, by name.
    pub fn list(&self) -> Result<Vec<StoredModel>, StoreError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&self.root)(error)),
        };
        let mut models = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed(&self.root))?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(name_of);
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                let bytes = fs::metadata(&path).map_err(failed(&path))?.len();
                models.push(StoredModel {
                    name: name.to_owned(),
                    bytes,
                    path: path.clone(),
                });
            }
        }
        models.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(models)
    }

    /// The file of a model that is here. `name` is a known name, `default`, `file:PATH` or
    /// `hf:OWNER/NAME/FILE.gguf`.
    pub fn path_of(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.stored(name).map(|model| model.path)
    }

    /// Like [`Self::path_of`], with the name that `name` stands for.
    pub fn stored(&self, name: &str) -> Result<StoredModel, StoreError> {
        let candidates = match self.wanted(name)? {
            Wanted::File(path) => {
                let stem = path
                    .file_stem()
                    .map_or_else(|| name.into(), |stem| stem.to_string_lossy());
                let stem = stem.into_owned();
                let found = at(stem, path.clone())?;
                return found.ok_or(StoreError::NoFile { path });
            }
            Wanted::Models(models) => models
                .into_iter()
                .map(|model| model.name.into_owned())
                .collect(),
            Wanted::Hub { name, .. } | Wanted::Stored(name) => vec![name],
        };
        for candidate in candidates {
            let path = self.file(&candidate);
            if let Some(found) = at(candidate, path)? {
                return Ok(found);
            }
        }
        Err(StoreError::NotHere {
            name: name.to_owned(),
            root: self.root.clone(),
        })
    }

    /// Removes a model and what is left of unfinished pulls of it. Returns the bytes that were freed.
    pub fn remove(&self, name: &str) -> Result<u64, StoreError> {
        let model = match self.wanted(name)? {
            Wanted::File(_) => {
                return Err(StoreError::NotHere {
                    name: name.to_owned(),
                    root: self.root.clone(),
                });
            }
            _ => self.stored(name)?,
        };
        let _lock = self.lock(&model.name)?.ok_or_else(|| StoreError::Busy {
            name: model.name.clone(),
        })?;
        fs::remove_file(&model.path).map_err(failed(&model.path))?;
        let partial = self.partial(&model.name);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&partial)(error)),
            _ => Ok(model.bytes),
        }
    }

    /// What `name` stands for.
    pub(crate) fn wanted(&self, name: &str) -> Result<Wanted, StoreError> {
        if name == "default" {
            let models = self
                .manifest
                .default
                .iter()
                .filter_map(|name| self.manifest.find(name))
                .cloned();
            return Ok(Wanted::Models(models.collect()));
        }
        if let Some(model) = self.manifest.find(name) {
            return Ok(Wanted::Models(vec![model.clone()]));
        }
        if let Some(path) = name.strip_prefix("file:") {
            return Ok(Wanted::File(PathBuf::from(path)));
        }
        if let Some(hub) = name.strip_prefix("hf:").and_then(hub_file) {
            return Ok(hub);
        }
        if self.list()?.into_iter().any(|model| model.name == name) {
            return Ok(Wanted::Stored(name.to_owned()));
        }
        let known: Vec<&str> = self
            .manifest
            .models
            .iter()
            .map(|model| model.name.as_ref())
            .collect();
        Err(StoreError::Unknown {
            name: name.to_owned(),
            known: format!("default, {}", known.join(", ")),
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let kind = self.manifest.find(name).map(|model| model.kind);
        let extension = kind.unwrap_or(ModelKind::Language).extension();
        self.root.join(format!("{name}.{extension}"))
    }

    /// Where the bytes of a pull gather.
    pub(crate) fn partial(&self, name: &str) -> PathBuf {
        self.root.join("partial").join(format!("{name}.gguf"))
    }

    /// Takes the lock of a model, or returns nothing when another process has it. It is released
    /// with the returned file, also when the process dies.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<File>, StoreError> {
        let folder = self.root.join("partial");
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let path = folder.join(format!("{name}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&path)(error)),
        }
    }
}

/// The model that a file of the store holds, by the file's name.
fn name_of(file: &str) -> Option<&str> {
    let (name, extension) = file.rsplit_once('.')?;
    ModelKind::ALL
        .iter()
        .any(|kind| kind.extension() == extension)
        .then_some(name)
}

/// The model in `path`, if there is such a file.
fn at(name: String, path: PathBuf) -> Result<Option<StoredModel>, StoreError> {
    match fs::metadata(&path) {
        Ok(file) => {
            let bytes = file.len();
            Ok(Some(StoredModel { name, path, bytes }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&path)(error)),
    }
}

/// `OWNER/NAME/PATH.gguf`, at the tip of the repository.
fn hub_file(path: &str) -> Option<Wanted> {
    let mut parts = path.splitn(3, '/');
    let (owner, repository, file) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let name = file.rsplit('/').next()?.strip_suffix(".gguf")?;
    let valid = plain(owner) && plain(repository) && plain(name) && file.split('/').all(plain);
    let file = HubFile {
        repository: format!("{owner}/{repository}").into(),
        revision: "main".into(),
        file: file.to_owned().into(),
    };
    valid.then(|| Wanted::Hub {
        name: name.to_owned(),
        file,
    })
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("models"));
        (folder, store)
    }

    #[test]
    fn a_store_that_does_not_exist_is_empty() {
        let (_folder, store) = store();
        assert_eq!(store.list().unwrap(), []);
        assert!(matches!(
            store.path_of("smollm2-135m"),
            Err(StoreError::NotHere { .. })
        ));
    }

    #[test]
    fn default_is_whatever_candidate_is_here() {
        let (_folder, store) = store();
        fs::create_dir_all(&store.root).unwrap();
        fs::write(store.file("qwen2.5-coder-0.5b"), b"weights").unwrap();
        let found = store.stored("default").unwrap();
        assert_eq!(
            (found.name.as_str(), found.bytes),
            ("qwen2.5-coder-0.5b", 7)
        );
        assert_eq!(store.list().unwrap(), [found]);
        assert_eq!(store.remove("default").unwrap(), 7);
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn names_that_mean_nothing_are_told_what_would() {
        let (_folder, store) = store();
        let error = store.path_of("gpt-5").unwrap_err().to_string();
        assert!(
            error.contains("`gpt-5`")
                && error.contains("qwen3-0.6b")
                && error.contains("file:PATH"),
            "{error}"
        );
        for name in [
            "hf:only/two.gguf",
            "hf:a/b/../c.gguf",
            "hf:a/b/c.bin",
            "../up",
        ] {
            assert!(
                matches!(store.path_of(name), Err(StoreError::Unknown { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn files_outside_are_found_and_never_removed() {
        let (folder, store) = store();
        let path = folder.path().join("mine.gguf");
        fs::write(&path, b"x").unwrap();
        let name = format!("file:{}", path.display());
        assert_eq!(store.stored(&name).unwrap().name, "mine");
        assert!(store.remove(&name).is_err());
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        assert!(matches!(
            store.path_of(&name),
            Err(StoreError::NoFile { .. })
        ));
    }

    #[test]
    fn what_is_being_pulled_is_not_removed() {
        let (_folder, store) = store();
        fs::create_dir_all(&store.root).unwrap();
        fs::write(store.file("smollm2-135m"), b"weights").unwrap();
        let lock = store.lock("smollm2-135m").unwrap();
        assert!(lock.is_some());
        assert!(store.lock("smollm2-135m").unwrap().is_none());
        assert!(matches!(
            store.remove("smollm2-135m"),
            Err(StoreError::Busy { .. })
        ));
        drop(lock);
        store.remove("smollm2-135m").unwrap();
    }
}
