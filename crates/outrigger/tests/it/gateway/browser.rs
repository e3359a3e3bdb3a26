//! A real browser without a screen: Chromium, told what to do over `WebDriver`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::place::{PATIENCE, until};

/// How `WebDriver` calls the reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window. Dropped, it is gone.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Installed by `cargo xtask test`, where it can be.
    pub(crate) fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`cargo xtask test` installs chromium and chromium-driver");
        let mut talk = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = talk.next().expect("it ended").unwrap();
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        thread::spawn(move || talk.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            profile,
        };
        let folder = browser.profile.path().display();
        let args = json!([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-proxy-server",
            format!("--user-data-dir={folder}"),
            "--window-size=1100,900",
        ]);
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": args } } } });
        let begun = browser.send("POST", "/session", Some(&wanted));
        begun["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        browser
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.try_send(method, path, body);
        assert!(answer["error"].is_null(), "{path}: {answer}");
        answer
    }

    fn try_send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map_or(String::new(), Value::to_string);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(2)))
            .unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        // The driver keeps the connection open, whatever it is told.
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["value"].clone()
    }

    fn command(&self, method: &str, what: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{what}", self.session);
        let path = path.trim_end_matches('/');
        self.send(method, path, (method == "POST").then_some(body))
    }

    pub(crate) fn go(&self, url: &str) {
        self.command("POST", "url", &json!({ "url": url }));
    }

    pub(crate) fn at(&self) -> String {
        let url = self.command("GET", "url", &Value::Null);
        url.as_str().unwrap().to_owned()
    }

    /// What this script returns, run in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command(
            "POST",
            "execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// What a person reads; nothing between two pages.
    pub(crate) fn text(&self) -> String {
        let text = self.run("return document.body ? document.body.innerText : ''");
        text.as_str().unwrap().to_owned()
    }

    /// What a person reads once all of this is there.
    #[track_caller]
    pub(crate) fn reads(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        let begun = Instant::now();
        while let Some(part) = parts.iter().find(|part| !text.contains(**part)) {
            assert!(begun.elapsed() < PATIENCE, "no `{part}`: {text}");
            thread::sleep(Duration::from_millis(10));
            text = self.text();
        }
        text
    }

    /// Clicks what this selector finds, as a person does, who looks again when the page has changed
    /// under the hand.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        until(&format!("a click on `{selector}`"), || {
            let found = self.command(
                "POST",
                "element",
                &json!({ "using": "css selector", "value": selector }),
            );
            let element = found[ELEMENT].as_str().unwrap();
            let path = format!("/session/{}/element/{element}/click", self.session);
            let clicked = self.try_send("POST", &path, Some(&json!({})));
            let error = clicked["error"].as_str();
            let moved = error == Some("stale element reference");
            assert!(error.is_none() || moved, "{selector}: {clicked}");
            !moved
        });
    }

    /// Keeps a picture, where the variable says so: for people who look.
    pub(crate) fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("OUTRIGGER_PICTURES") else {
            return;
        };
        let picture = self.command("GET", "screenshot", &Value::Null);
        let file = std::path::Path::new(&folder).join(format!("{name}.b64"));
        std::fs::write(file, picture.as_str().unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser when its session ends, and not when it is killed itself.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            stream.set_read_timeout(Some(Duration::from_secs(10))).ok();
            let (session, port) = (&self.session, self.port);
            write!(
                stream,
                "DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"
            )
            .ok();
            let mut some = [0; 64];
            let _answered = stream.read(&mut some);
        }
        self.driver.kill().unwrap();
        self.driver.wait().unwrap();
    }
}
