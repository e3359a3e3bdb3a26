//! OAuth 2.1 against an authorization server on a loopback socket, right and wrong ones.

mod authority;
mod flow;
mod refusals;
mod renewal;

use std::sync::Arc;

use outrigger_connect::{
    ConnectError, Connection, Connector, MemoryTokens, OAuth, ServerSpec, TokenStore,
};
use tokio_util::sync::CancellationToken;

use authority::Authority;

/// Connects with these tokens, and with somebody who signs in.
async fn connect_with(
    store: &MemoryTokens,
    authority: &Authority,
    spec: &ServerSpec,
) -> Result<Connection, ConnectError> {
    connect_by(
        OAuth::new(Arc::new(store.clone())).with_handler(authority.person()),
        spec,
    )
    .await
}

/// Connects with these tokens, and with nobody who could sign in.
async fn connect_alone(
    store: impl TokenStore + 'static,
    spec: &ServerSpec,
) -> Result<Connection, ConnectError> {
    connect_by(OAuth::new(Arc::new(store)), spec).await
}

async fn connect_by(oauth: OAuth, spec: &ServerSpec) -> Result<Connection, ConnectError> {
    let connector = Connector::new("0.0.0", None).with_oauth(oauth);
    connector.connect(spec, &CancellationToken::new()).await
}
