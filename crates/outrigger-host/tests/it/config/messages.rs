//! Every message that a person reads.

use super::Place;

fn json(text: &str) -> String {
    Place::with("project/.mcp.json", text).lines()
}

fn toml(text: &str) -> String {
    Place::toml(text).lines()
}

fn page_of_json(text: &str) -> String {
    Place::with("project/.mcp.json", text).page()
}

#[test]
fn syntax_errors_show_the_place() {
    insta::assert_snapshot!(page_of_json("{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"python3\"\n      \"args\": []\n    }\n  }\n}"), @r#"
    error: broken JSON at line 5, column 7: a comma is missing before this
      project/.mcp.json:5:7
         |
       5 |       "args": []
         |       ^
    "#);
    insta::assert_snapshot!(page_of_json("{\n  \"mcpServers\": {\n"), @r#"
    error: broken JSON at line 2, column 17: this table is never closed
      project/.mcp.json:2:17
         |
       2 |   "mcpServers": {
         |                 ^
      hint: add the missing `}`
    "#);
    insta::assert_snapshot!(page_of_json("{'mcpServers': {}}"), @r"
    error: broken JSON at line 1, column 2: text must be in double quotes
      project/.mcp.json:1:2
         |
       1 | {'mcpServers': {}}
         |  ^
    ");
    insta::assert_snapshot!(page_of_json("{\"mcpServers\": {\"a\": {\"command\": python3}}}"), @r#"
    error: broken JSON at line 1, column 34: this word needs double quotes
      project/.mcp.json:1:34
         |
       1 | {"mcpServers": {"a": {"command": python3}}}
         |                                  ^
    "#);
    insta::assert_snapshot!(page_of_json("{\"a\": 1 // one\n /* two */\n \"b\": 2}"), @r#"
    error: broken JSON at line 3, column 2: a comma is missing before this
      project/.mcp.json:3:2
         |
       3 |  "b": 2}
         |  ^
    "#);
    insta::assert_snapshot!(page_of_json("{} {}"), @r"
    error: broken JSON at line 1, column 4: something follows after the end of the JSON value
      project/.mcp.json:1:4
         |
       1 | {} {}
         |    ^
    ");
}

#[test]
fn syntax_errors_of_toml_and_yaml_do_too() {
    insta::assert_snapshot!(toml("[servers.a\ncommand = 'x'"), @"project/.outrigger/outrigger.toml:1:11: broken TOML at line 1, column 11: unclosed table, expected `]`");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = x"), @"project/.outrigger/outrigger.toml:2:11: broken TOML at line 2, column 11: string values must be quoted, expected literal string");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\ncommand = 'y'"), @"project/.outrigger/outrigger.toml:3:1: broken TOML at line 3, column 1: duplicate key");
    insta::assert_snapshot!(Place::with("user/outrigger.yaml", "servers:\n  a:\n    command: x\n   args: []\n").lines(), @"user/outrigger.yaml:4:4: broken YAML at line 4, column 4: while parsing a block mapping, did not find expected key");
    insta::assert_snapshot!(Place::with("user/outrigger.yaml", "a: 1\n---\nb: 2\n").lines(), @"user/outrigger.yaml:2:1: broken YAML at line 2, column 1: a second YAML document begins here; only one is read");
    insta::assert_snapshot!(Place::with("user/outrigger.yaml", "servers: !!python/object x").lines(), @"user/outrigger.yaml:1:10: broken YAML at line 1, column 10: the YAML tag `tag:yaml.org,2002:python/object` has no meaning here");
}

#[test]
fn an_excerpt_hides_what_looks_secret() {
    insta::assert_snapshot!(page_of_json("{\n  \"mcpServers\": {\"a\": {\"env\": {\"API_KEY\": \"sk-abcdefghijklmnop\" \"B\": \"1\"}}}\n}"), @r#"
    error: broken JSON at line 2, column 65: a comma is missing before this
      project/.mcp.json:2:65
         |
       2 |   "mcpServers": {"a": {"env": {"API_KEY": "•••••••••••••••••••" "B": "1"}}}
         |                                                                 ^
    "#);
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\nargz = []"), @"project/.outrigger/outrigger.toml:3:1: unknown key `argz` in `servers.a`; did you mean `args`?");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\nenvironment = {}"), @"project/.outrigger/outrigger.toml:3:1: unknown key `environment` in `servers.a`; did you mean `env`?");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\nzzzzzz = 1"), @"project/.outrigger/outrigger.toml:3:1: unknown key `zzzzzz` in `servers.a`; known keys: command, args, env, cwd, url, headers, ca_file, oauth, type, enabled, description, read_only, instructions, protocol, versions, framing, timeouts, limits, allowed_tools, disabled_tools, always, start, sharing, single, answers, idempotent, retries, tools");
    insta::assert_snapshot!(toml("[server.a]\ncommand = 'x'"), @"project/.outrigger/outrigger.toml:1:2: unknown key `server`; did you mean `servers`?");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\ntimeouts.cal = '1s'\nlimits.tool = 3"), @r"
    project/.outrigger/outrigger.toml:3:10: unknown key `cal` in `servers.a.timeouts`; did you mean `call`?
    project/.outrigger/outrigger.toml:4:8: unknown key `tool` in `servers.a.limits`; did you mean `tools`?
    ");
    insta::assert_snapshot!(Place::with("user/outrigger.toml", "[limits]\nmax_turn = 3\n[builtin]\nclock = true\n[model]\ndefalt = 'x'\n[model.providers.p]\nurl = 'x'\n[policy]\nrulez = 1").lines(), @r"
    user/outrigger.toml:2:1: unknown key `max_turn` in `limits`; did you mean `max_turns`?
    user/outrigger.toml:4:1: unknown key `clock` in `builtin`; known keys: time, workspace, echo, resources, artifacts
    user/outrigger.toml:6:1: unknown key `defalt` in `model`; did you mean `default`?
    user/outrigger.toml:10:1: unknown key `rulez` in `policy`; did you mean `rule`?
    user/outrigger.toml:8:1: unknown key `url` in `model.providers.p`; known keys: kind, base_url, key, key_env, context_tokens, strict, tool_search, headers
    ");
    insta::assert_snapshot!(json("{\"mcpServer\": {\"a\": {\"command\": \"x\"}}}"), @"project/.mcp.json:1:2: `mcpServer` is not a key that is used here; did you mean `mcpServers`?");
    insta::assert_snapshot!(json("{\"a\": {\"command\": \"x\"}}"), @r#"project/.mcp.json:1:2: the server `a` stands outside of any table; put the servers into a table: `{"mcpServers": {…}}`"#);
    insta::assert_snapshot!(json("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"arg\": []}}}"), @"project/.mcp.json:1:39: `mcpServers.a.arg` is not a key that is used here; did you mean `args`?");
}

#[test]
fn values_of_the_wrong_kind_say_what_was_expected() {
    insta::assert_snapshot!(
        toml("[servers.a]\ncommand = 1\nargs = 'x y'\nenv = ['A=1']\ncwd = true\nread_only = 'yes'\nprotocol = 'new'\nframing = 1\ntimeouts = '1s'\nallowed_tools = 'x'\ntype = 'carrier pigeon'"),
        @r"
    project/.outrigger/outrigger.toml:2:11: `servers.a.command` must be text, found the number 1
    project/.outrigger/outrigger.toml:3:8: `servers.a.args` must be a list of text, found text
    project/.outrigger/outrigger.toml:4:7: `servers.a.env` must be a table, found a list
    project/.outrigger/outrigger.toml:5:7: `servers.a.cwd` must be text, found `true`
    project/.outrigger/outrigger.toml:6:13: `servers.a.read_only` must be `true` or `false`, found text
    project/.outrigger/outrigger.toml:7:12: `servers.a.protocol` cannot be `new`; it can be `auto`, `modern`, `legacy`
    project/.outrigger/outrigger.toml:8:11: `servers.a.framing` must be text, found the number 1
    project/.outrigger/outrigger.toml:9:12: `servers.a.timeouts` must be a table, found text
    project/.outrigger/outrigger.toml:10:17: `servers.a.allowed_tools` must be a list of text, found text
    project/.outrigger/outrigger.toml:11:8: `servers.a.type` cannot be `carrier pigeon`; it can be `stdio`, `http` (also written `streamable-http`), `sse` or `ws`, or be left out
    ");
    insta::assert_snapshot!(
        toml("[servers.a]\ncommand = 'x'\nargs = ['a', {}]\nenv = {A = [], '' = 'x'}\ntimeouts = {start = '1 fortnight', list = 0, call = '20s', call_hard = '10s'}\nlimits = {tools = 0, frame_bytes = 'big'}\ndisabled_tools = ['[']"),
        @r#"
    project/.outrigger/outrigger.toml:3:14: `servers.a.args[1]` must be text, found a table
    project/.outrigger/outrigger.toml:4:12: `servers.a.env.A` must be text, found a list
    project/.outrigger/outrigger.toml:5:21: `servers.a.timeouts.start` must be a time such as `"30s"`, `"2m"` or a number of seconds, found `1 fortnight`
    project/.outrigger/outrigger.toml:5:43: `servers.a.timeouts.list` must be a time such as `"30s"`, `"2m"` or a number of seconds, found the number 0
    project/.outrigger/outrigger.toml:5:72: `servers.a.timeouts.call_hard` is shorter than `servers.a.timeouts.call`
    project/.outrigger/outrigger.toml:6:19: `servers.a.limits.tools` must be a whole number above zero, found the number 0
    project/.outrigger/outrigger.toml:6:36: `servers.a.limits.frame_bytes` must be a size such as `"64 MiB"` or a number of bytes, found `big`
    project/.outrigger/outrigger.toml:7:19: `servers.a.disabled_tools` has a broken glob: unclosed character class; missing ']'
    "#);
    insta::assert_snapshot!(toml("servers = 1\n[limits]\nmax_turns = -1\nmax_tokens = 'some'\nmax_time = 'soon'\n[builtin]\ntime = 1"), @r#"
    project/.outrigger/outrigger.toml:1:11: `servers` must be a table of servers, found the number 1
    project/.outrigger/outrigger.toml:3:13: `limits.max_turns` must be a whole number above zero, found the number -1
    project/.outrigger/outrigger.toml:4:14: `limits.max_tokens` must be a whole number above zero, found text
    project/.outrigger/outrigger.toml:5:12: `limits.max_time` must be a time such as `"30s"`, `"2m"` or a number of seconds, found `soon`
    project/.outrigger/outrigger.toml:7:8: `builtin.time` must be `true` or `false`, found the number 1
    "#);
    let versions = |list: &str| toml(&format!("[servers.a]\ncommand = 'x'\nversions = {list}"));
    insta::assert_snapshot!(versions("['2025-06-18', 'latest']"), @"project/.outrigger/outrigger.toml:3:27: `servers.a.versions` has `latest`, which is no protocol version that is known here; known versions: `2026-07-28`, `2025-11-25`, `2025-06-18`, `2025-03-26`, `2024-11-05`");
    insta::assert_snapshot!(versions("[]"), @"project/.outrigger/outrigger.toml:3:12: `servers.a.versions` allows no version at all; known versions: `2026-07-28`, `2025-11-25`, `2025-06-18`, `2025-03-26`, `2024-11-05`");
    insta::assert_snapshot!(versions("'2025-06-18'"), @"project/.outrigger/outrigger.toml:3:12: `servers.a.versions` must be a list of text, found text");
    insta::assert_snapshot!(json("{\"mcpServers\": []}"), @"project/.mcp.json:1:16: `mcpServers` must be a table of servers, found a list");
    insta::assert_snapshot!(json("{\"mcpServers\": {\"a\": \"npx thing\", \" b\": {}, \"\": {}}}"), @r"
    project/.mcp.json:1:35: ` b` cannot name a server: it begins or ends with white space; the server is set aside; give it another name
    project/.mcp.json:1:45: `` cannot name a server: it is empty; the server is set aside; give it another name
    project/.mcp.json:1:22: `mcpServers.a` must be a table, found text
    ");
}

#[test]
fn a_transport_must_make_sense() {
    insta::assert_snapshot!(toml("[servers.a]\nargs = []"), @"project/.outrigger/outrigger.toml:1:10: `servers.a` has neither `command` nor `url`; a program to start needs `command`, a server on the network needs `url`");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'x'\nurl = 'http://h'"), @"project/.outrigger/outrigger.toml:1:10: `servers.a` has both `command` and `url`; keep one, or say which is meant with `type`");
    insta::assert_snapshot!(toml("[servers.a]\ntype = 'stdio'\nurl = 'http://h'"), @"project/.outrigger/outrigger.toml:1:10: `servers.a` is of type `stdio` and has no `command`");
    insta::assert_snapshot!(toml("[servers.a]\ntype = 'streamable-http'\ncommand = 'x'"), @"project/.outrigger/outrigger.toml:1:10: `servers.a` is of type `streamable-http` and has no `url`");
    insta::assert_snapshot!(toml("[servers.a]\ntype = 'http'\ncommand = 'x'\nurl = 'http://h'"), @"project/.outrigger/outrigger.toml:3:11: `servers.a.command` is not used: the server is reached by its `url`");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = ' '"), @"project/.outrigger/outrigger.toml:2:11: `servers.a.command` is empty; write the program to start");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = 'npx -y thing'"), @"project/.outrigger/outrigger.toml:2:11: `servers.a.command` has a space in it, and no shell takes it apart; write `npx` as `command` and the rest as a list in `args`");
}

#[test]
fn addresses_and_headers_are_checked() {
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'localhost:8000/mcp'"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` has no `http://` or `https://` at its beginning; write `http://` before it");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'mcp.example.com/x'"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` has no `http://` or `https://` at its beginning; write `https://` before it");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'ftp://h'"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` begins with `ftp://`, which is not spoken here; it must begin with `http://` or `https://`");
    insta::assert_snapshot!(toml("[servers.a]\ntype = 'http'\nurl = 'ws://h'"), @"project/.outrigger/outrigger.toml:3:7: `servers.a.url` begins with `ws://`, which is WebSocket; Streamable HTTP needs `http://` or `https://`");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'what is this'"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` is no address; it must begin with `http://` or `https://`");
    insta::assert_snapshot!(toml("[servers.a]\nurl = ''"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` is empty");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'http://'"), @"project/.outrigger/outrigger.toml:2:7: `servers.a.url` is no address: empty host");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'http://h'\nheaders = {'X Y' = '1', A = \"a\\n\", B = 'ü'}"), @r"
    project/.outrigger/outrigger.toml:3:12: `X Y` cannot name an HTTP header
    project/.outrigger/outrigger.toml:3:29: `servers.a.headers.A` holds `\n`, which a header cannot carry; a value read from a file often ends with a line break; remove it
    project/.outrigger/outrigger.toml:3:40: `servers.a.headers.B` holds `ü`, which a header cannot carry
    ");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'http://h'\nheaders = {Authorization = 'Bearer ••••'}"), @"project/.outrigger/outrigger.toml:3:28: `servers.a.headers.Authorization` is the mask that `config show` prints, not the value itself; write the value, or better a variable such as `${TOKEN}`");
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_field() {
    insta::assert_snapshot!(json("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"ok\", \"${UNSET_X}\"]}}}"), @"project/.mcp.json:1:54: `mcpServers.a.args[1]` uses `${UNSET_X}`, and no variable `UNSET_X` is set; set `UNSET_X` in the environment, or write `${UNSET_X:-…}` with a default");
    insta::assert_snapshot!(toml("[servers.a]\nurl = 'http://${HOST}/'\nheaders = {Authorization = 'Bearer ${TOKEN}'}"), @r"
    project/.outrigger/outrigger.toml:2:7: `servers.a.url` uses `${HOST}`, and no variable `HOST` is set; set `HOST` in the environment, or write `${HOST:-…}` with a default
    project/.outrigger/outrigger.toml:3:28: `servers.a.headers.Authorization` uses `${TOKEN}`, and no variable `TOKEN` is set; set `TOKEN` in the environment, or write `${TOKEN:-…}` with a default
    ");
    insta::assert_snapshot!(toml("[servers.a]\ncommand = '${input:api-key}'\nargs = ['${A', '${A?b}', '${command:x}']"), @r"
    project/.outrigger/outrigger.toml:2:11: `servers.a.command` asks for the input `api-key`; inputs are a dialogue of VS Code that does not exist here; put the value into an environment variable and write `${API_KEY}` in its place
    project/.outrigger/outrigger.toml:3:9: `servers.a.args[0]` has a `${` without a `}`; known are `${NAME}`, `${NAME:-default}` and `${workspace}`; write `$${` for a `${` that is meant as text
    project/.outrigger/outrigger.toml:3:16: `servers.a.args[1]` has `${A?b}`, which is no variable; known are `${NAME}`, `${NAME:-default}` and `${workspace}`; write `$${` for a `${` that is meant as text
    project/.outrigger/outrigger.toml:3:26: `servers.a.args[2]` has `${command:x}`, which is no variable; known are `${NAME}`, `${NAME:-default}` and `${workspace}`; write `$${` for a `${` that is meant as text
    ");
    insta::assert_snapshot!(Place::toml("[servers.a]\ncommand = 'x'\nenv.K = 'k${EMPTY}'").set("EMPTY", "").lines(), @"project/.outrigger/outrigger.toml:3:9: `servers.a.env.K` uses `${EMPTY}`, which is set and empty");
    let mut place = Place::toml("[servers.a]\ncommand = '~/x'\nargs = ['${userHome}']");
    place.around.home = None;
    insta::assert_snapshot!(place.lines(), @r"
    project/.outrigger/outrigger.toml:2:11: `servers.a.command` begins with `~`, and no home folder is known; write the whole path
    project/.outrigger/outrigger.toml:3:9: `servers.a.args[0]` uses `${userHome}`, and no home folder is known; write the whole path
    ");
    insta::assert_snapshot!(Place::with("user/outrigger.toml", "[model.providers.p]\nbase_url = '${BASE}'").lines(), @"user/outrigger.toml:2:12: `model.providers.p.base_url` uses `${BASE}`, and no variable `BASE` is set; set `BASE` in the environment, or write `${BASE:-…}` with a default");
}

#[test]
fn policy_faults_are_said() {
    insta::assert_snapshot!(toml("[policy]\ndefault = 'allow'\n[[policy.rule]]\ntool = 'x'\ndecision = 'never'\n[[policy.rule]]\ntol = 'x'\n[[policy.rule]]\ntool = '['\ndecision = 'ask'"), @r"
    project/.outrigger/outrigger.toml:2:1: `policy.default` cannot become `allow` by a file of the project; it stays `ask`; say it in your own `outrigger.toml`, or with `--config`
    project/.outrigger/outrigger.toml:5:12: `policy.rule[0].decision` cannot be `never`; it can be `allow`, `ask` or `deny`
    project/.outrigger/outrigger.toml:6:1: `policy.rule[1]` has no `tool`; `tool`, `server` or `raw` say which tools it is about, `prompt` and `resource` what else
    project/.outrigger/outrigger.toml:6:1: `policy.rule[1]` has no `decision`
    project/.outrigger/outrigger.toml:7:1: unknown key `tol` in `policy.rule[1]`; did you mean `tool`?
    project/.outrigger/outrigger.toml:9:8: `policy.rule[2].tool` is a broken glob: unclosed character class; missing ']'
    ");
}

#[test]
fn what_is_named_by_hand_must_exist() {
    let mut place = Place::new();
    place.around.explicit = vec!["nowhere.toml".into()];
    insta::assert_snapshot!(place.lines(), @"project/nowhere.toml: the file named by `--config` does not exist");
}

#[test]
fn an_env_file_is_not_ignored_in_silence() {
    insta::assert_snapshot!(json("{\"servers\": {\"a\": {\"command\": \"x\", \"envFile\": \"${workspaceFolder}/.env\"}}}"), @"project/.mcp.json:1:36: `servers.a.envFile` is not read, and without its variables the server would not work as meant; put the variables into `env`");
}
