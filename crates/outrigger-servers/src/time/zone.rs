//! Finds time zones by their IANA names, and says what is near when there is none.
//!
//! Promises: case does not matter; the machine's rules come first, the copy inside this program
//! second, so that a machine without them, or with a few only, works. Leaves out abbreviations
//! (`CST` is four zones) and offsets.

use jiff::tz::{self, TimeZone, TimeZoneDatabase};
use thiserror::Error;

/// No time zone has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// The name is empty.
    #[error("the time zone is empty: use an IANA name such as Europe/Berlin, or UTC")]
    Empty,
    /// It is an offset from UTC, which the name of a zone is not.
    #[error("\"{name}\" is an offset, not a time zone: use {}", instead.as_deref()
        .unwrap_or("the IANA name of the place, such as Asia/Kolkata"))]
    Offset {
        /// The name as it was given.
        name: String,
        /// A zone that has this offset all year round; there is none for broken hours.
        instead: Option<String>,
    },
    /// Nothing of that name is known.
    #[error("unknown time zone \"{name}\": {}", advice(.nearest))]
    Unknown {
        /// The name as it was given.
        name: String,
        /// The nearest names, best first; at most three.
        nearest: Vec<String>,
    },
}

fn advice(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "use an IANA name such as Europe/Berlin, America/New_York or UTC".to_owned()
    } else {
        format!("did you mean {}?", nearest.join(" or "))
    }
}

pub(super) fn find(name: &str) -> Result<TimeZone, ZoneError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(ZoneError::Empty);
    }
    let bundled = TimeZoneDatabase::bundled();
    if let Ok(zone) = tz::db().get(name).or_else(|_| bundled.get(name)) {
        return Ok(zone);
    }
    let name: String = name.chars().take(60).collect();
    Err(match offset_in(&name) {
        Some((hours, minutes)) => ZoneError::Offset {
            name,
            instead: zone_at_offset(hours, minutes),
        },
        None => ZoneError::Unknown {
            nearest: nearest(&name, &bundled),
            name,
        },
    })
}

/// The system's zone; UTC where the system has none.
pub(super) fn system() -> TimeZone {
    TimeZone::try_system()
        .ok()
        .filter(|zone| !zone.is_unknown())
        .unwrap_or(TimeZone::UTC)
}

/// Hours and minutes of `UTC+2`, `GMT-3`, `+05:30`.
fn offset_in(name: &str) -> Option<(i8, u8)> {
    let upper = name.to_ascii_uppercase();
    let rest = upper
        .strip_prefix("UTC")
        .or_else(|| upper.strip_prefix("GMT"))
        .unwrap_or(&upper);
    let (sign, digits) = rest.trim().split_at_checked(1)?;
    let sign = match sign {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None => digits.split_at_checked(2).unwrap_or((digits, "")),
    };
    let hours: i8 = hours.parse().ok()?;
    let minutes = if minutes.is_empty() {
        0
    } else {
        minutes.parse().ok()?
    };
    Some((hours.checked_mul(sign)?, minutes))
}

/// The zone that stays at an offset from UTC; there is none for broken hours.
fn zone_at_offset(hours: i8, minutes: u8) -> Option<String> {
    // The signs of the `Etc` zones are the other way round (POSIX).
    match (hours, minutes) {
        (0, 0) => Some("UTC".to_owned()),
        (1..=14, 0) => Some(format!("Etc/GMT-{hours}")),
        (-12..=-1, 0) => Some(format!("Etc/GMT+{}", hours.abs())),
        _ => None,
    }
}

fn nearest(name: &str, database: &TimeZoneDatabase) -> Vec<String> {
    const LIKE_ENOUGH: f64 = 0.85;
    const MUCH_WORSE: f64 = 0.05;
    let wanted = name.to_lowercase().replace(' ', "_");
    let wanted_city = city(&wanted);
    let mut scored: Vec<(f64, String)> = database
        .available()
        .filter_map(|known| {
            let known = known.as_str().to_owned();
            let lower = known.to_lowercase();
            let whole = strsim::jaro_winkler(&wanted, &lower);
            // `Berlin` and `Germany/Berlin` both mean the city.
            let score = whole.max(strsim::jaro_winkler(wanted_city, city(&lower)));
            (score >= LIKE_ENOUGH).then_some((score, known))
        })
        .collect();
    scored.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    let best = scored.first().map_or(1.0, |(score, _)| *score);
    scored.retain(|(score, _)| *score > best - MUCH_WORSE);
    scored.truncate(3);
    scored.into_iter().map(|(_, name)| name).collect()
}

fn city(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, city)| city)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        for name in ["Europe/Berlin", "europe/berlin", " EUROPE/BERLIN "] {
            let zone = find(name).unwrap();
            assert_eq!(zone.iana_name(), Some("Europe/Berlin"), "{name}");
        }
        assert_eq!(find("utc").unwrap().iana_name(), Some("UTC"));
    }

    #[test]
    fn the_bundled_rules_are_there() {
        let bundled = TimeZoneDatabase::bundled();
        assert!(bundled.get("Pacific/Chatham").is_ok());
        assert!(bundled.available().count() > 400);
    }

    #[test]
    fn refused_names_say_what_would_work() {
        let refuse = |name: &str| find(name).unwrap_err().to_string();
        insta::assert_snapshot!(refuse(""), @"the time zone is empty: use an IANA name such as Europe/Berlin, or UTC");
        insta::assert_snapshot!(refuse("Berlin"), @r#"unknown time zone "Berlin": did you mean Europe/Berlin?"#);
        insta::assert_snapshot!(refuse("Germany/Berlin"), @r#"unknown time zone "Germany/Berlin": did you mean Europe/Berlin?"#);
        insta::assert_snapshot!(refuse("New York"), @r#"unknown time zone "New York": did you mean America/New_York?"#);
        insta::assert_snapshot!(refuse("Europe/Kiyv"), @r#"unknown time zone "Europe/Kiyv": did you mean Europe/Kyiv or Europe/Kiev or Europe/Kirov?"#);
        insta::assert_snapshot!(refuse("Middle-earth"), @r#"unknown time zone "Middle-earth": use an IANA name such as Europe/Berlin, America/New_York or UTC"#);
        insta::assert_snapshot!(refuse("UTC+2"), @r#""UTC+2" is an offset, not a time zone: use Etc/GMT-2"#);
        insta::assert_snapshot!(refuse("-03:00"), @r#""-03:00" is an offset, not a time zone: use Etc/GMT+3"#);
        insta::assert_snapshot!(refuse("GMT+0530"), @r#""GMT+0530" is an offset, not a time zone: use the IANA name of the place, such as Asia/Kolkata"#);
        insta::assert_snapshot!(refuse("../../etc/passwd"), @r#"unknown time zone "../../etc/passwd": use an IANA name such as Europe/Berlin, America/New_York or UTC"#);
    }
}
