//! What another policy would have said about the calls of a recorded run.
//!
//! The run's own order tells where data had come from when each call was decided about. Calls that
//! never came to a decision (an unknown tool, arguments that do not fit) are left out and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_journal::{DecidedBy, Event, OutcomeKind, Recorded};

use super::{Call, NamedTool, Origins, Policy, Principal, Reach, Verdict};
use crate::catalog::CatalogTool;
use crate::config::{Config, Decision};

/// One call, decided about again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Its number within the run.
    pub call: u32,
    /// The name the model saw.
    pub tool: String,
    /// The arguments as recorded.
    pub arguments: String,
    /// What policy said then. A yes in advance (`--allow`, a grant) and a person's answer stand for
    /// an ask.
    pub then: Decision,
    /// The rule that decided then.
    pub then_rule: String,
    /// What the other policy says.
    pub now: Verdict,
}

impl Replayed {
    /// Whether it would have been decided differently.
    pub fn differs(&self) -> bool {
        self.then != self.now.decision
    }
}

/// What is known of a call at its place in the record.
struct Known {
    tool: String,
    principal: Principal,
    prepared: Option<Prepared>,
}

/// A call that could be made.
struct Prepared {
    server: String,
    raw: String,
    arguments: String,
    args_from: Origins,
}

/// A reading of the record, so far.
struct Reading<'a> {
    policy: Policy,
    config: &'a Config,
    /// Calls came from clients of the gateway.
    served: bool,
    calls: BTreeMap<u32, Known>,
    origins: Origins,
    replayed: Vec<Replayed>,
}

/// Decides again about the calls of a run. `find` gives tools that are at hand; of others the name
/// alone is known. Returns the calls, and how many never came to a decision.
pub fn replay(
    events: &[Recorded],
    policy: &Policy,
    config: &Config,
    find: impl Fn(&str) -> Option<Arc<CatalogTool>>,
) -> (Vec<Replayed>, usize) {
    let mut reading = Reading {
        policy: policy.clone(),
        config,
        served: false,
        calls: BTreeMap::new(),
        origins: Origins::default(),
        replayed: Vec::new(),
    };
    for Recorded { event, .. } in events {
        if let Event::CallDecided {
            call,
            allowed,
            rule,
            by,
            ..
        } = event
        {
            let then = (then(*allowed, rule, *by), rule.as_str());
            reading.decide(*call, then, &find);
        } else {
            reading.learn(event);
        }
    }
    let undecided = reading.calls.len().saturating_sub(reading.replayed.len());
    (reading.replayed, undecided)
}

impl Reading<'_> {
    fn begin(&mut self, command: &str, client: Option<&str>) {
        self.served = command == "serve";
        self.policy = self.policy.of_client(client.unwrap_or_default());
    }

    fn learn(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                command, principal, ..
            } => self.begin(command, principal.as_deref()),
            Event::CallProposed {
                call, turn, tool, ..
            } => {
                let principal = match turn {
                    Some(_) => Principal::Model,
                    None if self.served => Principal::Client,
                    None => Principal::Person,
                };
                let known = Known {
                    tool: tool.clone(),
                    principal,
                    prepared: None,
                };
                self.calls.insert(*call, known);
            }
            Event::CallPrepared {
                call,
                server,
                raw_tool,
                arguments,
                artifacts,
                ..
            } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.prepared = Some(Prepared {
                        server: server.clone(),
                        raw: raw_tool.clone(),
                        arguments: arguments.get().to_owned(),
                        args_from: artifacts
                            .iter()
                            .flat_map(|handed| &handed.origins)
                            .collect(),
                    });
                }
            }
            Event::CallEnded { call, outcome, .. } if *outcome != OutcomeKind::Rejected => {
                self.answered(*call);
            }
            // Of the runs that this one goes on with.
            Event::MessageAdded { origins, .. } => self.add(origins),
            Event::ResourceRead {
                server,
                outcome: OutcomeKind::Completed,
                error: None,
                ..
            }
            | Event::PromptFetched {
                server,
                outcome: OutcomeKind::Completed,
                error: None,
                ..
            } => {
                self.origins.add_server(server);
            }
            _ => {}
        }
    }

    fn add(&mut self, servers: &[String]) {
        for server in servers {
            self.origins.add_server(server);
        }
    }

    /// The data of a call is in the run from here on.
    fn answered(&mut self, call: u32) {
        let known = self.calls.get(&call);
        let Some((known, prepared)) =
            known.and_then(|known| Some((known, known.prepared.as_ref()?)))
        else {
            return;
        };
        let reach = Reach::of(&known.tool, &prepared.arguments, self.config);
        let server = reach
            .as_ref()
            .map_or(prepared.server.as_str(), Reach::server);
        self.origins.add_server(server);
    }

    fn decide(
        &mut self,
        call: u32,
        (then, then_rule): (Decision, &str),
        find: impl Fn(&str) -> Option<Arc<CatalogTool>>,
    ) {
        let Some(known) = self.calls.get(&call) else {
            return;
        };
        let Some(prepared) = &known.prepared else {
            return;
        };
        let (server, raw) = (prepared.server.as_str(), prepared.raw.as_str());
        let named = NamedTool::new(&known.tool, Some(server), Some(raw), self.config);
        let found = find(&known.tool);
        let reach = Reach::of(&known.tool, &prepared.arguments, self.config);
        let subject = found.as_deref().map_or(named.subject(), Into::into);
        let now = self.policy.decide(&Call {
            subject: reach
                .as_ref()
                .map_or(subject, |reach| reach.within(subject)),
            arguments: &prepared.arguments,
            principal: known.principal,
            origins: &self.origins,
            args_from: &prepared.args_from,
        });
        self.replayed.push(Replayed {
            call,
            tool: known.tool.clone(),
            arguments: prepared.arguments.clone(),
            then,
            then_rule: then_rule.to_owned(),
            now,
        });
    }
}

fn then(allowed: bool, rule: &str, by: DecidedBy) -> Decision {
    match (by, allowed) {
        // A hook says yes only where policy asks.
        (
            DecidedBy::Person
            | DecidedBy::Client
            | DecidedBy::Command
            | DecidedBy::Page
            | DecidedBy::Grant
            | DecidedBy::Nobody,
            _,
        )
        | (DecidedBy::Hook, true) => Decision::Ask,
        (DecidedBy::Policy, _) if Verdict::was_granted(rule) => Decision::Ask,
        (DecidedBy::Policy, true) => Decision::Allow,
        (DecidedBy::Policy | DecidedBy::Hook, false) => Decision::Deny,
    }
}
