//! `[discovery] embeddings`: a paraphrase that shares no word with a tool finds it, and what is missing
//! is told once.

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use crate::model::Model;
use crate::place::{Place, Ran};
use crate::servers::Servers;

const OFF: &str = "[builtin]\ntime = false\nworkspace = false\n[discovery]\nmode = 'always'\n";

/// Asks with a model that searches once.
fn searches(place: &Place, query: &str) -> (Ran, String) {
    let model = Model::turns([
        Turn::calls([("search_tools", json!({ "query": query }))]),
        Turn::text("done"),
    ]);
    model.serves_again(place);
    place.user(OFF);
    let recording = place.root.join("recording");
    let words = ["ask", "?", "--record", recording.to_str().unwrap()];
    std::fs::remove_dir_all(&recording).ok();
    let ran = place.run(&words);
    assert_eq!(ran.code, 0, "{ran:#?}");
    (ran, model.last_results().concat())
}

#[cfg(feature = "local")]
#[test]
fn a_paraphrase_finds_a_tool_when_embeddings_are_on() {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({ "real": servers.time(), "files": servers.files(&place.project()) }));
    // Not a word of it is in the tools of `real`.
    let query = "o'clock";
    let (_, by_words) = searches(&place, query);
    assert!(
        by_words.contains("No tool has any of these words"),
        "{by_words}"
    );

    place.write(
        "managed/outrigger.toml",
        "[discovery]\nembeddings = 'wordllama-256'\n",
    );
    let (ran, by_words) = searches(&place, query);
    assert!(
        by_words.contains("No tool has any of these words"),
        "{by_words}"
    );
    assert!(
        ran.err
            .contains("the model `wordllama-256` is not here; tools are found by words alone"),
        "{ran:#?}"
    );
    let hint = "hint: `outrigger model pull wordllama-256` fetches it";
    assert_eq!(ran.err.matches(hint).count(), 1, "{ran:#?}");

    place.write("cache/outrigger/models/wordllama-256.embedding", weights());
    let (ran, found) = searches(&place, query);
    assert!(!ran.err.contains("warning"), "{ran:#?}");
    let first = found.lines().find(|line| line.starts_with("mcp__"));
    assert!(
        first.is_some_and(|line| line.starts_with("mcp__real__")),
        "{found}"
    );
    let kept = std::fs::read_dir(place.root.join("cache/outrigger/vectors"));
    assert_eq!(kept.unwrap().count(), 1);
}

/// The weights, fetched once and kept between runs of the tests.
#[cfg(feature = "local")]
fn weights() -> Vec<u8> {
    use std::path::PathBuf;

    use outrigger_local::{PullOptions, Store};

    let named = std::env::var_os("OUTRIGGER_TEST_MODELS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.outrigger-test/models")
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = Store::new(folder);
    let options = PullOptions::default();
    let pulled = runtime.block_on(store.pull("wordllama-256", &options, &mut |_| {}));
    std::fs::read(pulled.unwrap().path).unwrap()
}

#[cfg(not(feature = "local"))]
#[test]
fn a_build_without_local_models_says_so() {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({ "real": servers.time() }));
    place.write(
        "managed/outrigger.toml",
        "[discovery]\nembeddings = 'wordllama-256'\n",
    );
    let (ran, _) = searches(&place, "o'clock");
    assert!(
        ran.err
            .contains("this build has no local models; tools are found by words alone"),
        "{ran:#?}"
    );
}
