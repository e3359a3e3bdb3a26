//! Reads dates and times of day as models write them.
//!
//! Promises: `2027-1-5`, `today`, `9:30`, `9:30:15`, `9 pm` are read; whatever else is refused with
//! the reason, and a date that no calendar has names the length of its month. Leaves out words such
//! as "tomorrow", and dates with the month or the day first, which nobody can tell apart.

use jiff::civil::{Date, Time};
use thiserror::Error;

/// Text that is no date, or no time of day.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum CivilError {
    #[error("the date is empty: write it as YYYY-MM-DD, such as 2027-01-31")]
    EmptyDate,
    #[error("\"{text}\" is not a date: write it as YYYY-MM-DD, such as 2027-01-31")]
    DateForm { text: String },
    #[error("year {year} is not between 1 and 9999")]
    Year { year: i16 },
    #[error("there is no month {month}: months go from 1 to 12, as YYYY-MM-DD")]
    Month { month: i8 },
    #[error("{year:04}-{month:02}-{day:02} does not exist: {month_name} {year} has {days} days")]
    Day {
        year: i16,
        month: i8,
        month_name: &'static str,
        day: i8,
        days: i8,
    },
    #[error("the time is empty: write it as HH:MM in 24 hours, such as 14:30")]
    EmptyTime,
    #[error("\"{text}\" is not a time of day: write it as HH:MM in 24 hours, such as 14:30{}",
        if text.contains('T') { ", and give the date as `date`" } else { "" })]
    TimeForm { text: String },
    #[error("there is no time {text}: hours go to 23, minutes and seconds to 59")]
    TimeRange { text: String },
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A date as `YYYY-MM-DD` (ISO 8601, leading zeros optional in month and day), or `today`.
pub(super) fn date(text: &str, today: Date) -> Result<Date, CivilError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(CivilError::EmptyDate);
    }
    if text.eq_ignore_ascii_case("today") {
        return Ok(today);
    }
    let form = || CivilError::DateForm {
        text: shortened(text),
    };
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return Err(form());
    };
    if year.len() != 4 || month.len() > 2 || day.len() > 2 {
        return Err(form());
    }
    let year = digits::<i16>(year).ok_or_else(form)?;
    let month = digits::<i8>(month).ok_or_else(form)?;
    let day = digits::<i8>(day).ok_or_else(form)?;
    if year == 0 {
        return Err(CivilError::Year { year });
    }
    let first = Date::new(year, month, 1).map_err(|_| CivilError::Month { month })?;
    Date::new(year, month, day).map_err(|_| CivilError::Day {
        year,
        month,
        month_name: usize::try_from(month - 1)
            .ok()
            .and_then(|index| MONTHS.get(index).copied())
            .unwrap_or("that month"),
        day,
        days: first.days_in_month(),
    })
}

/// A time of day as `H:MM` or `H:MM:SS`, with `am` or `pm` behind it if wanted.
pub(super) fn clock_time(text: &str) -> Result<Time, CivilError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(CivilError::EmptyTime);
    }
    let form = || CivilError::TimeForm {
        text: shortened(text),
    };
    let lower = text.to_ascii_lowercase();
    let (digits_part, half) = if let Some(rest) = lower.strip_suffix("am") {
        (rest.trim_end(), Some(0))
    } else if let Some(rest) = lower.strip_suffix("pm") {
        (rest.trim_end(), Some(12))
    } else {
        (lower.as_str(), None)
    };
    let mut numbers = Vec::new();
    for part in digits_part.split(':') {
        if part.len() > 2 {
            return Err(form());
        }
        numbers.push(digits::<i8>(part).ok_or_else(form)?);
    }
    let (hour, minute, second) = match (numbers.as_slice(), half) {
        ([hour], Some(_)) => (*hour, 0, 0),
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        _ => return Err(form()),
    };
    let range = || CivilError::TimeRange {
        text: text.to_owned(),
    };
    let hour = match half {
        None => hour,
        Some(shift) if (1..=12).contains(&hour) => hour % 12 + shift,
        Some(_) => return Err(range()),
    };
    Time::new(hour, minute, second, 0).map_err(|_| range())
}

/// Digits only: `parse` alone would take a sign.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use jiff::civil;
    use proptest::prelude::*;

    use super::*;

    const TODAY: Date = civil::date(2026, 11, 30);

    #[test]
    fn dates_are_read_as_models_write_them() {
        for (text, wanted) in [
            ("2027-01-01", civil::date(2027, 1, 1)),
            (" 2027-1-1 ", civil::date(2027, 1, 1)),
            ("2028-02-29", civil::date(2028, 2, 29)),
            ("2000-02-29", civil::date(2000, 2, 29)),
            ("0001-01-01", civil::date(1, 1, 1)),
            ("9999-12-31", civil::date(9999, 12, 31)),
            ("Today", TODAY),
        ] {
            assert_eq!(date(text, TODAY), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn refused_dates_say_why() {
        let refuse = |text: &str| date(text, TODAY).unwrap_err().to_string();
        insta::assert_snapshot!(refuse(" "), @"the date is empty: write it as YYYY-MM-DD, such as 2027-01-31");
        insta::assert_snapshot!(refuse("next friday"), @r#""next friday" is not a date: write it as YYYY-MM-DD, such as 2027-01-31"#);
        insta::assert_snapshot!(refuse("01/02/2027"), @r#""01/02/2027" is not a date: write it as YYYY-MM-DD, such as 2027-01-31"#);
        insta::assert_snapshot!(refuse("2027-01-01T00:00:00Z"), @r#""2027-01-01T00:00:00Z" is not a date: write it as YYYY-MM-DD, such as 2027-01-31"#);
        insta::assert_snapshot!(refuse("2027-13-01"), @"there is no month 13: months go from 1 to 12, as YYYY-MM-DD");
        insta::assert_snapshot!(refuse("2027-02-29"), @"2027-02-29 does not exist: February 2027 has 28 days");
        insta::assert_snapshot!(refuse("1900-02-29"), @"1900-02-29 does not exist: February 1900 has 28 days");
        insta::assert_snapshot!(refuse("2027-04-00"), @"2027-04-00 does not exist: April 2027 has 30 days");
        insta::assert_snapshot!(refuse("0000-01-01"), @"year 0 is not between 1 and 9999");
        insta::assert_snapshot!(refuse("2027-+1-01"), @r#""2027-+1-01" is not a date: write it as YYYY-MM-DD, such as 2027-01-31"#);
    }

    #[test]
    fn times_are_read_as_models_write_them() {
        for (text, wanted) in [
            ("14:30", civil::time(14, 30, 0, 0)),
            ("9:05:07", civil::time(9, 5, 7, 0)),
            ("12 am", civil::time(0, 0, 0, 0)),
            ("12:15PM", civil::time(12, 15, 0, 0)),
            ("3pm", civil::time(15, 0, 0, 0)),
        ] {
            assert_eq!(clock_time(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn refused_times_say_why() {
        let refuse = |text: &str| clock_time(text).unwrap_err().to_string();
        insta::assert_snapshot!(refuse(""), @"the time is empty: write it as HH:MM in 24 hours, such as 14:30");
        insta::assert_snapshot!(refuse("noon"), @r#""noon" is not a time of day: write it as HH:MM in 24 hours, such as 14:30"#);
        insta::assert_snapshot!(refuse("14"), @r#""14" is not a time of day: write it as HH:MM in 24 hours, such as 14:30"#);
        insta::assert_snapshot!(refuse("24:00"), @"there is no time 24:00: hours go to 23, minutes and seconds to 59");
        insta::assert_snapshot!(refuse("13 pm"), @"there is no time 13 pm: hours go to 23, minutes and seconds to 59");
        insta::assert_snapshot!(refuse("2027-01-01T14:30"), @r#""2027-01-01T14:30" is not a time of day: write it as HH:MM in 24 hours, such as 14:30, and give the date as `date`"#);
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_what_was_written(text in "\\PC{0,24}") {
            if let Ok(date) = date(&text, TODAY) {
                prop_assert!(text.trim().eq_ignore_ascii_case("today") || text.contains('-'));
                prop_assert!(date.year() >= 1);
            }
        }

        #[test]
        fn every_real_date_is_read(year in 1_i16..=9999, month in 1_i8..=12, day in 1_i8..=31) {
            let text = format!("{year:04}-{month:02}-{day:02}");
            prop_assert_eq!(date(&text, TODAY).ok(), Date::new(year, month, day).ok());
        }
    }
}
