//! Who shows the page to sign in on, and receives where it leads back to.

use futures::future::BoxFuture;
use url::Url;

/// Lets a person sign in. One visit at a time is asked for.
pub trait AuthorizationHandler: Send + Sync {
    /// Gets ready for one visit, so that its redirect address is known before the client is
    /// registered.
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Visit>, VisitError>>;
}

/// One visit to a page to sign in on. Dropping it ends it.
pub trait Visit: Send {
    /// Where the page is to lead back to, usually on loopback (RFC 8252, section 7.3).
    fn redirect_uri(&self) -> &Url;

    /// Shows `page`, and returns the query of the address that it led back to.
    fn run(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, VisitError>>;
}

/// A visit that led nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VisitError {
    /// The redirect cannot be received.
    #[error("the redirect cannot be received: {0}")]
    Listen(String),
    /// The page cannot be shown.
    #[error("the page to sign in on cannot be shown: {0}")]
    Show(String),
    /// Nobody came back in time.
    #[error("nobody signed in within {} s", .0.as_secs())]
    TimedOut(std::time::Duration),
    /// What came back is no redirect.
    #[error("what came back is no redirect: {0}")]
    NoRedirect(String),
    /// The person gave up, or the connection that wanted it has ended.
    #[error("signing in was cancelled")]
    Cancelled,
}
