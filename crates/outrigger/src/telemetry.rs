//! OpenTelemetry: what is recorded of a run, as spans of a trace.
//!
//! Promises: nothing is made or sent unless the standard variables name a collector; a collector that
//! is slow, broken or gone costs a run nothing but one warning and, at the end, at most [`FLUSH`]; what
//! people, models and servers wrote is sent only where it was asked for; values of headers for the
//! collector are secrets like any other.
//! Leaves out: what the spans are (`spans`), and metrics and logs, which are not sent at all.
//!
//! Source: OpenTelemetry, "Environment Variable Specification" and "OTLP Exporter Configuration".

mod messages;
mod parent;
mod post;
mod settings;
mod spans;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider, SpanData};
use outrigger_connect::TraceContext;
use outrigger_host::Traces;
use outrigger_host::config::Config;
use outrigger_journal::Observer;

pub(crate) use settings::secrets;

use self::post::Post;
use self::settings::{Export, Settings};
use self::spans::Spans;
use crate::screen::{Label, Screen};
use crate::visible;

/// How long a run waits at its end for the collector to take what is left.
const FLUSH: Duration = Duration::from_secs(3);

/// The trace of one run, where there is one.
#[derive(Default)]
pub(crate) struct Telemetry {
    exporting: Option<Exporting>,
    traces: Option<Arc<dyn Traces>>,
}

struct Exporting {
    spans: Arc<Spans>,
    provider: SdkTracerProvider,
    trouble: Arc<Trouble>,
}

/// The first thing that went wrong on the way to the collector.
#[derive(Debug, Default)]
struct Trouble {
    first: Mutex<Option<String>>,
    any: AtomicBool,
}

impl Trouble {
    fn note(&self, what: &str) {
        if !self.any.swap(true, Ordering::Relaxed) {
            *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_owned());
        }
    }

    fn take(&self) -> Option<String> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.take()
    }
}

impl Telemetry {
    /// What the environment asks for. What it asks for in vain is told, and the run goes on without.
    /// `config` is that of the run, `None` for one that is not to be seen.
    pub(crate) fn begin(config: Option<&Config>, screen: Screen) -> Self {
        let Some(config) = config else {
            return Self::default();
        };
        let parent = parent::of_environment();
        let settings = match Settings::read() {
            Ok(settings) => settings,
            Err(why) => {
                warn(screen, &why);
                None
            }
        };
        let exporting = settings.and_then(|settings| {
            Exporting::begin(&settings, config, parent.as_ref())
                .map_err(|error| warn(screen, &without_values(&error)))
                .ok()
        });
        // Without spans of its own, a run passes its parent on: W3C Trace Context, 3.4.
        let traces: Option<Arc<dyn Traces>> = match (&exporting, parent) {
            (Some(exporting), _) => Some(exporting.spans.clone()),
            (None, Some(parent)) => Some(Arc::new(PassedOn(parent))),
            (None, None) => None,
        };
        Self { exporting, traces }
    }

    /// Makes spans of what is recorded.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let exporting = self.exporting.as_ref()?;
        Some(exporting.spans.clone())
    }

    /// Tells where calls stand.
    pub(crate) fn traces(&self) -> Option<Arc<dyn Traces>> {
        self.traces.clone()
    }

    /// Sends what is left, and says whether everything was sent.
    pub(crate) async fn finish(self, screen: Screen) {
        let Some(exporting) = self.exporting else {
            return;
        };
        let provider = exporting.provider;
        let shut_down =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH)).await;
        let trouble = exporting.trouble.take();
        let late = match shut_down {
            Ok(Err(_)) => Some(format!(
                "the collector has not taken all of it within {} s",
                FLUSH.as_secs()
            )),
            _ => None,
        };
        if let Some(why) = trouble.or(late) {
            warn(screen, &why);
        }
    }
}

/// What is wrong with the variables. Their values stand in quotation marks, and may be secret.
fn without_values(error: &ExporterBuildError) -> String {
    let error = error.to_string();
    error.split('\'').step_by(2).collect::<Vec<_>>().join("…")
}

fn warn(screen: Screen, why: &str) {
    screen.say(format_args!(
        "{} the trace is not exported, or not all of it: {}",
        screen.talk(Label::Warn, "warning:"),
        visible::line(why)
    ));
}

impl Exporting {
    fn begin(
        settings: &Settings,
        config: &Config,
        parent: Option<&TraceContext>,
    ) -> Result<Self, ExporterBuildError> {
        let trouble = Arc::new(Trouble::default());
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Post::new(settings.timeout, trouble.clone()))
            .with_protocol(match settings.export {
                Export::Protobuf => opentelemetry_otlp::Protocol::HttpBinary,
                Export::Json => opentelemetry_otlp::Protocol::HttpJson,
            })
            .build()?;
        let watched = Watched {
            exporter,
            trouble: trouble.clone(),
        };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(settings))
            .with_span_processor(BatchSpanProcessor::builder(watched).build())
            .build();
        let scope = InstrumentationScope::builder("outrigger")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let above = parent.map_or_else(Context::new, parent::context);
        let tracer = provider.tracer_with_scope(scope);
        let spans = Spans::new(tracer, above, config, settings.content);
        Ok(Self {
            spans: Arc::new(spans),
            provider,
            trouble,
        })
    }
}

/// Who sends this, in the words of the standard variables where they say it.
fn resource(settings: &Settings) -> Resource {
    let resource = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if settings.named {
        resource.build()
    } else {
        resource.with_service_name("outrigger").build()
    }
}

/// The exporter, with its failures noted.
#[derive(Debug)]
struct Watched {
    exporter: SpanExporter,
    trouble: Arc<Trouble>,
}

impl opentelemetry_sdk::trace::SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported {
            self.trouble.note(&error.to_string());
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// A trace that goes through without spans of this program.
struct PassedOn(TraceContext);

impl Traces for PassedOn {
    fn of_call(&self, _: u32) -> Option<TraceContext> {
        Some(self.0.clone())
    }

    fn sent(&self, _: u32, _: &str) {}
}
