//! `[policy]`: the default, the mode, `[[policy.rule]]` and `[policy.tools]`. Fails closed: a rule
//! that cannot be read denies what its globs match, or everything when a glob is what is broken.

use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::origin::{Layer, Origin, Setting};
use crate::config::policy::{Decision, Mode, PolicyRule, PolicyTable, ToolMatch};
use crate::config::problem::Severity;
use crate::config::project::Brought;
use crate::config::report::{Report, join};
use crate::config::value;
use crate::policy::Condition;

/// Adds what one file says to the table. Files come in the order in which their rules are to stand.
pub(crate) fn lower(report: &mut Report<'_>, node: &Node, table: &mut PolicyTable) {
    let Some(entries) = value::table(report, "policy", node) else {
        return;
    };
    let mut rules = Vec::new();
    for entry in entries {
        match entry.key.as_str() {
            "default" => {
                let value = decision(report, "policy.default", &entry.node);
                let value = value.unwrap_or(Decision::Deny);
                let opened = tighten(report, entry, "policy.default", &mut table.default, value);
                table.opened.extend(opened);
            }
            "mode" => {
                let value = mode(report, "policy.mode", &entry.node);
                let value = value.unwrap_or(Mode::Plan);
                let opened = tighten(report, entry, "policy.mode", &mut table.mode, value);
                table.opened.extend(opened);
                // The nearest managed file comes first, and what it says is in `mode` now.
                if report.source.layer == Layer::Managed && table.managed_mode.is_none() {
                    table.managed_mode = Some(table.mode.clone());
                }
            }
            "rule" | "rules" => rule_list(report, &entry.node, &mut rules),
            "tools" => tool_table(report, &entry.node, &mut rules),
            _ => report.unknown(
                Severity::Error,
                entry,
                "policy",
                &["default", "mode", "rule", "tools"],
            ),
        }
    }
    rules.sort_by_key(|rule: &PolicyRule| (rule.origin.line, rule.origin.column));
    table.rules.append(&mut rules);
}

/// Takes over a value of a file. Files are read from the nearest to the farthest; a project's, which
/// come last, may only tighten what those say. Gives what a project's file makes more open, or would
/// if it were trusted.
fn tighten<T: Ord + std::fmt::Display>(
    report: &mut Report<'_>,
    entry: &Entry,
    key: &str,
    setting: &mut Setting<T>,
    value: T,
) -> Option<Brought> {
    let origin = report.origin(entry.at);
    let loosens = origin.layer.may_loosen();
    let of_project = matches!(origin.layer, Layer::Project | Layer::TrustedProject);
    let opened = (of_project && value < setting.value).then(|| Brought {
        kind: "policy",
        name: key.to_owned(),
        what: format!("becomes `{value}`"),
        origin: origin.clone(),
    });
    if !loosens && value < setting.value {
        let message = format!(
            "`{key}` cannot become `{value}` by a file of the project; it stays `{}`",
            setting.value
        );
        report
            .warn(entry.at, key, message)
            .hint("say it in your own `outrigger.toml`, or with `--config`");
        return opened;
    }
    if setting.origin == Origin::builtin() || value > setting.value && !loosens {
        *setting = Setting { value, origin };
    }
    opened
}

fn decision(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Decision> {
    let word = value::text(report, key, node)?;
    let decision = Decision::from_word(&word);
    if decision.is_none() {
        cannot_be(report, key, node, &word).hint("it can be `allow`, `ask` or `deny`");
    }
    decision
}

/// One of the modes.
pub(crate) fn mode(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Mode> {
    let words = Mode::ALL.map(|mode| (mode.as_str(), mode));
    value::word(report, key, node, &words)
}

fn cannot_be<'r>(
    report: &'r mut Report<'_>,
    key: &str,
    node: &Node,
    word: &str,
) -> &'r mut crate::config::ConfigProblem {
    let message = format!("`{key}` cannot be `{}`", word.escape_debug());
    report.error(node.at, key, message)
}

fn rule_list(report: &mut Report<'_>, node: &Node, rules: &mut Vec<PolicyRule>) {
    let Value::List(items) = &node.value else {
        report.mismatch("policy.rule", node, "a list of tables (`[[policy.rule]]`)");
        return rules.push(closed(ToolMatch::tool("*"), report.origin(node.at)));
    };
    for (index, item) in items.iter().enumerate() {
        let path = format!("policy.rule[{index}]");
        let before = report.problems.len();
        let mut rule = rule(report, &path, item);
        if report.problems.len() > before {
            rule = closed(rule.tools, rule.origin);
        }
        rules.push(rule);
    }
}

/// A rule that stands for one that cannot be read.
fn closed(tools: ToolMatch, origin: Origin) -> PolicyRule {
    let reason = Some(format!("the policy rule at {origin} cannot be read"));
    PolicyRule {
        tools,
        when: None,
        decision: Decision::Deny,
        reason,
        read_only: None,
        broken: true,
        origin,
    }
}

fn rule(report: &mut Report<'_>, path: &str, node: &Node) -> PolicyRule {
    let mut rule = closed(ToolMatch::tool("*"), report.origin(node.at));
    let Some(entries) = value::table(report, path, node) else {
        return rule;
    };
    (rule.reason, rule.broken) = (None, false);
    let (mut tools, mut unusable) = (ToolMatch::default(), false);
    let mut decided = false;
    for entry in entries {
        let inner = join(path, &entry.key);
        let node = &entry.node;
        let glob = match entry.key.as_str() {
            "tool" => &mut tools.tool,
            "server" => &mut tools.server,
            "raw" => &mut tools.raw,
            "prompt" => &mut tools.prompt,
            "resource" => &mut tools.resource,
            _ => {
                decided |= entry.key == "decision";
                rule_key(report, path, &inner, entry, &mut rule);
                continue;
            }
        };
        *glob = value::text(report, &inner, node).filter(|g| is_glob(report, &inner, node.at, g));
        unusable |= glob.is_none();
    }
    let nameless = tools == ToolMatch::default();
    if nameless && !unusable {
        report
            .error(node.at, path, format!("`{path}` has no `tool`"))
            .hint("`tool`, `server` or `raw` say which tools it is about, `prompt` and `resource` what else");
    }
    if tools.mixes() {
        let message = format!("`{path}` is about more than one of tools, prompts and resources");
        report
            .error(node.at, path, message)
            .hint("make a rule for each");
        unusable = true;
    }
    if !decided {
        report.error(node.at, path, format!("`{path}` has no `decision`"));
    }
    if rule.when.is_some() && rule.read_only.is_some() {
        let message =
            format!("`{path}` has `read_only`, which is about a tool, and `when`, about one call");
        report
            .error(node.at, path, message)
            .hint("make two rules of it");
    }
    if !nameless && !unusable {
        rule.tools = tools;
    }
    rule
}

/// The keys of a rule that do not choose tools.
fn rule_key(
    report: &mut Report<'_>,
    path: &str,
    inner: &str,
    entry: &Entry,
    rule: &mut PolicyRule,
) {
    let node = &entry.node;
    match entry.key.as_str() {
        "decision" => rule.decision = decision(report, inner, node).unwrap_or(Decision::Deny),
        "reason" => rule.reason = value::text(report, inner, node),
        "read_only" => rule.read_only = value::truth(report, inner, node),
        "when" => rule.when = condition(report, inner, node),
        _ => report.unknown(
            Severity::Error,
            entry,
            path,
            &[
                "tool",
                "server",
                "raw",
                "prompt",
                "resource",
                "decision",
                "when",
                "reason",
                "read_only",
            ],
        ),
    }
}

fn condition(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Condition> {
    let text = value::text(report, key, node)?;
    match Condition::new(&text) {
        Ok(condition) => Some(condition),
        Err(error) => {
            let message = format!("`{key}` cannot be used: {}", error.what);
            let problem = report.error(node.at, key, message);
            if let Some(hint) = error.hint {
                problem.hint(hint);
            }
            None
        }
    }
}

fn is_glob(report: &mut Report<'_>, key: &str, at: Pos, glob: &str) -> bool {
    match crate::policy::glob(glob) {
        Ok(_) => true,
        Err(error) => {
            report.error(
                at,
                key,
                format!("`{key}` is a broken glob: {}", error.reason),
            );
            false
        }
    }
}

fn tool_table(report: &mut Report<'_>, node: &Node, rules: &mut Vec<PolicyRule>) {
    let Some(entries) = value::table(report, "policy.tools", node) else {
        return rules.push(closed(ToolMatch::tool("*"), report.origin(node.at)));
    };
    for entry in entries {
        let key = join("policy.tools", &entry.key);
        let origin = report.origin(entry.at);
        if !is_glob(report, &key, entry.at, &entry.key) {
            rules.push(closed(ToolMatch::tool("*"), origin));
            continue;
        }
        let tools = ToolMatch::tool(entry.key.as_str());
        rules.push(match decision(report, &key, &entry.node) {
            Some(decision) => PolicyRule {
                tools,
                when: None,
                decision,
                reason: None,
                read_only: None,
                broken: false,
                origin,
            },
            None => closed(tools, origin),
        });
    }
}
