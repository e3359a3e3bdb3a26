//! Names of contents.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a content; written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// Not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 in hex")]
pub struct InvalidDigest(pub String);

impl Digest {
    /// Of these bytes. Takes about a second for a gigabyte.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of these bytes, away from the runtime.
    pub(crate) async fn of_large(bytes: &Bytes) -> Self {
        let shared = bytes.clone();
        match tokio::task::spawn_blocking(move || Self::of(&shared)).await {
            Ok(digest) => digest,
            // The runtime is ending.
            Err(_) => Self::of(bytes),
        }
    }

    pub(crate) fn from_hash(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| match pair.get(at) {
                Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
                Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
                _ => Err(invalid()),
            };
            *byte = digit(0)? << 4 | digit(1)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_other_programs_write_it_and_read_back() {
        let digest = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
    }

    #[test]
    fn other_text_is_not_a_digest() {
        let upper = Digest::of(b"abc").to_string().to_uppercase();
        for text in ["", "abc", &upper, &"ä".repeat(32)] {
            assert_eq!(text.parse::<Digest>(), Err(InvalidDigest(text.to_owned())));
        }
    }
}
