//! Measures how well tools are found by words, on a set of tools and queries with known answers.
//!
//! `retrieval-eval TOOLS.jsonl QUERIES.jsonl [--haystack MORE.jsonl…] [--embeddings MODEL]` prints one JSON line: recall at
//! 1, 5 and 10 and nDCG at 10 as shares, the mean reciprocal rank, and the microseconds of a query.
//! A tool is a line with `server`, `name`, `description`, `inputSchema`; a query a line with `query`
//! and `groups`, each of which any one of its members (`server/name`) satisfies. What `--haystack`
//! names is searched as well; it may also be a folder of raw `tools/list` results. With a file of
//! `outrigger model pull`, tools are found by meaning besides, and the seconds that embedding all of
//! them took are printed too. Judges nothing.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is how a test program speaks"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use outrigger_local::EmbeddingModel;
use outrigger_search::{Document, Embedder, Fusion, Meaning, Parameters, Ranker as _, Vectors};
use serde::Deserialize;
use serde_json::{Value, json};

/// How far down an answer is looked for.
const DEPTH: usize = 100;
/// How many tools a search shows.
const SHOWN: usize = 8;

type Failure = Box<dyn Error>;

#[derive(Deserialize)]
struct Query {
    query: String,
    groups: Vec<Vec<String>>,
}

/// Sums over all queries.
#[derive(Default)]
struct Sums {
    recall: [f64; 3],
    gain: f64,
    reciprocal: f64,
}

/// What is measured.
#[derive(Default)]
struct Words {
    /// The tools and the queries.
    sets: Vec<PathBuf>,
    haystack: Vec<PathBuf>,
    embeddings: Option<PathBuf>,
}

impl Words {
    fn read(mut words: impl Iterator<Item = PathBuf>) -> Self {
        let mut read = Self::default();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--haystack") => {}
                Some("--embeddings") => read.embeddings = words.next(),
                _ if read.sets.len() < 2 => read.sets.push(word),
                _ => read.haystack.push(word),
            }
        }
        read
    }
}

fn main() -> ExitCode {
    let words = Words::read(std::env::args_os().skip(1).map(PathBuf::from));
    if words.sets.len() < 2 {
        eprintln!(
            "usage: retrieval-eval TOOLS.jsonl QUERIES.jsonl [--haystack MORE.jsonl…] [--embeddings MODEL]"
        );
        return ExitCode::from(2);
    }
    match evaluate(&words) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("retrieval-eval: {error}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate(words: &Words) -> Result<Value, Failure> {
    let mut servers: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    let (tools, queries) = (&words.sets[0], &words.sets[1]);
    for path in std::iter::once(tools).chain(&words.haystack) {
        let read = if path.is_dir() {
            read_folder(path)
        } else {
            read_lines(path)
        };
        for document in read.map_err(|error| format!("`{}`: {error}", path.display()))? {
            servers
                .entry(document.server.clone())
                .or_default()
                .push(document);
        }
    }
    let meaning = Meaning::default();
    let mut index = Fusion::default();
    if words.embeddings.is_some() {
        index = index.with(Box::new(meaning.clone()), Meaning::WEIGHT);
    }
    for (server, documents) in servers {
        index.replace(&server, &documents);
    }
    let embedding = match &words.embeddings {
        Some(path) => Some(embed(&meaning, path)?),
        None => None,
    };
    let queries: Vec<Query> = fs::read_to_string(queries)
        .map_err(|error| format!("`{}`: {error}", queries.display()))?
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("`{}`: {error}", queries.display()))?;
    if queries.is_empty() {
        return Err("there is no query".into());
    }
    let mut line = measure(&index, &queries);
    if let Some(took) = embedding {
        line["embedding_s"] = json!(took);
    }
    Ok(line)
}

/// Embeds all tools, and says how many seconds that took.
fn embed(meaning: &Meaning, path: &Path) -> Result<f64, Failure> {
    struct Local(EmbeddingModel);
    impl Embedder for Local {
        fn id(&self) -> &str {
            self.0.id()
        }
        fn embed(&self, text: &str) -> Option<Vec<f32>> {
            self.0.embed(text)
        }

        fn unrelated(&self) -> f32 {
            self.0.unrelated()
        }
    }
    let model = Arc::new(Local(EmbeddingModel::load(path)?));
    let clock = Instant::now();
    meaning.begin(model, Vectors::default());
    while meaning.learn() > 0 {}
    Ok((clock.elapsed().as_secs_f64() * 1e3).round() / 1e3)
}

/// What is found, and how long it takes. By words alone one view serves all queries; with a model each
/// has a view of its own, and is timed for as many tools as a search shows.
fn measure(index: &Fusion, queries: &[Query]) -> Value {
    let view = index.words().view(|_, _| true);
    let mut sums = Sums::default();
    let mut took = Vec::with_capacity(queries.len());
    for query in queries {
        let clock = Instant::now();
        let found: Vec<String> = if index.is_by_words() {
            let hits = view.search(&query.query, DEPTH);
            took.push(clock.elapsed());
            hits.iter().map(|hit| id(hit.server, hit.name)).collect()
        } else {
            index.rank(&query.query, &|_, _| true, SHOWN);
            took.push(clock.elapsed());
            let ranking = index.rank(&query.query, &|_, _| true, DEPTH);
            let keys = ranking.tools.iter();
            keys.map(|key| id(&key.server, &key.name)).collect()
        };
        sums.add(&query.groups, &found);
    }
    took.sort_unstable();
    let share = |sum: f64| (sum / number(queries.len()) * 1e4).round() / 1e4;
    json!({
        "r_at_1": share(sums.recall[0]),
        "r_at_5": share(sums.recall[1]),
        "r_at_10": share(sums.recall[2]),
        "ndcg_at_10": share(sums.gain),
        "mrr": share(sums.reciprocal),
        "us_per_query": took[took.len() / 2].as_micros(),
        "queries": queries.len(),
        "tools": index.words().len(),
        "servers": index.words().servers().count(),
    })
}

fn id(server: &str, name: &str) -> String {
    format!("{server}/{name}")
}

impl Sums {
    fn add(&mut self, groups: &[Vec<String>], found: &[String]) {
        // Where each group is first satisfied, from 0.
        let ranks: Vec<Option<usize>> = groups
            .iter()
            .map(|group| found.iter().position(|tool| group.contains(tool)))
            .collect();
        let within = |depth: usize| ranks.iter().flatten().filter(move |rank| **rank < depth);
        for (sum, depth) in self.recall.iter_mut().zip([1, 5, 10]) {
            *sum += number(within(depth).count()) / number(groups.len().max(1));
        }
        let gain = |rank: usize| 1.0 / (number(rank) + 2.0).log2();
        let ideal: f64 = (0..groups.len().min(10)).map(gain).sum();
        let real: f64 = within(10).map(|rank| gain(*rank)).sum();
        self.gain += real / ideal.max(f64::EPSILON);
        let first = ranks.iter().flatten().min();
        self.reciprocal += first.map_or(0.0, |rank| 1.0 / (number(*rank) + 1.0));
    }
}

fn read_lines(file: &Path) -> Result<Vec<Document>, Failure> {
    let text = fs::read_to_string(file)?;
    let document = |line: &str| {
        let tool: Value = serde_json::from_str(line)?;
        Ok(document(tool["server"].as_str().unwrap_or_default(), &tool))
    };
    text.lines().map(document).collect()
}

fn read_folder(folder: &Path) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let listed: Value = serde_json::from_str(&fs::read_to_string(&path)?)
            .map_err(|error| format!("`{}`: {error}", path.display()))?;
        let server = path.file_stem().unwrap_or_default().to_string_lossy();
        let tools = listed["tools"].as_array().into_iter().flatten();
        documents.extend(tools.map(|tool| document(&server, tool)));
    }
    Ok(documents)
}

fn document(server: &str, tool: &Value) -> Document {
    let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    Document {
        server: server.to_owned(),
        name: text("name"),
        title: text("title"),
        description: text("description"),
        parameters: Parameters::of(&tool["inputSchema"]),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(count: usize) -> f64 {
    count as f64
}
