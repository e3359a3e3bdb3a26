//! What the database keeps for a person, as the host asks for it.

use std::path::Path;

use outrigger_host::{ChangeText, KeptFileError, SharedText, SharedTexts};
use outrigger_journal::{Document, Documents, Unchanged};

/// Texts in the database.
#[derive(Debug)]
pub(super) struct Texts(pub(super) Documents);

impl SharedTexts for Texts {
    fn place(&self) -> &Path {
        self.0.place()
    }

    fn read(&self, name: &str, known: Option<i64>) -> Result<Option<SharedText>, String> {
        let found = self
            .0
            .read(name, known)
            .map_err(|error| error.to_string())?;
        Ok(found.map(text))
    }

    fn change(&self, name: &str, change: ChangeText<'_>) -> Result<SharedText, KeptFileError> {
        match self.0.change(name, change) {
            Ok(changed) => Ok(text(changed)),
            Err(Unchanged::Refused(error)) => Err(error),
            Err(Unchanged::Store(error)) => {
                let path = self.0.place().join(name);
                Err(KeptFileError::unwritable(&path, &error.to_string()))
            }
        }
    }
}

fn text(found: Document) -> SharedText {
    let Document { text, version } = found;
    SharedText { text, version }
}
