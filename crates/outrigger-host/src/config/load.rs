//! Reads all files, lowers them, and merges what they say. Nothing here fails as a whole: what is
//! wrong becomes data in the result.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use outrigger_connect::ServerName;

use super::artifacts::ArtifactSettings;
use super::defaults::ServerDefaults;
use super::discover::Wanted;
use super::discovery::DiscoverySettings;
use super::gateway::GatewaySettings;
use super::lower::model::Aside;
use super::lower::server::Lowered;
use super::lower::{self, Dialect, RawServer, Tables};
use super::merge;
use super::model::ModelSettings;
use super::origin::{Layer, Origin, Setting};
use super::parse::{self, Duplicate, Format, SyntaxError};
use super::policy::{Decision, PolicyTable};
use super::problem::ConfigProblem;
use super::project::{self, Brought, Project, ProjectStanding};
use super::report::Report;
use super::results::ResultSettings;
use super::run::{BuiltinSettings, RunLimits};
use super::secret::Secrets;
use super::server::{EntryState, ServerEntry, Shadowed, deed};
use super::source::Source;
use super::surroundings::Surroundings;
use super::{Config, FileState, LoadedFile, discover, environment};

/// How long a reference may take to be followed, unless configuration says otherwise. A keyring
/// that waits for a finger needs a while.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the configuration as it stands around a run.
pub fn load(around: &Surroundings) -> Config {
    load_files(around, discover::files(around))
}

/// Reads one file in the place of the user's and the project's. What managed files say still holds.
pub fn load_instead(around: &Surroundings, file: &Path) -> Config {
    load_files(around, discover::instead(around, file))
}

fn load_files(around: &Surroundings, wanted: Vec<Wanted>) -> Config {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut read = Vec::new();
    let mut sources: Vec<_> = wanted
        .into_iter()
        .map(|wanted| (source(around, &wanted), wanted))
        .collect();
    let project = project(around, &mut sources);
    for (source, wanted) in sources {
        let (file, tables) = load_file(&wanted, source, &mut problems);
        files.push(file);
        read.extend(tables);
    }
    let mut config = Config {
        servers: IndexMap::new(),
        shadowed: Vec::new(),
        policy: PolicyTable::default(),
        model: ModelSettings::default(),
        limits: RunLimits::default(),
        defaults: ServerDefaults::default(),
        builtin: BuiltinSettings::default(),
        discovery: DiscoverySettings::default(),
        problems,
        files,
        project,
        left_out: Vec::new(),
        hooks: Vec::new(),
        secret_timeout: Setting::builtin(SECRET_TIMEOUT),
        artifacts: ArtifactSettings::default(),
        results: ResultSettings::default(),
        gateway: GatewaySettings::default(),
        literals: Vec::new(),
        secrets: Secrets::default(),
    };
    for (name, value) in around
        .env
        .iter()
        .filter(|(name, _)| environment::is_inherited(name))
    {
        // The address of a proxy may hold a password, and every server inherits it.
        if name.to_ascii_lowercase().ends_with("_proxy") {
            lower::address::mask_url(&mut config.secrets, value);
        }
    }
    tables(&mut config, around, &read);
    // As Node.js does, for whose sake it is often set already. A file that is not there is no fault
    // there either.
    let extra = around.env.get("NODE_EXTRA_CA_CERTS").map(PathBuf::from);
    if let Some(extra) = extra.filter(|file| file.is_absolute() && file.is_file()) {
        config.defaults.ca_files.push(extra);
    }
    servers(&mut config, around, read);
    brought(&mut config);
    config
        .problems
        .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    config
}

fn source(around: &Surroundings, wanted: &Wanted) -> Result<Option<Source>, Box<ConfigProblem>> {
    let Some(files) = &around.files else {
        return Source::read(wanted.layer, &wanted.path);
    };
    let text = files.get(&wanted.path);
    Ok(text.map(|text| Source::new(wanted.layer, wanted.path.as_path().into(), text.clone())))
}

/// A file that was read, and its tables.
type Read = (Source, Tables);

/// A file as it was found.
type Found = (Result<Option<Source>, Box<ConfigProblem>>, Wanted);

/// Finds out whether the project is trusted. The layer of its files says so from here on; what is
/// judged is the text that is used, since the file may change at any time.
fn project(around: &Surroundings, sources: &mut [Found]) -> Option<Project> {
    let of_project = sources.iter().filter_map(|(source, wanted)| match source {
        Ok(Some(source)) if wanted.layer == Layer::Project => Some(source),
        _ => None,
    });
    let of_project: Vec<&Source> = of_project.collect();
    let (digest, standing) = project::standing(&of_project, &around.trust)?;
    let files = of_project
        .iter()
        .map(|source| source.path.clone())
        .collect();
    if standing == ProjectStanding::Trusted {
        for (source, wanted) in sources.iter_mut() {
            if wanted.layer == Layer::Project {
                wanted.layer = Layer::TrustedProject;
                if let Ok(Some(source)) = source {
                    source.layer = Layer::TrustedProject;
                }
            }
        }
    }
    Some(Project {
        folder: around.workspace.as_path().into(),
        files,
        digest,
        standing,
        brings: Vec::new(),
    })
}

/// Lists what the project brings that needs trust.
fn brought(config: &mut Config) {
    let Some(project) = &mut config.project else {
        return;
    };
    let is_its = |origin: &Origin| matches!(origin.layer, Layer::Project | Layer::TrustedProject);
    let servers = config.servers.values().filter_map(|entry| {
        let (EntryState::Ready(settings) | EntryState::NeedsTrust(settings)) = &entry.state else {
            return None;
        };
        is_its(&entry.origin).then(|| Brought {
            kind: "server",
            name: entry.name.to_string(),
            what: settings.deed(),
            origin: entry.origin.clone(),
        })
    });
    let rules = config.policy.rules.iter().filter(|rule| {
        is_its(&rule.origin)
            && !rule.broken
            && (rule.decision == Decision::Allow || rule.read_only == Some(true))
    });
    let rules = rules.map(|rule| Brought {
        kind: "rule",
        name: rule.tools.plain(),
        what: match (rule.decision, &rule.when) {
            (Decision::Allow, None) => "may run without asking".to_owned(),
            (Decision::Allow, Some(when)) => format!("may run without asking when {when}"),
            _ => "counts as reading only".to_owned(),
        },
        origin: rule.origin.clone(),
    });
    let hooks = config.hooks.iter().filter(|hook| is_its(&hook.origin));
    let hooks = hooks.map(|hook| Brought {
        kind: "hook",
        name: hook.event.to_string(),
        what: deed(&hook.written),
        origin: hook.origin.clone(),
    });
    let opened = config.policy.opened.iter().cloned();
    project.brings = servers.chain(hooks).chain(opened).chain(rules).collect();
}

fn load_file(
    wanted: &Wanted,
    source: Result<Option<Source>, Box<ConfigProblem>>,
    problems: &mut Vec<ConfigProblem>,
) -> (LoadedFile, Option<Read>) {
    let (layer, path) = (wanted.layer, wanted.path.as_path());
    let loaded = |format, state| LoadedFile {
        path: path.into(),
        layer,
        format,
        state,
    };
    let source = match source {
        Ok(Some(source)) => source,
        Ok(None) => {
            let file = loaded(Format::of(path, ""), FileState::Missing);
            if let Some(named_by) = wanted.named_by {
                let message = format!("the file named by {named_by} does not exist");
                problems.push(ConfigProblem::of_file(path, message));
            }
            return (file, None);
        }
        Err(problem) => {
            problems.push(*problem);
            return (loaded(Format::of(path, ""), FileState::Broken), None);
        }
    };
    let format = Format::of(path, &source.text);
    let mut report = Report::new(&source);
    let (node, duplicates) = match parse::parse(&source, format) {
        Ok(parsed) => parsed,
        Err(error) => {
            let SyntaxError { at, message, hint } = error;
            let message = format!(
                "broken {format} at line {}, column {}: {message}",
                at.line, at.column
            );
            let problem = report.error(at, "", message);
            if let Some(hint) = hint {
                problem.hint(hint);
            }
            problems.append(&mut report.problems);
            return (loaded(format, FileState::Broken), None);
        }
    };
    let dialect = lower::dialect(&source, format, node.as_ref());
    for duplicate in duplicates {
        twice(&mut report, &duplicate, dialect);
    }
    let tables = lower::split(&mut report, node, format, dialect);
    problems.append(&mut report.problems);
    let state = FileState::Read {
        servers: tables.servers.len(),
    };
    (loaded(format, state), Some((source, tables)))
}

/// In our own files, as in all of TOML, a key written twice is a fault: what the first one denies
/// must not get lost. Files of other hosts mean what they mean there: the last one.
fn twice(report: &mut Report<'_>, duplicate: &Duplicate, dialect: Dialect) {
    let Duplicate { key, first, second } = duplicate;
    let shown = key.escape_debug();
    let problem = match dialect {
        Dialect::Native => {
            let message = format!(
                "`{shown}` stands here again; the first is on line {}",
                first.line
            );
            report.error(*second, key, message)
        }
        Dialect::Foreign => {
            let message = format!(
                "`{shown}` stands here again; the one on line {} is not used",
                first.line
            );
            report.warn(*second, key, message)
        }
    };
    problem.hint("keep one of the two");
}

/// Everything that is not a server.
fn tables(config: &mut Config, around: &Surroundings, read: &[Read]) {
    let mut by_layer: Vec<&Read> = read.iter().collect();
    by_layer.sort_by_key(|(source, _)| source.layer);
    let mut found = Aside::default();
    for (source, tables) in &by_layer {
        let mut report = Report::new(source);
        if let Some(node) = &tables.model {
            lower::model::lower(&mut report, around, node, &mut config.model, &mut found);
        }
        if let Some(node) = &tables.limits {
            lower::run::limits(&mut report, node, &mut config.limits, &mut config.defaults);
        }
        if let Some(node) = &tables.timeouts {
            lower::run::timeouts(&mut report, node, &mut config.defaults);
        }
        if let Some(node) = &tables.tls {
            let said = lower::tls::lower(source, around, node, &mut config.defaults);
            config.problems.extend(said);
        }
        if let Some(node) = &tables.builtin {
            lower::run::builtin(&mut report, node, &mut config.builtin);
        }
        if let Some(node) = &tables.discovery {
            lower::run::discovery(&mut report, node, &mut config.discovery);
        }
        if let Some(node) = &tables.secrets {
            lower::run::secrets(&mut report, node, &mut config.secret_timeout);
        }
        if let Some(node) = &tables.artifacts {
            lower::artifacts::lower(&mut report, node, &mut config.artifacts);
        }
        if let Some(node) = &tables.results {
            lower::results::lower(&mut report, node, &mut config.results);
        }
        if let Some(node) = &tables.gateway {
            lower::gateway::lower(&mut report, node, &mut config.gateway);
        }
        config.problems.append(&mut report.problems);
    }
    // Nearest first, and whoever may loosen before the one who may not: managed, explicit, user,
    // project.
    by_layer.reverse();
    by_layer
        .sort_by_key(|(source, _)| (!source.layer.may_loosen(), std::cmp::Reverse(source.layer)));
    for (source, tables) in by_layer {
        let mut report = Report::new(source);
        if let Some(node) = &tables.policy {
            lower::policy::lower(&mut report, node, &mut config.policy);
        }
        if let Some(node) = &tables.hooks {
            lower::hook::lower(&mut report, around, node, &mut config.hooks, &mut found);
        }
        config.problems.append(&mut report.problems);
    }
    config.secrets.extend(found.secrets);
    config.literals.extend(found.literals);
}

fn servers(config: &mut Config, around: &Surroundings, read: Vec<Read>) {
    let mut sources = Vec::new();
    let mut raw: Vec<(String, Layer, (usize, RawServer))> = Vec::new();
    for (index, (source, tables)) in read.into_iter().enumerate() {
        let layer = source.layer;
        raw.extend(
            tables
                .servers
                .into_iter()
                .map(|server| (server.name.clone(), layer, (index, server))),
        );
        sources.push(source);
    }
    for (name, merged) in merge::merge(raw) {
        let (layer, (index, winner)) = merged.winner;
        let Some(source) = sources.get(index) else {
            continue;
        };
        let mut report = Report::new(source);
        let name = match ServerName::new(&name) {
            Ok(name) => name,
            Err(error) => {
                report
                    .warn(winner.at, &winner.path, error.to_string())
                    .hint("the server is set aside; give it another name");
                config.problems.append(&mut report.problems);
                continue;
            }
        };
        let origin = source.origin(winner.at);
        for (other_layer, (other, loser)) in merged.losers {
            let Some(other) = sources.get(other) else {
                continue;
            };
            let replaced = other.origin(loser.at);
            if other_layer == layer {
                let message =
                    format!("`{name}` is configured here and at {replaced}; this one counts");
                report
                    .warn(winner.at, &winner.path, message)
                    .hint("keep one of the two");
            }
            config.shadowed.push(Shadowed {
                name: name.clone(),
                origin: replaced,
                by: origin.clone(),
            });
        }
        let lowered = lower::server::lower(source, around, (&name, &winner), &config.defaults);
        config.problems.append(&mut report.problems);
        let state = held_back(take(config, lowered), layer);
        let entry = ServerEntry {
            name: name.clone(),
            origin,
            state,
        };
        config.servers.insert(name, entry);
    }
}

/// A server that comes with a project waits until the project is trusted.
fn held_back(state: EntryState, layer: Layer) -> EntryState {
    match state {
        EntryState::Ready(settings) if !layer.may_loosen() => EntryState::NeedsTrust(settings),
        state => state,
    }
}

/// Takes over what lowering came upon besides the entry itself.
fn take(config: &mut Config, lowered: Lowered) -> EntryState {
    config.problems.extend(lowered.warnings);
    config.secrets.extend(lowered.secrets);
    config.literals.extend(lowered.literals);
    lowered.state
}
