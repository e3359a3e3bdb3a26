//! One server for several hosts: it is started once, each host sees and loses it by itself, and it ends
//! with the last of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outrigger_connect::{Connector, ServePipe, ServerName};
use outrigger_host::approve::NobodyThere;
use outrigger_host::config::Config;
use outrigger_host::hooks::Hooks;
use outrigger_host::outcome::CallOutcome;
use outrigger_host::pins::Pins;
use outrigger_host::policy::Policy;
use outrigger_host::questions::Questions;
use outrigger_host::{CallContext, CallReport, Host, Parts, ServerState, Upkeep, Upstreams};
use outrigger_journal::{Event, Journal, Renewed, Run, RunOptions, Taken};

use crate::config::Place;
use crate::lab::{Server, configured, proposed, started, tool, until, words};

const SHARED: &str = "[servers.lab]\ncommand = 'x'\nsharing = 'shared'\nenv.TOKEN = '${LAB_TOKEN}'";

/// Hosts of one gateway.
struct House {
    place: Place,
    server: Server,
    pipe: Arc<dyn ServePipe>,
    journal: Journal,
    upstreams: Upstreams,
}

/// One of them.
struct Guest {
    host: Host,
    run: Run,
}

impl House {
    async fn new(project: &str) -> Self {
        let place = Place::toml(project).set("LAB_TOKEN", "tok-very-secret-1");
        let server = Server::new();
        server.tools.lock().unwrap().push(tool("ask"));
        let journal = Journal::open(&place.path("state/journal.db")).unwrap();
        let run = run(&journal).await;
        let upstreams = Upstreams::new(
            Connector::new("0.0.0", None),
            Questions::default(),
            run,
            Arc::new(Pins::none()),
            Some(Upkeep::new(100)),
        );
        Self {
            pipe: Arc::new(server.clone()),
            place,
            server,
            journal,
            upstreams,
        }
    }

    async fn guest(&self) -> Guest {
        self.guest_with(&configured(&self.place, &self.pipe)).await
    }

    async fn guest_with(&self, config: &Config) -> Guest {
        let run = run(&self.journal).await;
        let parts = Parts {
            connector: Connector::new("0.0.0", None),
            run: run.clone(),
            builtins: Vec::new(),
            approver: Arc::new(NobodyThere),
            questions: Questions::default(),
            policy: Policy::new(&config.policy, &["*".to_owned()]).unwrap(),
            pins: Arc::new(Pins::none()),
            shared: Some(self.upstreams.clone()),
            upkeep: None,
            leases: None,
            hooks: Arc::new(Hooks::none()),
            artifacts: None,
            traces: None,
        };
        let host = Host::start(config, parts);
        let late = host.settled(Duration::from_secs(30)).await;
        assert_eq!(late, Vec::<ServerName>::new());
        Guest { host, run }
    }

    fn starts(&self) -> usize {
        self.server.of("initialize").len()
    }

    fn live(&self) -> usize {
        self.server.live.load(Ordering::SeqCst)
    }

    /// The ends of questions in the journal of a run.
    async fn questions(&self, run: &Run) -> usize {
        let flush = Event::ServerEnded {
            server: "flush".to_owned(),
            reason: "flush".to_owned(),
        };
        run.record_durable(flush).await.unwrap();
        let events = self.journal.events(run.id()).await.unwrap();
        let questions = events
            .iter()
            .filter(|recorded| matches!(recorded.event, Event::QuestionEnded { .. }));
        questions.count()
    }
}

impl Guest {
    async fn call(&self, tool: &str, arguments: &str) -> CallReport {
        self.call_as(tool, arguments, None).await
    }

    async fn call_as(&self, tool: &str, arguments: &str, caller: Option<u64>) -> CallReport {
        let context = CallContext {
            caller,
            ..CallContext::default()
        };
        let toolset = self.host.toolset();
        self.host
            .call(&toolset, proposed(tool, arguments), context)
            .await
    }

    fn has(&self, tool: &str) -> bool {
        let name = format!("mcp__lab__{tool}");
        self.host.toolset().get(&name).is_some()
    }

    fn state(&self) -> ServerState {
        self.host.servers().remove(0).state
    }
}

async fn run(journal: &Journal) -> Run {
    let begun = journal.begin(started(), RunOptions::default()).await;
    begun.unwrap()
}

#[tokio::test]
async fn a_shared_server_is_started_once_and_ends_with_the_last_host() {
    let house = House::new(SHARED).await;
    let (one, other) = (house.guest().await, house.guest().await);
    assert_eq!((house.starts(), house.live()), (1, 1));
    for guest in [&one, &other] {
        let report = guest.call("keep", "{}").await;
        assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    }
    one.host.close().await;
    assert_eq!(house.live(), 1, "the other host still has it");
    assert!(matches!(one.state(), ServerState::Stopped));
    assert!(!one.has("keep"));
    let report = other.call("keep", "{}").await;
    assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    other.host.close().await;
    assert_eq!(house.live(), 0);
    // What has ended is not lent again.
    let third = house.guest().await;
    assert_eq!((house.starts(), house.live()), (2, 1));
    // A host that is forgotten lets go as well.
    drop(third);
    until(|| house.live() == 0).await;
}

#[tokio::test]
async fn what_is_not_shared_or_not_the_same_is_started_by_itself() {
    let house = House::new(&SHARED.replace("'shared'", "'per-principal'")).await;
    let (one, other) = (house.guest().await, house.guest().await);
    assert_eq!(house.live(), 2);
    one.host.close().await;
    other.host.close().await;
    assert_eq!(house.live(), 0);

    let mut house = House::new(SHARED).await;
    let one = house.guest().await;
    let lines = ["disabled_tools = ['fail']", "timeouts.call = '7s'"];
    for (index, line) in lines.into_iter().enumerate() {
        let text = format!("{SHARED}\n{line}");
        house.place = Place::toml(&text).set("LAB_TOKEN", "tok-very-secret-1");
        let other = house.guest().await;
        assert_eq!(house.live(), 2, "{line}");
        assert_eq!(other.has("fail"), index != 0);
        other.host.close().await;
    }
    assert!(one.has("fail"));
    one.host.close().await;
    assert_eq!(house.live(), 0);
}

#[tokio::test]
async fn hosts_that_hold_one_server_are_each_told_of_changes_and_restarts() {
    let house = House::new(SHARED).await;
    let (one, other) = (house.guest().await, house.guest().await);
    let known = [one.host.toolset(), other.host.toolset()];
    house
        .server
        .change(|tools| tools.retain(|tool| tool["name"] != "refuse"));
    until(|| !one.has("refuse") && !other.has("refuse")).await;
    for (guest, known) in [&one, &other].into_iter().zip(&known) {
        assert_eq!(guest.host.catalog().revision, known.revision() + 1);
    }

    let report = one.call("leave", "{}").await;
    assert!(matches!(report.outcome, CallOutcome::Unknown(_)));
    let ready = || [&one, &other].map(|guest| matches!(guest.state(), ServerState::Ready(_)));
    until(|| house.starts() == 2 && ready() == [true; 2]).await;
    // Once each, whoever calls first; who comes later was not there.
    let late = house.guest().await;
    for (guest, told) in [(&one, true), (&other, true), (&one, false), (&late, false)] {
        let text = words(&guest.call("keep", "{}").await);
        assert_eq!(text.contains("was started again"), told, "{text}");
    }
}

#[tokio::test]
async fn a_tool_that_breaks_its_contract_towards_one_host_stays_with_the_others() {
    let house = House::new(SHARED).await;
    let (one, other) = (house.guest().await, house.guest().await);
    for _ in 0..3 {
        one.call("break", "{}").await;
    }
    assert_eq!((one.has("break"), other.has("break")), (false, true));
    // Also when the server is listed again.
    house
        .server
        .change(|tools| tools.retain(|tool| tool["name"] != "refuse"));
    until(|| !one.has("refuse") && !other.has("refuse")).await;
    assert_eq!((one.has("break"), other.has("break")), (false, true));
}

#[tokio::test]
async fn a_question_of_a_shared_server_is_written_into_the_run_of_its_call() {
    let house = House::new(SHARED).await;
    let (one, other) = (house.guest().await, house.guest().await);
    let report = one.call_as("ask", "{}", Some(1)).await;
    assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    assert_eq!(
        (
            house.questions(&one.run).await,
            house.questions(&other.run).await
        ),
        (1, 0)
    );
    other.call_as("ask", "{}", Some(2)).await;
    assert_eq!(
        (
            house.questions(&one.run).await,
            house.questions(&other.run).await
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn a_server_that_nobody_uses_is_stopped_and_comes_back() {
    let house = House::new(&format!("{SHARED}\ntimeouts.idle = '200ms'")).await;
    let (one, other) = (house.guest().await, house.guest().await);
    let known = one.host.toolset();
    until(|| house.live() == 0).await;
    assert!(matches!(one.state(), ServerState::Idle));
    // What it offers is listed as before, and nobody is told of anything.
    assert_eq!(one.host.toolset().revision(), known.revision());
    assert!(one.has("keep") && other.has("keep"));
    let waiting = one.host.settled(Duration::ZERO).await;
    assert_eq!(waiting, Vec::<ServerName>::new());

    let report = one.call("keep", "{}").await;
    assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    assert!(words(&report).contains("was started again"));
    assert_eq!(house.starts(), 2);
    until(|| house.live() == 0).await;
    // Two who want it at one time have it started once.
    let (a, b) = tokio::join!(one.call("keep", "{}"), other.call("keep", "{}"));
    for report in [a, b] {
        assert!(matches!(report.outcome, CallOutcome::Completed(_)));
    }
    assert_eq!(house.starts(), 3);
    until(|| house.live() == 0).await;
    one.host.close().await;
    other.host.close().await;
    assert!(matches!(one.state(), ServerState::Stopped));
}

#[tokio::test]
async fn a_server_stays_while_a_call_is_under_way() {
    let house = House::new(&format!(
        "{SHARED}\ntimeouts = {{ idle = '100ms', call = '1s', late = '10ms' }}"
    ))
    .await;
    let guest = house.guest().await;
    let report = guest.call("wait", "{}").await;
    assert!(matches!(report.outcome, CallOutcome::Unknown(_)));
    assert!(!words(&report).contains("was started again"));
    // It was not stopped and started meanwhile, and is stopped now.
    assert_eq!(house.starts(), 1);
    until(|| house.live() == 0).await;
}

#[tokio::test]
async fn what_may_run_in_one_place_is_not_started_where_nobody_would_know() {
    let house = House::new("[servers.lab]\ncommand = 'x'\nsingle = true").await;
    let guest = house.guest().await;
    let state = guest.host.servers().remove(0).state;
    let failure = state.failure().expect("it is set aside");
    assert_eq!(state.as_str(), "quarantined");
    assert!(failure.error.contains("(`single`)"), "{failure:?}");
    assert_eq!(house.starts(), 0);
    // With leases, whoever comes first has it, and the other one is told who that is.
    let leases = house.journal.leases();
    let taken = leases.take("lab", false).await.unwrap();
    let Taken::Here(fence) = taken else {
        panic!("{taken:?}");
    };
    let upstreams = house.upstreams.clone().with_leases(house.journal.leases());
    let house = House { upstreams, ..house };
    let guest = house.guest().await;
    let state = guest.host.servers().remove(0).state;
    assert_eq!(state.as_str(), "elsewhere");
    assert!(state.failure().unwrap().error.contains("that is process "));
    assert_eq!(house.starts(), 0);
    leases.release(&fence, false).await.unwrap();
    until(|| guest.has("ask")).await;
    assert_eq!(house.starts(), 1);
    guest.host.close().await;
    assert_eq!(leases.renew(&fence).await.unwrap(), Renewed::Lost);
    let taken = leases.take("lab", false).await.unwrap();
    assert!(
        matches!(&taken, Taken::Here(fence) if fence.token == 3),
        "{taken:?}"
    );
}
