//! What a conversation is taken to be, by what was recorded of it.

use jiff::Timestamp;
use outrigger_journal::VERSION;
use outrigger_model::AssistantTurn;
use serde_json::json;

use super::*;

fn id(digit: u32) -> RunId {
    format!("20261130-10330{digit}-1a2b").parse().unwrap()
}

fn record(digit: u32, events: Vec<Event>, calls: Vec<CallLine>) -> RunRecord {
    let recorded = |(seq, event)| Recorded {
        v: VERSION,
        seq,
        at: Timestamp::UNIX_EPOCH,
        run: id(digit),
        event,
    };
    RunRecord {
        id: id(digit),
        events: (1..).zip(events).map(recorded).collect(),
        calls,
    }
}

fn started(question: &str) -> Event {
    begun("ask", question)
}

fn begun(command: &str, question: &str) -> Event {
    Event::RunStarted {
        command: command.to_owned(),
        question: Some(question.to_owned()),
        model: None,
        workspace: String::new(),
        version: String::new(),
        principal: None,
    }
}

fn said(turn: u32, message: &Message) -> Event {
    Event::MessageAdded {
        turn,
        message: serde_json::value::to_raw_value(message).unwrap(),
        origins: Vec::new(),
        makes_known: Vec::new(),
    }
}

fn turn(turn: u32) -> Event {
    Event::TurnStarted {
        deferred: 0,
        turn,
        revision: 0,
        tools: 0,
        tokens: 0,
    }
}

fn asks(names: &[&str]) -> Message {
    let calls = names.iter().map(|name| ToolCall {
        id: (*name).to_owned(),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
    });
    Message::Assistant(AssistantTurn {
        calls: calls.collect(),
        ..AssistantTurn::default()
    })
}

fn proposed(call: u32, turn: u32) -> Event {
    Event::CallProposed {
        call,
        turn: Some(turn),
        tool: "t".to_owned(),
        arguments: "{}".to_owned(),
        client: None,
    }
}

fn ended(call: u32, outcome: OutcomeKind) -> Event {
    Event::CallEnded {
        artifacts: Vec::new(),
        call,
        outcome,
        is_error: false,
        summary: "then".to_owned(),
        result: None,
        kept: None,
        tokens: 0,
        took_ms: 0,
    }
}

fn line(call: u32, outcome: OutcomeKind, settled: Option<bool>) -> CallLine {
    CallLine {
        run: id(1),
        call,
        tool: format!("t{call}"),
        server: Some("s".to_owned()),
        arguments: "{}".to_owned(),
        sent: true,
        outcome: Some(outcome),
        summary: "now".to_owned(),
        took_ms: 0,
        at: Timestamp::UNIX_EPOCH,
        settled: settled.map(|happened| Finding {
            at: Timestamp::UNIX_EPOCH,
            happened,
            note: None,
        }),
    }
}

fn read(chain: &[RunRecord]) -> Earlier {
    Earlier::read(chain).unwrap().unwrap()
}

fn texts(earlier: &Earlier) -> Vec<String> {
    let said = earlier.said.iter();
    said.map(|said| serde_json::to_string(&said.message).unwrap())
        .collect()
}

#[test]
fn a_run_that_was_killed_before_anything_was_said_still_has_its_question() {
    let earlier = read(&[record(1, vec![started("When?")], Vec::new())]);
    assert_eq!(earlier.question(), Some("When?"));
    assert!(!earlier.is_finished());
}

#[test]
fn a_run_that_was_killed_before_it_said_what_it_goes_on_with_has_nothing() {
    let chain = [record(1, vec![begun(RESUME, "Go on")], Vec::new())];
    let error = Earlier::read(&chain).unwrap_err();
    assert!(matches!(error, NoConversation::Nothing(_)), "{error}");
}

#[test]
fn a_run_that_did_not_come_to_a_turn_is_passed_over_and_what_was_said_to_it_is_not_lost() {
    let (user, answer) = (
        Message::user("When?"),
        Message::Assistant(AssistantTurn {
            text: "Now.".to_owned(),
            ..AssistantTurn::default()
        }),
    );
    let first = record(
        1,
        vec![started("When?"), said(0, &user), turn(1), said(1, &answer)],
        Vec::new(),
    );
    let resumed = |digit, question: &str| {
        let from = id(digit - 1);
        // Killed while the conversation was being taken over.
        let events = vec![
            started(question),
            Event::RunResumed { from },
            said(0, &user),
        ];
        record(digit, events, Vec::new())
    };
    let chain = [first, resumed(2, "And then?"), resumed(3, "When?")];
    assert!(read(&chain[..1]).is_finished());
    let earlier = read(&chain);
    assert_eq!(texts(&earlier).len(), 2, "{earlier:?}");
    assert_eq!(earlier.unheard, ["And then?"], "the other is its own name");
    assert!(!earlier.is_finished());
}

#[test]
fn calls_that_were_not_told_are_matched_in_order_and_the_rest_was_not_made() {
    let events = vec![
        started("?"),
        said(0, &Message::user("?")),
        turn(1),
        said(1, &asks(&["a"])),
        proposed(1, 1),
        ended(1, OutcomeKind::Completed),
        said(
            1,
            &Message::ToolResults {
                results: Vec::new(),
            },
        ),
        turn(2),
        said(2, &asks(&["b", "c", "d"])),
        proposed(2, 2),
        proposed(3, 2),
        ended(2, OutcomeKind::Completed),
        ended(3, OutcomeKind::Unknown),
    ];
    let calls = vec![
        line(1, OutcomeKind::Completed, None),
        line(2, OutcomeKind::Completed, None),
        line(3, OutcomeKind::Unknown, None),
    ];
    let earlier = read(&[record(1, events, calls)]);
    let told: Vec<_> = earlier
        .untold
        .iter()
        .map(|(asked, kept)| (asked.name.as_str(), kept.as_ref().map(|kept| &*kept.tool)))
        .collect();
    assert_eq!(told, [("b", Some("t2")), ("c", Some("t3")), ("d", None)]);
    assert!(earlier.known_now.is_empty());
}

#[test]
fn what_became_known_is_told_once() {
    let events = |makes_known: Vec<CallRef>| {
        let note = Event::MessageAdded {
            turn: 0,
            message: serde_json::value::to_raw_value(&Message::user("a note")).unwrap(),
            origins: Vec::new(),
            makes_known,
        };
        let mut events = vec![started("?"), turn(1), said(0, &Message::user("?")), note];
        for call in 1..=4 {
            events.extend([proposed(call, 1), ended(call, OutcomeKind::Unknown)]);
        }
        events
    };
    let calls = || {
        vec![
            line(1, OutcomeKind::Completed, None),
            line(2, OutcomeKind::Unknown, Some(false)),
            line(3, OutcomeKind::Unknown, None),
            line(4, OutcomeKind::Completed, Some(true)),
        ]
    };
    let known = |makes_known| {
        let earlier = read(&[record(1, events(makes_known), calls())]);
        let known = earlier.known_now.iter();
        known
            .map(|known| {
                (
                    known.of.call,
                    known.found.as_ref().map(|found| found.happened),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        known(Vec::new()),
        [(1, None), (2, Some(false)), (4, None)],
        "an answer says more than a finding"
    );
    let told = |call| CallRef { run: id(1), call };
    assert_eq!(known(vec![told(1), told(4)]), [(2, Some(false))]);
}

#[test]
fn what_only_one_model_can_read_is_for_that_model() {
    let turn = |payload: &str| {
        Message::Assistant(AssistantTurn {
            text: "x".to_owned(),
            carry: Some(json!({ "model": "a:b", "payload": payload })),
            ..AssistantTurn::default()
        })
    };
    assert_eq!(taken(turn("sig"), "a:b"), turn("sig"));
    for dropped in [
        taken(turn("sig"), "a:c"),
        taken(turn(&format!("s{REDACTED}g")), "a:b"),
    ] {
        let Message::Assistant(turn) = dropped else {
            panic!("{dropped:?}")
        };
        assert_eq!((turn.carry, turn.text.as_str()), (None, "x"));
    }
}
