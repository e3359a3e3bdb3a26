//! Numbers about a gateway, in the words of Prometheus.
//!
//! Promises: labels have few values: configured names of servers, and our own words. No names that
//! clients or servers make up, no arguments.
//! Source: `OpenMetrics` 1.0.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

use outrigger_host::Host;
use outrigger_host::ServerState;
use outrigger_journal::{DecidedBy, Event};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::activity::{Call, End};

/// How they are sent.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0,
];

type Labels<const N: usize> = [(&'static str, String); N];

/// What is counted as it happens, and what is looked at when somebody asks.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<Labels<2>, Counter>,
    decisions: Family<Labels<2>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    starts: Family<Labels<1>, Counter>,
    failures: Family<Labels<1>, Counter>,
    ends: Family<Labels<1>, Counter>,
    now: Now,
}

/// What is looked at when somebody asks.
#[derive(Debug, Default)]
struct Now {
    in_flight: Gauge,
    waiting: Gauge,
    parked: Gauge,
    sessions: Gauge,
    connections: Gauge,
    principals: Gauge,
    servers: Family<Labels<2>, Gauge>,
    tools: Family<Labels<1>, Gauge>,
    children: Gauge,
    ready: Gauge,
    journal_commits: Gauge<u64, AtomicU64>,
    journal_queued: Gauge<u64, AtomicU64>,
}

/// What they are at one moment, besides what the host knows.
pub(crate) struct Seen {
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) parked: usize,
    pub(crate) sessions: usize,
    pub(crate) connections: usize,
    /// Those who are served now.
    pub(crate) principals: usize,
    pub(crate) ready: bool,
    /// Transactions written, and bytes that wait for the disk.
    pub(crate) journal: Option<(u64, u64)>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let mut metrics = Self {
            registry: Registry::with_prefix("outrigger"),
            calls: Family::default(),
            decisions: Family::default(),
            durations: Family::new_with_constructor(histogram),
            starts: Family::default(),
            failures: Family::default(),
            ends: Family::default(),
            now: Now::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("calls", "Calls that have ended", metrics.calls.clone());
        registry.register(
            "decisions",
            "Calls decided about",
            metrics.decisions.clone(),
        );
        registry.register(
            "call_duration_seconds",
            "From sending a call to its end",
            metrics.durations.clone(),
        );
        registry.register(
            "server_starts",
            "Servers that became ready",
            metrics.starts.clone(),
        );
        registry.register(
            "server_failures",
            "Servers that could not be had",
            metrics.failures.clone(),
        );
        registry.register(
            "server_ends",
            "Connections that ended",
            metrics.ends.clone(),
        );
        metrics.now.register(registry);
        metrics
    }
}

impl Now {
    fn register(&self, registry: &mut Registry) {
        let mut gauge = |name: &str, help: &str, gauge: &Gauge| {
            registry.register(name, help, gauge.clone());
        };
        gauge("calls_in_flight", "Calls under way", &self.in_flight);
        gauge(
            "approvals_waiting",
            "Calls, prompts and resources that wait for a person in the queue",
            &self.waiting,
        );
        gauge(
            "calls_parked",
            "Calls that wait for their client to come back with an answer",
            &self.parked,
        );
        gauge("sessions", "Sessions of clients over HTTP", &self.sessions);
        gauge("connections", "Connections of clients", &self.connections);
        gauge(
            "principals",
            "Principals whose servers are held now",
            &self.principals,
        );
        gauge("children", "Processes of servers", &self.children);
        gauge("ready", "1 when new calls are taken", &self.ready);
        registry.register(
            "server_state",
            "Principals for whom it is in that state",
            self.servers.clone(),
        );
        registry.register(
            "server_tools",
            "Tools that can be used, by the principal with most",
            self.tools.clone(),
        );
        registry.register(
            "journal_transactions",
            "Transactions of the journal since the start",
            self.journal_commits.clone(),
        );
        registry.register(
            "journal_queued_bytes",
            "Bytes that wait for the disk of the journal",
            self.journal_queued.clone(),
        );
    }
}

impl Now {
    /// Looks at servers. One that is lent to several principals has its processes once.
    fn look<'a>(&self, hosts: impl Iterator<Item = &'a Host>) {
        self.servers.clear();
        self.tools.clear();
        let mut children = HashSet::new();
        let mut most: HashMap<String, usize> = HashMap::new();
        for server in hosts.flat_map(Host::servers) {
            let name = server.name.to_string();
            let labels = [
                ("server", name.clone()),
                ("state", server.state.as_str().to_owned()),
            ];
            self.servers.get_or_create(&labels).inc();
            let catalog = server.catalog.as_ref();
            let tools = most.entry(name).or_default();
            *tools = (*tools).max(catalog.map_or(0, |catalog| catalog.tools.len()));
            if let ServerState::Ready(ready) = &server.state {
                let processes = ready.connection.processes().into_iter();
                children.extend(processes.map(|process| process.pid));
            }
        }
        for (server, tools) in most {
            set(&self.tools.get_or_create(&[("server", server)]), tools);
        }
        set(&self.children, children.len());
    }
}

fn set(gauge: &Gauge, value: usize) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

impl Metrics {
    pub(crate) fn ended(&self, call: &Call, end: End) {
        let server = call.server.clone().unwrap_or_default();
        let outcome = match (end.outcome.as_str(), end.is_error) {
            ("completed", true) => "error",
            (outcome, _) => outcome,
        };
        let labels = [("server", server.clone()), ("outcome", outcome.to_owned())];
        self.calls.get_or_create(&labels).inc();
        if call.sent {
            let millis = u32::try_from(end.took_ms).unwrap_or(u32::MAX);
            let seconds = f64::from(millis) / 1000.0;
            self.durations
                .get_or_create(&[("server", server)])
                .observe(seconds);
        }
    }

    pub(crate) fn decided(&self, allowed: bool, by: DecidedBy) {
        let labels = [
            (
                "decision",
                if allowed { "allowed" } else { "refused" }.to_owned(),
            ),
            ("by", by.as_str().to_owned()),
        ];
        self.decisions.get_or_create(&labels).inc();
    }

    pub(crate) fn of_server(&self, event: &Event) {
        let (family, server) = match event {
            Event::ServerReady { server, .. } => (&self.starts, server),
            Event::ServerFailed { server, .. } => (&self.failures, server),
            Event::ServerEnded { server, .. } => (&self.ends, server),
            _ => return,
        };
        family.get_or_create(&[("server", server.clone())]).inc();
    }

    /// All of them, as they are now.
    pub(crate) fn text<'a>(&self, hosts: impl Iterator<Item = &'a Host>, seen: &Seen) -> String {
        let now = &self.now;
        set(&now.in_flight, seen.in_flight);
        set(&now.waiting, seen.waiting);
        set(&now.parked, seen.parked);
        set(&now.sessions, seen.sessions);
        set(&now.connections, seen.connections);
        set(&now.principals, seen.principals);
        set(&now.ready, usize::from(seen.ready));
        if let Some((commits, queued)) = seen.journal {
            now.journal_commits.set(commits);
            now.journal_queued.set(queued);
        }
        now.look(hosts);
        let mut out = String::new();
        if let Err(error) = text::encode(&mut out, &self.registry) {
            tracing::warn!(%error, "the metrics cannot be written");
        }
        out
    }
}
