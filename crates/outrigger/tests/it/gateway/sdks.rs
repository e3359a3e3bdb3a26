//! Other people's clients: the Python SDK and the TypeScript SDK of the second version in both eras, that of
//! the first; over stdio and HTTP, with other people's servers behind.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::served::Served;
use crate::place::{Place, fixture};
use crate::servers::Servers;

/// A place with servers of three makers.
fn place() -> Place {
    let servers = Servers::installed();
    let place = Place::new();
    place.servers(&json!({
        "clock": servers.time(),
        "all": servers.everything(),
        "conf": { "command": "python3", "args": [fixture("conformance_server.py")] },
    }));
    place.user("[[policy.rule]]\nserver = 'clock'\ndecision = 'allow'\n[[policy.rule]]\nserver = 'all'\ndecision = 'allow'");
    place
}

/// What a client meets at a gateway.
fn met(place: &Place, mut client: Command) -> Value {
    let calls = json!([
        ["clock__convert_time", { "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" }],
        ["all__get-sum", { "a": 2, "b": 3 }],
        ["conf__test_tool_with_progress", {}],
        ["conf__test_input_required_result_elicitation", {}],
        ["time__current_time", {}],
    ]);
    client
        .current_dir(place.project())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(calls.to_string().as_bytes()).unwrap();
    drop(stdin);
    let ran = crate::place::Ran::of(child);
    assert_eq!(ran.code, 0, "{ran:#?}");
    ran.json()
}

#[track_caller]
fn assert_all_went_well(met: &Value) {
    let calls = met["calls"].as_array().unwrap();
    assert!(calls.iter().all(|call| call["error"] == false), "{met:#}");
    let said = |at: usize| calls[at]["texts"][0].as_str().unwrap();
    assert!(said(0).contains("21:00"), "{met:#}");
    assert!(said(1).contains('5'), "{met:#}");
    assert_eq!(said(3), "Hello, Ada!");
    assert!(calls[4]["structured"]["time"].is_string(), "{met:#}");
    let steps = met["progress"].as_array().unwrap().iter();
    // A round of questions is progress to one of the SDKs, of no total.
    let steps = steps.filter(|step| !step[1].is_null());
    let progress = steps.flat_map(|step| step.as_array().unwrap());
    let progress: Vec<_> = progress.map(|number| number.as_f64().unwrap()).collect();
    assert_eq!(progress, [0.0, 100.0, 50.0, 100.0, 100.0, 100.0], "{met:#}");
    // Twice policy, once the server itself.
    let asked = met["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 3, "{met:#}");
    assert_eq!(asked[2], "conf: What is your name?");
    assert!(met["tools"].as_array().unwrap().len() > 30, "{met:#}");
}

/// The words that start a gateway, for clients that start it themselves.
pub(super) fn gateway(place: &Place) -> Command {
    let mut command = place.command(&["serve"]);
    command.stdin(Stdio::null());
    command
}

fn through(place: &Place, mut client: Command, served: Option<&Served>) -> Value {
    let gateway = gateway(place);
    client.env_clear().envs(
        gateway
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    match served {
        Some(served) => drop(client.arg(&served.place)),
        None => drop(
            client
                .arg("--")
                .arg(gateway.get_program())
                .args(gateway.get_args()),
        ),
    }
    met(place, client)
}

#[test]
fn the_python_sdk_in_both_eras() {
    let servers = Servers::installed();
    let place = place();
    let served = Served::start(&place, &[]);
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        for served in [None, Some(&served)] {
            let mut client = Command::new(servers.python("python"));
            client.args([&fixture("sdk_client.py"), mode]);
            let met = through(&place, client, served);
            assert_eq!(met["version"], version);
            assert_all_went_well(&met);
        }
    }
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn the_typescript_sdk() {
    let servers = Servers::installed();
    let place = place();
    let served = Served::start(&place, &[]);
    for served in [None, Some(&served)] {
        let mut client = Command::new(servers.node());
        client.arg(fixture("sdk_client.mjs")).arg(servers.modules());
        assert_all_went_well(&through(&place, client, served));
    }
    drop(served);
    place.assert_nothing_runs();
}

#[test]
fn the_typescript_sdk_of_the_second_version_in_both_eras() {
    let servers = Servers::installed();
    let place = place();
    let served = Served::start(&place, &[]);
    for (mode, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        for served in [None, Some(&served)] {
            let mut client = Command::new(servers.node());
            client.arg(fixture("sdk2_client.mjs"));
            client.arg(servers.clients()).arg(mode);
            let met = through(&place, client, served);
            assert_eq!(met["version"], version);
            assert_all_went_well(&met);
        }
    }
    drop(served);
    place.assert_nothing_runs();
}
