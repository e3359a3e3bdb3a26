//! What a server inherits of the environment: what programs need to find themselves, their caches
//! and the network, and nothing that names a secret or opens a way to another program.

use std::collections::BTreeMap;

/// Passed on when set.
const NAMES: &[&str] = &[
    // Who and where: interpreters and package runners do not start without these.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TZ",
    "LANG",
    "LANGUAGE",
    // Where caches and settings are; without them a runner would install everything again. Not
    // XDG_RUNTIME_DIR: the sockets in it lead to the desktop and its keyring.
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    // The way to the network where there is only one.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    // Certificates of whoever looks after that network.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    // Without these nothing starts on Windows.
    "SystemRoot",
    "SYSTEMROOT",
    "SystemDrive",
    "windir",
    "ComSpec",
    "COMSPEC",
    "PATHEXT",
    "Path",
    "USERPROFILE",
    "USERNAME",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "ProgramData",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
];

/// Whether a variable is passed on to every server.
pub(crate) fn is_inherited(name: &str) -> bool {
    NAMES.contains(&name) || name.starts_with("LC_")
}

/// What every server starts with.
pub(crate) fn inherited(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    env.iter()
        .filter(|(name, _)| is_inherited(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
