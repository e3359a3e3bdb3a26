//! The keys of an authorization server, as they are now.
//!
//! Promises: a key that is not known is asked for, but not more often than twice a minute in the long
//! run, whatever tokens name; while the server cannot be reached, keys that were known go on to be for a day.
//! Source: RFC 7517.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use outrigger_connect::KeySource;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

/// After this time keys are looked at again.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// Between two requests for keys, on average.
const PAUSE: Duration = Duration::from_secs(30);
/// So many may come at once.
const BURST: u32 = 4;
/// For how long keys count that cannot be looked at again.
const OLDEST: Duration = Duration::from_secs(24 * 3600);
/// Keys of one server.
const MOST: usize = 64;

/// A key, and what it is for.
#[derive(Clone)]
pub(super) struct Key {
    id: Option<String>,
    /// As the server says; without a word, what goes with its kind.
    algorithm: Option<Algorithm>,
    pub(super) public: DecodingKey,
}

#[derive(Clone, Default)]
struct Held {
    keys: Arc<Vec<Key>>,
    since: Option<Instant>,
    /// Counts requests.
    asked: u64,
    /// When all requests so far are as if they had not been.
    forgiven: Option<Instant>,
}

/// Keeps them.
pub(super) struct Keys {
    source: KeySource,
    held: RwLock<Held>,
    /// Held by whoever asks the server.
    asking: Mutex<()>,
}

impl Keys {
    pub(super) fn new(source: KeySource) -> Self {
        Self {
            source,
            held: RwLock::default(),
            asking: Mutex::default(),
        }
    }

    /// The keys that may have made a signature; an error says why none can be had.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<Key>, String> {
        let held = self.held();
        let found = held.fitting(id, algorithm);
        if !found.is_empty() && held.is(FRESH) {
            return Ok(found);
        }
        let trouble = self.ask(&held).await.err();
        let held = self.held();
        match trouble {
            Some(trouble) if !held.is(OLDEST) => Err(trouble),
            _ => Ok(held.fitting(id, algorithm)),
        }
    }

    fn held(&self) -> Held {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Asks the server again, unless somebody has since `before`, or just did.
    async fn ask(&self, before: &Held) -> Result<(), String> {
        let _asking = self.asking.lock().await;
        let held = self.held();
        let now = Instant::now();
        let forgiven = held.forgiven.unwrap_or(now).max(now) + PAUSE;
        if held.asked != before.asked || forgiven > now + PAUSE * BURST {
            return if held.since.is_some() {
                Ok(())
            } else {
                Err("the keys of the authorization server could not be had just now".to_owned())
            };
        }
        let came = self.source.fetch().await;
        let keys = match &came {
            Ok(body) => read(body),
            Err(error) => Err(error.to_string()),
        };
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.asked += 1;
        held.forgiven = Some(forgiven);
        match keys {
            Ok(keys) => {
                held.keys = Arc::new(keys);
                held.since = Some(now);
                Ok(())
            }
            Err(error) => Err(format!(
                "the keys of the authorization server cannot be had: {error}"
            )),
        }
    }
}

impl Held {
    fn is(&self, recent: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() < recent)
    }

    fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Key> {
        let fits = |key: &&Key| {
            // Without a name, any may have been meant.
            (id.is_none() || key.id.as_deref() == id)
                && key.algorithm.is_none_or(|known| known == algorithm)
                && key.public.family().algorithms().contains(&algorithm)
        };
        self.keys.iter().filter(fits).cloned().collect()
    }
}

/// The keys of a set that can be used; others are for somebody else.
fn read(body: &[u8]) -> Result<Vec<Key>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Box<RawValue>>,
    }
    let set: Set = serde_json::from_slice(body)
        .map_err(|error| format!("what came is no set of keys: {error}"))?;
    let keys = set.keys.iter().take(MOST);
    Ok(keys.filter_map(|raw| key(raw)).collect())
}

fn key(raw: &RawValue) -> Option<Key> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        alg: Option<String>,
    }
    let jwk: Jwk = serde_json::from_str(raw.get()).ok()?;
    let is_public = matches!(
        jwk.algorithm,
        AlgorithmParameters::RSA(_)
            | AlgorithmParameters::EllipticCurve(_)
            | AlgorithmParameters::OctetKeyPair(_)
    );
    let signs = !matches!(
        jwk.common.public_key_use,
        Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_))
    );
    let Named { alg } = serde_json::from_str(raw.get()).ok()?;
    let algorithm = match alg {
        Some(named) => Some(named.parse().ok()?),
        None => None,
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (is_public && signs && key.family() != AlgorithmFamily::Hmac).then_some(Key {
        id: jwk.common.key_id,
        algorithm,
        public: key,
    })
}
