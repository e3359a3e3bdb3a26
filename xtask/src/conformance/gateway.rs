//! The suite's server side, against `outrigger serve` with a server behind it that does what the suite
//! wants. No failure is excused.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::steps::{built, root};

/// The revisions, and how many scenarios each requires of a server.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// What did not go well.
pub(super) fn all(folder: &Path) -> Result<Vec<String>, String> {
    let mut bad = Vec::new();
    for (revision, count) in REVISIONS {
        let required = super::required(folder, revision, "server:")?;
        if required.len() != count {
            return Err(format!(
                "{revision} requires {} scenarios of a server here, not {count}",
                required.len()
            ));
        }
        let gateway = Gateway::start(folder)?;
        let words = ["server", "--requirements", revision, "--url"];
        let said = super::said(folder, &words, gateway.place.as_ref())?;
        drop(gateway);
        let is_ok = |name: &str| said.contains(&format!("\n✓ {name}: "));
        let passed = required.iter().filter(|name| is_ok(name)).count();
        eprintln!("{revision}, the gateway: {passed} of {count} scenarios pass");
        for name in required.iter().filter(|name| !is_ok(name)) {
            eprintln!("  ✗ {name}");
            let kept = folder.join(format!("gateway-{revision}.txt"));
            fs::write(&kept, &said)
                .map_err(|error| format!("`{}` cannot be written: {error}", kept.display()))?;
            bad.push(format!(
                "the gateway fails `{name}` of {revision}; `{}` says why",
                kept.display()
            ));
        }
    }
    Ok(bad)
}

/// A gateway in a place of its own.
struct Gateway {
    child: Child,
    place: String,
}

impl Gateway {
    fn start(folder: &Path) -> Result<Self, String> {
        let home = folder.join("gateway");
        let configuration = home.join("config/outrigger");
        let fixture = root().join("crates/outrigger/tests/fixtures/conformance_server.py");
        let text = format!(
            "[servers.conformance]\ncommand = 'python3'\nargs = ['{}']\n\
             answers = ['elicitation', 'roots', 'sampling']\n[policy]\ndefault = 'allow'\n",
            fixture.display()
        );
        let failed = |error: std::io::Error| format!("the gateway cannot be run: {error}");
        fs::create_dir_all(&configuration).map_err(failed)?;
        fs::write(configuration.join("outrigger.toml"), text).map_err(failed)?;
        let mut command = Command::new(built("outrigger"));
        command
            .args(["serve", "--server", "conformance", "--http", "127.0.0.1:0"])
            .current_dir(&home)
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
