//! The time tools against a fixed clock: daylight saving, leap days, both sides of midnight.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::FixedClock;

/// 2026-11-30T23:30:15Z: already the first of December east of UTC+00:30.
const NOW: u64 = 1_796_081_415;

fn tools(local: &str) -> TimeTools {
    let clock = FixedClock(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
    TimeTools::new(Arc::new(clock), Some(local)).unwrap()
}

fn ask(local: &str, name: &str, arguments: Value) -> Result<rmcp::model::CallToolResult, String> {
    let tools = tools(local);
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object");
    };
    let call = Call {
        tool: tools.tools().iter().find(|tool| tool.name == name).unwrap(),
        arguments: Some(arguments),
        cancelled: CancellationToken::new(),
    };
    tools
        .call(call)
        .map(Into::into)
        .map_err(|error| error.to_string())
}

fn text(local: &str, name: &str, arguments: Value) -> String {
    match ask(local, name, arguments) {
        Ok(result) => result.content[0].as_text().unwrap().text.clone(),
        Err(error) => format!("error: {error}"),
    }
}

fn structured(local: &str, name: &str, arguments: Value) -> Value {
    ask(local, name, arguments)
        .unwrap()
        .structured_content
        .unwrap()
}

fn convert(time: &str, from: &str, to: &str, date: &str) -> String {
    let arguments = json!({"time": time, "from_timezone": from, "to_timezone": to, "date": date});
    text("UTC", "convert_time", arguments)
}

#[test]
fn the_current_time_depends_on_the_zone() {
    insta::assert_snapshot!(text("UTC", "current_time", json!({})), @"It is Monday 2026-11-30 23:30:15 in UTC (UTC+00:00).");
    insta::assert_snapshot!(text("Europe/Berlin", "current_time", json!({})), @"It is Tuesday 2026-12-01 00:30:15 in Europe/Berlin (UTC+01:00).");
    insta::assert_snapshot!(text("UTC", "current_time", json!({"timezone": "asia/kathmandu"})), @"It is Tuesday 2026-12-01 05:15:15 in Asia/Kathmandu (UTC+05:45).");
    insta::assert_snapshot!(structured("UTC", "current_time", json!({"timezone": "America/New_York"})), @r#"{"time":"2026-11-30T18:30:15-05:00","weekday":"Monday","timezone":"America/New_York","utc_offset":"-05:00"}"#);
}

#[test]
fn days_are_counted_from_today_in_the_local_zone() {
    insta::assert_snapshot!(text("UTC", "days_between", json!({"end": "2027-01-01"})), @"There are 32 days from Monday 2026-11-30 (today) to Friday 2027-01-01.");
    insta::assert_snapshot!(text("Europe/Berlin", "days_between", json!({"end": "2027-01-01"})), @"There are 31 days from Tuesday 2026-12-01 (today) to Friday 2027-01-01.");
    insta::assert_snapshot!(structured("UTC", "days_between", json!({"end": "2027-01-01"})), @r#"{"days":32,"start":"2026-11-30","start_weekday":"Monday","end":"2027-01-01","end_weekday":"Friday"}"#);
}

#[test]
fn days_have_a_sign_and_know_leap_years() {
    let days =
        |start: &str, end: &str| text("UTC", "days_between", json!({"start": start, "end": end}));
    insta::assert_snapshot!(days("2028-02-28", "2028-03-01"), @"There are 2 days from Monday 2028-02-28 to Wednesday 2028-03-01.");
    insta::assert_snapshot!(days("2027-02-28", "2027-03-01"), @"There is 1 day from Sunday 2027-02-28 to Monday 2027-03-01.");
    insta::assert_snapshot!(days("2027-01-01", "today"), @"-32 days: Monday 2026-11-30 (today) is 32 days before Friday 2027-01-01.");
    insta::assert_snapshot!(days("2027-01-02", "2027-01-01"), @"-1 day: Friday 2027-01-01 is 1 day before Saturday 2027-01-02.");
    insta::assert_snapshot!(days("today", "2026-11-30"), @"0 days: start and end are both Monday 2026-11-30 (today).");
    insta::assert_snapshot!(days("0001-01-01", "9999-12-31"), @"There are 3652058 days from Monday 0001-01-01 to Friday 9999-12-31.");
}

#[test]
fn a_summer_is_not_a_winter() {
    insta::assert_snapshot!(convert("14:30", "Europe/Berlin", "America/New_York", "2026-01-15"), @"14:30 on Thursday 2026-01-15 in Europe/Berlin (UTC+01:00) is 08:30 on Thursday 2026-01-15 in America/New_York (UTC-05:00).");
    // Between the second Sunday of March and the last, only one side has gone forward.
    insta::assert_snapshot!(convert("14:30", "Europe/Berlin", "America/New_York", "2026-03-15"), @"14:30 on Sunday 2026-03-15 in Europe/Berlin (UTC+01:00) is 09:30 on Sunday 2026-03-15 in America/New_York (UTC-04:00).");
    insta::assert_snapshot!(convert("23:45", "America/Los_Angeles", "Pacific/Kiritimati", "2026-12-31"), @"23:45 on Thursday 2026-12-31 in America/Los_Angeles (UTC-08:00) is 21:45 on Friday 2027-01-01 in Pacific/Kiritimati (UTC+14:00).");
    insta::assert_snapshot!(convert("12:00", "Asia/Kolkata", "Australia/Lord_Howe", "2026-07-01"), @"12:00 on Wednesday 2026-07-01 in Asia/Kolkata (UTC+05:30) is 17:00 on Wednesday 2026-07-01 in Australia/Lord_Howe (UTC+10:30).");
}

#[test]
fn skipped_and_repeated_times_are_said_to_be_so() {
    insta::assert_snapshot!(convert("02:30", "Europe/Berlin", "UTC", "2026-03-29"), @"03:30 on Sunday 2026-03-29 in Europe/Berlin (UTC+02:00) is 01:30 on Sunday 2026-03-29 in UTC (UTC+00:00). Note: 02:30 does not exist on 2026-03-29 in Europe/Berlin, because the clocks go forward; 03:30 on 2026-03-29 was used.");
    insta::assert_snapshot!(convert("02:30", "Europe/Berlin", "UTC", "2026-10-25"), @"02:30 on Sunday 2026-10-25 in Europe/Berlin (UTC+02:00) is 00:30 on Sunday 2026-10-25 in UTC (UTC+00:00). Note: 02:30 happens twice on 2026-10-25 in Europe/Berlin, because the clocks go back; the first (UTC+02:00) was used, the second is UTC+01:00.");
    insta::assert_snapshot!(convert("03:00", "Europe/Berlin", "UTC", "2026-03-29"), @"03:00 on Sunday 2026-03-29 in Europe/Berlin (UTC+02:00) is 01:00 on Sunday 2026-03-29 in UTC (UTC+00:00).");
    insta::assert_snapshot!(convert("12:00", "Pacific/Apia", "UTC", "2011-12-30"), @"12:00 on Saturday 2011-12-31 in Pacific/Apia (UTC+14:00) is 22:00 on Friday 2011-12-30 in UTC (UTC+00:00). Note: 12:00 does not exist on 2011-12-30 in Pacific/Apia, because the clocks go forward; 12:00 on 2011-12-31 was used.");
}

#[test]
fn without_a_date_it_is_today_where_the_time_is_given() {
    let arguments = json!({"time": "9:00", "from_timezone": "Asia/Tokyo", "to_timezone": "UTC"});
    insta::assert_snapshot!(text("UTC", "convert_time", arguments.clone()), @"09:00 on Tuesday 2026-12-01 in Asia/Tokyo (UTC+09:00) is 00:00 on Tuesday 2026-12-01 in UTC (UTC+00:00).");
    insta::assert_snapshot!(structured("UTC", "convert_time", arguments), @r#"{"from":{"time":"2026-12-01T09:00:00+09:00","weekday":"Tuesday","timezone":"Asia/Tokyo","utc_offset":"+09:00"},"to":{"time":"2026-12-01T00:00:00+00:00","weekday":"Tuesday","timezone":"UTC","utc_offset":"+00:00"}}"#);
}

#[test]
fn mistakes_name_the_key_and_say_what_would_work() {
    insta::assert_snapshot!(text("UTC", "current_time", json!({"timezone": "Berlin"})), @r#"error: `timezone`: unknown time zone "Berlin": did you mean Europe/Berlin?"#);
    insta::assert_snapshot!(text("UTC", "current_time", json!({"timezone": ""})), @"error: `timezone`: the time zone is empty: use an IANA name such as Europe/Berlin, or UTC");
    insta::assert_snapshot!(text("UTC", "current_time", json!({"timezon": "UTC"})), @"error: unknown argument `timezon`: did you mean `timezone`?");
    insta::assert_snapshot!(text("UTC", "days_between", json!({})), @"error: `end` is missing: it must be a string (YYYY-MM-DD)");
    insta::assert_snapshot!(text("UTC", "days_between", json!({"end": 2027})), @"error: `end` must be a string, not the number 2027");
    insta::assert_snapshot!(text("UTC", "days_between", json!({"end": "2027-02-30"})), @"error: `end`: 2027-02-30 does not exist: February 2027 has 28 days");
    insta::assert_snapshot!(convert("25:00", "UTC", "UTC", "2026-01-01"), @"error: `time`: there is no time 25:00: hours go to 23, minutes and seconds to 59");
    insta::assert_snapshot!(convert("23:59", "Etc/GMT+12", "UTC", "9999-12-31"), @"error: 9999-12-31T23:59:00 in Etc/GMT+12 is outside the years that can be converted");
}

#[test]
fn an_unknown_default_zone_is_refused_at_the_start() {
    let clock = Arc::new(FixedClock(SystemTime::UNIX_EPOCH));
    let error = TimeTools::new(clock, Some("Europe/Berlim")).err().unwrap();
    insta::assert_snapshot!(error, @r#"unknown time zone "Europe/Berlim": did you mean Europe/Berlin?"#);
}

#[test]
fn the_declaration_is_small() {
    let declared: usize = tools("UTC")
        .tools()
        .iter()
        .map(|tool| {
            let description = tool.description.as_deref().unwrap();
            let schema = Value::Object((*tool.input_schema).clone()).to_string();
            tool.name.len() + description.len() + schema.len()
        })
        .sum();
    // About four bytes a token in JSON: some 300 tokens.
    assert!(declared < 1200, "{declared} bytes");
}

fn any_date() -> impl Strategy<Value = Date> {
    (1_i16..=9999, 1_i16..=365).prop_map(|(year, day)| {
        let first = jiff::civil::date(year, 1, 1);
        first.with().day_of_year(day).build().unwrap()
    })
}

proptest! {
    #[test]
    fn days_add_up(a in any_date(), b in any_date(), c in any_date()) {
        prop_assert_eq!(days_from(a, b) + days_from(b, c), days_from(a, c));
        prop_assert_eq!(days_from(a, b), -days_from(b, a));
        let weekdays = i32::from(a.weekday().to_monday_zero_offset()) + days_from(a, b);
        prop_assert_eq!(weekdays.rem_euclid(7), i32::from(b.weekday().to_monday_zero_offset()));
    }
}
