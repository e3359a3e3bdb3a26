//! The embedding model with its real weights, fetched as a person would.

use outrigger_local::{EmbeddingModel, PullOptions, Store};

use crate::real::folder;

fn nearness(one: &[f32], other: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}

#[tokio::test]
async fn meanings_are_near_each_other_where_words_are_not_shared() {
    let store = Store::new(folder());
    let pulled = store
        .pull("wordllama-256", &PullOptions::default(), &mut |_| {})
        .await
        .unwrap();
    assert!(pulled.path.ends_with("wordllama-256.embedding"));
    assert!(store.list().unwrap().contains(&pulled));
    let model = EmbeddingModel::load(&pulled.path).unwrap();
    let embed = |text: &str| model.embed(text).unwrap();
    let query = embed("get rid of a document");
    let near = nearness(&query, &embed("delete file. removes it from the disk."));
    let far = nearness(&query, &embed("current weather. the forecast for a city."));
    assert!(near > 0.2 && near > far + 0.1, "{near} and {far}");
    assert_eq!(query.len(), 256);
    assert!(model.embed("").is_none());
}

#[test]
fn what_is_no_such_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.embedding");
    for bytes in [&b""[..], b"GGUF", &[255; 64], b"\x02\0\0\0\0\0\0\0{}"] {
        std::fs::write(&path, bytes).unwrap();
        let error = EmbeddingModel::load(&path).err().unwrap().to_string();
        assert!(error.contains("x.embedding"), "{error}");
    }
}
