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

use super::pass::{Admitted, Pass};
use crate::tenant::Identity;

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

/// All tokens, with whose each is and what it lets in by.
pub(super) struct Tokens(Vec<Known>);

struct Known {
    hash: [u8; 32],
    name: Arc<str>,
    pass: Pass,
}

impl Tokens {
    pub(super) fn new(settings: &GatewaySettings) -> Self {
        let owned = settings.principals.iter().flat_map(|(name, principal)| {
            let name: Arc<str> = name.as_str().into();
            let tokens = principal.tokens.iter();
            tokens.map(move |token| Known {
                hash: *token,
                name: Arc::clone(&name),
                pass: Pass::default(),
            })
        });
        Self(owned.collect())
    }

    /// Takes over the passes of tokens that are the same principal's as before, and returns those that
    /// are over.
    pub(super) fn follow(&mut self, before: &Self) -> Vec<Pass> {
        let mut over = Vec::new();
        for old in &before.0 {
            let is_it = |new: &&mut Known| new.hash == old.hash && new.name == old.name;
            match self.0.iter_mut().find(is_it) {
                Some(new) => new.pass = old.pass.clone(),
                None => over.push(old.pass.clone()),
            }
        }
        over
    }

    /// Whether somebody has a token.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|known| &*known.name == name)
    }

    /// Whose a token is.
    pub(super) fn owner(&self, token: &str) -> Option<Admitted> {
        let shown = hash(token);
        let mut owner = None;
        for known in &self.0 {
            if bool::from(known.hash.ct_eq(&shown)) {
                owner = Some(known);
            }
        }
        let owner = owner?;
        Some(Admitted {
            who: Identity::Named(Arc::clone(&owner.name)),
            pass: owner.pass.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(token: &Token, name: &str) -> Known {
        Known {
            hash: hash(token.reveal()),
            name: name.into(),
            pass: Pass::default(),
        }
    }

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let (token, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(token.reveal().len(), PREFIX.len() + 43);
        assert_ne!(token.reveal(), other.reveal());
        assert!(!format!("{token:?}").contains(&token.reveal()[4..12]));
        let tokens = Tokens(vec![known(&other, "bob"), known(&token, "alice")]);
        let owner = |token: &str| {
            let owner = tokens.owner(token)?;
            owner.who.name().map(ToOwned::to_owned)
        };
        assert_eq!(owner(token.reveal()).as_deref(), Some("alice"));
        assert_eq!(owner(other.reveal()).as_deref(), Some("bob"));
        for wrong in [
            "",
            "ogt_",
            &token.hash(),
            &token.reveal()[1..],
            &format!("{}=", token.reveal()),
        ] {
            assert_eq!(owner(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pass_is_over_with_its_token_or_when_that_is_another_ones() {
        let tokens = [(); 3].map(|()| Token::new().unwrap());
        let names = ["alice", "alice", "bob"];
        let pairs = tokens.iter().zip(names);
        let before = Tokens(pairs.map(|(token, name)| known(token, name)).collect());
        let [kept, gone, handed] = tokens
            .each_ref()
            .map(|token| before.owner(token.reveal()).unwrap().pass);
        let mut after = Tokens(vec![known(&tokens[0], "alice"), known(&tokens[2], "carol")]);
        for pass in after.follow(&before) {
            pass.end();
        }
        assert!(!kept.is_over() && gone.is_over() && handed.is_over());
        let owner = |token: &Token| after.owner(token.reveal());
        assert!(!owner(&tokens[0]).unwrap().pass.is_over());
        assert!(owner(&tokens[1]).is_none());
        assert!(!owner(&tokens[2]).unwrap().pass.is_over());
        assert!(after.knows("carol") && !after.knows("bob"));
    }
}
