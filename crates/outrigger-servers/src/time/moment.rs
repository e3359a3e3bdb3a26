//! One moment in one zone, as results and sentences show it.
//!
//! Leaves out fractions of a second.

use jiff::{
    ZonedDateTime,
    civil::{Time, Weekday},
    tz::{Offset, TimeZone},
};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Moment {
    /// ISO 8601 with offset.
    time: String,
    pub(super) weekday: &'static str,
    pub(super) timezone: String,
    pub(super) utc_offset: String,
    #[serde(skip)]
    pub(super) date: String,
    #[serde(skip)]
    pub(super) clock: String,
}

impl Moment {
    pub(super) fn new(moment: &ZonedDateTime) -> Self {
        let date = moment.date().to_string();
        let utc_offset = offset_text(moment.offset());
        Self {
            time: format!(
                "{date}T{:02}:{:02}:{:02}{utc_offset}",
                moment.hour(),
                moment.minute(),
                moment.second()
            ),
            weekday: weekday_name(moment.weekday()),
            timezone: zone_name(moment.time_zone()),
            utc_offset,
            date,
            clock: short_clock(moment.time()),
        }
    }

    pub(super) fn in_words(&self) -> String {
        format!(
            "{} on {} {} in {} (UTC{})",
            self.clock, self.weekday, self.date, self.timezone, self.utc_offset
        )
    }
}

/// `14:30`; seconds only where there are some.
pub(super) fn short_clock(time: Time) -> String {
    let (hour, minute) = (time.hour(), time.minute());
    match time.second() {
        0 => format!("{hour:02}:{minute:02}"),
        second => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// `+01:00`; seconds only where a zone has them, as some had before 1970.
pub(super) fn offset_text(offset: Offset) -> String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if rest == 0 {
        format!("{sign}{hours:02}:{minutes:02}")
    } else {
        format!("{sign}{hours:02}:{minutes:02}:{rest:02}")
    }
}

/// The IANA name; a system zone that is only a file has none.
pub(super) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("local").to_owned()
}

pub(super) const fn weekday_name(weekday: Weekday) -> &'static str {
    match weekday {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}
