//! The classic experiment: two servers, a handbook, one question, and a model that guesses wrong once.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use outrigger_testkit::provider_server::{RecordedRequest, Turn};
use serde_json::{Value, json};

use crate::model::Model;
use crate::place::Place;
use crate::servers::Servers;

const HANDBOOK: &str =
    "# Handbook\n\nWe release on Thursdays at 20:00 UTC. Nobody releases on a Friday.\n";
const QUESTION: &str = "When is the next release?";

/// The next Thursday 20:00 UTC, by the calendar.
fn next_release(now: DateTime) -> Date {
    let mut day = now.date();
    while day.weekday() != Weekday::Thursday || (day == now.date() && now.hour() >= 20) {
        day = day.tomorrow().unwrap();
    }
    day
}

/// What the model knows is what it was sent: the words of tools.
struct Mind {
    docs: String,
}

impl Mind {
    fn turn(&self, number: usize, request: &RecordedRequest) -> Turn {
        let results = request.results();
        let turn = match number {
            // Two independent calls at once. The second one has a name that does not exist.
            0 => Turn::calls([
                ("mcp__time__get_current_time", json!({ "timezone": "UTC" })),
                (
                    "mcp__files__read_txt_file",
                    json!({ "path": format!("{}/handbok.md", self.docs) }),
                ),
            ]),
            // The error names the right tool; the path is still a guess.
            1 => Turn::calls([(
                suggested(&results[1]),
                json!({ "path": format!("{}/handbok.md", self.docs) }),
            )]),
            2 => Turn::calls([("mcp__files__list_directory", json!({ "path": self.docs }))]),
            3 => {
                let name = results[0]
                    .split_whitespace()
                    .find(|word| word.starts_with("hand"))
                    .unwrap();
                Turn::calls([(
                    "mcp__files__read_text_file",
                    json!({ "path": format!("{}/{name}", self.docs) }),
                )])
            }
            _ => Turn::text(conclude(&words_of_all(request))),
        };
        turn.usage(1000 + 100 * number as u64, 900 * number.min(1) as u64, 20)
    }
}

/// The first name in backquotes after `Did you mean`.
fn suggested(words: &str) -> &'static str {
    let name = words
        .split("Did you mean `")
        .nth(1)
        .and_then(|rest| rest.split('`').next());
    assert_eq!(name, Some("mcp__files__read_text_file"), "{words}");
    "mcp__files__read_text_file"
}

fn words_of_all(request: &RecordedRequest) -> String {
    let messages = request.body["messages"].as_array().unwrap().iter();
    let results = messages
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].to_string());
    results
        .collect::<Vec<_>>()
        .join("\n")
        .replace("\\\"", "\"")
        .replace("\\n", "\n")
}

/// From the words of both tools to the answer, as a model would.
fn conclude(words: &str) -> String {
    let now = words
        .split("\"datetime\":")
        .nth(1)
        .unwrap()
        .split('"')
        .nth(1)
        .unwrap();
    let today = words
        .split("\"day_of_week\":")
        .nth(1)
        .unwrap()
        .split('"')
        .nth(1)
        .unwrap();
    let rule = words.split("We release on ").nth(1).unwrap();
    let (day, rest) = rule.split_once("s at ").unwrap();
    let hour = &rest[..5];
    let days = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let at = |name: &str| days.iter().position(|day| *day == name).unwrap();
    let late = &now[11..16] >= hour;
    let mut ahead = (at(day) + 7 - at(today)) % 7;
    if ahead == 0 && late {
        ahead = 7;
    }
    let date: Date = now[..10].parse().unwrap();
    let date = date
        .checked_add(i32::try_from(ahead).unwrap().days())
        .unwrap();
    format!("The next release is on {day}, {date}, at {hour} UTC.")
}

struct Experiment {
    place: Place,
    model: Model,
}

fn experiment() -> Experiment {
    let servers = Servers::installed();
    let place = Place::new();
    place.write("project/docs/handbook.md", HANDBOOK);
    let docs = place.project().join("docs");
    place.servers(&json!({ "time": servers.time(), "files": servers.files(&docs) }));
    let mind = Mind {
        docs: docs.display().to_string(),
    };
    let model = Model::answering(move |number, request| mind.turn(number, request));
    model.serves(&place);
    Experiment { place, model }
}

#[test]
fn the_right_date_comes_out() {
    let Experiment { place, model } = experiment();
    let utc = || TimeZone::UTC.to_datetime(Timestamp::now());
    let before = next_release(utc());
    let words = [
        "ask",
        QUESTION,
        "--json",
        "--allow",
        "mcp__files__*",
        "--allow",
        "mcp__time__get_current_time",
    ];
    let document = place.json(&words);
    let after = next_release(utc());
    place.assert_nothing_runs();

    let right = [before, after]
        .map(|date| format!("The next release is on Thursday, {date}, at 20:00 UTC."));
    assert!(
        right.iter().any(|answer| document["answer"] == **answer),
        "{document:#}"
    );
    assert_eq!(
        (&document["status"], &document["turns"]),
        (&json!("done"), &json!(5))
    );
    assert_eq!(document["model"], "scripted:one");
    assert_eq!(
        document["usage"],
        json!({ "input": 6000, "cached": 3600, "output": 100 })
    );
    let calls: Vec<_> = document["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect();
    assert_eq!(
        calls,
        [
            "mcp__time__get_current_time time completed",
            "mcp__files__read_txt_file null rejected",
            "mcp__files__read_text_file files completed",
            "mcp__files__list_directory files completed",
            "mcp__files__read_text_file files completed",
        ]
    );
    let wrong = document["calls"][2]["summary"].as_str().unwrap();
    assert!(
        wrong.starts_with("error: ") && wrong.contains("handbok.md"),
        "{wrong}"
    );
    assert_eq!(model.requests().len(), 5);
    what_the_model_saw(&model);
}

fn line(call: &Value) -> String {
    let server = call["server"].as_str().unwrap_or("null");
    format!(
        "{} {server} {}",
        call["tool"].as_str().unwrap(),
        call["outcome"].as_str().unwrap()
    )
}

fn what_the_model_saw(model: &Model) {
    let requests = model.requests();
    let tools = requests[0].tools();
    assert_eq!(
        tools.iter().collect::<BTreeSet<_>>().len(),
        tools.len(),
        "{tools:?}"
    );
    let of = |server: &str| {
        tools
            .iter()
            .filter(|name| name.starts_with(&format!("mcp__{server}__")))
            .count()
    };
    assert_eq!(
        of("time"),
        2,
        "the configured server stands in place of the built-in one: {tools:?}"
    );
    assert_eq!(of("workspace"), 3, "{tools:?}");
    assert!(tools.contains(&"mcp__files__read_text_file".to_owned()));
    assert!(
        requests
            .windows(2)
            .all(|pair| pair[0].body["tools"] == pair[1].body["tools"]),
        "the tools stay as they were"
    );
    assert_eq!(
        requests[1].results().len(),
        2,
        "results of parallel calls go back together"
    );
}

#[test]
fn the_lines_beside_the_answer() {
    let Experiment { place, model } = experiment();
    let ran = place.run(&["ask", QUESTION, "--stats", "--allow", "mcp__*"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.out.starts_with("The next release is on Thursday, "),
        "{}",
        ran.out
    );
    assert_eq!(
        ran.out.lines().count(),
        1,
        "stdout is the answer and nothing else: {}",
        ran.out
    );
    for wanted in [
        "time           2 tools ~",
        "#1 → mcp__time__get_current_time {\"timezone\":\"UTC\"}",
        "Did you mean `mcp__files__read_text_file`",
        "turn 1: 1000 tokens in (0 cached), 20 out, ",
        "turn 5: 1400 tokens in (900 cached), 20 out, ",
        "[server \"files\": 14 tools, ~",
        " all     6000     3600      100",
    ] {
        assert!(ran.err.contains(wanted), "no {wanted:?} in\n{}", ran.err);
    }
    assert_eq!(model.requests().len(), 5);
}

#[test]
fn without_leave_nothing_is_called_and_the_run_says_so() {
    let Experiment { place, .. } = experiment();
    let model = Model::turns([
        Turn::calls([("mcp__time__get_current_time", json!({ "timezone": "UTC" }))]),
        Turn::text("I could not look at the clock."),
    ]);
    place.user(&format!(
        "[model.providers.shy]\nkind = 'openai-chat'\nbase_url = '{}'",
        model.base_url()
    ));
    let ran = place.run(&["ask", QUESTION, "--model", "shy:one"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert_eq!(ran.out, "I could not look at the clock.\n");
    assert!(
        ran.err
            .contains("hint: allow it with --allow 'mcp__time__get_current_time'"),
        "{}",
        ran.err
    );
    assert!(
        model.last_results()[0].contains("nobody is there"),
        "{:?}",
        model.last_results()
    );
}
