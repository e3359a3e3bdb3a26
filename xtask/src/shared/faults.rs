//! The fake servers of the fault suite: against the real connection, and with the gateway in between; and the
//! probe of a gateway's endpoint.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::gateway::Gateway;
use crate::steps::{built, root, run};

/// How many of the cases that any client can be judged on must pass. It only ever rises.
const FLOOR: usize = 99;

/// How many of all cases must pass with a gateway in between. It only ever rises. The one that does not is
/// `poisoned_descriptions`, which has tools with hidden characters listed; here they are set aside.
const FLOOR_THROUGH: usize = 104;

/// The cases that say most of what a gateway may spoil; they are played by clients of the legacy era too.
const OF_BOTH_ERAS: [&str; 5] = [
    "out_of_order,requests_during_call,session_404_once",
    "late_response,progress_forever,progress_resets_timeout",
    "list_changed_once,list_changed_loop,get_stream_list_changed",
    "bigint_args,bigint_result,content_zoo,id_as_string,id_null_error",
    "sse_drop_no_id,sse_resume,sse_stays_open",
];

pub(crate) fn all(cases: &Path) -> Result<(), String> {
    let clients = |line: &str| line.contains(r#""level": "client""#);
    suite(cases, "", &[built("case-driver")], &[], (FLOOR, clients))?;
    let through = |era: &str| {
        [
            built("case-driver"),
            "--through".into(),
            built("outrigger"),
            "--era".into(),
            era.into(),
        ]
    };
    suite(
        cases,
        "-gateway",
        &through("auto"),
        &[],
        (FLOOR_THROUGH, |_| true),
    )?;
    let both = OF_BOTH_ERAS.join(",");
    let count = both.split(',').count();
    let some: [OsString; 2] = ["--case".into(), both.into()];
    suite(
        cases,
        "-gateway-legacy",
        &through("legacy"),
        &some,
        (count, |_| true),
    )?;
    probe(cases)
}

/// Plays the cases, and counts those that pass among those that are meant.
fn suite(
    cases: &Path,
    name: &str,
    driver: &[OsString],
    more: &[OsString],
    (floor, meant): (usize, fn(&str) -> bool),
) -> Result<(), String> {
    let out = root().join(format!("target/shared-cases{name}.jsonl"));
    let driver: Vec<_> = driver.iter().map(|word| word.to_string_lossy()).collect();
    let words: [OsString; 5] = [
        cases.join("tools/run_suite.py").into(),
        "--driver".into(),
        driver.join(" ").into(),
        "--out".into(),
        out.clone().into(),
    ];
    run("python3", &[words.as_slice(), more].concat())?;
    let results = fs::read_to_string(&out)
        .map_err(|error| format!("`{}` cannot be read: {error}", out.display()))?;
    let all = results.lines().filter(|line| meant(line));
    let passed = all
        .clone()
        .filter(|line| line.contains(r#""verdict": "ok""#))
        .count();
    if passed < floor {
        return Err(format!(
            "{passed} of {} cases pass, and {floor} have to; `{}` says why",
            all.count(),
            out.display()
        ));
    }
    Ok(())
}

/// What a gateway answers to requests of all kinds: to whoever comes, and to who shows a token.
fn probe(cases: &Path) -> Result<(), String> {
    let server = format!(
        "[servers.fake]\ncommand = 'python3'\nargs = ['{}', '--case', 'plain']\n",
        cases.join("fake_stdio.py").display()
    );
    let (token, entry) = token()?;
    for (configuration, token) in [(server.clone(), None), (server + &entry, Some(token))] {
        let home = root().join("target/probed-gateway");
        let gateway = Gateway::start(&home, &configuration, &[])?;
        let mut words: Vec<OsString> = vec![
            cases.join("tools/gateway_probe.py").into(),
            "--url".into(),
            gateway.place.clone().into(),
        ];
        words.extend(
            token
                .into_iter()
                .flat_map(|token| ["--token".into(), token.into()]),
        );
        run("python3", &words)?;
    }
    Ok(())
}

/// A token for whoever probes, and what lets it in.
fn token() -> Result<(String, String), String> {
    let mut command = Command::new(built("outrigger"));
    let output = command
        .args(["gateway", "token", "probe"])
        .output()
        .map_err(|error| format!("`outrigger gateway token` cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let of = |start: &str| {
        let mut words = said.split(|c: char| c.is_whitespace() || c == '"');
        words
            .find(|word| word.starts_with(start))
            .map(str::to_owned)
    };
    let (Some(token), Some(hash)) = (of("ogt_"), of("sha256:")) else {
        return Err(format!("`outrigger gateway token` gave no token: {said}"));
    };
    let entry = format!("[gateway.principals.probe]\ntoken = '{hash}'\n");
    Ok((token, entry))
}
