//! The `time` server: the present moment, days between dates, conversion between time zones.
//!
//! Promises: time zone rules come from the machine when it has them and from the copy inside this
//! program when it does not; a clock time that daylight saving skips or repeats is converted and
//! said to be one. Leaves out the rest of the calendar, time zones given as offsets, and years
//! before 1 or after 9999.

mod civil;
mod moment;
mod zone;

use std::sync::Arc;

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Weekday},
    tz::{AmbiguousOffset, TimeZone},
};
use rmcp::model::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use zone::ZoneError;

use self::{
    civil::CivilError,
    moment::{Moment, weekday_name},
};
use crate::{
    arguments,
    clock::Clock,
    tool::{Reply, declare},
    toolbox::{Call, CallError},
};

/// What is wrong with a question about time.
#[derive(Debug, Error)]
pub(crate) enum TimeError {
    #[error("`{key}`: {source}")]
    Zone {
        key: &'static str,
        source: ZoneError,
    },
    #[error("`{key}`: {source}")]
    Civil {
        key: &'static str,
        source: CivilError,
    },
    #[error("the clock of this machine is outside the years 1 to 9999")]
    Clock,
    #[error("{moment} in {zone} is outside the years that can be converted")]
    OutOfRange { moment: DateTime, zone: String },
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CurrentTime {
    /// IANA name, e.g. Europe/Berlin; default: local.
    timezone: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DaysBetween {
    /// YYYY-MM-DD
    end: String,
    /// YYYY-MM-DD; default: today.
    start: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConvertTime {
    /// HH:MM, 24 hours.
    time: String,
    /// IANA name.
    from_timezone: String,
    /// IANA name.
    to_timezone: String,
    /// YYYY-MM-DD; default: today.
    date: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Span {
    /// Negative when `end` is before `start`.
    days: i32,
    start: String,
    start_weekday: &'static str,
    end: String,
    end_weekday: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct Converted {
    from: Moment,
    to: Moment,
    /// Set when daylight saving skips or repeats the given time.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(crate) struct TimeTools {
    clock: Arc<dyn Clock>,
    local: TimeZone,
    tools: [Tool; 3],
}

impl TimeTools {
    pub(crate) fn new(clock: Arc<dyn Clock>, local: Option<&str>) -> Result<Self, ZoneError> {
        Ok(Self {
            clock,
            local: local.map_or_else(|| Ok(zone::system()), zone::find)?,
            tools: [
                declare::<CurrentTime, Moment>(
                    "current_time",
                    "Current time",
                    "Today's date, weekday and time.",
                ),
                declare::<DaysBetween, Span>(
                    "days_between",
                    "Days between dates",
                    "Counts days from start to end, negative when end comes first. For \"days until X\" \
                     give only end.",
                ),
                declare::<ConvertTime, Converted>(
                    "convert_time",
                    "Convert time",
                    "Converts a time of day between time zones, minding daylight saving.",
                ),
            ],
        })
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) fn call(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let Call {
            tool, arguments, ..
        } = call;
        match tool.name.as_ref() {
            "days_between" => self.days_between(&arguments::parse(tool, arguments)?),
            "convert_time" => self.convert_time(&arguments::parse(tool, arguments)?),
            _ => self.current_time(&arguments::parse(tool, arguments)?),
        }
    }

    fn current_time(&self, arguments: &CurrentTime) -> Result<Reply, CallError> {
        let zone = match &arguments.timezone {
            Some(name) => zone_argument("timezone", name)?,
            None => self.local.clone(),
        };
        let moment = Moment::new(&self.now()?.to_zoned_datetime(zone));
        let text = format!(
            "It is {} {} {} in {} (UTC{}).",
            moment.weekday, moment.date, moment.clock, moment.timezone, moment.utc_offset
        );
        Ok(Reply::new(&moment, text)?)
    }

    fn days_between(&self, arguments: &DaysBetween) -> Result<Reply, CallError> {
        let today = self.today(&self.local)?;
        let start = match &arguments.start {
            Some(text) => date_argument("start", text, today)?,
            None => today,
        };
        let end = date_argument("end", &arguments.end, today)?;
        let days = days_from(start, end);
        let (from, to) = (spoken(start, today), spoken(end, today));
        let text = match days {
            0 => format!("0 days: start and end are both {from}."),
            1 => format!("There is 1 day from {from} to {to}."),
            2.. => format!("There are {days} days from {from} to {to}."),
            -1 => format!("-1 day: {to} is 1 day before {from}."),
            _ => format!("{days} days: {to} is {} days before {from}.", days.abs()),
        };
        let result = Span {
            days,
            start: start.to_string(),
            start_weekday: weekday_name(start.weekday()),
            end: end.to_string(),
            end_weekday: weekday_name(end.weekday()),
        };
        Ok(Reply::new(&result, text)?)
    }

    fn convert_time(&self, arguments: &ConvertTime) -> Result<Reply, CallError> {
        let from_zone = zone_argument("from_timezone", &arguments.from_timezone)?;
        let to_zone = zone_argument("to_timezone", &arguments.to_timezone)?;
        let today = self.today(&from_zone)?;
        let date = match &arguments.date {
            Some(text) => date_argument("date", text, today)?,
            None => today,
        };
        let clock = civil::clock_time(&arguments.time).map_err(|source| TimeError::Civil {
            key: "time",
            source,
        })?;
        let asked = date.to_datetime(clock);
        let possible = from_zone.to_ambiguous_zoned_datetime(asked);
        let offset = possible.offset();
        // Temporal's "compatible" rule: a skipped time moves forward, a repeated one is the first.
        let start = possible.compatible().map_err(|_| TimeError::OutOfRange {
            moment: asked,
            zone: moment::zone_name(&from_zone),
        })?;
        let from = Moment::new(&start);
        let to = Moment::new(&start.with_time_zone(to_zone));
        let note = daylight_note(asked, offset, &from);
        let mut text = format!("{} is {}.", from.in_words(), to.in_words());
        if let Some(note) = &note {
            text = format!("{text} {note}");
        }
        Ok(Reply::new(&Converted { from, to, note }, text)?)
    }

    fn now(&self) -> Result<Timestamp, TimeError> {
        Timestamp::try_from(self.clock.now()).map_err(|_| TimeError::Clock)
    }

    fn today(&self, zone: &TimeZone) -> Result<Date, TimeError> {
        Ok(zone.to_datetime(self.now()?).date())
    }
}

fn zone_argument(key: &'static str, name: &str) -> Result<TimeZone, TimeError> {
    zone::find(name).map_err(|source| TimeError::Zone { key, source })
}

fn date_argument(key: &'static str, text: &str, today: Date) -> Result<Date, TimeError> {
    civil::date(text, today).map_err(|source| TimeError::Civil { key, source })
}

fn days_from(start: Date, end: Date) -> i32 {
    let days = start.duration_until(end).as_hours() / 24;
    // Between the years 1 and 9999 lie fewer than four million days.
    i32::try_from(days).unwrap_or(i32::MAX)
}

fn spoken(date: Date, today: Date) -> String {
    let weekday: Weekday = date.weekday();
    let suffix = if date == today { " (today)" } else { "" };
    format!("{} {date}{suffix}", weekday_name(weekday))
}

fn daylight_note(asked: DateTime, offset: AmbiguousOffset, used: &Moment) -> Option<String> {
    let zone = &used.timezone;
    let (date, time) = (asked.date(), moment::short_clock(asked.time()));
    match offset {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => Some(format!(
            "Note: {time} does not exist on {date} in {zone}, because the clocks go forward; {} on \
             {} was used.",
            used.clock, used.date
        )),
        AmbiguousOffset::Fold { before, after } => Some(format!(
            "Note: {time} happens twice on {date} in {zone}, because the clocks go back; the first \
             (UTC{}) was used, the second is UTC{}.",
            moment::offset_text(before),
            moment::offset_text(after)
        )),
    }
}

#[cfg(test)]
mod tests;
