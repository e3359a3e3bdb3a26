//! The two programs of a case: the one under test, and the fake server on a port.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::Failure;
use crate::stage::Stage;

/// No command may take longer; a server that cannot start is told well before.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What it printed, as JSON.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_str(&self.stdout).map_err(|error| {
            format!(
                "no JSON ({error}), exit {:?}: {}",
                self.code,
                self.stderr.trim()
            )
            .into()
        })
    }
}

impl Stage {
    /// Runs the program under test. Of the environment it gets what a login gives, and the case's.
    #[allow(
        clippy::disallowed_methods,
        reason = "a test program starts what it tests"
    )]
    pub(crate) async fn run(&self, words: &[&str]) -> Result<Ended, Failure> {
        let mut command = Command::new(&self.binary);
        command.arg("--workspace").arg(&self.workspace);
        if let Some(file) = &self.explicit {
            command.arg("--config").arg(file);
        }
        command
            .args(words)
            .args(self.trust())
            .current_dir(&self.elsewhere)
            .env_clear()
            .envs(&self.env);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output
            .await
            .map_err(|_| format!("`{}` took over {PATIENCE:?}", words.join(" ")))??;
        Ok(Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// `call SERVER TOOL`, allowed by `allow` alone: its exit code and the text that came.
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        allow: &str,
    ) -> Result<(Option<i32>, String), Failure> {
        let ended = self
            .run(&["--quiet", "call", server, tool, "--allow", allow])
            .await?;
        Ok((
            ended.code,
            if ended.code == Some(0) {
                ended.stdout
            } else {
                ended.stderr
            },
        ))
    }
}

/// The fake server that configurations with a `{PORT}` connect to.
pub(crate) struct WebServer {
    port: u16,
    _child: Child,
}

impl WebServer {
    #[allow(
        clippy::disallowed_methods,
        reason = "a test program starts what it tests against"
    )]
    pub(crate) async fn start(kit: &Path) -> Result<Self, Failure> {
        let mut command = Command::new("python3");
        command
            .arg(kit.join("fake_http.py"))
            .args(["--case", "http_json", "--port", "0"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the fake server has no output")?;
        let line = BufReader::new(stdout)
            .lines()
            .next_line()
            .await?
            .unwrap_or_default();
        let port = line
            .strip_prefix("listening ")
            .and_then(|port| port.trim().parse().ok());
        let port =
            port.ok_or_else(|| format!("the fake server said `{line}`, not where it listens"))?;
        Ok(Self {
            port,
            _child: child,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}
