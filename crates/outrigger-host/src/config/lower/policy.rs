//! `[policy]`: the default, `[[policy.rule]]` and `[policy.tools]`. Fails closed: a rule that
//! cannot be read denies what its glob matches, or everything when the glob is what is broken.

use crate::config::node::{Entry, Node, Pos, Value};
use crate::config::origin::{Origin, Setting};
use crate::config::policy::{Decision, PolicyRule, PolicyTable};
use crate::config::problem::Severity;
use crate::config::report::{Report, join};
use crate::config::value;

/// Adds what one file says to the table. Files come in the order in which their rules are to stand.
pub(crate) fn lower(report: &mut Report<'_>, node: &Node, table: &mut PolicyTable) {
    let Some(entries) = value::table(report, "policy", node) else {
        return;
    };
    let mut rules = Vec::new();
    for entry in entries {
        match entry.key.as_str() {
            "default" => default(report, entry, table),
            "rule" | "rules" => rule_list(report, &entry.node, &mut rules),
            "tools" => tool_table(report, &entry.node, &mut rules),
            _ => report.unknown(
                Severity::Error,
                entry,
                "policy",
                &["default", "rule", "tools"],
            ),
        }
    }
    rules.sort_by_key(|rule: &PolicyRule| (rule.origin.line, rule.origin.column));
    table.rules.append(&mut rules);
}

fn default(report: &mut Report<'_>, entry: &Entry, table: &mut PolicyTable) {
    let origin = report.origin(entry.at);
    let value = match decision(report, "policy.default", &entry.node) {
        Some(value) => value,
        None => Decision::Deny,
    };
    if !origin.layer.may_loosen() && value < table.default.value {
        let message = format!(
            "`policy.default` cannot become `{value}` by a file of the project; it stays `{}`",
            table.default.value
        );
        report
            .warn(entry.at, "policy.default", message)
            .hint("say it in your own `outrigger.toml`, or with `--config`");
        return;
    }
    // Read from the nearest file to the farthest; a project may tighten what those say.
    if table.default.origin == Origin::builtin()
        || value > table.default.value && !origin.layer.may_loosen()
    {
        table.default = Setting { value, origin };
    }
}

fn decision(report: &mut Report<'_>, key: &str, node: &Node) -> Option<Decision> {
    let word = value::text(report, key, node)?;
    let decision = Decision::from_word(&word);
    if decision.is_none() {
        report
            .error(
                node.at,
                key,
                format!("`{key}` cannot be `{}`", word.escape_debug()),
            )
            .hint("it can be `allow`, `ask` or `deny`");
    }
    decision
}

fn rule_list(report: &mut Report<'_>, node: &Node, rules: &mut Vec<PolicyRule>) {
    let Value::List(items) = &node.value else {
        report.mismatch("policy.rule", node, "a list of tables (`[[policy.rule]]`)");
        return rules.push(closed("*".into(), report.origin(node.at)));
    };
    for (index, item) in items.iter().enumerate() {
        let path = format!("policy.rule[{index}]");
        let before = report.problems.len();
        let mut rule = rule(report, &path, item);
        if report.problems.len() > before {
            rule = closed(rule.tool, rule.origin);
        }
        rules.push(rule);
    }
}

/// A rule that stands for one that cannot be read.
fn closed(tool: String, origin: Origin) -> PolicyRule {
    let reason = Some(format!("the policy rule at {origin} cannot be read"));
    PolicyRule {
        tool,
        decision: Decision::Deny,
        reason,
        read_only: None,
        broken: true,
        origin,
    }
}

fn rule(report: &mut Report<'_>, path: &str, node: &Node) -> PolicyRule {
    let origin = report.origin(node.at);
    let mut rule = PolicyRule {
        tool: "*".into(),
        decision: Decision::Deny,
        reason: None,
        read_only: None,
        broken: false,
        origin,
    };
    let Some(entries) = value::table(report, path, node) else {
        return rule;
    };
    let (mut has_tool, mut has_decision) = (false, false);
    for entry in entries {
        let inner = join(path, &entry.key);
        let node = &entry.node;
        match entry.key.as_str() {
            "tool" => {
                has_tool = true;
                if let Some(glob) = value::text(report, &inner, node)
                    .filter(|glob| is_glob(report, &inner, node.at, glob))
                {
                    rule.tool = glob;
                }
            }
            "decision" => {
                has_decision = true;
                rule.decision = decision(report, &inner, node).unwrap_or(Decision::Deny);
            }
            "reason" => rule.reason = value::text(report, &inner, node),
            "read_only" => rule.read_only = value::truth(report, &inner, node),
            _ => report.unknown(
                Severity::Error,
                entry,
                path,
                &["tool", "decision", "reason", "read_only"],
            ),
        }
    }
    for (there, key) in [(has_tool, "tool"), (has_decision, "decision")] {
        if !there {
            report.error(node.at, path, format!("`{path}` has no `{key}`"));
        }
    }
    rule
}

fn is_glob(report: &mut Report<'_>, key: &str, at: Pos, glob: &str) -> bool {
    match globset::Glob::new(glob) {
        Ok(_) => true,
        Err(error) => {
            report.error(
                at,
                key,
                format!("`{key}` is a broken glob: {}", error.kind()),
            );
            false
        }
    }
}

fn tool_table(report: &mut Report<'_>, node: &Node, rules: &mut Vec<PolicyRule>) {
    let Some(entries) = value::table(report, "policy.tools", node) else {
        return rules.push(closed("*".into(), report.origin(node.at)));
    };
    for entry in entries {
        let key = join("policy.tools", &entry.key);
        let origin = report.origin(entry.at);
        if !is_glob(report, &key, entry.at, &entry.key) {
            rules.push(closed("*".into(), origin));
            continue;
        }
        let tool = entry.key.clone();
        rules.push(match decision(report, &key, &entry.node) {
            Some(decision) => PolicyRule {
                tool,
                decision,
                reason: None,
                read_only: None,
                broken: false,
                origin,
            },
            None => closed(tool, origin),
        });
    }
}
