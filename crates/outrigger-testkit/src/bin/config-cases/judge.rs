//! What the program says, held against what a case expects. A fault is one sentence; none is a pass.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;
use serde_json::Value;

use crate::Failure;
use crate::expect::{Case, Server};
use crate::program::Ended;
use crate::stage::Stage;

/// What a fake server says about how it was started.
#[derive(Deserialize)]
struct Started {
    cwd: String,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
}

/// A tool of a configured server.
struct Tool {
    server: String,
    raw: String,
    name: String,
}

/// All faults of a case.
pub(crate) async fn judge(stage: &mut Stage, case: &Case) -> Result<Vec<String>, Failure> {
    if let Some(file) = &case.expect.no_file
        && file.exists()
    {
        fs::remove_file(file)?;
    }
    let mut faults = Vec::new();
    if case.expect.error.is_some() {
        unusable(stage, case, &mut faults).await?;
    }
    match &case.expect.servers {
        Some(servers) if servers.is_empty() => none_at_all(stage, &mut faults).await?,
        Some(servers) => each_server(stage, servers, &mut faults).await?,
        None => {}
    }
    if let Some(count) = case.expect.distinct_model_names {
        let tools = tools(stage).await?;
        let names: BTreeSet<_> = tools.iter().map(|tool| &tool.name).collect();
        if tools.len() != count || names.len() != count {
            faults.push(format!(
                "{} tools with {} names, not {count}",
                tools.len(),
                names.len()
            ));
        }
        routes(stage, &case.expect.routes, &tools, &mut faults).await?;
    }
    if let Some(state) = &case.expect.state {
        untrusted(stage, state, &mut faults).await?;
    }
    if case.id == "cfg_disabled_unknown" {
        nothing_approves_itself(stage, &mut faults).await?;
    }
    if !stage.untouched()? {
        faults.push("the configuration was rewritten".to_owned());
    }
    if let Some(file) = case.expect.no_file.as_ref().filter(|file| file.exists()) {
        faults.push(format!("`{}` came into being", file.display()));
    }
    Ok(faults)
}

/// A configuration that cannot be used: commands refuse it as usage, and say what and where.
async fn unusable(stage: &Stage, case: &Case, faults: &mut Vec<String>) -> Result<(), Failure> {
    let name = stage
        .file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for (command, told) in [
        ("tools", stage.run(&["tools"]).await?),
        ("doctor", stage.run(&["doctor"]).await?),
    ] {
        if told.code != Some(2) {
            faults.push(format!("`{command}` ended with {:?}, not 2", told.code));
        }
        let said = told.stdout + &told.stderr;
        for words in case.expect.mentions.iter().chain([&name]) {
            if !mentions(&said, words) {
                faults.push(format!(
                    "`{command}` does not mention `{words}`: {}",
                    said.trim()
                ));
            }
        }
    }
    Ok(())
}

/// Nobody has trusted the folder: every way in says so, and a call is refused.
async fn untrusted(stage: &Stage, wanted: &str, faults: &mut Vec<String>) -> Result<(), Failure> {
    let doctor = stage.run(&["doctor", "--json"]).await?.json()?;
    let servers = doctor["servers"].as_array().into_iter().flatten();
    let waiting: Vec<&str> = servers
        .filter(|server| server["state"] == wanted)
        .filter_map(|server| server["server"].as_str())
        .collect();
    if waiting.is_empty() {
        faults.push(format!("no server is `{wanted}`: {}", doctor["servers"]));
    }
    for server in waiting {
        let told = stage
            .run(&["call", server, "anything", "--allow", "*"])
            .await?;
        if told.code != Some(3) {
            faults.push(format!("`call {server}` ended with {:?}, not 3", told.code));
        }
    }
    Ok(())
}

/// `line 5` may also be said as `FILE:5:COLUMN`, which editors and terminals can follow.
fn mentions(said: &str, words: &str) -> bool {
    let line = words
        .strip_prefix("line ")
        .is_some_and(|line| said.contains(&format!(":{line}:")));
    line || said.contains(words)
}

/// No servers but the built-in ones, whatever kind of nothing is in the file.
async fn none_at_all(stage: &mut Stage, faults: &mut Vec<String>) -> Result<(), Failure> {
    for (body, legal) in [("", false), ("{}", true), ("null", false), ("[]", false)] {
        stage.rewrite(body)?;
        let told = stage.run(&["doctor", "--json"]).await?;
        let doctor = told.json()?;
        let others = servers(&doctor).filter(|server| !built_in(server)).count();
        if others > 0 {
            faults.push(format!("`{body}` gave {others} servers"));
        }
        let problems = doctor["problems"].as_array().map_or(0, Vec::len);
        if (problems == 0) != legal {
            faults.push(format!("`{body}` gave {problems} problems"));
        }
        if !matches!(told.code, Some(0 | 2)) || !stage.untouched()? {
            faults.push(format!("`{body}` ended with {:?}", told.code));
        }
    }
    Ok(())
}

async fn each_server(
    stage: &Stage,
    expected: &BTreeMap<String, Server>,
    faults: &mut Vec<String>,
) -> Result<(), Failure> {
    let told: Ended = stage.run(&["doctor", "--json"]).await?;
    let doctor = told.json()?;
    let tools = tools(stage).await?;
    for (name, server) in expected {
        let Some(seen) = servers(&doctor).find(|seen| seen["server"] == name.as_str()) else {
            faults.push(format!("`{name}` is not there"));
            continue;
        };
        if let Some(state) = server
            .state
            .filter(|state| seen["state"] != state.as_told())
        {
            faults.push(format!(
                "`{name}` is {}, not {}: {}",
                seen["state"],
                state.as_told(),
                seen["error"]
            ));
            continue;
        }
        if let Some(wanted) = &server.tools {
            let own: Vec<_> = tools
                .iter()
                .filter(|tool| tool.server == *name)
                .map(|tool| tool.raw.clone())
                .collect();
            if own != *wanted {
                faults.push(format!("`{name}` has the tools {own:?}, not {wanted:?}"));
            }
        }
        let said = format!("{} {} {}", seen["error"], seen["hints"], seen["problems"]);
        for words in server
            .mentions
            .iter()
            .filter(|words| !said.contains(*words))
        {
            faults.push(format!(
                "what is said about `{name}` does not mention `{words}`: {said}"
            ));
        }
        if server.asks_the_server() {
            let (code, text) = stage.call(name, "env", "*").await?;
            match serde_json::from_str(&text) {
                Ok(started) => how_it_started(stage, name, server, &started, faults),
                Err(error) => faults.push(format!(
                    "`call {name} env` ended with {code:?} ({error}): {text}"
                )),
            }
        }
    }
    Ok(())
}

fn how_it_started(
    stage: &Stage,
    name: &str,
    server: &Server,
    started: &Started,
    faults: &mut Vec<String>,
) {
    for word in &server.argv_has {
        let word = stage.meant(word);
        if !started.argv.iter().any(|got| stage.tells(got, &word)) {
            faults.push(format!(
                "`{name}` was not given `{word}`: {:?}",
                started.argv
            ));
        }
    }
    for (key, value) in &server.env_has {
        let got = started.env.get(key);
        if !got.is_some_and(|got| stage.tells(got, value)) {
            faults.push(format!(
                "`{name}` has {key}={:?}, not `{value}`",
                started.env.get(key)
            ));
        }
    }
    for key in server
        .env_keys
        .iter()
        .filter(|key| !started.env.contains_key(*key))
    {
        faults.push(format!("`{name}` does not have the variable `{key}`"));
    }
    for key in server
        .env_not
        .iter()
        .filter(|key| started.env.contains_key(*key))
    {
        faults.push(format!("`{name}` was handed the variable `{key}`"));
    }
    let (whole, end) = (
        server.cwd.as_ref().map(|cwd| stage.meant(cwd)),
        server.cwd_endswith.as_deref(),
    );
    if whole.is_some_and(|cwd| started.cwd != cwd)
        || end.is_some_and(|end| !started.cwd.ends_with(end))
    {
        faults.push(format!("`{name}` runs in `{}`", started.cwd));
    }
}

/// Each call goes to its own server, and a rule for one tool covers no other.
async fn routes(
    stage: &Stage,
    routes: &BTreeMap<String, String>,
    tools: &[Tool],
    faults: &mut Vec<String>,
) -> Result<(), Failure> {
    for (route, answer) in routes {
        let Some((server, raw)) = route.split_once('/') else {
            return Err(format!("`{route}` is no route").into());
        };
        for tool in tools {
            let own = tool.server == server && tool.raw == raw;
            let (code, text) = stage.call(server, raw, &tool.name).await?;
            let right = if own {
                code == Some(0) && text.trim() == answer
            } else {
                code == Some(3)
            };
            if !right {
                faults.push(format!(
                    "`{route}` allowed as `{}` ended with {code:?}: {}",
                    tool.name,
                    text.trim()
                ));
            }
        }
    }
    Ok(())
}

/// What a configuration says of its own tools (`autoApprove`) opens no gate.
async fn nothing_approves_itself(stage: &Stage, faults: &mut Vec<String>) -> Result<(), Failure> {
    let told = stage.run(&["call", "a", "echo", "text=x"]).await?;
    if told.code != Some(3) {
        faults.push(format!(
            "a call that nobody allowed ended with {:?}, not 3",
            told.code
        ));
    }
    Ok(())
}

/// The tools of configured servers.
async fn tools(stage: &Stage) -> Result<Vec<Tool>, Failure> {
    let listed = stage.run(&["tools", "--json"]).await?.json()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for server in listed
        .as_array()
        .into_iter()
        .flatten()
        .filter(|server| !built_in(server))
    {
        let tools = server["tools"].as_array().into_iter().flatten();
        found.extend(tools.map(|tool| Tool {
            server: text(&server["server"]),
            raw: text(&tool["raw_name"]),
            name: text(&tool["name"]),
        }));
    }
    Ok(found)
}

fn servers(doctor: &Value) -> impl Iterator<Item = &Value> {
    doctor["servers"].as_array().into_iter().flatten()
}

/// No case configures a server of these names.
fn built_in(server: &Value) -> bool {
    ["time", "echo", "workspace"]
        .iter()
        .any(|name| server["server"] == *name)
}
