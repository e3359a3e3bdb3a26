//! `outrigger serve` over HTTP, in a folder and with a configuration of its own, for suites that look at it from
//! outside.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::steps::built;

/// A gateway that listens. Dropped, it is ended.
pub(crate) struct Gateway {
    child: Child,
    /// Its address.
    pub(crate) place: String,
}

impl Gateway {
    /// Starts one with this `outrigger.toml`. `words` come after `serve`.
    pub(crate) fn start(home: &Path, configuration: &str, words: &[&str]) -> Result<Self, String> {
        let folder = home.join("config/outrigger");
        let failed = |error: std::io::Error| format!("the gateway cannot be run: {error}");
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("outrigger.toml"), configuration).map_err(failed)?;
        let mut command = Command::new(built("outrigger"));
        command
            .args(["serve", "--http", "127.0.0.1:0"])
            .args(words)
            .current_dir(home)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        for (name, under) in [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("OUTRIGGER_MANAGED_DIR", "managed"),
        ] {
            command.env(name, home.join(under));
        }
        let mut child = command.spawn().map_err(failed)?;
        let stderr = child.stderr.take();
        let mut talk = stderr.map(|stderr| BufReader::new(stderr).lines());
        let mut lines = talk.as_mut().into_iter().flatten().map_while(Result::ok);
        let place = lines.find_map(|line| line.strip_prefix("serving on ").map(str::to_owned));
        let Some(place) = place else {
            return Err("the gateway did not say where it serves".to_owned());
        };
        std::thread::spawn(move || talk.into_iter().flatten().for_each(drop));
        Ok(Self { child, place })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // One that has ended by itself is as good.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}
