//! Renewing: ahead of time, on refusal, once among all processes, and never with a dead token.
#![allow(
    clippy::disallowed_methods,
    reason = "two processes are two runs of this test program"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use outrigger_connect::{
    ConnectErrorKind, FileTokens, HttpSpec, MemoryTokens, OAuth, OAuthSettings, TransportSpec,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::authority::{Authority, Knobs};
use super::{connect_alone, connect_by, connect_with};
use crate::peer::{call, spec};

fn short() -> Knobs {
    // Ends as soon as it is issued, as far as this side can tell.
    Knobs {
        lives: 0,
        ..Knobs::default()
    }
}

#[tokio::test]
async fn a_token_is_renewed_before_it_is_sent() {
    let authority = Authority::new(short()).await;
    let store = MemoryTokens::default();
    sign_in(&authority, OAuth::new(Arc::new(store.clone()))).await;
    authority.knobs.lock().unwrap().lives = 3600;
    let refused = authority.asked("/mcp");
    let connection = connect_alone(store, &authority.spec()).await.unwrap();
    call(&connection).await.unwrap();
    let renewals = authority.requests("refresh_token");
    assert_eq!(renewals.len(), 1);
    assert_eq!(renewals[0]["resource"], authority.web.url);
    // Only the question of where to sign in was refused.
    assert_eq!((refused, authority.visits().len()), (1, 1));
    assert_eq!(authority.web.count("tools/call"), 1);
    assert_eq!(authority.web.count("server/discover"), 2);
}

async fn sign_in(authority: &Authority, oauth: OAuth) {
    let http = authority.http(OAuthSettings::default());
    let (person, cancel) = (authority.person(), CancellationToken::new());
    oauth
        .sign_in(&http, person.as_ref(), &cancel)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_refused_token_is_renewed_by_one_for_all() {
    let authority = Authority::new(Knobs::default()).await;
    let store = MemoryTokens::default();
    let connection = connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    authority.forget_tokens();
    let calls = (0..8).map(|_| call(&connection));
    for outcome in futures::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(authority.requests("refresh_token").len(), 1);
    // The refresh token was replaced, and the new one is the one that is used next.
    authority.forget_tokens();
    call(&connection).await.unwrap();
    let renewals = authority.requests("refresh_token");
    assert_ne!(renewals[0]["refresh_token"], renewals[1]["refresh_token"]);
}

#[tokio::test]
async fn a_dead_refresh_token_is_dropped_and_never_sent_again() {
    let authority = Authority::new(Knobs::default()).await;
    let store = MemoryTokens::default();
    drop(
        connect_with(&store, &authority, &authority.spec())
            .await
            .unwrap(),
    );
    authority.forget_tokens();
    authority.knobs.lock().unwrap().forgets = true;
    let failed = connect_alone(store.clone(), &authority.spec())
        .await
        .unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::AuthRequired);
    assert!(
        failed.message.contains("the login has ended (revoked)"),
        "{failed}"
    );
    assert_eq!(failed.hints[0], "sign in with `outrigger login scripted`");
    let again = connect_alone(store.clone(), &authority.spec())
        .await
        .unwrap_err();
    assert_eq!(again.kind, ConnectErrorKind::AuthRequired);
    assert_eq!(authority.requests("refresh_token").len(), 1);
    // With somebody there, it is a new login.
    drop(
        connect_with(&store, &authority, &authority.spec())
            .await
            .unwrap(),
    );
    assert_eq!(authority.visits().len(), 2);
    assert_eq!(authority.requests("refresh_token").len(), 1);
}

#[tokio::test]
async fn another_issuer_is_another_client() {
    let authority = Authority::new(Knobs::default()).await;
    let store = MemoryTokens::default();
    let connection = connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    authority.knobs.lock().unwrap().tenant = "/moved";
    authority.forget_tokens();
    call(&connection).await.unwrap();
    assert_eq!(authority.requests("refresh_token").len(), 0);
    let visits = authority.visits();
    assert_eq!(
        (
            visits[0]["client_id"].as_str(),
            visits[1]["client_id"].as_str()
        ),
        ("client-1", "client-2")
    );
}

#[tokio::test]
async fn tokens_in_files_are_their_owners_alone() {
    let authority = Authority::new(Knobs::default()).await;
    let folder = Folder::new("owner");
    let tokens = FileTokens::new(folder.path().join("oauth"));
    let oauth = OAuth::new(Arc::new(tokens.clone())).with_handler(authority.person());
    drop(connect_by(oauth, &authority.spec()).await.unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("oauth")), 0o700);
    let files: Vec<_> = std::fs::read_dir(folder.path().join("oauth"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 3, "grant, server and lock: {files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600));
    drop(connect_alone(tokens, &authority.spec()).await.unwrap());
    assert_eq!(authority.visits().len(), 1);
}

const PLACE: &str = "OUTRIGGER_TEST_RENEWS_AT";

/// What the children of the next test run.
#[tokio::test]
#[ignore = "a child of `two_processes_renew_once`"]
async fn child() {
    let place = std::env::var(PLACE).unwrap();
    let (url, folder) = place.split_once(' ').unwrap();
    let spec = spec(TransportSpec::Http(HttpSpec::new(url.parse().unwrap())));
    let connection = connect_alone(FileTokens::new(folder), &spec).await.unwrap();
    call(&connection).await.unwrap();
}

#[tokio::test]
async fn two_processes_renew_once() {
    let authority = Authority::new(short()).await;
    let folder = Folder::new("two");
    sign_in(
        &authority,
        OAuth::new(Arc::new(FileTokens::new(folder.path()))),
    )
    .await;
    // Both find a token that has ended; whoever renews it gets one that lives.
    authority.knobs.lock().unwrap().lives = 3600;
    let place = format!("{} {}", authority.web.url, folder.path().display());
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..2)
        .map(|_| {
            Command::new(&program)
                .args(["oauth::renewal::child", "--exact", "--ignored"])
                .env(PLACE, &place)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let ended = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
    assert_eq!(authority.requests("refresh_token").len(), 1);
    assert_eq!(
        authority.requests("refresh_token")[0]["resource"],
        json!(authority.web.url)
    );
}

/// A folder of one test; it is gone when this is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("outrigger-oauth-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
