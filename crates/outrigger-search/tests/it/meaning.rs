//! Rankings by meaning, beside those by words, with a model that knows a handful of words.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_search::{
    Document, Embedder, Fusion, Index, Meaning, Ranker, Ranking, Vectors, VectorsError,
};

use crate::tool;

/// Knows two subjects, and counts what it reads.
#[derive(Default)]
struct Toy(AtomicUsize);

const SUBJECTS: [&[&str]; 2] = [
    &["ferry", "boat", "ship"],
    &["invoice", "bill", "money", "pay"],
];

impl Embedder for Toy {
    fn id(&self) -> &'static str {
        "toy"
    }

    fn embed(&self, text: &str) -> Option<Vec<f32>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let about = |words: &&[&str]| {
            let said = words.iter().filter(|word| text.contains(*word));
            f32::from(u8::try_from(said.count()).unwrap())
        };
        let vector: Vec<f32> = SUBJECTS.iter().map(about).collect();
        vector.iter().any(|part| *part > 0.0).then_some(vector)
    }

    fn unrelated(&self) -> f32 {
        0.5
    }
}

fn harbour() -> Vec<Document> {
    vec![
        tool("harbour", "next_ferry", "When one leaves."),
        tool("harbour", "send_invoice", "To a customer."),
        tool("harbour", "weather", "As it will be."),
    ]
}

fn learn(meaning: &Meaning) -> usize {
    let mut learned = 0;
    loop {
        match meaning.learn() {
            0 => return learned,
            count => learned += count,
        }
    }
}

fn found(ranker: &dyn Ranker, query: &str, hidden: &str) -> Vec<String> {
    let Ranking { tools, .. } = ranker.rank(query, &|_, name| name != hidden, 8);
    tools.into_iter().map(|key| key.name).collect()
}

#[test]
fn a_paraphrase_is_found_once_all_is_read_and_words_answer_until_then() {
    let meaning = Meaning::default();
    let mut fusion = Fusion::new(Index::default()).with(Box::new(meaning.clone()), Meaning::WEIGHT);
    fusion.replace("harbour", &harbour());
    assert!(found(&fusion, "ship", "").is_empty());
    meaning.begin(Arc::new(Toy::default()), Vectors::default());
    assert!(!meaning.is_ready());
    assert!(found(&fusion, "ship", "").is_empty());
    assert_eq!(found(&fusion, "weather", ""), ["weather"]);
    assert_eq!(learn(&meaning), 3);
    assert!(meaning.is_ready());
    assert_eq!(found(&fusion, "ship", ""), ["next_ferry"]);
    assert!(found(&fusion, "ship", "next_ferry").is_empty());
    // What is named stays first, however near another is.
    assert_eq!(found(&fusion, "send_invoice ", "")[0], "send_invoice");
    fusion.replace(
        "harbour",
        &[tool(
            "harbour",
            "ferry",
            "Money for a ship, to pay the bill.",
        )],
    );
    assert_eq!(learn(&meaning), 1);
    fusion.replace(
        "quay",
        &[tool("quay", "ferry_boat_ship", "Boats, ferries.")],
    );
    learn(&meaning);
    assert_eq!(found(&fusion, "ferry", "")[0], "ferry");
}

#[test]
fn only_what_changed_is_read_and_what_may_not_be_seen_delays_nothing() {
    let toy = Arc::new(Toy::default());
    let mut meaning = Meaning::default();
    meaning.begin(toy.clone(), Vectors::default());
    meaning.replace("harbour", &harbour());
    learn(&meaning);
    let before = toy.0.load(Ordering::SeqCst);
    let mut changed = harbour();
    changed[2].description = "Ships in a storm.".to_owned();
    meaning.replace("harbour", &changed);
    // It waits for the new one, unless that may not be seen.
    assert!(found(&meaning, "boat", "").is_empty());
    assert_eq!(found(&meaning, "boat", "weather"), ["next_ferry"]);
    assert_eq!(learn(&meaning), 1);
    assert_eq!(found(&meaning, "boat", ""), ["next_ferry", "weather"]);
    // Three queries were embedded, and one text.
    assert_eq!(toy.0.load(Ordering::SeqCst) - before, 4);
    meaning.replace("harbour", &[]);
    assert!(found(&meaning, "boat", "").is_empty());
}

#[test]
fn vectors_are_kept_and_a_single_wrong_bit_is_noticed() {
    let mut first = Meaning::default();
    first.begin(Arc::new(Toy::default()), Vectors::default());
    first.replace("harbour", &harbour());
    learn(&first);
    let bytes = first.vectors().to_bytes();

    let toy = Arc::new(Toy::default());
    let mut second = Meaning::default();
    second.replace("harbour", &harbour());
    second.begin(toy.clone(), Vectors::from_bytes(&bytes).unwrap());
    assert!(second.is_ready());
    assert_eq!(learn(&second), 0);
    assert_eq!(toy.0.load(Ordering::SeqCst), 0);
    assert_eq!(found(&second, "boat", ""), ["next_ferry"]);
    assert_eq!(second.vectors().len(), 3);

    // Those of another model are none.
    let mut other = Meaning::default();
    other.replace("harbour", &harbour());
    other.begin(Arc::new(Toy::default()), Vectors::new("another"));
    assert!(!other.is_ready());

    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        assert!(Vectors::from_bytes(&wrong).is_err(), "byte {at}");
        assert!(Vectors::from_bytes(&bytes[..at]).is_err(), "up to {at}");
    }
    assert!(matches!(
        Vectors::from_bytes(b"anything"),
        Err(VectorsError::Foreign)
    ));
}
