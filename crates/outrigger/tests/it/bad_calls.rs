//! Calls and runs that were asked for wrongly.

use crate::place::{Place, Ran};
use crate::scripted::lab;

fn said(place: &Place, ran: &Ran) -> String {
    let errors = ran
        .err
        .lines()
        .skip_while(|line| !line.starts_with("error:"))
        .collect::<Vec<_>>()
        .join("\n");
    place.tidy(&format!("exit {}\n{errors}", ran.code))
}

#[test]
fn tools_and_servers_that_are_not_there() {
    let (place, log) = lab();
    let call = |words: &[&str]| {
        said(
            &place,
            &place.run(&[&["call"], words, &["--allow", "*"]].concat()),
        )
    };
    insta::assert_snapshot!(call(&["lob", "repeat"]), @"
    exit 2
    error: there is no server `lob`
    hint: configured are `lab`, `time`, `workspace`
    ");
    insta::assert_snapshot!(call(&["lab", "repaet"]), @"
    exit 2
    error: the server `lab` has no tool `repaet`
    hint: did you mean `repeat`?
    ");
    insta::assert_snapshot!(call(&["lab", "xyzzy"]), @"
    exit 2
    error: the server `lab` has no tool `xyzzy`
    hint: `outrigger tools lab` lists what it has
    ");
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn arguments_that_do_not_fit() {
    let (place, log) = lab();
    let call = |words: &[&str]| {
        said(
            &place,
            &place.run(&[&["call", "lab", "repeat"], words, &["--allow", "*"]].concat()),
        )
    };
    insta::assert_snapshot!(call(&[]), @r#"
    exit 2
    error: Not called: the arguments do not fit the tool's schema:
      - "text" is a required property
    "#);
    insta::assert_snapshot!(call(&["text"]), @r#"
    exit 2
    error: `text` is not `key=value`
    hint: or give all arguments as JSON: `--args '{"key": "value"}'`
    "#);
    insta::assert_snapshot!(call(&["text=a", "text=b"]), @"
    exit 2
    error: `text` is given twice
    ");
    insta::assert_snapshot!(call(&["--args", "{\"text\": 7}"]), @r#"
    exit 2
    error: Not called: the arguments do not fit the tool's schema:
      - `/text`: 7 is not of type "string"
    "#);
    insta::assert_snapshot!(call(&["--args", "{\"text\": \"a\", \"text\": \"b\"}"]), @"
    exit 2
    error: Not called: the arguments must be one JSON object; they are not JSON: the key `text` is there twice at line 1 column 26.
    ");
    insta::assert_snapshot!(call(&["--args", "[1]"]), @"
    exit 2
    error: Not called: the arguments must be one JSON object; they are `[1]`.
    ");
    insta::assert_snapshot!(call(&["--args", "{text: 1}"]), @"
    exit 2
    error: Not called: the arguments must be one JSON object; they are not JSON: key must be a string at line 1 column 2.
    ");
    insta::assert_snapshot!(call(&["text=a", "--timeout", "-1"]), @"
    exit 2
    error: unexpected argument '-1' found

      tip: to pass '-1' as a value, use '-- -1'

    Usage: outrigger call [OPTIONS] <SERVER> <TOOL> [KEY=VALUE]...

    For more information, try '--help'.
    ");
    assert_eq!(log.of("tools/call").len(), 0);
}

#[test]
fn what_fits_is_sent_as_it_was_written() {
    let (place, log) = lab();
    let big = r#"{"n":123456789012345678901234567890,"f":1.0e+2,"t":"a\u0062"}"#;
    assert_eq!(
        place
            .run(&["call", "lab", "keep", "--args", big, "--allow", "*"])
            .code,
        0
    );
    assert!(
        log.text().contains(&format!("\"arguments\":{big}")),
        "{}",
        log.text()
    );
    assert_eq!(
        place
            .run(&[
                "call",
                "lab",
                "keep",
                "n=12",
                "on=true",
                "list=[1,2]",
                "name=x=y",
                "--allow",
                "*"
            ])
            .code,
        0
    );
    assert!(
        log.text()
            .contains(r#""arguments":{"n":12,"on":true,"list":[1,2],"name":"x=y"}"#),
        "{}",
        log.text()
    );
}

#[test]
fn results_that_are_no_success() {
    let (place, _log) = lab();
    let failed = place.run(&["call", "lab", "fail", "--allow", "*"]);
    assert_eq!(failed.code, 1, "{failed:#?}");
    assert!(failed.out.contains("the disk is on fire"), "{failed:#?}");
    let broken = place.run(&["call", "lab", "break_contract", "--allow", "*", "--json"]);
    insta::assert_snapshot!(said(&place, &broken), @r#"
    exit 1
    error: contract broken by `break_contract` of `lab`: the structured content breaks the tool's output schema: `/n`: "seven" is not of type "integer"
    hint: it may have taken effect; the journal has the answer as it came
    "#);
    assert!(
        !broken.out.contains("the text beside it") && !broken.out.contains("seven\\\"}"),
        "{}",
        broken.out
    );
}

#[test]
fn runs_that_are_not_there() {
    let place = Place::new();
    insta::assert_snapshot!(said(&place, &place.run(&["runs", "show", "20200101-000000-abcd"])), @"
    exit 2
    error: there is no run `20200101-000000-abcd`
    hint: `outrigger runs` lists them
    ");
    let none = place.run(&["runs"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    insta::assert_snapshot!(none.err, @r#"no runs yet; `outrigger ask "…"` makes one"#);
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    assert_eq!(place.run(&["call", "time", "current_time"]).code, 0);
    let several = place.run(&["runs", "show", "20"]);
    assert_eq!(several.code, 2, "{several:#?}");
    let names = said(&place, &several);
    assert!(
        names.contains("error: `20` fits several runs") && !names.contains("hint: every call"),
        "{names}"
    );
}
