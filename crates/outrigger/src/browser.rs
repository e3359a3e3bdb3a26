//! A person signs in in a browser: opened from here, or on any other machine, from where the
//! address that it was led back to is pasted.
//!
//! Promises: whichever answer comes first counts; without a browser the address is printed, not
//! lost; nobody is waited for without end. Leaves out: what the answer is worth.

use std::io::BufRead as _;
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::{AuthorizationHandler, Visit, VisitError};
use tokio::sync::oneshot;
use url::Url;

use crate::loopback::Loopback;
use crate::screen::{Label, Screen};
use crate::visible;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// Shows pages to sign in on.
#[derive(Clone, Copy)]
pub(crate) struct Browser {
    pub(crate) screen: Screen,
    /// Opens one here; else the address is printed for one elsewhere.
    pub(crate) open: bool,
}

impl AuthorizationHandler for Browser {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Visit>, VisitError>> {
        let browser = *self;
        Box::pin(async move {
            let loopback = Loopback::listen().await?;
            let visit: Box<dyn Visit> = Box::new(Showing { browser, loopback });
            Ok(visit)
        })
    }
}

struct Showing {
    browser: Browser,
    loopback: Loopback,
}

impl Visit for Showing {
    fn redirect_uri(&self) -> &Url {
        self.loopback.redirect()
    }

    fn run(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, VisitError>> {
        Box::pin(async move {
            let Self { browser, loopback } = *self;
            let pasted = browser.show(&page);
            let state = page.query_pairs().find(|(name, _)| name == "state");
            let state = state
                .map(|(_, state)| state.into_owned())
                .unwrap_or_default();
            let answer = async {
                tokio::select! {
                    query = loopback.query(&state) => query,
                    query = pasted => query,
                }
            };
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            answer.unwrap_or(Err(VisitError::TimedOut(PATIENCE)))
        })
    }
}

impl Browser {
    /// Opens the page or prints its address; then the query of what is pasted.
    fn show(self, page: &Url) -> BoxFuture<'static, Result<String, VisitError>> {
        let screen = self.screen;
        let shown = visible::line(page.as_str());
        if self.open {
            match open::that_detached(page.as_str()) {
                Ok(()) => {
                    screen.say("the page to sign in on is open in the browser; if it is not, open this address:");
                    screen.say(format_args!("  {shown}"));
                    return Box::pin(std::future::pending());
                }
                Err(error) => screen.insist(format_args!(
                    "{} no browser can be opened here: {error}",
                    screen.talk(Label::Warn, "warning:")
                )),
            }
        }
        screen.insist("open this address in a browser, on any machine, and sign in:");
        screen.insist(format_args!("  {shown}"));
        screen.insist(
            "the browser is then led to an address that begins with `http://127.0.0.1`; when it cannot \
             show that page, paste the address here:",
        );
        Box::pin(pasted())
    }
}

/// The query of the first line of standard input. End of file says nothing: the redirect may still
/// come by itself.
async fn pasted() -> Result<String, VisitError> {
    let (say, said) = oneshot::channel();
    // The runtime waits for its own threads at the end, and nobody may ever press return.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.is_ok_and(|count| count > 0) {
            let _ = say.send(line);
        }
    });
    match said.await {
        Ok(line) => query(line.trim()),
        Err(_) => std::future::pending().await,
    }
}

fn query(pasted: &str) -> Result<String, VisitError> {
    let url = Url::parse(pasted)
        .map_err(|error| VisitError::NoRedirect(format!("it is no address ({error})")))?;
    let query = url.query().filter(|query| !query.is_empty());
    query
        .map(str::to_owned)
        .ok_or_else(|| VisitError::NoRedirect("it has nothing after a `?`".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_is_an_address_with_an_answer() {
        assert_eq!(
            query("http://127.0.0.1:5/callback?code=c&state=s#x").unwrap(),
            "code=c&state=s"
        );
        for bad in [
            "",
            "code=c",
            "http://127.0.0.1:5/callback",
            "http://127.0.0.1:5/callback?",
        ] {
            assert!(
                matches!(query(bad), Err(VisitError::NoRedirect(_))),
                "{bad}"
            );
        }
    }
}
