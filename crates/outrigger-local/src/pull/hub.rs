//! A file of the Hugging Face hub, fetched in ranges so that a broken transfer goes on where it broke.
//!
//! Written on `reqwest` instead of using `hf-hub`, which brings its own storage client and TLS stack
//! and lays files out in its own cache. What is used of the hub's protocol: `resolve` addresses, and
//! the headers `X-Linked-Etag` (SHA-256 of a file in LFS) and `X-Linked-Size`.

use std::{
    fs::{self, File},
    io::Write,
    time::Duration,
};

use reqwest::{Client, Response, StatusCode, header, redirect};

use super::{Events, PullEvent, PullOptions, SourceError, Target, wrote};
use crate::manifest::HubFile;

/// Attempts in a row that may bring nothing.
const ATTEMPTS: u32 = 5;
const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence within a transfer.
const SILENCE: Duration = Duration::from_secs(30);
/// Bytes between two reports.
const REPORT: u64 = 1 << 20;

/// What the hub says about a file.
#[derive(Debug, Default)]
struct Stated {
    sha256: Option<String>,
    bytes: Option<u64>,
}

/// One transfer that did not end well.
enum Broken {
    /// Trying again is pointless.
    For(SourceError),
    /// The connection broke; what came is kept.
    Off(String),
}

impl From<SourceError> for Broken {
    fn from(error: SourceError) -> Self {
        Self::For(error)
    }
}

/// Fetches the file into `target.partial` and returns the hash that it must have.
pub(super) async fn fetch(
    file: &HubFile,
    target: &Target<'_>,
    options: &PullOptions,
    on_event: Events<'_>,
) -> Result<String, SourceError> {
    let url = format!(
        "{}/{}/resolve/{}/{}",
        options.hub, file.repository, file.revision, file.file
    );
    let stated = ask(&url).await?;
    let expected = match (target.sha256, stated.sha256) {
        (Some(known), Some(stated)) if !known.eq_ignore_ascii_case(&stated) => {
            return Err(SourceError::WrongHash {
                expected: known.to_owned(),
                actual: stated,
            });
        }
        (Some(known), _) => known.to_owned(),
        (None, Some(stated)) => stated,
        (None, None) => return Err(SourceError::NoHash { url }),
    };
    let total = stated.bytes.or(target.bytes);
    let client = client(&url, redirect::Policy::default())?;
    let mut left = ATTEMPTS;
    loop {
        let before = held(target);
        match transfer(&client, &url, total, target, on_event).await {
            Ok(()) => return Ok(expected),
            Err(Broken::For(error)) => return Err(error),
            Err(Broken::Off(reason)) => {
                let done = held(target);
                left = if done > before { ATTEMPTS } else { left - 1 };
                if left == 0 {
                    return Err(SourceError::Interrupted { url, done, reason });
                }
                tokio::time::sleep(options.pause).await;
            }
        }
    }
}

fn held(target: &Target<'_>) -> u64 {
    fs::metadata(&target.partial).map_or(0, |file| file.len())
}

/// A client for transfers of any length: only silence is limited, not time.
fn client(url: &str, redirects: redirect::Policy) -> Result<Client, SourceError> {
    // Fails when the program has chosen a provider already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .redirect(redirects)
        .no_gzip()
        .user_agent(concat!("outrigger/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| unreachable(url, &error))
}

fn unreachable(url: &str, error: &reqwest::Error) -> SourceError {
    SourceError::Unreachable {
        url: url.to_owned(),
        reason: reason(error),
    }
}

/// The innermost cause says most: reqwest's own words repeat the address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Asks the hub itself about a file, without following to the servers that keep the bytes.
async fn ask(url: &str) -> Result<Stated, SourceError> {
    let same_host = redirect::Policy::custom(|attempt| {
        let stays = attempt
            .previous()
            .last()
            .is_some_and(|from| from.host_str() == attempt.url().host_str());
        if stays && attempt.previous().len() < 5 {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let response = client(url, same_host)?
        .head(url)
        .send()
        .await
        .map_err(|error| unreachable(url, &error))?;
    let status = response.status();
    if status.is_client_error() && status != StatusCode::METHOD_NOT_ALLOWED
        || status.is_server_error()
    {
        return Err(SourceError::Status {
            url: url.to_owned(),
            status: status.as_u16(),
        });
    }
    let text = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let etag = text("x-linked-etag").or_else(|| text("etag"));
    let sha256 = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
    let is_sha256 =
        |etag: &&str| etag.len() == 64 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(Stated {
        sha256: sha256.filter(is_sha256).map(str::to_owned),
        bytes: text("x-linked-size").and_then(|size| size.parse().ok()),
    })
}

/// One transfer, from where the last one broke off.
async fn transfer(
    client: &Client,
    url: &str,
    total: Option<u64>,
    target: &Target<'_>,
    on_event: Events<'_>,
) -> Result<(), Broken> {
    let mut done = held(target);
    if total.is_some_and(|total| done > total) {
        // Left over from something else.
        fs::remove_file(&target.partial).map_err(wrote(&target.partial, target))?;
        done = 0;
    }
    if total == Some(done) {
        return Ok(());
    }
    let mut request = client.get(url);
    if done > 0 {
        request = request.header(header::RANGE, format!("bytes={done}-"));
    }
    let mut response = request
        .send()
        .await
        .map_err(|error| Broken::Off(reason(&error)))?;
    let (mut file, mut done) = open(&response, url, done, target)?;
    let total = total.or_else(|| response.content_length().map(|length| done + length));
    on_event(PullEvent::Progress { done, total });
    let mut reported = done;
    // Written here and not on a thread of its own: each piece is small and goes to the page cache.
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| Broken::Off(reason(&error)))?
    {
        file.write_all(&piece)
            .map_err(wrote(&target.partial, target))?;
        done += u64::try_from(piece.len()).unwrap_or_default();
        if done - reported >= REPORT || total == Some(done) {
            on_event(PullEvent::Progress { done, total });
            reported = done;
        }
    }
    match total {
        Some(total) if done < total => {
            Err(Broken::Off("the connection was closed early".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Opens the file for what `response` brings, and says at which byte that begins.
fn open(
    response: &Response,
    url: &str,
    held: u64,
    target: &Target<'_>,
) -> Result<(File, u64), Broken> {
    let wrote = wrote(&target.partial, target);
    let status = response.status();
    let range = response
        .headers()
        .get(header::CONTENT_RANGE)
        .and_then(|range| range.to_str().ok());
    let start = range.and_then(|range| {
        range
            .strip_prefix("bytes ")?
            .split_once('-')?
            .0
            .parse::<u64>()
            .ok()
    });
    match status {
        StatusCode::PARTIAL_CONTENT if start == Some(held) => {
            let file = File::options()
                .append(true)
                .open(&target.partial)
                .map_err(wrote)?;
            Ok((file, held))
        }
        StatusCode::OK => Ok((File::create(&target.partial).map_err(wrote)?, 0)),
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if held > 0 => {
            // The file there is not the one that was begun.
            fs::remove_file(&target.partial).map_err(wrote)?;
            Err(Broken::Off(format!(
                "the server answered with status {status} to a request to go on"
            )))
        }
        status if status.is_server_error() => Err(Broken::Off(format!(
            "the server answered with status {status}"
        ))),
        status => Err(SourceError::Status {
            url: url.to_owned(),
            status: status.as_u16(),
        }
        .into()),
    }
}
