//! `[gateway]`: who approves calls of clients.

use std::time::Duration;

use outrigger_host::config::ApprovalWay;

use super::Place;

#[test]
fn who_approves_is_said_in_order() {
    let config = Place::new().load();
    assert_eq!(config.gateway.approvals.value, [ApprovalWay::Client]);
    let text = "[gateway]\napprovals = ['queue', 'client']\napproval_timeout = '90s'";
    let config = Place::with("user/outrigger.toml", text).load();
    let gateway = config.gateway;
    let ways = [ApprovalWay::Queue, ApprovalWay::Client];
    assert_eq!(gateway.approvals.value, ways);
    assert_eq!(gateway.approval_timeout.value, Duration::from_secs(90));
    let none = Place::with("user/outrigger.toml", "[gateway]\napprovals = []").load();
    assert_eq!(none.gateway.approvals.value, []);
}

#[test]
fn what_cannot_be_meant_is_an_error_and_a_project_has_no_say() {
    for (text, said) in [
        ("approvals = ['page']", "cannot be `page`"),
        ("approvals = 'queue'", "a list of `client` and `queue`"),
        ("approvals = ['queue', 'queue']", "`queue` is there twice"),
        ("approval = []", "did you mean `approvals`?"),
    ] {
        let place = Place::with("user/outrigger.toml", &format!("[gateway]\n{text}"));
        let lines = place.lines();
        assert!(lines.contains(said), "{text}: {lines}");
        let ways = place.load().gateway.approvals.value;
        assert_eq!(ways, [ApprovalWay::Client], "{text}");
    }
    let text = "[gateway]\napprovals = []";
    let place = Place::with("project/.outrigger/outrigger.toml", text);
    assert_eq!(place.load().gateway.approvals.value, [ApprovalWay::Client]);
    assert!(
        place
            .lines()
            .contains("`gateway` does not count in a file of a project"),
        "{}",
        place.lines()
    );
}
