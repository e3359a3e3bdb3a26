//! A bucket as it is configured, and what can be wrong with that.

use std::collections::BTreeMap;
#[cfg(feature = "postgres")]
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "postgres")]
use url::{Host, Url};

/// How long a bucket is waited for, unless said otherwise.
#[cfg(feature = "postgres")]
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// A bucket of S3, or of something that speaks as S3 does. Holds keys: it is not to be shown.
#[derive(Clone, Default)]
pub struct BucketSettings {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// The address of the service; by default Amazon's for the region.
    pub endpoint: Option<String>,
    /// By default what `AWS_REGION` says, else `us-east-1`.
    pub region: Option<String>,
    /// The key's name; without one the credentials come as [`Self::environment`] says, else from the
    /// service of the machine that gives some (the role of an instance).
    pub access_key_id: Option<String>,
    /// The key.
    pub secret_access_key: Option<String>,
    /// What goes with a key that is good for a while only.
    pub session_token: Option<String>,
    /// Whether keys and contents may go unencrypted to another machine.
    pub allow_http: bool,
    /// Whether the bucket is named in the host and not in the path; then [`Self::endpoint`] names it.
    pub virtual_hosted_style_request: bool,
    /// How long a request may take, with those that repeat it, beside a second for each megabyte of what
    /// it carries; by default 15 s.
    pub timeout: Option<Duration>,
    /// Certificates that are trusted besides those of the system, in PEM.
    pub ca_files: Vec<PathBuf>,
    /// Variables that stand in for what is not said, under the names that all tools of Amazon's know.
    pub environment: BTreeMap<String, String>,
}

/// Why a bucket cannot be used as it is configured.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBucket {
    /// No address of a bucket.
    #[error("`url` has to be `s3://BUCKET` or `s3://BUCKET/PREFIX`")]
    Url,
    /// One half of a key.
    #[error("`access_key_id` and `secret_access_key` go together, and `{0}` is missing")]
    HalfKey(&'static str),
    /// No address of a service.
    #[error("`endpoint` is no address: it has to begin with `https://`")]
    Endpoint,
    /// Keys and contents would go unencrypted to another machine.
    #[error(
        "`endpoint` begins with `http://`, and `{0}` is not this machine: keys and contents could be read on the way; write `https://`, or `allow_http = true` if that is meant"
    )]
    Http(String),
    /// A file of certificates that cannot be used.
    #[error("the certificates in `{}` cannot be used: {reason}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A variable or anything else that the client does not take.
    #[error("{0}")]
    Unusable(String),
}

#[cfg(feature = "postgres")]
impl BucketSettings {
    /// The bucket and what stands before each key in it, without slashes at its ends.
    pub(crate) fn parts(&self) -> Result<(&str, &str), BadBucket> {
        let rest = self.url.trim().strip_prefix("s3://");
        let rest = rest.ok_or(BadBucket::Url)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let steps = |step: &str| !step.is_empty() && !matches!(step, "." | "..");
        let sound = prefix.is_empty() || prefix.split('/').all(steps);
        let plain = !prefix.contains(['?', '#', '%', '\\']) && !prefix.contains(char::is_control);
        if bucket.is_empty() || !bucket.chars().all(named) || !sound || !plain {
            return Err(BadBucket::Url);
        }
        Ok((bucket, prefix))
    }

    /// Looks at all that can be seen without asking the service: the address of the service, where one
    /// is said.
    pub(crate) fn service(&self) -> Result<Option<Url>, BadBucket> {
        match (&self.access_key_id, &self.secret_access_key) {
            (Some(_), None) => return Err(BadBucket::HalfKey("secret_access_key")),
            (None, Some(_)) => return Err(BadBucket::HalfKey("access_key_id")),
            _ => {}
        }
        let said = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
        let said = said.iter().find_map(|name| self.environment.get(*name));
        let Some(endpoint) = self.endpoint.as_ref().or(said) else {
            return Ok(None);
        };
        let url = Url::parse(endpoint.trim()).map_err(|_| BadBucket::Endpoint)?;
        let host = url.host().ok_or(BadBucket::Endpoint)?;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http || is_here(&host) => {}
            "http" => return Err(BadBucket::Http(host.to_string())),
            _ => return Err(BadBucket::Endpoint),
        }
        Ok(Some(url))
    }
}

#[cfg(feature = "postgres")]
fn is_here(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => IpAddr::from(*address).is_loopback(),
        Host::Ipv6(address) => IpAddr::from(*address).is_loopback(),
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    fn at(url: &str) -> BucketSettings {
        BucketSettings {
            url: url.to_owned(),
            ..BucketSettings::default()
        }
    }

    #[test]
    fn an_address_names_a_bucket_and_what_stands_before_its_keys() {
        for (url, parts) in [
            ("s3://kept", ("kept", "")),
            (" s3://kept/ ", ("kept", "")),
            ("s3://kept/gate", ("kept", "gate")),
            ("s3://kept/gate/east/", ("kept", "gate/east")),
        ] {
            assert_eq!(at(url).parts(), Ok(parts), "{url}");
        }
        for url in [
            "",
            "kept",
            "s3://",
            "s3:///gate",
            "https://kept.s3.amazonaws.com",
            "s3://key:secret@kept",
            "s3://kept/../other",
            "s3://kept/a//b",
            "s3://kept/gate?x=1",
        ] {
            assert_eq!(at(url).parts(), Err(BadBucket::Url), "{url}");
        }
    }

    #[test]
    fn keys_and_contents_go_unencrypted_to_no_other_machine() {
        let with = |endpoint: &str, allow_http| BucketSettings {
            endpoint: Some(endpoint.to_owned()),
            allow_http,
            ..at("s3://kept")
        };
        for endpoint in [
            "https://minio.example:9000",
            "http://127.0.0.1:9000",
            "http://[::1]:9000",
            "http://localhost:9000",
        ] {
            assert!(with(endpoint, false).service().is_ok(), "{endpoint}");
        }
        let other = with("http://minio.example:9000", false).service();
        assert_eq!(other, Err(BadBucket::Http("minio.example".to_owned())));
        assert!(with("http://minio.example:9000", true).service().is_ok());
        for endpoint in ["minio.example:9000", "ftp://minio.example", "nothing", ""] {
            let wrong = with(endpoint, true).service();
            assert_eq!(wrong, Err(BadBucket::Endpoint), "{endpoint}");
        }
        let mut settings = at("s3://kept");
        let name = "AWS_ENDPOINT_URL".to_owned();
        settings
            .environment
            .insert(name, "http://minio.example".to_owned());
        assert!(matches!(settings.service(), Err(BadBucket::Http(_))));
    }

    #[test]
    fn half_a_key_is_none() {
        let mut settings = at("s3://kept");
        settings.access_key_id = Some("AKIA".to_owned());
        let wrong = settings.service().unwrap_err().to_string();
        assert_eq!(
            wrong,
            "`access_key_id` and `secret_access_key` go together, and `secret_access_key` is missing"
        );
    }
}
