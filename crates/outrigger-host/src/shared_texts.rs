//! What is kept for a person, where several replicas share it: the same small texts as in files
//! ([`crate::kept_file`]), by name, in a place that the program brings.
//!
//! What another replica has changed counts from the next look on. When nobody can look, what was known
//! does not count: it may have been taken back.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kept_file::KeptFileError;

/// Small texts that several replicas share. Each call may block for as long as a network takes.
pub trait SharedTexts: Send + Sync + fmt::Debug {
    /// How messages name the place.
    fn place(&self) -> &Path;

    /// The text of this name, unless it has the version `known`: `None` then, and where there is none.
    /// The error is a reason, for messages.
    fn read(&self, name: &str, known: Option<i64>) -> Result<Option<SharedText>, String>;

    /// Changes the text of this name in turn with all others who do; `change` is given `None` where
    /// there is none yet.
    fn change(&self, name: &str, change: ChangeText<'_>) -> Result<SharedText, KeptFileError>;
}

/// What makes a text of a text.
pub type ChangeText<'a> = &'a mut (dyn FnMut(Option<&str>) -> Result<String, KeptFileError> + Send);

/// A text, and its version, which grows with each change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedText {
    /// The text.
    pub text: String,
    /// Its version.
    pub version: i64,
}

/// One of these texts, read into a `T`.
#[derive(Debug)]
pub(crate) struct Shared {
    texts: Arc<dyn SharedTexts>,
    name: &'static str,
}

impl Shared {
    pub(crate) fn new(texts: Arc<dyn SharedTexts>, name: &'static str) -> Self {
        Self { texts, name }
    }

    /// As messages name it.
    pub(crate) fn path(&self) -> PathBuf {
        self.texts.place().join(self.name)
    }

    /// What it holds when that is another version than `known`.
    pub(crate) fn read<T>(
        &self,
        known: Option<i64>,
        parse: impl FnOnce(&Path, &str) -> Result<T, KeptFileError>,
    ) -> Result<Option<(T, i64)>, KeptFileError> {
        let path = self.path();
        let found = self
            .texts
            .read(self.name, known)
            .map_err(|reason| KeptFileError::unreadable(&path, &reason))?;
        found
            .map(|SharedText { text, version }| Ok((parse(&path, &text)?, version)))
            .transpose()
    }

    /// Changes what it holds, and gives what it holds then.
    pub(crate) fn update<T: Default + Send>(
        &self,
        parse: impl Fn(&Path, &str) -> Result<T, KeptFileError> + Send + Sync,
        change: impl FnOnce(&mut T) + Send,
        write: impl Fn(&T) -> Result<String, KeptFileError> + Send + Sync,
    ) -> Result<(T, i64), KeptFileError> {
        let path = self.path();
        let (mut change, mut held) = (Some(change), T::default());
        let written = self.texts.change(self.name, &mut |text| {
            held = text.map_or_else(|| Ok(T::default()), |text| parse(&path, text))?;
            if let Some(change) = change.take() {
                change(&mut held);
            }
            write(&held)
        })?;
        Ok((held, written.version))
    }
}
