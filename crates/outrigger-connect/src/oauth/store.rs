//! Where tokens are kept between runs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Secret;

/// Keeps secret texts by name. Called on threads that may block. A name is `[a-z0-9-]`, at most 80
/// bytes, and says nothing about what it stands for.
pub trait TokenStore: Send + Sync {
    /// The text of this name.
    fn get(&self, name: &str) -> Result<Option<Secret>, StoreError>;

    /// Replaces the text of this name; whoever reads it finds the old or the new one, whole.
    fn set(&self, name: &str, text: &Secret) -> Result<(), StoreError>;

    /// Removes it, if it is there.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Sole use of this name among all processes that share the store, until the lock is dropped.
    /// `None`: somebody else has it. Reading and writing do not ask for the lock.
    fn try_lock(&self, name: &str) -> Result<Option<TokenLock>, StoreError>;
}

/// Sole use of one name; dropping it ends it.
#[must_use = "the lock ends when this is dropped"]
pub struct TokenLock {
    _held: Box<dyn Send + Sync>,
}

impl TokenLock {
    /// Keeps `held` until the lock is dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

/// A store that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tokens in `{place}` cannot be {what}: {reason}")]
pub struct StoreError {
    /// The file, or another place.
    pub place: String,
    /// `read`, `kept`, `removed` or `locked`.
    pub what: &'static str,
    /// What the system said.
    pub reason: String,
}

/// Keeps tokens as long as the process runs.
#[derive(Clone, Default)]
pub struct MemoryTokens(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    texts: HashMap<String, Secret>,
    locked: HashSet<String>,
}

impl MemoryTokens {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryTokens {
    fn get(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        Ok(self.kept().texts.get(name).cloned())
    }

    fn set(&self, name: &str, text: &Secret) -> Result<(), StoreError> {
        self.kept().texts.insert(name.to_owned(), text.clone());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.kept().texts.remove(name);
        Ok(())
    }

    fn try_lock(&self, name: &str) -> Result<Option<TokenLock>, StoreError> {
        let free = self.kept().locked.insert(name.to_owned());
        Ok(free.then(|| {
            TokenLock::new(Unlock {
                tokens: self.clone(),
                name: name.to_owned(),
            })
        }))
    }
}

struct Unlock {
    tokens: MemoryTokens,
    name: String,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        self.tokens.kept().locked.remove(&self.name);
    }
}
