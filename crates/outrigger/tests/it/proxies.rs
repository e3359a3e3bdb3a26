//! WebSocket servers behind a proxy that the environment names.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::place::{Place, Ran, fixture};

/// The proxy; it ends with this.
struct Proxy {
    child: Child,
    port: String,
    log: PathBuf,
}

impl Proxy {
    fn start(place: &Place) -> Self {
        let log = place.root.join("proxy.log");
        let mut child = Command::new("python3")
            .arg(fixture("tunnel_server.py"))
            .arg(&log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut port).unwrap();
        Self {
            child,
            port: port.trim().to_owned(),
            log,
        }
    }

    fn heard(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn tools(place: &Place, proxy: &Proxy, direct: &str) -> Ran {
    place.run_with(&["tools", "far"], |command| {
        let address = format!("http://ada:pass-word-1@127.0.0.1:{}", proxy.port);
        command.env("HTTP_PROXY", address).env("NO_PROXY", direct);
    })
}

fn far(host: &str) -> Place {
    Place::with_servers(&json!({ "far": { "url": format!("ws://{host}:8080/mcp") } }))
}

#[test]
fn a_socket_is_led_through_and_nothing_else_is() {
    let place = far("far.test");
    let proxy = Proxy::start(&place);
    let ran = tools(&place, &proxy, "");
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.out.contains("far 1 tool,"), "{}", ran.out);
    let heard = "CONNECT far.test:8080 HTTP/1.1 Basic YWRhOnBhc3Mtd29yZC0x\n";
    assert_eq!(proxy.heard(), heard);

    // Names that are not to be asked for through it are looked up here, where there is no such host.
    let ran = tools(&place, &proxy, "other.example, far.test");
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert!(
        ran.out.contains("cannot reach ws://far.test:8080/mcp: "),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("IO error"), "{}", ran.out);
    place.servers(&json!({ "far": { "url": "ws://127.0.0.1:1/mcp" } }));
    let ran = tools(&place, &proxy, "");
    assert!(
        ran.out
            .contains("cannot reach ws://127.0.0.1:1/mcp: Connection refused"),
        "{}",
        ran.out
    );
    assert_eq!(proxy.heard(), heard, "nothing more was asked of the proxy");
}

#[test]
fn a_proxy_that_refuses_is_named_and_its_password_is_not() {
    let place = far("denied.test");
    let proxy = Proxy::start(&place);
    let ran = tools(&place, &proxy, "");
    assert_eq!(ran.code, 4, "{ran:#?}");
    let said = format!(
        "cannot reach ws://denied.test:8080/mcp: the proxy 127.0.0.1:{} opens no way there: HTTP/1.1 403 Forbidden",
        proxy.port
    );
    assert!(ran.out.contains(&said), "{}", ran.out);
    assert!(!(ran.out + &ran.err).contains("pass-word"));
}
