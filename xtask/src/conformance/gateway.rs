//! The suite's server side, against `outrigger serve` with a server behind it that does what the suite
//! wants. No failure is excused.

use std::fs;
use std::path::Path;

use crate::gateway::Gateway;
use crate::steps::root;

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
        let gateway = started(folder)?;
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

fn started(folder: &Path) -> Result<Gateway, String> {
    let fixture = root().join("crates/outrigger/tests/fixtures/conformance_server.py");
    let text = format!(
        "[servers.conformance]\ncommand = 'python3'\nargs = ['{}']\n\
         answers = ['elicitation', 'roots', 'sampling']\n[policy]\ndefault = 'allow'\n",
        fixture.display()
    );
    Gateway::start(&folder.join("gateway"), &text, &["--server", "conformance"])
}
