//! Many clients before a gateway whose servers are killed, hang and flood: no call is lost or made twice, memory stays,
//! nothing is left. Short in a check; `cargo xtask load 600` is the long form.

use std::ffi::OsString;

use crate::steps::{built, cargo, run, test_words};

/// How long the short form goes on.
const SECONDS: &str = "20";

pub(crate) fn run_for(seconds: Option<&String>) -> Result<(), String> {
    // With the words of the tests, so that nothing is built in yet another way.
    cargo(&[test_words().as_slice(), &["--no-run"]].concat())?;
    let seconds = seconds.map_or(SECONDS, String::as_str);
    let words: [OsString; 2] = [built("outrigger"), seconds.into()];
    run(built("gateway-load"), &words)
}
