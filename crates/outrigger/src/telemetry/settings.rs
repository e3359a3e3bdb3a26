//! What the standard variables ask for, as far as the exporter does not read them itself.

use std::time::Duration;

use crate::surroundings::set;

/// OpenTelemetry, "OTLP Exporter Configuration": 10 seconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is to be exported, and how.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) export: Export,
    /// For one request to the collector.
    pub(super) timeout: Duration,
    /// What people, models and servers wrote is exported too.
    pub(super) content: bool,
    /// The environment names the service.
    pub(super) named: bool,
}

/// The encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    Protobuf,
    Json,
}

impl Settings {
    /// `None`: nothing is to be exported. The error says what is asked for and not done here.
    pub(super) fn read() -> Result<Option<Self>, String> {
        Self::of(&set)
    }

    fn of(set: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let yes = |name: &str| set(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if yes("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let of_traces = |end: &str| {
            set(&format!("OTEL_EXPORTER_OTLP_TRACES_{end}"))
                .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{end}")))
        };
        let named = set("OTEL_TRACES_EXPORTER");
        let named: Option<Vec<&str>> = named
            .as_deref()
            .map(|named| named.split(',').map(str::trim).collect());
        let wanted = match named.as_deref() {
            None => of_traces("ENDPOINT").is_some(),
            Some(["none"]) => false,
            Some(["otlp"]) => true,
            Some(other) => {
                let other = other.join(",");
                return Err(format!(
                    "`OTEL_TRACES_EXPORTER={other}`: only `otlp` and `none` are known here"
                ));
            }
        };
        if !wanted {
            return Ok(None);
        }
        let export = match of_traces("PROTOCOL").as_deref() {
            None | Some("http/protobuf") => Export::Protobuf,
            Some("http/json") => Export::Json,
            Some(other) => {
                return Err(format!(
                    "`OTEL_EXPORTER_OTLP_PROTOCOL={other}`: only `http/protobuf` and `http/json` are spoken here"
                ));
            }
        };
        let timeout = of_traces("TIMEOUT").and_then(|millis| millis.trim().parse().ok());
        let resource = set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        Ok(Some(Self {
            export,
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            content: content(set("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").as_deref()),
            named: set("OTEL_SERVICE_NAME").is_some()
                || resource
                    .split(',')
                    .any(|pair| pair.trim_start().starts_with("service.name=")),
        }))
    }
}

/// The switch was a truth value first, and says since where the content goes.
fn content(value: Option<&str>) -> bool {
    let value = value.unwrap_or_default().to_ascii_lowercase();
    matches!(value.as_str(), "true" | "span_only" | "span_and_event")
}

/// Values that are sent to the collector for it to know who asks.
pub(crate) fn secrets() -> Vec<String> {
    let headers = [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    let headers = headers.into_iter().filter_map(set);
    let mut secrets: Vec<String> = headers.flat_map(|headers| values(&headers)).collect();
    let endpoints = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ];
    let passwords = endpoints
        .into_iter()
        .filter_map(|name| set(name)?.parse::<url::Url>().ok());
    secrets.extend(passwords.filter_map(|url| url.password().map(ToOwned::to_owned)));
    secrets
}

/// The values of `k1=v1,k2=v2`, which may be percent-encoded; also what stands after a scheme, as in
/// `Bearer TOKEN`.
fn values(headers: &str) -> Vec<String> {
    let pairs = headers.split(',').filter_map(|pair| pair.split_once('='));
    let values = pairs.flat_map(|(_, value)| {
        let plain: Vec<_> = url::form_urlencoded::parse(value.replace('+', "%2B").as_bytes())
            .map(|(key, rest)| match rest.as_ref() {
                "" => key.into_owned(),
                rest => format!("{key}={rest}"),
            })
            .collect();
        let plain = plain.join("&");
        let token = plain.split_once(' ').map(|(_, token)| token.to_owned());
        [Some(value.to_owned()), Some(plain), token]
    });
    values.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let set = |name: &str| {
            variables
                .iter()
                .find(|(set, _)| *set == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Settings::of(&set)
    }

    #[test]
    fn nothing_is_exported_unless_it_is_asked_for() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for off in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "a")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(read(off).unwrap().is_none(), "{off:?}");
        }
        for on in [
            &[ENDPOINT][..],
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/x")],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "1")],
        ] {
            assert!(read(on).unwrap().is_some(), "{on:?}");
        }
        let grpc = [ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert!(read(&grpc).unwrap_err().contains("grpc"));
        let console = [ENDPOINT, ("OTEL_TRACES_EXPORTER", "console")];
        assert!(read(&console).unwrap_err().contains("console"));
    }

    #[test]
    fn the_nearer_variable_counts() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=mine"),
            (
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
                "NO_CONTENT",
            ),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.export, Export::Json);
        assert_eq!(settings.timeout, Duration::from_millis(250));
        assert!(settings.named && !settings.content);
    }

    #[test]
    fn values_of_headers_are_known_as_they_are_sent() {
        assert_eq!(
            values("authorization=Bearer%20s3cr3t%3D,x-key=a+b"),
            [
                "Bearer%20s3cr3t%3D",
                "Bearer s3cr3t=",
                "s3cr3t=",
                "a+b",
                "a+b"
            ]
        );
    }
}
