//! The table of leases in PostgreSQL: the twin of `leases/table.rs`. Each change is one statement that
//! looks and changes at once, by the server's clock; none is left open by a host that hangs.

use std::sync::{Mutex, PoisonError};

use sqlx::PgConnection;

use super::apart::Apart;
use super::connect::connect;
use super::error::PgError;
use crate::JournalError;
use crate::leases::{Fence, LeaseStore, Renewed, Taken, Taking, WISH};
use crate::ledger::int;
use crate::place::Database;

/// The leases of a database that this process has opened, by a connection of their own, which is made
/// with the first of them.
pub(crate) struct Leases {
    database: Database,
    link: Mutex<Option<Link>>,
}

struct Link {
    runtime: Apart,
    /// `None` until it is made again.
    connection: Option<PgConnection>,
}

impl Leases {
    pub(crate) fn of(database: Database) -> Self {
        Self {
            database,
            link: Mutex::default(),
        }
    }

    /// Does this, once more on a new connection where the one that was kept turns out to be lost.
    fn with<T>(
        &self,
        work: &impl AsyncFn(&mut PgConnection) -> Result<T, PgError>,
    ) -> Result<T, JournalError> {
        let mut held = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match held.take() {
            Some(link) => Ok(link),
            None => Apart::new().map(|runtime| Link {
                runtime,
                connection: None,
            }),
        };
        let done = done.and_then(|mut link| {
            let was_kept = link.connection.is_some();
            let mut done = link.once(&self.database, work);
            if was_kept && done.as_ref().err().is_some_and(PgError::is_lost_connection) {
                done = link.once(&self.database, work);
            }
            *held = Some(link);
            done
        });
        done.map_err(|error| error.of_store(self.database.name()))
    }
}

impl Link {
    fn once<T>(
        &mut self,
        database: &Database,
        work: &impl AsyncFn(&mut PgConnection) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        let kept = &mut self.connection;
        self.runtime.run_here(async {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => connect(database).await?,
            };
            let done = work(&mut connection).await;
            if done.as_ref().err().is_none_or(PgError::leaves_connection) {
                *kept = Some(connection);
            }
            done
        })
    }
}

impl LeaseStore for Leases {
    fn take(&self, taking: &Taking<'_>) -> Result<Taken, JournalError> {
        self.with(&async |connection| {
            let taken: Option<i64> = sqlx::query_scalar(TAKE)
                .bind(taking.name)
                .bind(taking.holder)
                .bind(taking.term.as_secs_f64())
                .bind(taking.me)
                .bind(taking.wanted)
                .fetch_optional(&mut *connection)
                .await?;
            if let Some(taken) = taken {
                return Ok(Taken::Here(taking.fence(taken)));
            }
            if taking.wish {
                sqlx::query(WISHED)
                    .bind(taking.name)
                    .bind(taking.me)
                    .bind(WISH.as_secs_f64())
                    .execute(&mut *connection)
                    .await?;
            }
            let holder = sqlx::query_scalar("SELECT holder FROM leases WHERE name = $1")
                .bind(taking.name)
                .fetch_one(connection)
                .await?;
            Ok(Taken::Elsewhere(holder))
        })
    }

    fn renew(&self, fence: &Fence) -> Result<Renewed, JournalError> {
        self.with(&async |connection| {
            let wanted: Option<bool> = sqlx::query_scalar(RENEW)
                .bind(&*fence.name)
                .bind(int(fence.token))
                .bind(fence.term.as_secs_f64())
                .fetch_optional(connection)
                .await?;
            Ok(wanted.map_or(Renewed::Lost, |wanted| Renewed::Held { wanted }))
        })
    }

    fn release(&self, fence: &Fence, rests: bool) -> Result<(), JournalError> {
        self.with(&async |connection| {
            sqlx::query(
                "UPDATE leases SET holder = NULL, expires_at = NULL, rests = $3
                 WHERE name = $1 AND token = $2",
            )
            .bind(&*fence.name)
            .bind(int(fence.token))
            .bind(rests)
            .execute(connection)
            .await?;
            Ok(())
        })
    }
}

/// Whether nobody else has taken it; it is held for another term then. Inside of a transaction of the
/// caller, until whose end nobody takes it.
pub(super) async fn stands(connection: &mut PgConnection, fence: &Fence) -> Result<bool, PgError> {
    let wanted: Option<bool> = sqlx::query_scalar(RENEW)
        .bind(&*fence.name)
        .bind(int(fence.token))
        .bind(fence.term.as_secs_f64())
        .fetch_optional(connection)
        .await?;
    Ok(wanted.is_some())
}

const TAKE: &str = "INSERT INTO leases AS lease (name, token, holder, taken_at, expires_at)
    VALUES ($1, 1, $2, clock_timestamp(), clock_timestamp() + make_interval(secs => $3))
    ON CONFLICT (name) DO UPDATE SET token = lease.token + 1, holder = $2, taken_at = clock_timestamp(),
        expires_at = clock_timestamp() + make_interval(secs => $3), rests = false,
        wanted_by = NULL, wanted_until = NULL
    WHERE (lease.holder IS NULL OR lease.expires_at <= clock_timestamp())
        AND (lease.wanted_until IS NULL OR lease.wanted_until <= clock_timestamp() OR lease.wanted_by = $4)
        AND ($5 OR NOT lease.rests)
    RETURNING token";
const WISHED: &str = "UPDATE leases
    SET wanted_by = $2, wanted_until = clock_timestamp() + make_interval(secs => $3)
    WHERE name = $1 AND (wanted_until IS NULL OR wanted_until <= clock_timestamp() OR wanted_by = $2)";
const RENEW: &str = "UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $3)
    WHERE name = $1 AND token = $2 AND holder IS NOT NULL
    RETURNING coalesce(wanted_until > clock_timestamp(), false)";
