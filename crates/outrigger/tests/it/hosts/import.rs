//! What is taken over of other hosts' lists, and what is not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::{FILES, SECRETS, ours, used};
use crate::place::{Place, Ran, fixture};

/// What an import of one host writes and says.
#[track_caller]
fn imported(host: &str) -> String {
    let place = used(&[host]);
    let before: Vec<_> = FILES
        .map(|(_, path, _)| fs::read(place.root.join(path)).ok())
        .into();
    let ran = place.run(&["import", "--from", host, "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let after: Vec<_> = FILES
        .map(|(_, path, _)| fs::read(place.root.join(path)).ok())
        .into();
    assert!(before == after, "their files are only read");
    let said = place.tidy(&format!("{}{}", ran.out, ran.err));
    let (list, _) = said
        .split_once("\n/config/outrigger/outrigger.toml (new)")
        .unwrap_or_else(|| panic!("{said}"));
    let text = ours(&place);
    for secret in SECRETS {
        assert!(
            !ran.out.contains(secret) && !ran.err.contains(secret),
            "{secret} is told:\n{ran:#?}"
        );
        assert!(!text.contains(secret), "{secret} is in our file:\n{text}");
    }
    // What was written is read, and nothing in it is a fault.
    let shown = place.run_with(&["config", "show"], |command| {
        for name in [
            "SEARCH_TOKEN",
            "DOCS_INDEX",
            "DOCS_KEY",
            "FIGMA_TOKEN",
            "FIGMA_TEAM",
            "PERPLEXITY_KEY",
            "USER",
            "DB_CONNECTION",
            "EXTERNAL_API_KEY",
            "LOG_LEVEL",
            "SENTRY",
        ] {
            command.env(name, "set");
        }
    });
    assert_eq!(shown.code, 0, "{shown:#?}");
    assert!(
        !shown.out.contains("set aside") && !shown.err.contains("error:"),
        "{shown:#?}"
    );
    let left: Vec<_> = ran
        .err
        .lines()
        .filter(|line| line.starts_with("not taken:"))
        .collect();
    format!("{list}\n{}\n---\n{text}", place.tidy(&left.join("\n")))
}

#[test]
fn claude_code() {
    insta::assert_snapshot!(imported("claude"), @r#"
    + github from Claude Code, /home/.claude.json:6
        env.GITHUB_PERSONAL_ACCESS_TOKEN is a secret and goes to file:/config/outrigger/secrets/github-GITHUB_PERSONAL_ACCESS_TOKEN
    + search from Claude Code, /home/.claude.json:12
        mcpServers.search.alwaysLoad: there is no such key here
    - me from Claude Code, /home/.claude.json:19
        it is this program itself
    - in-process from Claude Code, /home/.claude.json:20
        nothing here is of the type `sdk`
    + local-db from Claude Code, /home/.claude.json:26
        projects."/project".mcpServers.local-db.args: argument 2 looks like a secret on a command line, where everybody on this machine can read it; it is taken as it stands. Most servers also take it from a variable (`env`)
    not taken: /home/.claude.json: projects."/somewhere/else".mcpServers: theirs of another folder; `--workspace` with that folder takes them
    ---
    # from Claude Code: /home/.claude.json
    [servers.github]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-github"]
    env = { GITHUB_PERSONAL_ACCESS_TOKEN = "file:/config/outrigger/secrets/github-GITHUB_PERSONAL_ACCESS_TOKEN" }

    # from Claude Code: /home/.claude.json
    [servers.search]
    url = "https://search.example.com/mcp"
    headers = { Authorization = "Bearer ${SEARCH_TOKEN:-none}" }
    timeouts = { call = "90s" }

    # from Claude Code: /home/.claude.json
    [servers.local-db]
    command = "./db-mcp"
    args = ["--password", "hunter2-very-long-one"]
    "#);
}

#[test]
fn claude_desktop() {
    insta::assert_snapshot!(imported("claude-desktop"), @r#"
    + github from Claude Desktop, /config/Claude/claude_desktop_config.json:4
        env.GITHUB_PERSONAL_ACCESS_TOKEN is a secret and goes to file:/config/outrigger/secrets/github-GITHUB_PERSONAL_ACCESS_TOKEN
    + shell words from Claude Desktop, /config/Claude/claude_desktop_config.json:9
        mcpServers."shell words".autoApprove: what may be called without asking is not taken over; a rule in `[policy]` says it here

    ---
    # from Claude Desktop: /config/Claude/claude_desktop_config.json
    [servers.github]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-github"]
    env = { GITHUB_PERSONAL_ACCESS_TOKEN = "file:/config/outrigger/secrets/github-GITHUB_PERSONAL_ACCESS_TOKEN" }

    # from Claude Desktop: /config/Claude/claude_desktop_config.json
    [servers."shell words"]
    command = "echo"
    args = ["$${NOT_A_VARIABLE}", "~/x"]
    "#);
}

#[test]
fn codex() {
    insta::assert_snapshot!(imported("codex"), @r#"
    + docs from Codex, /home/.codex/config.toml:7
        mcp_servers.docs.default_tools_approval_mode: what may be called without asking is not taken over; a rule in `[policy]` says it here
        mcp_servers.docs.tools: what may be called without asking is not taken over; a rule in `[policy]` says it here
    + figma from Codex, /home/.codex/config.toml:24

    ---
    # from Codex: /home/.codex/config.toml
    [servers.docs]
    command = "uvx"
    args = ["docs-mcp", "--root=$${HOME}"]
    env = { DOCS_INDEX = "${DOCS_INDEX}", DOCS_KEY = "${DOCS_KEY}", LANG = "C.UTF-8" }
    cwd = "/srv/docs"
    timeouts = { start = "20s", call = "1500ms" }
    allowed_tools = ["read", "find[*]"]
    disabled_tools = ["delete"]

    # from Codex: /home/.codex/config.toml
    [servers.figma]
    enabled = false
    url = "https://figma.example.com/mcp"
    headers = { Authorization = "Bearer ${FIGMA_TOKEN}", X-Region = "us-east-1", X-Team = "${FIGMA_TEAM}" }
    oauth = { client_id = "outrigger-client" }
    "#);
}

#[test]
fn vs_code() {
    insta::assert_snapshot!(imported("vscode"), @r#"
    + perplexity from VS Code, /config/Code/User/mcp.json:8
        servers.perplexity.env.PERPLEXITY_API_KEY: the editor asks for `perplexity-key` (Perplexity API Key); set the variable `PERPLEXITY_KEY`, or write a reference such as `file:PATH` in its place
        servers.perplexity.env.REGION: the editor asks for `region` (Region); here the variable `REGION` is read, else its default holds
        servers.perplexity.env.NOT_SET: text is wanted, found nothing (null)
        servers.perplexity.envFile: the file is not read, and without its variables the server may not work; put them into `env`
        servers.perplexity.dev: there is no such key here
    + remote from VS Code, /config/Code/User/mcp.json:16
        servers.remote.headers.X-Mode: `${config:editor.mode}` cannot be had here (`config:` is the editor's); write its value

    ---
    # from VS Code: /config/Code/User/mcp.json
    [servers.perplexity]
    command = "npx"
    args = ["-y", "server-perplexity-ask", "${workspaceFolder}"]
    env = { PERPLEXITY_API_KEY = "${PERPLEXITY_KEY}", REGION = "${REGION:-eu}", HOME_DIR = "${userHome}", PORT = "8080" }

    # from VS Code: /config/Code/User/mcp.json
    [servers.remote]
    url = "https://api.example.com/mcp/"
    headers = { X-Mode = "$${config:editor.mode}" }
    "#);
}

#[test]
fn cursor() {
    insta::assert_snapshot!(imported("cursor"), @r#"
    + tickets from Cursor, /home/.cursor/mcp.json:3
        url is a secret and goes to file:/config/outrigger/secrets/tickets-url
        oauth.client_secret is a secret and goes to file:/config/outrigger/secrets/tickets-oauth-client_secret
    - tickets  from Cursor, /home/.cursor/mcp.json:8
        another server that was found is called `tickets`; `--rename` takes it as `tickets-2`
    - wrong from Cursor, /home/.cursor/mcp.json:9
        its entry is text where a table is wanted
    - both from Cursor, /home/.cursor/mcp.json:10
        it has neither a command nor an address

    ---
    # from Cursor: /home/.cursor/mcp.json
    [servers.tickets]
    url = "https://tickets.example.com/mcp?api_key=${file:/config/outrigger/secrets/tickets-url}"
    headers = { X-User = "${env:USER}" }
    oauth = { client_id = "ada", client_secret = "file:/config/outrigger/secrets/tickets-oauth-client_secret", scopes = ["read", "write"] }
    "#);
}

#[test]
fn gemini() {
    insta::assert_snapshot!(imported("gemini"), @r#"
    + python from Gemini CLI, /home/.gemini/settings.json:5
        mcpServers.python.trust: what may be called without asking is not taken over; a rule in `[policy]` says it here
    + stream from Gemini CLI, /home/.gemini/settings.json:10
        mcpServers.stream.authProviderType: there is no such key here
    + legacy from Gemini CLI, /home/.gemini/settings.json:11

    ---
    # from Gemini CLI: /home/.gemini/settings.json
    [servers.python]
    command = "python"
    args = ["-m", "my_mcp", "--port", "8080"]
    env = { DATABASE_URL = "${DB_CONNECTION}", API_KEY = "${EXTERNAL_API_KEY}", PRICE = "5$" }
    cwd = "./mcp"
    timeouts = { call = "15s" }
    allowed_tools = ["safe_tool", "run"]
    disabled_tools = ["rm"]

    # from Gemini CLI: /home/.gemini/settings.json
    [servers.stream]
    url = "http://localhost:3000/mcp"

    # from Gemini CLI: /home/.gemini/settings.json
    [servers.legacy]
    enabled = false
    type = "sse"
    url = "http://localhost:8080/sse"
    "#);
}

#[test]
fn opencode() {
    insta::assert_snapshot!(imported("opencode"), @r#"
    + everything from opencode, /config/opencode/opencode.jsonc:6
    + sentry from opencode, /config/opencode/opencode.jsonc:13

    ---
    # from opencode: /config/opencode/opencode.jsonc
    [servers.everything]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-everything"]
    env = { LOG_LEVEL = "${LOG_LEVEL}", CERT = "${file:~/.certs/ca.pem}", LITERAL = "$${NO}" }
    timeouts = { list = "5s" }

    # from opencode: /config/opencode/opencode.jsonc
    [servers.sentry]
    url = "https://mcp.sentry.dev/mcp"
    headers = { Authorization = "Bearer ${SENTRY}" }
    "#);
}

#[test]
fn zed() {
    insta::assert_snapshot!(imported("zed"), @r#"
    - mcp-server-github from Zed, /config/zed/settings.json:5
        an extension of the editor starts it
    + custom from Zed, /config/zed/settings.json:6
        context_servers.custom.timeout: it is not certain whether seconds or milliseconds are meant; `timeouts.call` says it here
    + older from Zed, /config/zed/settings.json:7
    + web from Zed, /config/zed/settings.json:8
        headers.Authorization is a secret and goes to file:/config/outrigger/secrets/web-Authorization

    ---
    # from Zed: /config/zed/settings.json
    [servers.custom]
    command = "/usr/bin/tool"
    args = ["--stdio"]
    env = { KEY_FILE = "literal:file:/etc/key" }

    # from Zed: /config/zed/settings.json
    [servers.older]
    command = "older-mcp"
    args = ["a"]
    env = { A = "b" }

    # from Zed: /config/zed/settings.json
    [servers.web]
    url = "https://web.example.com/mcp"
    headers = { Authorization = "Bearer ${file:/config/outrigger/secrets/web-Authorization}" }
    "#);
}

#[test]
fn the_second_version_of_opencode_has_a_table_of_its_own() {
    let place = Place::new();
    let text = fs::read(fixture("hosts/opencode2.json")).unwrap();
    place.write("config/opencode/opencode.json", text);
    assert_eq!(place.run(&["import", "--yes"]).code, 0);
    insta::assert_snapshot!(ours(&place), @r#"
    # from opencode: /config/opencode/opencode.json
    [servers.everything]
    enabled = false
    command = "npx"
    args = ["everything"]
    timeouts = { start = "1500ms", call = "60s" }
    "#);
    let ran = place.run(&["install", "--into", "opencode", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let text = fs::read_to_string(place.root.join("config/opencode/opencode.json")).unwrap();
    let root: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(root["mcp"]["servers"]["outrigger"]["type"], "local");
}

#[test]
fn one_server_in_two_hosts_is_taken_once_and_secrets_go_to_the_store() {
    let place = used(&["claude", "claude-desktop", "codex", "cursor", "zed"]);
    let found = place.json(&["import", "--json"]);
    assert!(!found.to_string().contains("ghp_") && !found.to_string().contains("s3cr3t"));
    assert!(ours(&place).is_empty(), "--json only shows");
    let fate = |host: &str, name: &str| {
        let servers = found["servers"].as_array().unwrap();
        let server = servers
            .iter()
            .find(|server| server["host"] == host && server["name"] == name);
        server.unwrap()["fate"].clone()
    };
    assert_eq!(fate("claude", "github"), "taken");
    assert_eq!(fate("claude-desktop", "github"), "same");
    assert_eq!(fate("claude", "me"), "left");

    let ran = place.run(&["import", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(ours(&place).matches("[servers.github]").count(), 1);
    let kept = place
        .root
        .join("config/outrigger/secrets/github-GITHUB_PERSONAL_ACCESS_TOKEN");
    assert_eq!(fs::read_to_string(&kept).unwrap(), SECRETS[0]);
    assert_eq!(
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let file = place
        .root
        .join("config/outrigger/secrets/tickets-oauth-client_secret");
    assert_eq!(fs::read_to_string(file).unwrap(), SECRETS[2]);
    // Again: all is there, so nothing is taken, and nothing is stored twice.
    let (before, again) = (ours(&place), place.run(&["import", "--yes"]));
    assert!(again.err.contains("nothing to take over"), "{again:#?}");
    assert_eq!(ours(&place), before);
    let secrets = fs::read_dir(place.root.join("config/outrigger/secrets")).unwrap();
    assert_eq!(secrets.count(), 4);
}

/// The server `docs` of Codex, imported with these words beside one of that name.
fn beside_one_of_that_name(words: &[&str]) -> (Place, Ran) {
    let place = used(&["codex"]);
    place.user("# mine, and dear to me\n[servers.docs] # here\ncommand = \"mine\"   # three spaces\nread_only = true\n\n[policy]\ndefault = \"deny\"");
    let ran = place.run(
        &[
            &["import", "--from", "codex", "--server", "docs", "--yes"],
            words,
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{ran:#?}");
    (place, ran)
}

#[test]
fn what_is_there_is_not_overwritten() {
    let (place, ran) = beside_one_of_that_name(&[]);
    assert!(ran.out.contains("`docs` is there already"), "{ran:#?}");
    assert!(ours(&place).contains("command = \"mine\"") && !ours(&place).contains("uvx"));

    let (place, ran) = beside_one_of_that_name(&["--rename"]);
    assert!(ran.out.contains("+ docs-2 from Codex"), "{ran:#?}");
    let text = ours(&place);
    assert!(
        text.contains("[servers.docs-2]") && text.contains("command = \"mine\"   # three spaces"),
        "{text}"
    );

    // What was said of the other one (`read_only`) does not hold for it.
    let (place, _) = beside_one_of_that_name(&["--replace"]);
    insta::assert_snapshot!(ours(&place), @r#"
    # mine, and dear to me
    [servers.docs] # here
    command = "uvx"
    args = ["docs-mcp", "--root=$${HOME}"]
    env = { DOCS_INDEX = "${DOCS_INDEX}", DOCS_KEY = "${DOCS_KEY}", LANG = "C.UTF-8" }
    cwd = "/srv/docs"
    timeouts = { start = "20s", call = "1500ms" }
    allowed_tools = ["read", "find[*]"]
    disabled_tools = ["delete"]

    [policy]
    default = "deny"
    "#);
    let backup = fs::read_to_string(place.root.join("config/outrigger/outrigger.toml.backup"));
    assert!(backup.unwrap().contains("command = \"mine\""));
}

#[test]
fn one_that_is_in_another_file_of_ours_stays_there() {
    let place = used(&["codex"]);
    place.write(
        "config/outrigger/mcp.json",
        r#"{"mcpServers": {"docs": {"command": "mine"}}}"#,
    );
    let ran = place.run(&["import", "--server", "docs", "--replace", "--yes"]);
    assert!(ran.out.contains("where it is not replaced"), "{ran:#?}");
    assert!(ours(&place).is_empty());
}

#[test]
fn nothing_is_written_while_nobody_agrees() {
    let place = used(&["claude", "codex"]);
    let ran = place.run(&["import"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(ran.err.contains("`--yes` agrees in advance"), "{ran:#?}");
    assert_eq!(place.run(&["import", "--dry-run"]).code, 0);
    assert_eq!(place.run(&["install", "--into", "codex"]).code, 3);
    assert_eq!(
        place.run(&["install", "--into", "codex", "--dry-run"]).code,
        0
    );
    let text = fs::read_to_string(place.root.join("home/.codex/config.toml")).unwrap();
    assert!(ours(&place).is_empty() && !text.contains("outrigger\""));
    assert!(!place.root.join("config/outrigger/secrets").exists());
}

#[test]
fn lists_of_the_folder_go_into_the_folders_file() {
    let place = used(&["codex"]);
    place.write(
        "project/.vscode/mcp.json",
        r#"{"servers": {"shared": {"command": "shared-mcp", "cwd": "${workspaceFolder}/x"}}}"#,
    );
    let ran = place.run_wary(&["import", "--yes"]);
    assert!(ran.err.contains("`--project` takes it over"), "{ran:#?}");
    assert!(!ours(&place).contains("shared-mcp"));
    let ran = place.run_wary(&["import", "--project", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let text = fs::read_to_string(place.root.join("project/.outrigger/outrigger.toml")).unwrap();
    assert_eq!(
        place.tidy(&text),
        "# from VS Code: /project/.vscode/mcp.json\n[servers.shared]\ncommand = \"shared-mcp\"\ncwd = \"${workspaceFolder}/x\""
    );
    // It came with a checkout, and still has to be trusted.
    let shown = place.run_wary(&["config", "show"]);
    assert!(shown.out.contains("which is not trusted"), "{shown:#?}");
}

#[test]
fn files_that_cannot_be_read_cost_those_files() {
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("cut off", b"{\"mcpServers\": {".to_vec(), "broken JSON"),
        (
            "no UTF-8",
            b"{\"mcpServers\": {\"\xff\": 1}}".to_vec(),
            "is not UTF-8",
        ),
        ("too large", vec![b' '; (32 << 20) + 1], "more than 32 MiB"),
        (
            "too deep",
            [b"[".repeat(100), b"]".repeat(100)].concat(),
            "nested more than",
        ),
        ("a list", b"[1]".to_vec(), "where a table is wanted"),
        (
            "no servers",
            b"{\"mcpServers\": 5}".to_vec(),
            "a table of servers is wanted",
        ),
    ];
    for (name, bytes, why) in cases {
        let place = used(&["codex"]);
        place.write("home/.cursor/mcp.json", &bytes);
        let ran = place.run(&["import", "--yes"]);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(
            said.contains(why) && said.contains(".cursor/mcp.json"),
            "{name}: {ran:#?}"
        );
        assert!(ours(&place).contains("[servers.docs]"), "{name}: {ran:#?}");
        // Who cannot be read is not written either.
        let ran = place.run(&["install", "--into", "cursor", "--yes"]);
        assert_eq!(ran.code, 1, "{name}: {ran:#?}");
        assert!(
            fs::read(place.root.join("home/.cursor/mcp.json")).unwrap() == bytes,
            "{name}"
        );
    }
}

#[test]
fn odd_servers_are_named_and_the_others_taken() {
    let place = Place::new();
    let long = "n".repeat(300);
    place.write(
        "home/.cursor/mcp.json",
        format!(
            r#"{{"mcpServers": {{
                "good": {{"command": "good"}}, "good": {{"command": "better"}},
                "": {{"command": "x"}}, "a\u001bb": {{"command": "x1"}}, "{long}": {{"command": "x2"}},
                "n": null, "args": {{"command": "x3", "args": [{{}}]}}, "num": {{"command": 7}},
                "env": {{"command": "x4", "env": ["A"], "cwd": 5, "type": "carrier-pigeon"}}
            }}}}"#
        ),
    );
    let ran = place.run(&["import", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let (list, _) = ran.out.split_once(".toml (new)").unwrap();
    insta::assert_snapshot!(place.tidy(&list.replace(&long, "LONG")), @r#"
    + good from Cursor, /home/.cursor/mcp.json:2
    -  from Cursor, /home/.cursor/mcp.json:3
        its name cannot be one here
    + ab from Cursor, /home/.cursor/mcp.json:3
        `a\u{1b}b` there: the name there cannot be one here
    + nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn from Cursor, /home/.cursor/mcp.json:3
        `LONG` there: the name there cannot be one here
    - n from Cursor, /home/.cursor/mcp.json:4
        its entry is nothing (null) where a table is wanted
    - args from Cursor, /home/.cursor/mcp.json:4
        `mcpServers.args.args[0]` is a table where text is wanted
    - num from Cursor, /home/.cursor/mcp.json:4
        it has neither a command nor an address
    - env from Cursor, /home/.cursor/mcp.json:5
        nothing here is of the type `carrier-pigeon`
    /config/outrigger/outrigger
    "#);
    assert!(ours(&place).contains("command = \"better\"") && !ran.out.contains('\u{1b}'));
}

#[test]
fn a_host_without_a_list_is_told() {
    let place = Place::new();
    let ran = place.run(&["import", "--from", "zed"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.err), @r#"
    error: no server list of Zed was found
    hint: looked for `/config/zed/settings.json`
    "#);
    let ran = place.run(&["import", "--from", "emacs"]);
    assert!(
        ran.code == 2 && ran.err.contains("claude-desktop"),
        "{ran:#?}"
    );
    assert!(place.run(&["import"]).err.contains("nothing to take over"));
}
