//! Bytes of a type: what they are, and whether a model can be shown them.

use std::fmt;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::artifact::ArtifactRef;

/// Base64 as servers write it, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const UNKNOWN_TYPE: &str = "application/octet-stream";

/// What every provider takes as an image. One that it does not take fails the whole request.
const TAKEN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Bytes of an image that every provider takes: 5 MB of base64 is the smallest limit of those known.
const LARGEST_IMAGE: usize = 3_700_000;

/// Bytes of a known type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// For example `image/png`, in lower case and without parameters.
    pub media_type: String,
    /// How many bytes there are.
    pub bytes: u64,
    /// Base64, as it came; `None` once it was moved into an artifact and need not be shown.
    pub data: Option<String>,
    /// Why it is no sound base64, where it is not.
    pub broken: Option<String>,
    /// Why it is not shown as an image, where it was meant as one.
    pub image: Option<ImageFault>,
    /// The artifact that holds the bytes.
    pub artifact: Option<ArtifactRef>,
    /// Why there is none.
    pub not_kept: Option<String>,
}

/// Why an image cannot be shown to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageFault {
    /// Its base64 cannot be read.
    Broken(String),
    /// Providers do not take this type.
    Type,
    /// The bytes are not what the type says.
    Not(&'static str),
    /// It is larger than providers take.
    TooLarge,
    /// It would cost more than a result may.
    NoRoom,
}

impl Media {
    pub(crate) fn new(media_type: Option<String>, data: String) -> Self {
        let media_type = media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        let plain = media_type.split(';').next().unwrap_or_default().trim();
        let len = data.trim_end_matches('=').len() as u64;
        Self {
            media_type: match plain.to_ascii_lowercase() {
                plain if plain.is_empty() => UNKNOWN_TYPE.to_owned(),
                plain if plain == "image/jpg" => "image/jpeg".to_owned(),
                plain => plain,
            },
            bytes: len * 3 / 4,
            data: Some(data),
            broken: None,
            image: None,
            artifact: None,
            not_kept: None,
        }
    }

    /// The bytes, once; notes what is wrong with them.
    pub(crate) fn decode(&mut self) -> Option<Vec<u8>> {
        let data = self.data.as_ref()?;
        match BASE64.decode(data.trim()) {
            Ok(bytes) => {
                self.bytes = bytes.len() as u64;
                Some(bytes)
            }
            Err(error) => {
                self.broken = Some(error.to_string());
                None
            }
        }
    }

    /// Whether a model that sees images can be shown it. `bytes`: what [`Media::decode`] gave.
    pub(crate) fn as_image(&self, bytes: &[u8]) -> Result<(), ImageFault> {
        if let Some(broken) = &self.broken {
            return Err(ImageFault::Broken(broken.clone()));
        }
        let Some(taken) = TAKEN.iter().find(|taken| **taken == self.media_type) else {
            return Err(ImageFault::Type);
        };
        if bytes.len() > LARGEST_IMAGE {
            return Err(ImageFault::TooLarge);
        }
        let begins = match *taken {
            "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
            "image/gif" => bytes.starts_with(b"GIF8"),
            _ => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        };
        if begins {
            Ok(())
        } else {
            Err(ImageFault::Not(taken))
        }
    }
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(why) => write!(f, "not shown: its base64 is broken ({why})"),
            Self::Type => f.write_str("not shown: models take png, jpeg, gif and webp"),
            Self::Not(kind) => write!(f, "not shown: its bytes are no {kind}"),
            Self::TooLarge => f.write_str("not shown: it is larger than models take"),
            Self::NoRoom => f.write_str("not shown: there is no room for more images"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(media_type: &str, bytes: &[u8]) -> Result<(), ImageFault> {
        let mut media = Media::new(Some(media_type.to_owned()), BASE64.encode(bytes));
        let decoded = media.decode().unwrap();
        assert_eq!(
            (decoded.as_slice(), media.bytes),
            (bytes, bytes.len() as u64)
        );
        media.as_image(&decoded)
    }

    #[test]
    fn only_what_every_provider_takes_is_an_image() {
        let png = b"\x89PNG\r\n\x1a\n....".as_slice();
        for (media_type, bytes, expected) in [
            ("image/png", png, Ok(())),
            ("IMAGE/PNG; charset=binary", png, Ok(())),
            ("image/jpg", b"\xff\xd8\xff\xe0", Ok(())),
            ("image/gif", b"GIF89a", Ok(())),
            ("image/webp", b"RIFF\0\0\0\0WEBPVP8 ", Ok(())),
            ("image/webp", b"RIFF", Err(ImageFault::Not("image/webp"))),
            ("image/png", b"", Err(ImageFault::Not("image/png"))),
            ("image/svg+xml", b"<svg/>", Err(ImageFault::Type)),
            ("", b"x", Err(ImageFault::Type)),
        ] {
            assert_eq!(judged(media_type, bytes), expected, "{media_type}");
        }
        let huge = [png, vec![0; LARGEST_IMAGE].as_slice()].concat();
        assert_eq!(judged("image/png", &huge), Err(ImageFault::TooLarge));
    }

    #[test]
    fn padding_may_be_missing_and_garbage_is_told() {
        let mut media = Media::new(None, "UklGRg".to_owned());
        assert_eq!(media.decode().as_deref(), Some(b"RIFF".as_slice()));
        let mut media = Media::new(Some("image/png".to_owned()), "!!!!".to_owned());
        assert_eq!(media.decode(), None);
        assert!(matches!(media.as_image(&[]), Err(ImageFault::Broken(_))));
    }
}
