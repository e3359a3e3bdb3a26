//! What was granted, as it is kept: keyed by issuer and resource, so that no token can be taken for
//! another's; and beside it which key the address of a server leads to.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::identity::Client;
use super::token::Issued;
use super::{OAuthSettings, Secret, StoreError, TokenStore};

/// Time before its end at which a token counts as ended, so that it does not end on its way; but
/// never more than a fifth of its life.
const MARGIN: Duration = Duration::from_secs(30);

/// Whose token it is and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) issuer: String,
    pub(super) resource: String,
}

/// A token and what is needed to renew it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) key: Key,
    pub(super) client: Client,
    pub(super) access_token: Secret,
    /// Milliseconds since 1970, when it was issued.
    issued_at: u64,
    /// Milliseconds that it lives, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lives: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<Secret>,
    /// The scopes that were asked for; what was granted may be less.
    #[serde(default)]
    pub(super) asked: Vec<String>,
    /// Scopes that the server has wanted since, to be asked for at the next login.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
}

impl Grant {
    pub(super) fn new(key: Key, client: Client, asked: Vec<String>, issued: Issued) -> Self {
        let mut asked = asked;
        add(&mut asked, issued.scopes.unwrap_or_default());
        Self {
            key,
            client,
            access_token: issued.access_token,
            issued_at: now(),
            lives: issued.lives.map(millis),
            refresh_token: issued.refresh_token,
            asked,
            wanted: Vec::new(),
        }
    }

    /// Everything in it that nobody may read.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let others = [&self.refresh_token, &self.client.secret];
        std::iter::once(&self.access_token).chain(others.into_iter().flatten())
    }

    /// With a new token; a refresh token that was not replaced stays good (RFC 6749, section 6).
    pub(super) fn renewed(&self, issued: Issued) -> Self {
        Self {
            access_token: issued.access_token,
            issued_at: now(),
            lives: issued.lives.map(millis),
            refresh_token: issued.refresh_token.or_else(|| self.refresh_token.clone()),
            ..self.clone()
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lives.is_some_and(|lives| {
            let margin = millis(MARGIN).min(lives / 5);
            now() >= self.issued_at.saturating_add(lives - margin)
        })
    }

    /// Whether it was granted to the client that is configured now.
    pub(super) fn fits(&self, settings: &OAuthSettings) -> bool {
        settings.registered().is_none_or(|id| id == self.client.id)
    }
}

/// Adds what is not there yet.
pub(super) fn add(scopes: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for scope in more {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Key {
    /// Under which name the grant is kept and locked.
    pub(super) fn name(&self) -> String {
        name("grant", &[&self.issuer, &self.resource])
    }
}

fn name(kind: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let mut name = format!("{kind}-");
    for byte in hash.finalize() {
        let digit = |four: u8| char::from_digit(four.into(), 16);
        name.extend(digit(byte >> 4));
        name.extend(digit(byte & 15));
    }
    name
}

/// The grant of this key. What cannot be read is as good as lost: a login replaces it.
pub(super) fn load(store: &dyn TokenStore, key: &Key) -> Result<Option<Grant>, StoreError> {
    let text = store.get(&key.name())?;
    let grant = text.and_then(|text| serde_json::from_str::<Grant>(text.reveal()).ok());
    Ok(grant.filter(|grant| grant.key == *key))
}

/// The grant that the server at this address was last used with.
pub(super) fn load_for(store: &dyn TokenStore, address: &str) -> Result<Option<Grant>, StoreError> {
    let text = store.get(&name("server", &[address]))?;
    match text.and_then(|text| serde_json::from_str::<Key>(text.reveal()).ok()) {
        Some(key) => load(store, &key),
        None => Ok(None),
    }
}

/// Keeps a grant, as the one that the server at this address is used with.
pub(super) fn save(store: &dyn TokenStore, address: &str, grant: &Grant) -> Result<(), StoreError> {
    store.set(&grant.key.name(), &text(grant)?)?;
    store.set(&name("server", &[address]), &text(&grant.key)?)
}

pub(super) fn remove(store: &dyn TokenStore, key: &Key) -> Result<(), StoreError> {
    store.remove(&key.name())
}

/// Forgets which key the address leads to.
pub(super) fn forget(store: &dyn TokenStore, address: &str) -> Result<(), StoreError> {
    store.remove(&name("server", &[address]))
}

fn text(value: &impl Serialize) -> Result<Secret, StoreError> {
    let text = serde_json::to_string(value).map_err(|error| StoreError {
        place: "memory".to_owned(),
        what: "kept",
        reason: error.to_string(),
    })?;
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::MemoryTokens;
    use crate::oauth::identity::Proof;

    fn grant(lives: Option<u64>) -> Grant {
        let key = Key {
            issuer: "https://as.example".to_owned(),
            resource: "https://h.example/mcp".to_owned(),
        };
        let client = Client {
            id: "c".to_owned(),
            secret: Some(Secret::new("hidden-1")),
            proof: Proof::Basic,
            registered_for: None,
        };
        let issued = Issued {
            access_token: Secret::new("hidden-2"),
            lives: lives.map(Duration::from_secs),
            refresh_token: Some(Secret::new("hidden-3")),
            scopes: Some(vec!["b".to_owned()]),
        };
        Grant::new(key, client, vec!["a".to_owned()], issued)
    }

    #[test]
    fn a_grant_comes_back_by_its_key_and_by_its_server() {
        let store = MemoryTokens::default();
        let kept = grant(Some(60));
        save(&store, "https://h.example/mcp", &kept).unwrap();
        assert_eq!(load(&store, &kept.key).unwrap(), Some(kept.clone()));
        assert_eq!(
            load_for(&store, "https://h.example/mcp").unwrap(),
            Some(kept.clone())
        );
        assert_eq!(load_for(&store, "https://h.example/other").unwrap(), None);
        let other = Key {
            issuer: "https://evil.example".to_owned(),
            ..kept.key.clone()
        };
        assert_eq!(load(&store, &other).unwrap(), None);
        // What stands under a name is only believed if it says so itself.
        store.set(&other.name(), &text(&kept).unwrap()).unwrap();
        assert_eq!(load(&store, &other).unwrap(), None);
    }

    #[test]
    fn a_token_ends_a_little_early_and_never_at_once() {
        assert!(!grant(None).has_ended());
        assert!(!grant(Some(60)).has_ended());
        assert!(!grant(Some(1)).has_ended());
        assert!(grant(Some(0)).has_ended());
        let mut old = grant(Some(60));
        old.issued_at -= 31_000;
        assert!(!old.has_ended());
        old.issued_at -= 18_000;
        assert!(old.has_ended());
    }

    #[test]
    fn nothing_prints_a_secret() {
        assert!(!format!("{:?}", grant(None)).contains("hidden"));
    }
}
