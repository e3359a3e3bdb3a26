//! `outrigger approvals open`: the address of the page of a gateway, good for one browser.
//!
//! The key in it is read from a file that the gateway keeps for this user alone.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use crate::cli::{Common, OpenArgs};
use crate::error::{CommandError, Exit};
use crate::screen::Screen;
use crate::surroundings;

/// How long a gateway on this machine may take to accept.
const ACCEPTS: Duration = Duration::from_millis(500);

/// What the gateway keeps.
struct Kept {
    url: Url,
    key: String,
}

pub(super) fn run(common: &Common, args: &OpenArgs, screen: Screen) -> Result<(), CommandError> {
    let folder = surroundings::page_keys(common)?;
    let mut found = served(&folder);
    if let Some(port) = args.port {
        found.retain(|kept| kept.url.port_or_known_default() == Some(port));
    }
    let Kept { mut url, key } = match found.len() {
        0 => {
            let error = CommandError::new(Exit::Unavailable, "no gateway of yours serves a page");
            return Err(error.hint("`outrigger serve --http 127.0.0.1:4180` does"));
        }
        1 => found.remove(0),
        _ => {
            let all: Vec<_> = found.iter().map(|kept| kept.url.to_string()).collect();
            let error = format!("several gateways serve a page: {}", all.join(", "));
            return Err(CommandError::usage(error).hint("`--port PORT` says which"));
        }
    };
    url.set_path("/approvals/open");
    url.query_pairs_mut().append_pair("key", &key);
    if args.json {
        return screen.json(&json!({ "url": url.as_str() }));
    }
    if args.print || open::that_detached(url.as_str()).is_err() {
        screen.data(&format!("{url}\n"))?;
        screen.say("it opens the page once; whoever has it may decide");
    }
    Ok(())
}

/// The gateways whose port is served. What one has left that was killed is passed over.
fn served(folder: &Path) -> Vec<Kept> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = files.filter_map(|file| {
        let name = file.file_name();
        name.to_str().filter(|name| name.starts_with("page-"))?;
        let read: Value = serde_json::from_str(&fs::read_to_string(file.path()).ok()?).ok()?;
        let url = Url::parse(read["url"].as_str()?).ok()?;
        let key = read["key"].as_str()?.to_owned();
        Some(Kept { url, key })
    });
    let accepts = |kept: &Kept| {
        let address = kept.url.socket_addrs(|| None).unwrap_or_default();
        let accepts = |at: &SocketAddr| {
            at.ip().is_loopback() && TcpStream::connect_timeout(at, ACCEPTS).is_ok()
        };
        address.iter().any(accepts)
    };
    kept.filter(accepts).collect()
}
