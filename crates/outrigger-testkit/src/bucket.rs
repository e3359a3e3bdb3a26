//! A real S3 server for tests: moto, out of the folder that `cargo xtask servers` fills. It checks keys
//! and signatures, and ends with whoever started it, however that ends.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::expect_used,
    reason = "tests alone use it; what is missing has to be said"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

const PROGRAM: &str = include_str!("bucket/server.py");

/// A running server.
pub struct S3 {
    /// Its address.
    pub endpoint: String,
    /// The name of the one key that may do everything.
    pub access_key_id: String,
    /// That key.
    pub secret_access_key: String,
    link: Mutex<Link>,
}

struct Link {
    child: Child,
    /// Whatever waits for its end ends the server.
    said: Option<ChildStdin>,
    heard: BufReader<ChildStdout>,
    made: u32,
}

/// The server of this test program.
///
/// # Panics
///
/// Where it is not installed, or does not start: says what to do.
pub fn server() -> &'static S3 {
    static SERVER: OnceLock<S3> = OnceLock::new();
    SERVER.get_or_init(S3::start)
}

impl S3 {
    /// Another server, for tests that stop it.
    ///
    /// # Panics
    ///
    /// Like [`server`].
    pub fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.outrigger-test");
        let mut child = Command::new(folder.join("python/bin/python"))
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need an S3 server: `cargo xtask servers` installs it");
        let said = child.stdin.take();
        let mut heard = BufReader::new(child.stdout.take().expect("a pipe"));
        let first = answer(&mut heard);
        let text = |name: &str| {
            let found = first[name].as_str().map(ToOwned::to_owned);
            found.expect("the server says where it is: `cargo xtask servers` installs it")
        };
        Self {
            endpoint: text("endpoint"),
            access_key_id: text("key"),
            secret_access_key: text("secret"),
            link: Mutex::new(Link {
                child,
                said,
                heard,
                made: 0,
            }),
        }
    }

    /// A new bucket: its name.
    pub fn bucket(&self) -> String {
        let name = {
            let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
            link.made += 1;
            format!("kept-{}", link.made)
        };
        self.tell(&json!(["make", name]));
        name
    }

    /// The keys of all objects in it.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let keys = self.tell(&json!(["keys", bucket]));
        serde_json::from_value(keys).unwrap_or_default()
    }

    /// Writes an object, as somebody else would.
    pub fn put(&self, bucket: &str, key: &str, text: &str) {
        self.tell(&json!(["put", bucket, key, text]));
    }

    /// Removes an object, as somebody else would.
    pub fn remove(&self, bucket: &str, key: &str) {
        self.tell(&json!(["remove", bucket, key]));
    }

    /// Has an object be so much older.
    pub fn age(&self, bucket: &str, key: &str, hours: u32) {
        self.tell(&json!(["age", bucket, key, hours]));
    }

    /// From now on requests are taken and not answered; or answered again.
    pub fn hang(&self, hang: bool) {
        self.tell(&json!(["hang", hang]));
    }

    /// Methods and paths of all requests since this was asked last.
    pub fn requests(&self) -> Vec<String> {
        let said = self.tell(&json!(["requests", null]));
        serde_json::from_value(said).unwrap_or_default()
    }

    /// Ends it.
    pub fn stop(&self) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.stop();
    }

    fn tell(&self, what: &Value) -> Value {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let said = link.said.as_mut().expect("it was stopped");
        writeln!(said, "{what}").expect("the server listens");
        answer(&mut link.heard)
    }
}

impl Link {
    fn stop(&mut self) {
        drop(self.said.take());
        // A request that hangs would keep it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop();
    }
}

fn answer(heard: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    heard.read_line(&mut line).ok();
    serde_json::from_str(&line).expect("the S3 server answers: `cargo xtask servers` installs it")
}
