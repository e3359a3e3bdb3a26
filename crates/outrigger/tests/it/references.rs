//! Secrets that stand elsewhere, through the built program: fetched when a server is about to start,
//! told to nobody, and moved out of files that hold them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::place::{Place, Ran, fixture};
use crate::scripted::Log;

const SECRET: &str = "kept-elsewhere-4711/x y";

/// A place with the server `lab` in the person's own configuration, given this `TOKEN`.
fn with_token(token: &str) -> Place {
    let place = Place::new();
    place.write("home/secret", format!("{SECRET}\n"));
    place.user(&format!(
        "[secrets]\ntimeout = '20s'\n[servers.lab]\ncommand = 'python3'\nargs = ['{}', '{}']\nenv.TOKEN = '{token}'",
        fixture("scripted_server.py"),
        place.root.join("lab.log").display()
    ));
    place
}

fn tell(place: &Place) -> Ran {
    place.run_with(
        &[
            "call",
            "lab",
            "tell_secret",
            "--allow",
            "*",
            "--json",
            "-vv",
        ],
        |command| {
            command.env("LAB_TOKEN", SECRET);
        },
    )
}

#[test]
fn a_server_gets_its_secret_and_nobody_else_does() {
    for token in [
        "env:LAB_TOKEN",
        "file:~/secret",
        r#"cmd:["cat", "secret"]"#,
        "${file:~/secret}",
        r#"${cmd:["sh", "-c", "printf %s \"$LAB_TOKEN\""]}"#,
    ] {
        let place = with_token(token);
        let ran = tell(&place);
        assert_eq!(ran.code, 0, "{token}: {ran:#?}");
        assert!(
            ran.out.contains("started with [redacted]"),
            "{token}: {}",
            ran.out
        );
        let shown = place.run(&["config", "show"]);
        assert!(shown.out.contains("env.TOKEN = "), "{}", shown.out);
        let journal = fs::read(place.journal()).unwrap();
        let journal = String::from_utf8_lossy(&journal);
        for text in [&ran.out, &ran.err, &shown.out, &place.last_run(), &*journal] {
            assert!(!text.contains("4711"), "{token}: {text}");
        }
    }
}

#[test]
fn a_server_that_cannot_have_its_secret_is_set_aside() {
    for (token, why) in [
        ("env:NO_SUCH", "no variable `NO_SUCH` is set"),
        (
            "file:~/none",
            "it cannot be read: No such file or directory",
        ),
        ("file:/dev/null", "it is not a plain file"),
        ("file:~/empty", "it is empty"),
        (
            r#"cmd:["sh", "-c", "echo locked >&2; exit 3"]"#,
            "`sh` ended with exit status 3 (locked)",
        ),
        (r#"cmd:["no-such-program"]"#, "no-such-program"),
        ("keyring:x", "this build cannot use the keyring"),
        ("age:x", "this build cannot open encrypted files"),
    ] {
        let here = match token {
            "keyring:x" => !cfg!(feature = "keyring"),
            "age:x" => !cfg!(feature = "age"),
            _ => true,
        };
        if !here {
            continue;
        }
        let place = with_token(token);
        place.write("home/empty", "\n");
        let ran = place.run(&["tools", "lab"]);
        assert_eq!(ran.code, 4, "{token}: {ran:#?}");
        let said = place.tidy(&[ran.out, ran.err].concat());
        assert!(
            said.contains(
                "/config/outrigger/outrigger.toml:6:13: `servers.lab.env.TOKEN` refers to `"
            ),
            "{said}"
        );
        assert!(said.contains(why), "{token}: {said}");
        assert_eq!(Log::at(place.root.join("lab.log")).heard().len(), 0);
        let listed = place.run(&["secrets", "list", "--json"]);
        assert_eq!(listed.code, 1, "{listed:#?}");
        assert_eq!(listed.json()[0]["resolvable"], false);
        assert_eq!(listed.json()[0]["key"], "servers.lab.env.TOKEN");
    }
}

#[test]
fn a_program_that_hangs_is_ended_and_holds_up_nobody() {
    let place = with_token(r#"cmd:["sleep", "600"]"#);
    let own = place.root.join("config/outrigger/outrigger.toml");
    let text = fs::read_to_string(&own).unwrap().replace("'20s'", "'1s'");
    fs::write(&own, text).unwrap();
    let ran = place.run(&["tools"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert!(ran.out.contains("nothing came within 1.0 s"), "{}", ran.out);
    assert!(ran.out.contains("mcp__time__current_time"), "{}", ran.out);
    crate::place::until("the program is gone", || place.processes().is_empty());
}

#[test]
fn a_program_is_run_once_in_a_run() {
    let place = with_token("literal:x");
    let count = place.root.join("count");
    let own = place.root.join("config/outrigger/outrigger.toml");
    let cmd = format!(
        r#"cmd:["sh", "-c", "echo x >> {}; echo a-secret-value"]"#,
        count.display()
    );
    let text = fs::read_to_string(&own).unwrap().replace("literal:x", &cmd);
    fs::write(&own, format!("{text}env.OTHER = '{cmd}'\n[[hooks.session_end]]\ncommand = ['true']\nenv.T = '{cmd}'\n")).unwrap();
    let ran = tell(&place);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");
}

#[test]
fn a_project_gets_nothing_run_or_read_until_it_is_trusted() {
    let place = Place::new();
    place.write("home/secret", SECRET);
    let mark = place.root.join("ran");
    let cmd = format!(
        "cmd:{}",
        json!([
            "sh",
            "-c",
            format!("touch {}; echo a-secret", mark.display())
        ])
    );
    place.servers(&json!({ "cmd": { "command": "true", "env": { "T": cmd } } }));
    for words in [&["tools"][..], &["secrets", "list"], &["doctor"]] {
        let ran = place.run_wary(words);
        assert!(ran.err.contains("server `cmd`"), "{words:?}: {ran:#?}");
        assert!(!mark.exists(), "{words:?}");
    }
    place.run(&["tools"]);
    assert!(mark.exists());
}

#[test]
fn a_model_key_may_be_a_reference_too() {
    use crate::model::Model;
    use outrigger_testkit::provider_server::Turn;
    let model = Model::answering(|_, _| Turn::text(format!("Your key is {SECRET}")));
    let place = with_token("file:~/secret");
    place.write("home/key", "model-key-0815");
    place.user(&format!(
        "[model]\ndefault = 'scripted:one'\n[model.providers.scripted]\nkind = 'openai-chat'\nbase_url = '{}'\nkey = 'file:~/key'",
        model.base_url()
    ));
    let ran = place.run(&["ask", "Which?"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(
        model.requests()[0].header("authorization"),
        Some("Bearer model-key-0815")
    );
}

#[test]
fn a_server_that_is_not_there_tells_no_secret_of_its_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let place = Place::new();
    place.write("home/secret", "kept-elsewhere-4711");
    place.user(&format!(
        "[servers.far]\nurl = 'ws://{address}/${{file:~/secret}}'\nheaders.Authorization = 'Bearer ${{file:~/secret}}'"
    ));
    let ran = place.run(&["tools", "far", "-vv"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    let said = [ran.out, ran.err].concat();
    assert!(
        said.contains(&format!("cannot reach ws://{address}")),
        "{said}"
    );
    assert!(!said.contains("4711"), "{said}");
}

const OLD: &str = r#"# mine
[servers.a]
command = "true"                   # nothing
env = { API_KEY = "0f3c9a7be15d2846", MODE = "fast" }
[servers.b]
url = "https://127.0.0.1:1/mcp"
headers.Authorization = "Bearer abcd1234efgh"
"#;

#[test]
fn secrets_are_moved_out_of_a_file_after_a_yes() {
    let place = Place::new();
    place.servers(&json!({ "p": { "command": "true", "env": { "API_KEY": "1f3c9a7be15d2846" } } }));
    let own = place.write("config/outrigger/outrigger.toml", OLD);
    let warned = place.run(&["tools"]);
    assert_eq!(
        warned
            .err
            .matches("looks like a secret that stands in the file itself")
            .count(),
        3,
        "{}",
        warned.err
    );

    let asked = place.run(&["secrets", "import"]);
    assert_eq!(asked.code, 3, "{asked:#?}");
    assert_eq!(fs::read_to_string(&own).unwrap(), OLD);
    assert!(!place.root.join("config/outrigger/secrets").exists());

    let ran = place.run_wary(&["secrets", "import", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    insta::assert_snapshot!(place.tidy(&ran.out), @r#"
    /config/outrigger/outrigger.toml
    -    4  env = { API_KEY = "••••", MODE = "fast" }
    +    4  env = { API_KEY = "file:/config/outrigger/secrets/a-API_KEY", MODE = "fast" }
    -    7  headers.Authorization = "Bearer ••••"
    +    7  headers.Authorization = "Bearer ${file:/config/outrigger/secrets/b-Authorization}"
    "#);
    let text = [ran.out.as_str(), &ran.err].concat();
    assert!(
        !text.contains("0f3c9a7be15d2846") && !text.contains("abcd1234efgh"),
        "{text}"
    );
    assert!(
        ran.err.contains("left alone: `mcpServers.p.env.API_KEY`"),
        "{}",
        ran.err
    );
    let folder = place.root.join("config/outrigger");
    let mode = |name: &str| {
        fs::metadata(folder.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("secrets"), mode("secrets/a-API_KEY")), (0o700, 0o600));
    assert_eq!(mode("outrigger.toml.backup"), 0o600);
    assert_eq!(
        fs::read_to_string(folder.join("outrigger.toml.backup")).unwrap(),
        OLD
    );
    assert_eq!(
        fs::read_to_string(folder.join("secrets/b-Authorization")).unwrap(),
        "abcd1234efgh"
    );
    let listed = place.json(&["secrets", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed:#}");
    assert_eq!(place.run_wary(&["secrets", "import", "--yes"]).out, "");
}

#[test]
fn a_link_stays_a_link_and_names_are_never_taken_twice() {
    let place = Place::new();
    let real = place.write("dotfiles/outrigger.toml", OLD);
    std::os::unix::fs::symlink(&real, place.root.join("config/outrigger/outrigger.toml")).unwrap();
    place.write("config/outrigger/secrets/a-API_KEY", "older");
    let ran = place.run(&["secrets", "import", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        place
            .root
            .join("config/outrigger/outrigger.toml")
            .is_symlink()
    );
    assert!(
        fs::read_to_string(&real)
            .unwrap()
            .contains("secrets/a-API_KEY-2")
    );
    assert_eq!(
        fs::read_to_string(place.root.join("config/outrigger/secrets/a-API_KEY")).unwrap(),
        "older"
    );
}

#[cfg(feature = "age")]
#[test]
fn secrets_may_be_kept_encrypted() {
    let place = Place::new();
    let own = place.write("config/outrigger/outrigger.toml", OLD);
    let ran = place.run(&["secrets", "import", "--yes", "--to", "age"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        fs::read_to_string(own)
            .unwrap()
            .contains("\"age:a-API_KEY\"")
    );
    let sealed = fs::read(place.root.join("config/outrigger/secrets/a-API_KEY.age")).unwrap();
    assert!(
        sealed.starts_with(b"age-encryption.org/v1")
            && !String::from_utf8_lossy(&sealed).contains("0f3c9a7be15d2846")
    );
    let listed = place.json(&["secrets", "list", "--json"]);
    assert_eq!(listed[0]["resolvable"], true, "{listed:#}");
}
