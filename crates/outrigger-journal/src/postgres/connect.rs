//! A connection to the database: its address, whom to believe, and how long anything may take.
//!
//! The settings of each session see to it that a host that hangs or is cut off holds nobody up: what
//! waits for a lock gives up, a transaction that stands still is ended, and a peer that the network
//! no longer reaches is noticed within half a minute.

use std::future::Future;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Executor as _, PgConnection};
use tokio::time::timeout;

use super::error::PgError;
use crate::place::Database;

/// How long anything is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// The schema that holds all tables.
pub(super) const SCHEMA: &str = "outrigger";

/// Less than [`PATIENCE`], so that the server says first what is wrong.
const SESSION: &str = "SET search_path = outrigger;
    SET lock_timeout = '10s';
    SET statement_timeout = '14s';
    SET idle_in_transaction_session_timeout = '10s';
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') = 'off'";

const SEND_TIMEOUT: &str = "SET tcp_user_timeout = 25000";

/// Opens a connection with our settings.
pub(super) async fn connect(database: &Database) -> Result<PgConnection, PgError> {
    let options = options(database)?;
    let mut connection = options.connect().await?;
    connection.execute(sqlx::raw_sql(SESSION)).await?;
    // Not every system that a server runs on has it.
    connection.execute(SEND_TIMEOUT).await.ok();
    Ok(connection)
}

fn options(database: &Database) -> Result<PgConnectOptions, PgError> {
    let options = PgConnectOptions::from_str(&database.url)
        // Its words may quote the address.
        .map_err(|_| PgError::Settings("its address cannot be read".to_owned()))?
        .application_name("outrigger")
        .disable_statement_logging();
    let says = |key: &str| database.url.contains(key);
    if says("sslmode=") || says("ssl-mode=") || is_here(&options) {
        return Ok(options);
    }
    Ok(options.ssl_mode(PgSslMode::VerifyFull))
}

/// Whether the server is on this machine.
fn is_here(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Waits for the server, but not for ever: a connection that was cut off says nothing.
pub(super) async fn patiently<T, E: From<PgError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(PgError::Silent(PATIENCE.as_secs()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_elsewhere_has_to_show_who_it_is() {
        for (url, mode) in [
            ("postgres://u:p@db.example/x", "VerifyFull"),
            ("postgres://u:p@192.0.2.1/x", "VerifyFull"),
            ("postgres://u:p@db.example/x?sslmode=require", "Require"),
            ("postgres://u:p@127.0.0.1/x", "Prefer"),
            ("postgres://u:p@localhost/x", "Prefer"),
            ("postgres://u@localhost/x?host=/run/postgresql", "Prefer"),
        ] {
            let database = Database::new(url, "one").unwrap();
            let found = options(&database).unwrap().get_ssl_mode();
            assert_eq!(format!("{found:?}"), mode, "{url}");
        }
    }
}
