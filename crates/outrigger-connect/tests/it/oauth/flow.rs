//! How tokens are got: by a person, by credentials, as which client, with which scopes.

use std::sync::Arc;

use outrigger_connect::{
    ConnectErrorKind, MemoryTokens, OAuth, OAuthFlow, OAuthSettings, Secret, SignedOut,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::authority::{Authority, Knobs};
use super::{connect_alone, connect_with};
use crate::peer::call;

fn client(id: &str, secret: Option<&str>) -> OAuthSettings {
    OAuthSettings {
        client_id: Some(id.to_owned()),
        client_secret: secret.map(Secret::new),
        ..OAuthSettings::default()
    }
}

#[tokio::test]
async fn a_client_registers_itself_and_a_person_signs_in() {
    let authority = Authority::new(Knobs {
        challenge_scope: Some("read"),
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    let connection = connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    call(&connection).await.unwrap();
    let registered = &authority.registrations()[0];
    assert_eq!(
        registered["redirect_uris"],
        json!(["http://127.0.0.1:9/callback"])
    );
    assert_eq!(registered["token_endpoint_auth_method"], "none");
    assert_eq!(
        registered["grant_types"],
        json!(["authorization_code", "refresh_token"])
    );
    let visits = authority.visits();
    assert_eq!(visits.len(), 1);
    let resource = authority.web.url.clone();
    assert_eq!(visits[0]["response_type"], "code");
    assert_eq!(visits[0]["code_challenge_method"], "S256");
    assert_eq!(visits[0]["resource"], resource);
    assert_eq!(visits[0]["scope"], "read");
    let asked = &authority.requests("authorization_code")[0];
    assert_eq!(
        (&asked["client_id"], &asked["resource"]),
        (&"client-1".to_owned(), &resource)
    );
    // The next one, and one without anybody to sign in, use the same token.
    drop(
        connect_with(&store, &authority, &authority.spec())
            .await
            .unwrap(),
    );
    drop(connect_alone(store, &authority.spec()).await.unwrap());
    assert_eq!(authority.visits().len(), 1);
}

#[tokio::test]
async fn an_issuer_with_a_path_is_found() {
    let authority = Authority::new(Knobs {
        tenant: "/tenant/1",
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    assert_eq!(
        authority.asked("/.well-known/oauth-authorization-server/tenant/1"),
        1
    );
}

#[tokio::test]
async fn without_resource_metadata_the_server_issues_its_own_tokens() {
    let authority = Authority::new(Knobs {
        resource: json!({ "resource": null, "authorization_servers": null }),
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    assert_eq!(authority.visits()[0]["resource"], authority.web.url);
}

#[tokio::test]
async fn a_registered_client_proves_itself_as_the_issuer_wants() {
    for (methods, header, in_form) in [
        (
            json!(["client_secret_basic"]),
            Some("Basic bWU6aHVzaA=="),
            false,
        ),
        (json!(["client_secret_post"]), None, true),
        (json!(null), Some("Basic bWU6aHVzaA=="), false),
    ] {
        let authority = Authority::new(Knobs {
            metadata: json!({ "token_endpoint_auth_methods_supported": methods, "registration_endpoint": null }),
            ..Knobs::default()
        })
        .await;
        let spec = authority.spec_with(client("me", Some("hush")));
        let store = MemoryTokens::default();
        connect_with(&store, &authority, &spec).await.unwrap();
        assert_eq!(
            authority.authorizations()[0].as_deref(),
            header,
            "{methods}"
        );
        let form = &authority.requests("authorization_code")[0];
        assert_eq!(
            form.get("client_secret").map(String::as_str) == Some("hush"),
            in_form
        );
        assert_eq!(authority.visits()[0]["client_id"], "me");
        assert!(!format!("{spec:?}").contains("hush"));
    }
}

#[tokio::test]
async fn a_metadata_document_is_the_client_where_it_is_taken() {
    let document = "https://me.example/client.json";
    for (taken, id) in [(true, document), (false, "client-1")] {
        let authority = Authority::new(Knobs {
            metadata: json!({ "client_id_metadata_document_supported": taken }),
            ..Knobs::default()
        })
        .await;
        let spec = authority.spec_with(client(document, None));
        let store = MemoryTokens::default();
        connect_with(&store, &authority, &spec).await.unwrap();
        assert_eq!(authority.visits()[0]["client_id"], id);
    }
}

#[tokio::test]
async fn a_client_signs_in_for_itself() {
    let authority = Authority::new(Knobs::default()).await;
    let settings = OAuthSettings {
        flow: OAuthFlow::ClientCredentials,
        scopes: vec!["read".to_owned()],
        ..client("me", Some("hush"))
    };
    let spec = authority.spec_with(settings);
    let store = MemoryTokens::default();
    let connection = connect_alone(store.clone(), &spec).await.unwrap();
    call(&connection).await.unwrap();
    let form = &authority.requests("client_credentials")[0];
    assert_eq!(
        (form["scope"].as_str(), &form["resource"]),
        ("read", &authority.web.url)
    );
    assert_eq!(authority.visits().len(), 0);
    // A token that is refused is replaced in the same way.
    authority.forget_tokens();
    call(&connection).await.unwrap();
    assert_eq!(authority.requests("client_credentials").len(), 2);
    let missing = OAuthSettings {
        flow: OAuthFlow::ClientCredentials,
        ..OAuthSettings::default()
    };
    let failed = connect_alone(MemoryTokens::default(), &authority.spec_with(missing)).await;
    assert!(
        failed
            .unwrap_err()
            .message
            .contains("needs `oauth.client_id`")
    );
}

#[tokio::test]
async fn a_wider_scope_is_asked_for_once_and_takes_nothing_away() {
    let authority = Authority::new(Knobs {
        challenge_scope: Some("read"),
        call_scope: Some("write"),
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    let connection = connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    call(&connection).await.unwrap();
    let visits = authority.visits();
    assert_eq!(visits.len(), 2);
    assert_eq!(visits[1]["scope"], "write read");
}

#[tokio::test]
async fn a_scope_that_was_asked_for_and_not_granted_is_not_asked_for_again() {
    let authority = Authority::new(Knobs {
        challenge_scope: Some("read"),
        call_scope: Some("write"),
        grants: Some("read"),
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    let connection = connect_with(&store, &authority, &authority.spec())
        .await
        .unwrap();
    for _ in 0..3 {
        let said = call(&connection).await.unwrap_err().to_string();
        assert!(
            said.contains("scope `write`, which was asked for"),
            "{said}"
        );
    }
    assert_eq!(authority.visits().len(), 2);
}

#[tokio::test]
async fn a_wider_scope_that_nobody_can_grant_now_is_asked_for_at_the_next_login() {
    let authority = Authority::new(Knobs {
        challenge_scope: Some("read"),
        ..Knobs::default()
    })
    .await;
    let store = MemoryTokens::default();
    drop(
        connect_with(&store, &authority, &authority.spec())
            .await
            .unwrap(),
    );
    authority.knobs.lock().unwrap().call_scope = Some("write");
    let connection = connect_alone(store.clone(), &authority.spec())
        .await
        .unwrap();
    let said = call(&connection).await.unwrap_err().to_string();
    assert!(said.contains("wants the further scope `write`"), "{said}");
    assert!(said.contains("`outrigger login scripted`"), "{said}");
    let oauth = OAuth::new(Arc::new(store));
    let http = authority.http(OAuthSettings::default());
    let cancel = CancellationToken::new();
    let signed_in = oauth
        .sign_in(&http, authority.person().as_ref(), &cancel)
        .await
        .unwrap();
    assert_eq!(signed_in.scopes, ["read", "write"]);
    // The connection that was refused finds the new login.
    call(&connection).await.unwrap();
    let anew = connect_alone(MemoryTokens::default(), &authority.spec()).await;
    assert_eq!(anew.unwrap_err().kind, ConnectErrorKind::AuthRequired);
}

#[tokio::test]
async fn signing_out_revokes_and_forgets() {
    let authority = Authority::new(Knobs::default()).await;
    let store = MemoryTokens::default();
    let oauth = OAuth::new(Arc::new(store.clone()));
    let http = authority.http(OAuthSettings::default());
    let cancel = CancellationToken::new();
    let person = authority.person();
    let signed_in = oauth
        .sign_in(&http, person.as_ref(), &cancel)
        .await
        .unwrap();
    assert_eq!(
        (signed_in.issuer, signed_in.renewable),
        (authority.base(), true)
    );
    drop(
        connect_alone(store.clone(), &authority.spec())
            .await
            .unwrap(),
    );
    assert_eq!(oauth.sign_out(&http).await.unwrap(), SignedOut::Revoked);
    assert_eq!(authority.revoked(), 1);
    assert_eq!(oauth.sign_out(&http).await.unwrap(), SignedOut::Nothing);
    let failed = connect_alone(store, &authority.spec()).await.unwrap_err();
    assert_eq!(failed.kind, ConnectErrorKind::AuthRequired);
    assert_eq!(failed.hints[0], "sign in with `outrigger login scripted`");
    assert!(
        failed
            .message
            .contains("resource_metadata: http://127.0.0.1"),
        "{}",
        failed.message
    );
}
