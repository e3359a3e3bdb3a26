//! Servers over TLS whose certificate an authority of the configuration has signed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use outrigger_connect::{ConnectError, ConnectErrorKind, HttpSpec, ServerSpec, TransportSpec};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::older::older;
use crate::peer::{call, connect, spec};
use crate::web::{Web, good};
use crate::websocket;

/// Speaks TLS as `localhost`, and plainly with whom it stands before.
struct Front {
    port: u16,
    folder: tempfile::TempDir,
    _serving: JoinSet<()>,
}

impl Front {
    async fn before(address: SocketAddr) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let own = names.signed_by(&key, &issuer).unwrap();

        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut streams = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                streams.spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let mut behind = TcpStream::connect(address).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut behind).await;
                    }
                });
            }
        });
        Self {
            port,
            folder,
            _serving: serving,
        }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn http(&self, scheme: &str, authorities: Vec<PathBuf>) -> HttpSpec {
        let url = format!("{scheme}://localhost:{}/mcp", self.port);
        let mut spec = HttpSpec::new(url.parse().unwrap());
        spec.ca_files = authorities;
        spec
    }
}

async fn before(web: &Web) -> Front {
    let address = web
        .url
        .trim_start_matches("http://")
        .trim_end_matches("/mcp");
    Front::before(address.parse().unwrap()).await
}

/// Connects and calls with the authority, and says how it goes without.
async fn judge(front: &Front, transport: impl Fn(Vec<PathBuf>) -> TransportSpec) -> ConnectError {
    let known = spec(transport(vec![front.authority()]));
    call(&connect(&known).await.unwrap()).await.unwrap();
    let unknown = connect(&spec(transport(Vec::new()))).await.unwrap_err();
    assert_eq!(unknown.kind, ConnectErrorKind::Unreachable, "{unknown}");
    unknown
}

#[track_caller]
fn assert_explained(failed: &ConnectError, address: &str) {
    assert_eq!(
        failed.message,
        format!("cannot reach {address}: invalid peer certificate: UnknownIssuer")
    );
    assert!(failed.hints[0].contains("`ca_file`"), "{:?}", failed.hints);
}

#[tokio::test]
async fn streamable_http() {
    let web = Web::new(good).await;
    let front = before(&web).await;
    let failed = judge(&front, |files| {
        TransportSpec::Http(front.http("https", files))
    })
    .await;
    assert_explained(&failed, &format!("https://localhost:{}/mcp", front.port));
}

#[tokio::test]
async fn http_and_sse() {
    let web = older("/messages?s=1").await;
    let front = before(&web).await;
    let failed = judge(&front, |files| {
        TransportSpec::Sse(front.http("https", files))
    })
    .await;
    assert_explained(&failed, &format!("https://localhost:{}/mcp", front.port));
}

#[tokio::test]
async fn websocket_too() {
    let (_serving, behind, _told) = websocket::serve(websocket::answer).await;
    let TransportSpec::WebSocket(behind) = behind.transport else {
        unreachable!()
    };
    let port = behind.url.port().unwrap();
    let front = Front::before(([127, 0, 0, 1], port).into()).await;
    let failed = judge(&front, |files| {
        TransportSpec::WebSocket(front.http("wss", files))
    })
    .await;
    assert_explained(&failed, &format!("wss://localhost:{}/mcp", front.port));
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_before_anything_is_sent() {
    let web = Web::new(good).await;
    let front = before(&web).await;
    let broken = front.folder.path().join("broken.pem");
    let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(&broken, text).unwrap();
    for file in [front.folder.path().join("nowhere.pem"), broken] {
        for transport in [
            TransportSpec::Http(front.http("https", vec![file.clone()])),
            TransportSpec::WebSocket(front.http("wss", vec![file.clone()])),
        ] {
            let wanted: ServerSpec = spec(transport);
            let failed = connect(&wanted).await.unwrap_err();
            let words = format!("the certificates in `{}` cannot be used: ", file.display());
            assert!(failed.message.starts_with(&words), "{failed}");
            assert!(failed.hints[0].contains("`ca_file`"), "{:?}", failed.hints);
        }
    }
    assert!(web.asked.lock().unwrap().is_empty());
}
