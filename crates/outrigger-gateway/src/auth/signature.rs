//! Signatures of JWTs, checked by `ring`, which TLS uses as well.
//!
//! Promises: keys are public ones, and a secret shared with the issuer is no key here, so none that
//! everybody knows can pass for one. Leaves out: signing.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature as checks;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has JWTs of this process checked here.
pub(super) fn install() {
    // A second gateway in one process finds it done.
    let _ = PROVIDER.install_default();
}

struct Check {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let fits = match algorithm {
        Algorithm::ES256 | Algorithm::ES384 => key.family() == AlgorithmFamily::Ec,
        Algorithm::EdDSA => key.family() == AlgorithmFamily::Ed,
        _ => rsa(algorithm).is_some() && key.family() == AlgorithmFamily::Rsa,
    };
    if !fits {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Check {
        algorithm,
        key: key.clone(),
    }))
}

/// Keys of less than 2048 bits are none (RFC 7518, section 3.3).
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &checks::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &checks::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &checks::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &checks::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &checks::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &checks::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for Check {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let plain = |algorithm: &'static dyn checks::VerificationAlgorithm| {
            let key = self.key.try_get_as_bytes().ok()?;
            let key = UnparsedPublicKey::new(algorithm, key);
            key.verify(message, signature).ok()
        };
        let good = match (self.algorithm, self.key.kind()) {
            (Algorithm::ES256, _) => plain(&checks::ECDSA_P256_SHA256_FIXED),
            (Algorithm::ES384, _) => plain(&checks::ECDSA_P384_SHA384_FIXED),
            (Algorithm::EdDSA, _) => plain(&checks::ED25519),
            (algorithm, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                rsa(algorithm).and_then(|algorithm| {
                    let key = RsaPublicKeyComponents { n, e };
                    key.verify(algorithm, message, signature).ok()
                })
            }
            _ => None,
        };
        good.ok_or_else(signature::Error::new)
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
