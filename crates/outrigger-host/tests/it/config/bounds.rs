//! Files made to hurt.

use std::fmt::Write as _;

use super::Place;

fn only_message(place: &Place) -> String {
    let config = place.load();
    assert_eq!(config.problems.len(), 1, "{:?}", config.problems);
    place.tidy(&config.problems[0].to_string())
}

#[test]
fn nesting_is_bounded_in_every_format() {
    for depth in [65, 300, 5_000, 200_000] {
        let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (file, text) in [
            ("project/.mcp.json", json.clone()),
            ("project/.mcp.json", "{\"a\":".repeat(depth)),
            ("project/.outrigger/outrigger.yaml", json.clone()),
            ("project/.outrigger/outrigger.yaml", "{a: ".repeat(depth)),
            ("project/.outrigger/outrigger.yaml", "- ".repeat(depth)),
            ("project/.outrigger/outrigger.toml", format!("a = {json}")),
            (
                "project/.outrigger/outrigger.toml",
                format!("[{}a]", "a.".repeat(depth)),
            ),
            (
                "project/.outrigger/outrigger.toml",
                "a = {".to_owned() + &"a={".repeat(depth),
            ),
        ] {
            let place = Place::with(file, &text);
            assert_eq!(place.load().fatal().count(), 1, "{file} {depth}");
        }
    }
    insta::assert_snapshot!(only_message(&Place::with("project/.mcp.json", &format!("{}{}", "[".repeat(100), "]".repeat(100)))), @"project/.mcp.json:1:65: broken JSON at line 1, column 65: tables and lists are nested more than 64 deep here");
}

#[test]
fn aliases_cannot_blow_up() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    insta::assert_snapshot!(only_message(&Place::with("user/outrigger.yaml", &text)), @"user/outrigger.yaml:6:10: broken YAML at line 6, column 10: the file holds more than 200000 values");
    let long = format!(
        "a: &a {}\nb: [{}]",
        "x".repeat(1_000_000),
        vec!["*a"; 100_000].join(",")
    );
    insta::assert_snapshot!(only_message(&Place::with("user/outrigger.yaml", &long)), @"user/outrigger.yaml:2:20: broken YAML at line 2, column 20: the file holds more than 200000 values");
    insta::assert_snapshot!(only_message(&Place::with("user/outrigger.yaml", "a: &a [*a]")), @"user/outrigger.yaml:1:8: broken YAML at line 1, column 8: this alias stands inside of what it names");
}

#[test]
fn a_file_has_a_size_limit() {
    let place = Place::with("project/.mcp.json", &" ".repeat((4 << 20) + 1));
    insta::assert_snapshot!(only_message(&place), @"project/.mcp.json: the file has more than 4 MiB");
    let most = format!("{{{}}}", " ".repeat((4 << 20) - 2));
    assert_eq!(Place::with("project/.mcp.json", &most).load().problems, []);
}

#[test]
fn one_very_long_line_is_read_in_good_time() {
    let servers: Vec<_> = (0..20_000)
        .map(|n| format!("\"ä{n}\": {{\"command\": \"x\"}}"))
        .collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", servers.join(", "));
    let place = Place::with("project/.mcp.json", &text);
    assert_eq!(place.load().servers.len(), 20_000);
}

#[test]
fn a_folder_or_other_bytes_are_no_file() {
    let place = Place::new();
    std::fs::create_dir(place.path("project/.mcp.json")).unwrap();
    insta::assert_snapshot!(only_message(&place), @"project/.mcp.json: the file cannot be read: it is not a regular file");
    let place = Place::new();
    place.write("project/.mcp.json", b"{\n  \"a\": \"\xFF\"}");
    insta::assert_snapshot!(only_message(&place), @"project/.mcp.json:2:9: the byte 0xFF here is not UTF-8; save the file as UTF-8");
    let place = Place::new();
    place.write("project/.mcp.json", b"\xFF\xFE{");
    insta::assert_snapshot!(only_message(&place), @"project/.mcp.json:1:1: the file begins as UTF-16 and is not valid UTF-16; save the file as UTF-8");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_a_checkout_is_not_waited_for() {
    use std::os::unix::net::UnixListener;
    let place = Place::new();
    let _socket = UnixListener::bind(place.path("project/.mcp.json")).unwrap();
    insta::assert_snapshot!(only_message(&place), @"project/.mcp.json: the file cannot be read: it is not a regular file");
}
