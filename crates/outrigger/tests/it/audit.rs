//! `outrigger audit`: the chain from outside, and checked by a program that knows only the page about
//! it.

use std::process::Command;

use crate::place::{Place, fixture};

fn recorded() -> Place {
    let place = Place::new();
    place.user("[builtin]\necho = true");
    for text in ["one", "two"] {
        let ran = place.run(&[
            "call",
            "echo",
            "echo",
            &format!("text={text}"),
            "--allow",
            "*",
        ]);
        assert_eq!(ran.code, 0, "{ran:#?}");
    }
    place
}

fn tamper(place: &Place, sql: &str) {
    let connection = rusqlite::Connection::open(place.journal()).unwrap();
    connection
        .execute_batch("DROP TRIGGER events_stay; DROP TRIGGER events_remain")
        .unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn a_journal_as_it_was_written_is_right_and_a_later_look_can_tell() {
    let place = recorded();
    let report = place.json(&["audit", "verify", "--json"]);
    let (last, head) = (
        report["last"].as_i64().unwrap(),
        report["head"].as_str().unwrap(),
    );
    assert_eq!(report["lines"], last);
    let told = place.run(&["audit", "verify"]);
    let expected = format!(
        "/state/outrigger/journal.db: {last} lines, each as it was written\nthe last: {last}:{head}"
    );
    assert_eq!((told.code, place.tidy(&told.out)), (0, expected));
    let expect = format!("{last}:{head}");
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    assert_eq!(place.run(&["audit", "verify", "--expect", &expect]).code, 0);
    let other = format!("{last}:{}", "0".repeat(64));
    assert_eq!(place.run(&["audit", "verify", "--expect", &other]).code, 1);
    assert_eq!(
        place.run(&["audit", "verify", "--expect", "latest"]).code,
        2
    );
}

#[test]
fn the_first_line_that_was_changed_is_named() {
    let place = recorded();
    tamper(&place, "UPDATE events SET at = at + 1 WHERE line = 5");
    let ran = place.run(&["audit", "verify"]);
    let told = place.tidy(&format!("exit {}\n{}", ran.code, ran.err));
    insta::assert_snapshot!(told, @"
    exit 1
    error: the journal `/state/outrigger/journal.db` is not as it was written: line 5: it was changed, or put where another line was
    hint: 4 lines before it hold; keep the file as it is, and move it aside for a new one
    ");
    let report = place.run(&["audit", "verify", "--json"]);
    assert_eq!(
        (report.code, &report.json()["fault"]["line"]),
        (1, &5.into())
    );
}

#[test]
fn where_there_is_no_journal_none_is_made() {
    let place = Place::new();
    let ran = place.run(&["audit", "verify"]);
    assert!(
        ran.code == 1 && ran.err.contains("there is no journal"),
        "{ran:#?}"
    );
    assert!(!place.root.join("state").exists());
}

#[test]
fn exported_lines_are_checked_by_another_program() {
    let place = recorded();
    let all = place.run(&["audit", "export", "--jsonl"]);
    let run = all
        .out
        .lines()
        .next()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["run"].clone());
    let one = place.run(&[
        "audit",
        "export",
        "--jsonl",
        "--run",
        run.unwrap().as_str().unwrap(),
    ]);
    assert!(one.out.lines().count() < all.out.lines().count());
    let check = |text: &str, whole: &str| {
        let file = place.write("lines.jsonl", text);
        let checked = Command::new("python3")
            .arg(fixture("check_audit.py"))
            .arg(file)
            .arg(whole)
            .output()
            .unwrap();
        (
            checked.status.success(),
            String::from_utf8(checked.stdout).unwrap(),
        )
    };
    let lines = all.out.lines().count();
    assert_eq!(
        check(&all.out, "whole"),
        (true, format!("{lines} lines are right\n"))
    );
    assert!(check(&one.out, "part").0);
    let changed = all
        .out
        .replacen("\\\"text\\\":\\\"one\\\"", "\\\"text\\\":\\\"eins\\\"", 1);
    assert_ne!(changed, all.out);
    assert!(!check(&changed, "whole").0);
    let shorter: Vec<_> = all
        .out
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != 3)
        .map(|(_, line)| line)
        .collect();
    assert!(!check(&shorter.join("\n"), "whole").0);
}
