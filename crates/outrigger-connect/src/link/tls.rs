//! Whom a server over TLS may be: the authorities of the system, and those in files that the
//! configuration names.
//!
//! Promises: a file that cannot be used is named, and nothing is connected to without it. The
//! system's authorities are those of the operating system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`
//! where these are set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

/// Why a file of authorities, or what it holds, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAuthorities {
    #[error("the certificates in `{}` cannot be used: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// All certificates in these files.
pub(crate) fn certificates(
    files: &[PathBuf],
) -> Result<Vec<CertificateDer<'static>>, BadAuthorities> {
    let read: Result<Vec<_>, _> = files.iter().map(|file| read(file)).collect();
    Ok(read?.into_iter().flatten().collect())
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadAuthorities> {
    let bad = |reason: String| BadAuthorities::File {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| bad(error.to_string()))?;
    if found.is_empty() {
        return Err(bad("there is none in it (PEM)".to_owned()));
    }
    for certificate in &found {
        rustls::RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| bad(error.to_string()))?;
    }
    Ok(found)
}

/// How to speak TLS with a server whose certificate one of these authorities, or of the system's, has
/// signed. Reads files; not for a thread that must not block.
pub(crate) fn client(files: &[PathBuf]) -> Result<ClientConfig, BadAuthorities> {
    let setup = |error: rustls::Error| BadAuthorities::Setup(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(certificates(files)?, provider.clone());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(setup)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(setup)?))
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let nowhere = PathBuf::from("/no/such/file.pem");
        let error = certificates(std::slice::from_ref(&nowhere)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the certificates in `/no/such/file.pem` cannot be used: No such file or directory (os error 2)"
        );
        let no_pem = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let error = certificates(std::slice::from_ref(&no_pem)).unwrap_err();
        assert!(error.to_string().ends_with("there is none in it (PEM)"));
        assert_eq!(certificates(&[]), Ok(Vec::new()));
    }
}
