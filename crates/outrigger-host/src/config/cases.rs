//! Tables of calls and what policy should decide about them, for `outrigger policy test`. Read like
//! configuration, in all its formats: `[[case]]` in TOML, `case` with a list in JSON and YAML, or a
//! list alone. A table with anything wrong in it is not used at all.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::lower::policy;
use super::node::{Entry, Node, Value};
use super::origin::{Layer, Origin};
use super::parse::{self, Format};
use super::policy::{Decision, Mode};
use super::problem::{ConfigProblem, Severity};
use super::report::{Report, join};
use super::source::Source;
use super::value;
use crate::catalog::Annotations;
use crate::policy::Principal;

const KEYS: [&str; 11] = [
    "tool",
    "server",
    "raw",
    "args",
    "mode",
    "origins",
    "args_from",
    "principal",
    "annotations",
    "expect",
    "about",
];

/// One call, and what should be decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCase {
    /// The name the model sees.
    pub tool: String,
    /// The server, where the name does not tell it.
    pub server: Option<String>,
    /// The server's own name for the tool, where the name does not tell it.
    pub raw: Option<String>,
    /// JSON text of the arguments; `{}` when there are none.
    pub arguments: String,
    /// The mode; `None`: the one in force.
    pub mode: Option<Mode>,
    /// Servers whose results were shown before.
    pub origins: Vec<String>,
    /// Servers whose data is in artifacts among the arguments.
    pub args_from: Vec<String>,
    /// Who wants the call.
    pub principal: Principal,
    /// What the server says about the tool.
    pub annotations: Annotations,
    /// What should be decided.
    pub expect: Decision,
    /// What it is there for, in the writer's words.
    pub about: Option<String>,
    /// Where it was written.
    pub origin: Origin,
}

/// Reads a table of cases; an error is all that is wrong with it.
pub fn policy_cases(file: &Path) -> Result<Vec<PolicyCase>, Vec<ConfigProblem>> {
    let source = match Source::read(Layer::Explicit, file) {
        Ok(Some(source)) => source,
        Ok(None) => {
            let message = "there is no such file".to_owned();
            return Err(vec![ConfigProblem::of_file(file, message)]);
        }
        Err(problem) => return Err(vec![*problem]),
    };
    let format = Format::of(file, &source.text);
    let mut report = Report::new(&source);
    let cases = match parse::parse(&source, format) {
        Ok((node, duplicates)) => {
            for twice in duplicates {
                let message = format!("`{}` stands here again", twice.key.escape_debug());
                report.error(twice.second, &twice.key, message);
            }
            node.map(|node| list(&mut report, &node))
                .unwrap_or_default()
        }
        Err(error) => {
            report.error(error.at, "", format!("broken {format}: {}", error.message));
            Vec::new()
        }
    };
    if report.problems.is_empty() && cases.is_empty() {
        let message = "there are no cases in it".to_owned();
        let mut problem = ConfigProblem::of_file(file, message);
        problem.hint("a case is `[[case]]` with `tool` and `expect`");
        report.problems.push(problem);
    }
    if report.problems.is_empty() {
        Ok(cases)
    } else {
        Err(report.problems)
    }
}

fn list(report: &mut Report<'_>, node: &Node) -> Vec<PolicyCase> {
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| case(report, &format!("case[{index}]"), item))
            .collect(),
        Value::Table(entries) => {
            let mut cases = Vec::new();
            for entry in entries {
                match entry.key.as_str() {
                    "case" | "cases" if matches!(entry.node.value, Value::List(_)) => {
                        cases.extend(list(report, &entry.node));
                    }
                    "case" | "cases" => {
                        report.mismatch(&entry.key, &entry.node, "a list of cases (`[[case]]`)");
                    }
                    _ => report.unknown(Severity::Error, entry, "", &["case"]),
                }
            }
            cases
        }
        _ => {
            report.mismatch("case", node, "a list of cases");
            Vec::new()
        }
    }
}

fn case(report: &mut Report<'_>, path: &str, node: &Node) -> Option<PolicyCase> {
    let entries = value::table(report, path, node)?;
    let mut case = PolicyCase {
        tool: String::new(),
        server: None,
        raw: None,
        arguments: "{}".to_owned(),
        mode: None,
        origins: Vec::new(),
        args_from: Vec::new(),
        principal: Principal::default(),
        annotations: Annotations::default(),
        expect: Decision::Deny,
        about: None,
        origin: report.origin(node.at),
    };
    for entry in entries {
        key(report, path, entry, &mut case);
    }
    for needed in ["tool", "expect"] {
        if !entries.iter().any(|entry| entry.key == needed) {
            report.error(node.at, path, format!("`{path}` has no `{needed}`"));
        }
    }
    Some(case)
}

fn key(report: &mut Report<'_>, path: &str, entry: &Entry, case: &mut PolicyCase) {
    let inner = join(path, &entry.key);
    let node = &entry.node;
    match entry.key.as_str() {
        "tool" => case.tool = value::text(report, &inner, node).unwrap_or_default(),
        "server" => case.server = value::text(report, &inner, node),
        "raw" => case.raw = value::text(report, &inner, node),
        "about" => case.about = value::text(report, &inner, node),
        "args" => {
            if let Some(arguments) = arguments(report, &inner, node) {
                case.arguments = arguments;
            }
        }
        "mode" => case.mode = policy::mode(report, &inner, node),
        "origins" => {
            let items = value::list(report, &inner, node).unwrap_or_default();
            case.origins = items.into_iter().map(|(_, server)| server).collect();
        }
        "args_from" => {
            let items = value::list(report, &inner, node).unwrap_or_default();
            case.args_from = items.into_iter().map(|(_, server)| server).collect();
        }
        "principal" => {
            let words = [Principal::Model, Principal::Person, Principal::Client]
                .map(|who| (who.as_str(), who));
            case.principal = value::word(report, &inner, node, &words).unwrap_or_default();
        }
        "annotations" => annotations(report, &inner, node, &mut case.annotations),
        "expect" => {
            let words = [Decision::Allow, Decision::Ask, Decision::Deny].map(|d| (d.as_str(), d));
            if let Some(expect) = value::word(report, &inner, node, &words) {
                case.expect = expect;
            }
        }
        _ => report.unknown(Severity::Error, entry, path, &KEYS),
    }
}

/// A table, or text that holds a JSON object.
fn arguments(report: &mut Report<'_>, key: &str, node: &Node) -> Option<String> {
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Table(_) => json(node).map(|json| json.to_string()).unwrap_or_default(),
        _ => String::new(),
    };
    let object = serde_json::from_str::<Json>(&text).is_ok_and(|value| value.is_object());
    if !object {
        report.mismatch(
            key,
            node,
            "a table of JSON values, or text with a JSON object",
        );
        return None;
    }
    Some(text)
}

/// `None` where a number is none of JSON (`inf`, `nan`).
fn json(node: &Node) -> Option<Json> {
    Some(match &node.value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Number(digits) => {
            let digits = digits.strip_prefix('+').unwrap_or(digits);
            Json::Number(serde_json::from_str(digits).ok()?)
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect::<Option<_>>()?),
        Value::Table(entries) => {
            let mut object = Map::new();
            for entry in entries {
                object.insert(entry.key.clone(), json(&entry.node)?);
            }
            Json::Object(object)
        }
    })
}

fn annotations(report: &mut Report<'_>, key: &str, node: &Node, said: &mut Annotations) {
    for entry in value::table(report, key, node).unwrap_or_default() {
        let slot = match entry.key.as_str() {
            "readOnlyHint" => &mut said.read_only,
            "destructiveHint" => &mut said.destructive,
            "idempotentHint" => &mut said.idempotent,
            "openWorldHint" => &mut said.open_world,
            _ => {
                let known = [
                    "readOnlyHint",
                    "destructiveHint",
                    "idempotentHint",
                    "openWorldHint",
                ];
                report.unknown(Severity::Error, entry, key, &known);
                continue;
            }
        };
        *slot = value::truth(report, &join(key, &entry.key), &entry.node);
    }
}
