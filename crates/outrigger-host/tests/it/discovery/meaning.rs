//! `search_tools` with a model behind it: a paraphrase is found, what is denied is not, and a second
//! start reads nothing again.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_host::discovery::{Embedder, Embeddings};
use serde_json::json;

use super::{ALWAYS, told};
use crate::lab::{Lab, Plan};

/// Knows that to donate is to give, and counts what it reads.
#[derive(Clone, Default)]
struct Toy(Arc<AtomicUsize>);

impl Embedder for Toy {
    fn id(&self) -> &'static str {
        "toy"
    }

    fn embed(&self, text: &str) -> Option<Vec<f32>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let gives = ["give", "donate"].iter().any(|word| text.contains(word));
        gives.then(|| vec![1.0, 0.5])
    }
}

async fn lab(rules: &str) -> Lab {
    Lab::new(Plan {
        user: format!("{ALWAYS}{rules}"),
        allow: vec!["*".to_owned()],
        ..Plan::default()
    })
    .await
}

/// Has it find by meaning, and waits until all is read; says how many texts were.
async fn reads(lab: &Lab, folder: &std::path::Path) -> usize {
    let toy = Toy::default();
    let model = toy.clone();
    let mut reads = lab.host.find_by_meaning(Embeddings {
        load: Box::new(move || Some(Arc::new(model))),
        folder: Some(folder.to_owned()),
    });
    let now = *lab.host.published().borrow();
    reads.wait_for(|read| *read >= now).await.unwrap();
    toy.0.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_paraphrase_is_found_by_meaning_and_not_by_words() {
    let folder = tempfile::tempdir().unwrap();
    let wish = json!({ "query": "donate" });
    let first = lab("").await;
    let by_words = told(&first, "search_tools", &wish).await;
    assert!(
        by_words.contains("No tool has any of these words"),
        "{by_words}"
    );
    assert_eq!(reads(&first, folder.path()).await, 11);
    let found = told(&first, "search_tools", &wish).await;
    assert!(found.contains("mcp__lab__give("), "{found}");

    let denied = "[[policy.rule]]\ntool = 'mcp__lab__give'\ndecision = 'deny'\n";
    let second = lab(denied).await;
    assert_eq!(reads(&second, folder.path()).await, 0, "it was read again");
    let found = told(&second, "search_tools", &wish).await;
    assert!(found.contains("No tool has any of these words"), "{found}");

    // What is damaged is made anew.
    let file = folder.path().join("toy");
    let mut bytes = fs::read(&file).unwrap();
    bytes[40] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(reads(&lab("").await, folder.path()).await, 11);
    assert_ne!(fs::read(&file).unwrap(), bytes);
    for lab in [first, second] {
        lab.host.close().await;
    }
}

#[tokio::test]
async fn without_its_model_words_answer() {
    let lab = lab("").await;
    let mut reads = lab.host.find_by_meaning(Embeddings {
        load: Box::new(|| None),
        folder: None,
    });
    assert!(reads.wait_for(|read| *read > 0).await.is_err());
    let found = told(&lab, "search_tools", &json!({ "query": "keep" })).await;
    assert!(found.contains("mcp__lab__keep("), "{found}");
    lab.host.close().await;
}
