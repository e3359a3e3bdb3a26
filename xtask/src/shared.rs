//! The suites over the shared cases: fake servers with faults from real bug reports, odd
//! configuration files, and real tool catalogs with their schemas. They are read from where they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::steps::{built, root, run, test_folder, test_words};

mod faults;

pub(crate) fn all() -> Result<(), String> {
    let shared = folder()?;
    // With the words of the tests, so that nothing is built in yet another way.
    crate::steps::cargo(&[test_words().as_slice(), &["--no-run"]].concat())?;
    let lists = shared.join("corpus/tools-list");
    let annotated = shared.join("corpus/retrieval/livemcpbench/tools.jsonl");
    run(built("corpus-check"), &[lists.clone(), annotated])?;
    // How many tools may be set aside, or come back as something else, is its own floor: none.
    run(built("schema-eval"), &[lists])?;
    crate::retrieval::all(&shared.join("corpus"))?;
    discovery(&shared.join("corpus"))?;
    let cases = shared.join("cases");
    run(
        built("config-cases"),
        &[cases.clone(), built("outrigger").into()],
    )?;
    faults::all(&cases)
}

/// What tools that are found instead of shown save, and whether a model gets at them.
fn discovery(corpus: &Path) -> Result<(), String> {
    let lists: OsString = corpus.join("tools-list").into();
    let tokens = ["tokens".into(), lists.clone(), "200000".into()];
    run(built("discovery-check"), &tokens)?;
    let find: [OsString; 5] = [
        "find".into(),
        lists,
        corpus.join("retrieval/livemcpbench/tools.jsonl").into(),
        built("outrigger"),
        test_folder().into(),
    ];
    run(built("discovery-check"), &find)
}

fn folder() -> Result<PathBuf, String> {
    let named = std::env::var_os("OUTRIGGER_SHARED").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared"));
    if folder.join("cases/README.md").is_file() {
        return Ok(folder);
    }
    Err(format!(
        "the shared cases are not at `{}`; OUTRIGGER_SHARED says where they are",
        folder.display()
    ))
}
