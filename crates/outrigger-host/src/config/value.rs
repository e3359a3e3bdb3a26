//! Reads single values: text, lists, durations, sizes, counts. Each reader says what it expected
//! when it finds something else, and returns `None`.

use std::time::Duration;

use super::node::{Entry, Node, Value};
use super::report::{Report, join};

/// No deadline is longer than this; it keeps sums of deadlines representable.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) fn text(report: &mut Report<'_>, key: &str, node: &Node) -> Option<String> {
    if let Value::Text(text) = &node.value {
        return Some(text.clone());
    }
    report.mismatch(key, node, "text");
    None
}

/// Text, or a number or truth value that means its own spelling: people write `PORT: 8080`.
pub(crate) fn spelled(report: &mut Report<'_>, key: &str, node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) | Value::Number(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        _ => {
            report.mismatch(key, node, "text");
            None
        }
    }
}

pub(crate) fn truth(report: &mut Report<'_>, key: &str, node: &Node) -> Option<bool> {
    if let Value::Bool(value) = node.value {
        return Some(value);
    }
    report.mismatch(key, node, "`true` or `false`");
    None
}

pub(crate) fn table<'n>(report: &mut Report<'_>, key: &str, node: &'n Node) -> Option<&'n [Entry]> {
    let entries = node.table();
    if entries.is_none() {
        report.mismatch(key, node, "a table");
    }
    entries
}

/// A list of text, with the items' own places; an item of another kind is an error of its own.
pub(crate) fn list<'n>(
    report: &mut Report<'_>,
    key: &str,
    node: &'n Node,
) -> Option<Vec<(&'n Node, String)>> {
    let Value::List(items) = &node.value else {
        report.mismatch(key, node, "a list of text");
        return None;
    };
    let mut texts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        texts.push(text(report, &format!("{key}[{index}]"), item).map(|text| (item, text)));
    }
    texts.into_iter().collect()
}

/// One of several words.
pub(crate) fn word<T: Copy>(
    report: &mut Report<'_>,
    key: &str,
    node: &Node,
    words: &[(&str, T)],
) -> Option<T> {
    let written = text(report, key, node)?;
    let found = words
        .iter()
        .find(|(word, _)| *word == written)
        .map(|&(_, value)| value);
    if found.is_none() {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        report
            .error(
                node.at,
                key,
                format!("`{key}` cannot be `{}`", written.escape_debug()),
            )
            .hint(format!("it can be {}", known.join(", ")));
    }
    found
}

/// A whole number above zero.
pub(crate) fn count<T: TryFrom<u64>>(report: &mut Report<'_>, key: &str, node: &Node) -> Option<T> {
    let number = match &node.value {
        Value::Number(digits) => digits.parse::<u64>().ok().filter(|&number| number > 0),
        _ => None,
    };
    let number = number.and_then(|number| T::try_from(number).ok());
    if number.is_none() {
        report.mismatch(key, node, "a whole number above zero");
    }
    number
}

/// Bytes: a whole number, or text such as `"64 MiB"`.
pub(crate) fn size(report: &mut Report<'_>, key: &str, node: &Node) -> Option<usize> {
    let bytes = match &node.value {
        Value::Text(written) => parse_size(written),
        Value::Number(digits) => digits.parse().ok(),
        _ => None,
    };
    let bytes = bytes.filter(|&bytes| bytes > 0);
    if bytes.is_none() {
        misread(
            report,
            key,
            node,
            "a size such as `\"64 MiB\"` or a number of bytes",
        );
    }
    bytes
}

/// Bytes as configuration writes them: `64 MiB`, `1GB` (which is 1 GiB), `500`.
pub fn parse_size(written: &str) -> Option<usize> {
    let split = written
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(written.len());
    let (digits, unit) = written.split_at(split);
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

/// Time: `"30s"`, `"1m30s"`, `"500ms"`, or a number of seconds. Above zero, at most a year.
pub(crate) fn duration(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Duration> {
    let duration = match &node.value {
        Value::Text(written) => parse_duration(written),
        Value::Number(digits) => seconds(digits),
        _ => None,
    };
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= MAX_DURATION);
    if duration.is_none() {
        misread(
            report,
            key,
            node,
            "a time such as `\"30s\"`, `\"2m\"` or a number of seconds",
        );
    }
    duration
}

/// A mismatch that repeats text: sizes and times are never secret.
fn misread(report: &mut Report<'_>, key: &str, node: &Node, expected: &str) {
    match &node.value {
        Value::Text(written) => {
            let written: String = written.chars().take(40).collect();
            report.error(
                node.at,
                key,
                format!(
                    "`{key}` must be {expected}, found `{}`",
                    written.escape_debug()
                ),
            );
        }
        _ => report.mismatch(key, node, expected),
    }
}

fn seconds(digits: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(digits.parse().ok()?).ok()
}

/// Time as configuration writes it: `30s`, `1m30s`, `30d`, or seconds.
pub fn parse_duration(written: &str) -> Option<Duration> {
    let written = written.trim();
    if written.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return seconds(written);
    }
    let mut total = Duration::ZERO;
    let mut rest = written;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (digits, after) = rest.split_at(unit_at);
        let after = after.trim_start();
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let factor = match unit {
            "ms" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86400.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * factor).ok()?;
        total = total.checked_add(part)?;
        rest = next.trim_start();
    }
    Some(total)
}

/// Every entry of a table of text, with the entry; a value of another kind is an error of its own.
pub(crate) fn text_table<'n>(
    report: &mut Report<'_>,
    key: &str,
    node: &'n Node,
) -> Option<Vec<(&'n Entry, String)>> {
    let entries = table(report, key, node)?;
    let read =
        |entry: &'n Entry| Some((entry, spelled(report, &join(key, &entry.key), &entry.node)?));
    let texts: Vec<Option<_>> = entries.iter().map(read).collect();
    texts.into_iter().collect()
}
