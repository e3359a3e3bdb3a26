//! Random values of one visit: `state`, and the PKCE verifier with its challenge.
//!
//! Source: RFC 7636, sections 4.1 and 4.2; method S256 only.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::{OAuthError, Secret};

/// 256 bits, as unreserved characters.
pub(super) fn random() -> Result<Secret, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| OAuthError::Random(error.to_string()))?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// The `code_challenge` of a verifier.
pub(super) fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.reveal()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(
            challenge(&verifier),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn random_values_are_long_and_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_eq!(one.reveal().len(), 43);
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "••••");
    }
}
