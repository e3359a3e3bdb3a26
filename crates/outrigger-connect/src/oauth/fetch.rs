//! Requests to authorization servers and for metadata.
//!
//! Promises: every address is checked before it is called, those of redirects too; answers are
//! bounded in size and time; a POST, which carries secrets, is never redirected.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use url::Url;

use super::OAuthError;
use super::reach::{Reach, place};
use crate::HttpSpec;
use crate::link::http::client::{deepest, install_crypto, is_loopback, trusting};

/// Bytes of one answer. Metadata has a few thousand.
const LARGEST: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(20);
const REDIRECTS: usize = 3;

/// The client of one configured server.
#[derive(Debug)]
pub(super) struct Fetch {
    reach: Reach,
    /// Files of authorities that are trusted besides the system's.
    authorities: Vec<PathBuf>,
    /// The client for the configured host, whose addresses are not judged.
    named: OnceLock<Client>,
}

/// What came back, whatever its status.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// The origin that sent it.
    pub(super) place: String,
}

/// The body of a POST.
pub(super) enum Load {
    Json(String),
    Form(String),
}

impl Fetch {
    pub(super) fn new(spec: &HttpSpec) -> Self {
        Self {
            reach: Reach::of(&spec.url),
            authorities: spec.ca_files.clone(),
            named: OnceLock::new(),
        }
    }

    /// Whether a browser may be sent there: what holds for us holds for it.
    pub(super) async fn may_be_shown(&self, page: &Url) -> Result<(), OAuthError> {
        self.reach.check_resolved(page).await
    }

    /// Follows redirects; each place is checked as if it had been named in the first place.
    pub(super) async fn get(&self, url: &Url) -> Result<Answer, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let request = self.client(&url).await?.get(url.clone());
            let answer = send(request, &url).await?;
            let next = answer
                .headers()
                .get(LOCATION)
                .filter(|_| answer.status().is_redirection())
                .and_then(|to| url.join(to.to_str().ok()?).ok());
            match next {
                None => return read(answer, &url).await,
                Some(next) => url = next,
            }
        }
        Err(OAuthError::Unusable {
            what: "the metadata",
            place: place(&url),
            reason: format!("it was redirected more than {REDIRECTS} times"),
        })
    }

    /// Posts once, to this address and no other.
    pub(super) async fn post(
        &self,
        url: &Url,
        load: Load,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, OAuthError> {
        let (kind, body) = match load {
            Load::Json(body) => ("application/json", body),
            Load::Form(body) => ("application/x-www-form-urlencoded", body),
        };
        let mut request = self.client(url).await?.post(url.clone());
        request = request.header(CONTENT_TYPE, kind).body(body);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        read(send(request, url).await?, url).await
    }

    /// What a client's resolver must refuse depends on the address, so there is one for each request
    /// to another host than the configured one.
    async fn client(&self, url: &Url) -> Result<Client, OAuthError> {
        self.reach.check_resolved(url).await?;
        if !self.reach.names(url) {
            return self.build(url);
        }
        if let Some(client) = self.named.get() {
            return Ok(client.clone());
        }
        let client = self.build(url)?;
        Ok(self.named.get_or_init(|| client).clone())
    }

    fn build(&self, url: &Url) -> Result<Client, OAuthError> {
        install_crypto();
        let builder = Client::builder()
            .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .timeout(PATIENCE)
            .dns_resolver(Arc::new(self.reach.resolver(url)));
        let builder = if is_loopback(url) {
            builder.no_proxy()
        } else {
            builder
        };
        let builder =
            trusting(builder, &self.authorities).map_err(|error| OAuthError::Unreachable {
                place: place(url),
                reason: error.to_string(),
            })?;
        builder.build().map_err(|error| unreachable(url, error))
    }
}

async fn send(request: RequestBuilder, url: &Url) -> Result<Response, OAuthError> {
    let request = request.header(ACCEPT, "application/json");
    request
        .send()
        .await
        .map_err(|error| unreachable(url, error))
}

async fn read(mut answer: Response, url: &Url) -> Result<Answer, OAuthError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| unreachable(url, error))?
    {
        if body.len() + chunk.len() > LARGEST {
            return Err(OAuthError::Unusable {
                what: "the answer",
                place: place(url),
                reason: format!("it is larger than {} KiB", LARGEST >> 10),
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        status: answer.status(),
        body: body.freeze(),
        place: place(url),
    })
}

/// Without the address, whose query may hold what is nobody's business.
fn unreachable(url: &Url, error: reqwest::Error) -> OAuthError {
    OAuthError::Unreachable {
        place: place(url),
        reason: deepest(&error.without_url()),
    }
}
