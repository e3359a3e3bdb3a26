//! Other people's programs before the gateway, over stdio and HTTP, while a server behind it is still starting: they list
//! at once, call one of its tools, get its result, and leave nothing behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use outrigger_testkit::provider_server::Turn;
use serde_json::json;

use super::sdks::gateway;
use super::served::Served;
use super::starting::{gated, known};
use crate::model::Model;
use crate::place::{Place, Ran};
use crate::servers::Servers;

/// A place where all tools are known, and the server `slow` does not begin before the file is there.
fn place() -> (Place, PathBuf) {
    let (place, gate) = gated();
    known(&place, &gate);
    (place, gate)
}

/// Runs a client in the place, with the environment that a gateway gets there.
fn run(place: &Place, mut client: Command) -> Ran {
    let gateway = gateway(place);
    let variables = gateway.get_envs();
    client
        .current_dir(place.project())
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ran::of(client.spawn().unwrap())
}

/// The words that start a gateway of the client's own. Hosts hand on little of their environment.
fn words(place: &Place) -> Vec<String> {
    let gateway = gateway(place);
    let variables = gateway
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)));
    let words = [gateway.get_program()]
        .into_iter()
        .chain(gateway.get_args());
    let words = words.map(|word| word.to_str().unwrap().to_owned());
    let mut all = vec!["env".to_owned()];
    all.extend(variables.chain(words));
    all.extend(["--allow".to_owned(), "*".to_owned()]);
    all
}

#[test]
fn the_inspector() {
    let servers = Servers::installed();
    for is_http in [false, true] {
        let (place, gate) = place();
        let served = is_http.then(|| Served::start(&place, &["--allow", "*"]));
        let inspect = |more: &[&str]| {
            let script = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
            let mut client = servers.client(script);
            client.arg("--cli").args(more);
            match &served {
                Some(served) => drop(client.args(["--transport", "http", &served.place])),
                None => drop(client.arg("--").args(words(&place))),
            }
            let ran = run(&place, client);
            assert_eq!(ran.code, 0, "{ran:#?}");
            ran.json()
        };
        for era in ["legacy", "modern"] {
            let listed = inspect(&["--protocol-era", era, "--method", "tools/list"]);
            assert!(listed.to_string().contains("slow__keep"), "{listed}");
        }
        fs::write(&gate, "").unwrap();
        for era in ["legacy", "modern"] {
            let call = ["--method", "tools/call", "--tool-name", "slow__keep"];
            let called = inspect(&[&["--protocol-era", era], &call[..]].concat());
            assert_eq!(called["content"][0]["text"], "kept", "{called}");
        }
        drop(served);
        place.assert_nothing_runs();
    }
}

#[test]
fn gemini_cli() {
    let servers = Servers::installed();
    for is_http in [false, true] {
        let (place, gate) = place();
        let served = is_http.then(|| Served::start(&place, &["--allow", "*"]));
        let entry = if let Some(served) = &served {
            json!({ "httpUrl": served.place })
        } else {
            let words = words(&place);
            json!({ "command": words[0], "args": words[1..] })
        };
        let settings = json!({
            "mcpServers": { "outrigger": entry },
            "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
            "privacy": { "usageStatisticsEnabled": false },
            "general": { "disableAutoUpdate": true },
        });
        place.write("home/.gemini/settings.json", settings.to_string());
        // The server begins when the model has been asked, so its tools are there before it is.
        let model = Model::answering(move |_, request| {
            if let [.., last] = &request.results()[..] {
                return Turn::text(format!("The server said {last}"));
            }
            fs::write(&gate, "").unwrap();
            Turn::calls([("mcp_outrigger_slow__keep", json!({}))])
        });
        let mut client = servers.client("@google/gemini-cli/bundle/gemini.js");
        client.args(["-m", "gemini-2.5-flash", "--yolo", "-p", "Keep it."]);
        let base = model.base_url();
        let words = [
            ("GEMINI_API_KEY", "none"),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
            ("GOOGLE_GEMINI_BASE_URL", base.trim_end_matches("/v1")),
        ];
        let ran = run_with(&place, &client, &words);
        assert_eq!(ran.code, 0, "{ran:#?}");
        let asked = model.requests();
        let names = asked[0].tools();
        let slow = "mcp_outrigger_slow__keep".to_owned();
        assert!(names.contains(&slow), "{names:?}");
        let results = model.last_results();
        assert!(
            results.iter().any(|result| result.contains("kept")),
            "{results:?}"
        );
        assert!(ran.out.contains("The server said"), "{ran:#?}");
        drop(served);
        place.assert_nothing_runs();
    }
}

/// The same with more in its environment.
fn run_with(place: &Place, client: &Command, more: &[(&str, &str)]) -> Ran {
    let mut through = Command::new("env");
    through.args(more.iter().map(|(name, value)| format!("{name}={value}")));
    through.arg(client.get_program()).args(client.get_args());
    run(place, through)
}
