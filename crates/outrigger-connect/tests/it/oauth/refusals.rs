//! What is refused, before anything was sent that could do harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_connect::{ConnectError, ConnectErrorKind, MemoryTokens, OAuthSettings};
use serde_json::json;
use tokio::net::TcpListener;

use super::authority::{Authority, Knobs};
use super::connect_with;
use crate::web::{Web, plain};

async fn refused(knobs: Knobs) -> (Authority, ConnectError) {
    let authority = Authority::new(knobs).await;
    let store = MemoryTokens::default();
    let failed = connect_with(&store, &authority, &authority.spec()).await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::AuthRequired, "{failed}");
    (authority, failed)
}

#[tokio::test]
async fn no_pkce_no_visit() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let metadata = json!({ "code_challenge_methods_supported": methods });
        let (authority, failed) = refused(Knobs {
            metadata,
            ..Knobs::default()
        })
        .await;
        assert!(failed.message.contains("PKCE with S256"), "{failed}");
        assert_eq!(
            (authority.visits().len(), authority.registrations().len()),
            (0, 0)
        );
    }
}

#[tokio::test]
async fn a_redirect_of_another_visit_or_issuer_is_not_used() {
    let evil = "https://evil.example";
    for (redirect, advertised, word) in [
        (vec![("state", "other")], false, "`state`"),
        (vec![("iss", evil)], false, evil),
        (vec![("iss", evil)], true, evil),
        (vec![], true, "from nobody"),
        (vec![("error", "access_denied")], false, "access_denied"),
    ] {
        let (authority, failed) = refused(Knobs {
            metadata: json!({ "authorization_response_iss_parameter_supported": advertised }),
            redirect,
            ..Knobs::default()
        })
        .await;
        assert!(failed.message.contains(word), "{failed}");
        assert_eq!(authority.requests("authorization_code").len(), 0);
        assert_eq!(authority.visits().len(), 1, "nobody is sent there twice");
    }
}

#[tokio::test]
async fn metadata_of_another_issuer_or_resource_is_not_used() {
    let other = json!({ "issuer": "https://evil.example" });
    let (authority, failed) = refused(Knobs {
        metadata: other,
        ..Knobs::default()
    })
    .await;
    assert!(
        failed
            .message
            .contains("names the issuer `https://evil.example`"),
        "{failed}"
    );
    assert_eq!(authority.registrations().len(), 0);
    let other = json!({ "resource": "https://evil.example/mcp" });
    let (authority, failed) = refused(Knobs {
        resource: other,
        ..Knobs::default()
    })
    .await;
    assert!(
        failed.message.contains("is of `https://evil.example/mcp`"),
        "{failed}"
    );
    assert_eq!(
        authority.asked("/.well-known/oauth-authorization-server"),
        0
    );
}

/// Something that must not be called, on an address that no configuration names.
struct Trap {
    port: u16,
    hits: Arc<AtomicUsize>,
    _serving: tokio::task::JoinSet<()>,
}

impl Trap {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits: Arc<AtomicUsize> = Arc::default();
        let mut serving = tokio::task::JoinSet::new();
        let counted = hits.clone();
        serving.spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            port,
            hits,
            _serving: serving,
        }
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn private_places_that_metadata_names_are_not_called() {
    let trap = Trap::new().await;
    // The same socket, by a name that the configuration does not use.
    let named = [
        format!("http://localhost:{}", trap.port),
        format!("https://localhost:{}", trap.port),
        format!("https://127.0.0.2:{}", trap.port),
        "http://169.254.169.254".to_owned(),
        "https://10.0.0.1".to_owned(),
        "https://[::1]:1".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    for place in named {
        let resource = json!({ "authorization_servers": [place] });
        let (_, failed) = refused(Knobs {
            resource,
            ..Knobs::default()
        })
        .await;
        assert!(
            failed.message.contains("is not called"),
            "{place}: {failed}"
        );
        for endpoint in [
            "registration_endpoint",
            "token_endpoint",
            "authorization_endpoint",
        ] {
            let metadata = json!({ endpoint: format!("{place}/x") });
            let (authority, failed) = refused(Knobs {
                metadata,
                ..Knobs::default()
            })
            .await;
            assert!(
                failed.message.contains("is not called"),
                "{place}: {failed}"
            );
            assert_eq!(authority.requests("authorization_code").len(), 0);
        }
    }
    assert_eq!(trap.hits(), 0);
}

#[tokio::test]
async fn no_page_is_shown_that_is_no_page() {
    let metadata = json!({ "authorization_endpoint": "javascript:alert(1)" });
    let (authority, _) = refused(Knobs {
        metadata,
        ..Knobs::default()
    })
    .await;
    assert_eq!(authority.visits().len(), 0);
}

#[tokio::test]
async fn redirects_of_metadata_are_checked_as_well_and_posts_are_not_redirected() {
    let trap = Trap::new().await;
    let elsewhere = format!("http://localhost:{}/x", trap.port);
    for path in [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ] {
        let to = elsewhere.clone();
        let web = Web::new(move |asked| {
            if asked.path == path {
                crate::web::Reply::Full(302, vec![("Location", to.clone())], String::new())
            } else {
                plain(401, "text/plain", "")
            }
        })
        .await;
        let spec = web.spec();
        let authority = Authority::new(Knobs::default()).await;
        let failed = connect_with(&MemoryTokens::default(), &authority, &spec).await;
        let failed = failed.unwrap_err();
        assert!(failed.message.contains("`http://localhost"), "{failed}");
    }
    assert_eq!(trap.hits(), 0);
}

#[tokio::test]
async fn an_endless_document_is_not_read() {
    let web = Web::new(|asked| match asked.path.as_str() {
        "/mcp" => plain(401, "text/plain", ""),
        _ => plain(
            200,
            "application/json",
            &format!("{{\"x\":\"{}\"", "x".repeat(300 << 10)),
        ),
    })
    .await;
    let authority = Authority::new(Knobs::default()).await;
    let failed = connect_with(&MemoryTokens::default(), &authority, &web.spec()).await;
    let failed = failed.unwrap_err();
    assert!(failed.message.contains("larger than 256 KiB"), "{failed}");
}

#[tokio::test]
async fn a_token_that_is_refused_at_once_is_the_end() {
    let (authority, failed) = refused(Knobs {
        refuses_all: true,
        ..Knobs::default()
    })
    .await;
    assert!(
        failed.message.contains("refuses the token that was issued"),
        "{failed}"
    );
    assert_eq!(authority.visits().len(), 1);
    assert!(authority.asked("/mcp") <= 4, "{}", authority.asked("/mcp"));
}

#[tokio::test]
async fn a_configured_token_is_all_that_is_sent() {
    let authority = Authority::new(Knobs::default()).await;
    let mut http = authority.http(OAuthSettings::default());
    http.headers = vec![("authorization".to_owned(), "Bearer mine".to_owned())];
    let spec = crate::peer::spec(outrigger_connect::TransportSpec::Http(http));
    let failed = connect_with(&MemoryTokens::default(), &authority, &spec).await;
    assert_eq!(failed.unwrap_err().kind, ConnectErrorKind::AuthRequired);
    assert_eq!(authority.visits().len(), 0);
}
