//! What all pages have around them.

use jiff::{SignedDuration, Timestamp};
use maud::{DOCTYPE, Markup, html};

/// A page. `here` is its path, empty where there is no other one to go to; `waiting`: how much waits for a
/// person.
pub(super) fn layout(title: &str, here: &str, waiting: usize, content: &Markup) -> Markup {
    let place = |path: &str| (path == here).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Outrigger" }
                link rel="stylesheet" href="/page.css";
                script src="/page.js" defer {}
            }
            body {
                header {
                    strong { "Outrigger" }
                    @if !here.is_empty() { nav aria-label="Pages" id="nav" data-live {
                        a href="/" aria-current=[place("/")] { "Status" }
                        a href="/approvals" aria-current=[place("/approvals")] {
                            "Approvals"
                            @if waiting > 0 {
                                " " span.count { (waiting) span.apart { " waiting" } }
                            }
                        }
                    } }
                }
                main { (content) }
            }
        }
    }
}

/// A time, exact where one looks, else how long ago.
pub(super) fn when(at: Timestamp) -> Markup {
    let exact = at.strftime("%F %H:%M:%S UTC").to_string();
    html! { time datetime=(at.strftime("%FT%H:%M:%SZ")) title=(exact) { (at.strftime("%H:%M:%S")) } }
}

/// How long something has been going on.
pub(super) fn since(at: Timestamp) -> String {
    lasting(Timestamp::now().duration_since(at))
}

pub(super) fn lasting(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
