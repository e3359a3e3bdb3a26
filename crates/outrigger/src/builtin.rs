//! The built-in servers, as the host takes them.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use outrigger_connect::{ServePipe, ServerName};
use outrigger_host::Builtin;
use outrigger_host::config::Config;
use outrigger_journal::Artifacts;
use outrigger_servers::{Artifact, ArtifactReader, BuiltIn, ServeOptions, serve};
use tokio::io::DuplexStream;

use crate::error::CommandError;
use crate::shelf::HostShelf;
use crate::surroundings;

/// Those that configuration leaves on; the one that reads artifacts only where they are kept.
pub(crate) fn all(
    config: &Config,
    workspace: &Path,
    shelf: &HostShelf,
    artifacts: Option<&Artifacts>,
) -> Result<Vec<Builtin>, CommandError> {
    let servers = config.builtin_servers().into_iter();
    let servers = servers.map(|name| server(name, workspace, shelf));
    let mut servers: Vec<_> = servers.collect::<Result<_, CommandError>>()?;
    servers.extend(artifacts.and_then(|artifacts| reader(config, artifacts)));
    Ok(servers)
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
        on_demand: false,
    })
}

/// The server that reads artifacts.
fn reader(config: &Config, artifacts: &Artifacts) -> Option<Builtin> {
    let kind = BuiltIn::Artifacts;
    let mut options = ServeOptions::new("");
    options.artifacts = Some(Arc::new(Reader(artifacts.clone())));
    let reader = Builtin {
        name: ServerName::new(kind.name()).ok()?,
        description: kind.description().to_owned(),
        pipe: Arc::new(Pipe { kind, options }),
        on_demand: true,
    };
    config.builtin.artifacts.value.then_some(reader)
}

/// Reads the store. Which handles a run may use is the host's to say, before a call comes here.
#[derive(Debug)]
struct Reader(Artifacts);

impl ArtifactReader for Reader {
    fn find<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Artifact, String>> {
        Box::pin(async move {
            let about = self
                .0
                .about(handle)
                .await
                .map_err(|error| error.to_string())?;
            Ok(Artifact {
                handle: about.line.handle,
                size: about.line.bytes,
                media_type: about.line.media_type,
            })
        })
    }

    fn read<'a>(
        &'a self,
        artifact: &'a Artifact,
        start: u64,
        end: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let read = async {
                let about = self.0.about(&artifact.handle).await?;
                self.0.read(&about.line.digest, start..end).await
            };
            let bytes = read.await.map_err(|error| error.to_string())?;
            Ok(bytes.into())
        })
    }
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
