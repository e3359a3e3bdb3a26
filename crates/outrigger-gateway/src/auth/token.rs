//! Tokens that were made here, known by their hash.
//!
//! Promises: a token has 256 bits of randomness, so its plain hash (SHA-256) is as good as a slow one
//! would be; every known hash is compared, each in constant time, whichever fits.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use outrigger_host::config::GatewaySettings;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a token begins with, so that one that got lost is found.
const PREFIX: &str = "ogt_";

/// A new token. Its Debug form has only its hash.
pub struct Token {
    text: String,
}

/// A token cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("there is no randomness to make a token of: {0}")]
pub struct TokenError(getrandom::Error);

impl Token {
    /// Makes one.
    pub fn new() -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(TokenError)?;
        Ok(Self {
            text: format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)),
        })
    }

    /// What a client shows.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What configuration holds of it: `sha256:` and 64 hex digits.
    pub fn hash(&self) -> String {
        let digits = hash(&self.text).map(|byte| format!("{byte:02x}"));
        format!("sha256:{}", digits.concat())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.hash())
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// All tokens, with whose each is.
pub(super) struct Tokens(Vec<([u8; 32], Arc<str>)>);

impl Tokens {
    pub(super) fn new(settings: &GatewaySettings) -> Self {
        let owned = settings.principals.iter().flat_map(|(name, principal)| {
            let name: Arc<str> = name.as_str().into();
            let tokens = principal.tokens.iter();
            tokens.map(move |token| (*token, Arc::clone(&name)))
        });
        Self(owned.collect())
    }

    /// Whose a token is.
    pub(super) fn owner(&self, token: &str) -> Option<Arc<str>> {
        let shown = hash(token);
        let mut owner = None;
        for (known, name) in &self.0 {
            if bool::from(known.ct_eq(&shown)) {
                owner = Some(name);
            }
        }
        owner.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let (token, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(token.reveal().len(), PREFIX.len() + 43);
        assert_ne!(token.reveal(), other.reveal());
        assert!(!format!("{token:?}").contains(&token.reveal()[4..12]));
        let tokens = Tokens(vec![
            (hash(other.reveal()), "bob".into()),
            (hash(token.reveal()), "alice".into()),
        ]);
        assert_eq!(tokens.owner(token.reveal()).as_deref(), Some("alice"));
        assert_eq!(tokens.owner(other.reveal()).as_deref(), Some("bob"));
        for wrong in [
            "",
            "ogt_",
            &token.hash(),
            &token.reveal()[1..],
            &format!("{}=", token.reveal()),
        ] {
            assert_eq!(tokens.owner(wrong), None, "{wrong}");
        }
    }
}
