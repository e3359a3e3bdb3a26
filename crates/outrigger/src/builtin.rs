//! The built-in servers, as the host takes them.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use outrigger_connect::{ServePipe, ServerName};
use outrigger_host::Builtin;
use outrigger_host::config::Config;
use outrigger_servers::{BuiltIn, ServeOptions, serve};
use tokio::io::DuplexStream;

use crate::error::CommandError;
use crate::shelf::HostShelf;
use crate::surroundings;

/// Those that configuration leaves on.
pub(crate) fn servers(
    config: &Config,
    workspace: &Path,
    shelf: &HostShelf,
) -> Result<Vec<Builtin>, CommandError> {
    config
        .builtin_servers()
        .into_iter()
        .map(|name| server(name, workspace, shelf))
        .collect()
}

fn server(name: &str, workspace: &Path, shelf: &HostShelf) -> Result<Builtin, CommandError> {
    let kind = if name == BuiltIn::Resources.name() {
        BuiltIn::Resources
    } else {
        parse(name)?
    };
    let mut options = options(workspace);
    options.shelf = Some(Arc::new(shelf.clone()));
    let pipe = Pipe { kind, options };
    let name = ServerName::new(name).map_err(|error| CommandError::failed(error.to_string()))?;
    Ok(Builtin {
        name,
        description: kind.description().to_owned(),
        pipe: Arc::new(pipe),
    })
}

/// A built-in server by the name that a person typed.
pub(crate) fn parse(name: &str) -> Result<BuiltIn, CommandError> {
    name.parse()
        .map_err(|error: outrigger_servers::UnknownBuiltIn| CommandError::usage(error.to_string()))
}

/// Options of a built-in server, from the surroundings.
pub(crate) fn options(workspace: &Path) -> ServeOptions {
    let mut options = ServeOptions::new(workspace);
    options.time_zone = surroundings::set("TZ");
    options
}

struct Pipe {
    kind: BuiltIn,
    options: ServeOptions,
}

impl ServePipe for Pipe {
    fn serve(&self, pipe: DuplexStream) -> BoxFuture<'static, ()> {
        let (kind, options) = (self.kind, self.options.clone());
        Box::pin(async move {
            let (reader, writer) = tokio::io::split(pipe);
            if let Err(error) = serve(kind, options, reader, writer).await {
                tracing::warn!(server = %kind, %error, "a built-in server ended");
            }
        })
    }
}
