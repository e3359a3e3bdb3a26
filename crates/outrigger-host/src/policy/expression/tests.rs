//! What conditions see, how numbers compare, and that failing and being too dear are errors.

use super::*;
use crate::catalog::{Annotations, Standing};
use crate::policy::{Origins, Principal};

fn subject() -> Subject<'static> {
    Subject {
        name: "mcp__pay__refund",
        server: "pay",
        raw: "refund",
        annotations: Annotations {
            read_only: Some(false),
            ..Annotations::default()
        },
        standing: Standing::default(),
        offered: None,
    }
}

fn judged(condition: &str, arguments: &str) -> Result<bool, String> {
    let condition =
        Condition::new(condition).unwrap_or_else(|error| panic!("{condition}: {error:?}"));
    let origins: Origins = ["crm", "web"].into_iter().collect();
    let call = Call {
        subject: subject(),
        arguments,
        principal: Principal::Model,
        origins: &origins,
        args_from: &["crm"].into_iter().collect(),
    };
    condition.holds(&Facts::new(&call.subject, (Mode::Default, ""), Some(&call)))
}

fn refused(condition: &str) -> String {
    let error = Condition::new(condition).expect_err(condition);
    match error.hint {
        Some(hint) => format!("{}; {hint}", error.what),
        None => error.what,
    }
}

#[test]
fn conditions_see_the_call() {
    for condition in [
        "args.amount <= 50 && mode != 'plan'",
        "tool == 'mcp__pay__refund' && server == 'pay'",
        "principal == 'model'",
        "annotations.readOnlyHint == false && !has(annotations.destructiveHint)",
        "'crm' in origins && !('mail' in origins)",
        "origins.all(o, o in ['crm', 'web', 'disk'])",
        "args.to.matches('^[a-z]+@example[.]com$')",
        "args.items.exists(item, item.id == 7)",
        "size(args.items) == 1 && args['amount'] > 49",
        "!has(args.missing) || args.missing == 1",
        "type(args.amount) == double",
    ] {
        let arguments = r#"{"amount": 49.5, "to": "ada@example.com", "items": [{"id": 7}]}"#;
        assert_eq!(judged(condition, arguments), Ok(true), "{condition}");
    }
}

#[test]
fn numbers_compare_by_value() {
    for (condition, number, expected) in [
        ("args.n <= 50", "50", true),
        ("args.n <= 50", "50.0", true),
        ("args.n <= 50", "50.000001", false),
        ("args.n <= 50", "5e1", true),
        ("args.n <= 50.5", "51", false),
        ("args.n <= 50", "-1e300", true),
        ("args.n <= 50", "1e300", false),
        ("args.n <= 50", "9223372036854775808", false),
        ("args.n <= 50", "18446744073709551615", false),
        ("args.n <= 50", "123456789012345678901234567890", false),
        ("args.n <= 50", "-123456789012345678901234567890", true),
        // Neighbours that are the same as a double.
        ("args.n == 9007199254740993", "9007199254740993", true),
        ("args.n == 9007199254740993", "9007199254740992", false),
        ("args.n < 9007199254740993", "9007199254740992.0", true),
        ("args.n < 9007199254740993", "9007199254740993", false),
        ("args.n <= 9007199254740992", "9007199254740993", false),
        ("args.n == 9007199254740993", "9007199254740992.0", false),
        (
            "args.n <= 9223372036854775807",
            "9223372036854775808.0",
            false,
        ),
        (
            "args.n == 18446744073709551615u",
            "18446744073709551615",
            true,
        ),
        ("args.n in [1, 2, 3]", "2", true),
        ("args.n in [1, 2, 3]", "2.0", true),
        ("args.n == 7", "7.0", true),
    ] {
        let arguments = format!("{{\"n\": {number}}}");
        let judged = judged(condition, &arguments);
        assert_eq!(judged, Ok(expected), "{condition} with {number}");
    }
}

#[test]
fn what_cannot_be_judged_is_an_error() {
    let told: Vec<String> = [
        ("args.amount <= 50", "{}"),
        ("args.amount <= 50", r#"{"amount": "49"}"#),
        ("args.amount <= 50", r#"{"amount": null}"#),
        ("args.a.b == 1", r#"{"a": 1}"#),
        ("args.amount", r#"{"amount": 1}"#),
        ("annotations.openWorldHint", "{}"),
        ("args.n + 1 > 0", r#"{"n": 1.5}"#),
        ("args.n + 1 > 0", r#"{"n": 9223372036854775807}"#),
        ("args.n / 0 == 1", r#"{"n": 1}"#),
        ("args.s.matches('(')", r#"{"s": "x"}"#),
        ("args.n == 1", "[1"),
    ]
    .into_iter()
    .map(
        |(condition, arguments)| match judged(condition, arguments) {
            Err(error) => format!("{condition}: {error}"),
            Ok(truth) => panic!("{condition} is {truth} of {arguments}"),
        },
    )
    .collect();
    insta::assert_snapshot!(told.join("\n"), @"
    args.amount <= 50: `amount` is missing
    args.amount <= 50: `<=` does not work with `string` and `int`
    args.amount <= 50: `<=` does not work with `null_type` and `int`
    args.a.b == 1: `.` does not work with `int` and `string`
    args.amount: it gives `int`, not true or false
    annotations.openWorldHint: `openWorldHint` is missing
    args.n + 1 > 0: `+` does not work with `double` and `int`
    args.n + 1 > 0: the result of `+` is too large
    args.n / 0 == 1: it divides by zero
    args.s.matches('('): `matches`: '(' not a valid regex:
    args.n == 1: the arguments are not JSON: EOF while parsing a list at line 1 column 2
    ");
}

#[test]
fn conditions_are_checked_when_they_are_read() {
    let too_long = format!("args.a == '{}'", "x".repeat(5000));
    let nested = "args.a.all(a, args.a.all(b, args.a.all(c, args.a.all(d, true))))";
    let chained = "['a'].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x) == []";
    let told: Vec<String> = [
        "args.amount <=",
        "",
        "amount <= 50",
        "arg.amount <= 50",
        "args.name.lowerCase() == 'x'",
        "args.n <= 9007199254740993.0",
        "Thing{a: 1} == 1",
        too_long.as_str(),
        nested,
        chained,
    ]
    .into_iter()
    .map(|condition| {
        format!(
            "{}: {}",
            crate::text::shorten(condition, 30),
            refused(condition)
        )
    })
    .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    args.amount <=: column 15: it ends too early
    : column 1: it ends too early
    amount <= 50: there is no `amount`; there are args, args_from, tool, server, mode, principal, client, annotations, origins
    arg.amount <= 50: there is no `arg`; did you mean `args`?
    args.name.lowerCase() == 'x': there is no function `lowerCase`; there are `size`, `contains`, `startsWith`, `endsWith`, `matches`, `has`, `all`, `exists` and more
    args.n <= 9007199254740993.0: `9007199254740992` is too large to be exact; write it without a point and exponent
    Thing{a: 1} == 1: there is no type `Thing`
    args.a == 'xxxxxxxxxxxxxxxxxxx… (4982 bytes more): it has 5012 bytes; 4096 is the most
    args.a.all(a, args.a.all(b, ar… (34 bytes more): it has 4 loops inside of or after one another; 3 is the most
    ['a'].map(x, x + x).map(x, x +… (37 bytes more): it has 4 loops inside of or after one another; 3 is the most
    ");
}

#[test]
fn what_is_nested_too_deep_is_refused_and_breaks_nothing() {
    let round = |open: &str, core: &str, close: &str, times: usize| {
        format!("{}{core}{}", open.repeat(times), close.repeat(times))
    };
    for condition in [
        round("(", "true", ")", 2_000),
        round("[", "", "]", 2_000),
        round("true ? ", "true", " : true", 250),
        round("{1: ", "1", "}", 700),
        format!("args{} == 1", ".a".repeat(2_000)),
        format!("1{} == 1", " + 1".repeat(1_000)),
        round("size(", "'a'", ")", 500),
        "(".repeat(4_000),
    ] {
        let shown = crate::text::shorten(&condition, 20);
        assert!(Condition::new(&condition).is_err(), "{shown}");
    }
    assert_eq!(
        judged(&round("(", "args.n == 1", ")", 20), "{\"n\": 1}"),
        Ok(true)
    );
    assert_eq!(judged(&round("!", "true", "", 4_000), "{}"), Ok(true));
    let anded = vec!["args.n == 1"; 200].join(" && ");
    assert_eq!(judged(&anded, "{\"n\": 1}"), Ok(true));
}

#[test]
fn the_cost_is_bounded_by_the_arguments() {
    let list = |count: usize| format!("{{\"a\": [{}1]}}", "1,".repeat(count - 1));
    assert_eq!(judged("args.a.all(x, x == 1)", &list(10_000)), Ok(true));
    let twice = "args.a.all(x, args.a.all(y, x == y))";
    assert_eq!(judged(twice, &list(200)), Ok(true));
    let error = judged(twice, &list(10_000)).unwrap_err();
    assert_eq!(
        error,
        "the arguments are too large for what it would have to go through"
    );
    let origins = Origins::default();
    let arguments = list(200);
    let call = Call {
        subject: subject(),
        arguments: &arguments,
        principal: Principal::Model,
        origins: &origins,
        args_from: &origins,
    };
    let (facts, condition) = (
        Facts::new(&call.subject, (Mode::Default, ""), Some(&call)),
        Condition::new(twice).unwrap(),
    );
    assert_eq!(condition.holds(&facts), Ok(true));
    assert!(
        (0..1_000).any(|_| condition.holds(&facts).is_err()),
        "rules share a bound"
    );
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(2 << 20));
    let error = judged("args.a == 'x'", &long).unwrap_err();
    assert_eq!(error, "the arguments have more than 1 MiB");
}

#[test]
fn what_depends_on_the_call_is_known() {
    let reads = |condition: &str| Condition::new(condition).unwrap().reads_call();
    assert!(reads("args.a == 1"));
    assert!(reads("'x' in origins"));
    assert!(reads("principal == 'person'"));
    assert!(!reads(
        "mode == 'plan' && server == 'x' && has(annotations.readOnlyHint)"
    ));
    assert!(
        !reads("['x'].exists(args, args == server)"),
        "a name of a loop hides it"
    );
}
