//! What a query over 10,000 tools costs, and what it costs to index one server anew, beside a scan
//! through all texts.
//!
//! The catalog is made of words with the frequencies of a natural text (Zipf's law), the same ones in
//! each run. Prints medians and a ratio; nothing is judged here.
#![allow(clippy::print_stdout, reason = "a benchmark: it reports to a person")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use outrigger_search::{Document, Index, Parameters};

const SERVERS: usize = 200;
const TOOLS: usize = 50;
const WORDS: usize = 20_000;
const ROUNDS: usize = 400;

/// A generator of numbers that are the same in each run (Marsaglia's xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A word whose rank is spread by Zipf's law: each doubling of the rank is as likely as another.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank, from a share between 0 and 1"
    )]
    fn word(&mut self) -> String {
        let share = (self.next() % 1_000_000) as f64 / 1e6;
        let rank = (WORDS as f64).powf(share) as usize;
        let letters = b"etaoinshrdlucmfwypvbgk";
        let (mut rest, mut word) = (rank, String::new());
        while rest > 0 || word.len() < 3 {
            word.push(char::from(letters[rest % letters.len()]));
            rest /= letters.len();
        }
        word
    }

    fn text(&mut self, words: usize) -> String {
        let words: Vec<_> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }
}

fn document(server: &str, number: usize, numbers: &mut Numbers) -> Document {
    Document {
        server: server.to_owned(),
        name: format!("{}_{}_{number}", numbers.word(), numbers.word()),
        title: numbers.text(3),
        description: numbers.text(40),
        parameters: Parameters {
            names: (0..5).map(|_| numbers.text(2)).collect(),
            descriptions: (0..5).map(|_| numbers.text(10)).collect(),
            values: (0..5).map(|_| numbers.word()).collect(),
        },
    }
}

fn main() {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut index = Index::default();
    let mut all = Vec::new();
    let clock = Instant::now();
    for server in 0..SERVERS {
        let name = format!("server-{server}");
        let documents: Vec<_> = (0..TOOLS)
            .map(|tool| document(&name, tool, &mut numbers))
            .collect();
        all.extend(documents.iter().map(flat));
        index.replace(&name, documents);
    }
    println!("{} tools indexed in {:?}", index.len(), clock.elapsed());

    let queries: Vec<String> = (0..ROUNDS).map(|_| numbers.text(9)).collect();
    let view = index.view(|_, _| true);
    let search = median(&queries, |query| {
        black_box(view.search(query, 10));
    });
    let fresh = median(&queries, |query| {
        black_box(
            index
                .view(|server, _| server != "server-7")
                .search(query, 10),
        );
    });
    let scan = median(&queries[..40], |query| {
        black_box(scan(&all, query));
    });
    println!("a query: {search:?}; with a view of its own: {fresh:?}");
    println!(
        "a linear scan: {scan:?}, {:.0} × the query",
        scan.as_secs_f64() / search.as_secs_f64()
    );
    let changed: Vec<Vec<Document>> = (0..40)
        .map(|_| {
            (0..TOOLS)
                .map(|tool| document("server-3", tool, &mut numbers))
                .collect()
        })
        .collect();
    let replace = median(&changed, |documents| {
        index.replace("server-3", documents.clone());
    });
    println!("one server of {TOOLS} tools indexed anew: {replace:?}");
}

/// All words of a document in lower case, as a scan would keep them.
fn flat(document: &Document) -> String {
    let parameters = &document.parameters;
    let mut text = format!(
        "{} {} {} {}",
        document.server, document.name, document.title, document.description
    );
    for part in [
        &parameters.names,
        &parameters.descriptions,
        &parameters.values,
    ] {
        text.push(' ');
        text.push_str(&part.join(" "));
    }
    text.to_lowercase()
}

/// How often the words of a query stand in each text; the ten best.
fn scan(all: &[String], query: &str) -> Vec<(usize, usize)> {
    let words: Vec<&str> = query.split(' ').collect();
    let score =
        |text: &String| -> usize { words.iter().map(|word| text.matches(word).count()).sum() };
    let mut scored: Vec<_> = all.iter().map(score).zip(0..).collect();
    scored.sort_unstable_by(|one, other| other.cmp(one));
    scored.truncate(10);
    scored
}

fn median<T>(inputs: &[T], mut run: impl FnMut(&T)) -> Duration {
    let mut took: Vec<Duration> = inputs
        .iter()
        .map(|input| {
            let clock = Instant::now();
            run(input);
            clock.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}
