//! A server that was found, as it will be written, and as it is told of.

use outrigger_host::config::foreign::{Address, Left, Settings, Text};
use serde_json::{Map, Value, json};

use super::plan::{Fate, Item, texts};
use crate::hosts::Wanted;
use crate::screen::{Label, Screen};
use crate::visible;

/// The entry in our words, with references in the places of the secrets that are moved.
pub(super) fn wanted(settings: &Settings, item: &Item) -> Wanted {
    let (server, moved) = (&item.server, &item.moved);
    let from = format!("from {}: {}", server.host.title(), server.file.display());
    let written = |key: &str, text: &Text| -> Value {
        let moved = moved.iter().find(|moved| moved.key == key);
        text.written(moved.map(|moved| &moved.reference)).into()
    };
    Wanted::Keys {
        keys: keys(settings, &written),
        // What was said of another server (`read_only`) must not hold for this one.
        instead: None,
        first: Map::new(),
        comment: Some(visible::line(&from).into_owned()),
    }
}

fn keys(settings: &Settings, written: &Written<'_>) -> Map<String, Value> {
    let mut keys = Map::new();
    let mut set = |key: &str, value: Value| {
        let empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        if !value.is_null() && !empty {
            keys.insert(key.to_owned(), value);
        }
    };
    set("description", json!(settings.description));
    if !settings.enabled {
        set("enabled", json!(false));
    }
    address(settings, written, &mut set);
    set("oauth", oauth(settings, written));
    let times = [
        ("start", &settings.timeouts.start),
        ("list", &settings.timeouts.list),
        ("call", &settings.timeouts.call),
    ];
    let times = times.into_iter();
    let times = times.filter_map(|(key, time)| Some((key.to_owned(), json!(time.as_ref()?))));
    set("timeouts", Value::Object(times.collect()));
    if let Some(tools) = &settings.allowed_tools {
        // An empty list lets none through, and must not get lost.
        keys.insert("allowed_tools".to_owned(), json!(tools));
    }
    if !settings.disabled_tools.is_empty() {
        keys.insert("disabled_tools".to_owned(), json!(settings.disabled_tools));
    }
    keys
}

type Written<'a> = dyn Fn(&str, &Text) -> Value + 'a;

fn address(settings: &Settings, written: &Written<'_>, set: &mut dyn FnMut(&str, Value)) {
    match &settings.address {
        Address::Program {
            command,
            args,
            env,
            cwd,
        } => {
            set("command", json!(command));
            let args = args.iter().enumerate();
            let args = args.map(|(at, arg)| written(&format!("args.{at}"), arg));
            set("args", args.collect::<Vec<_>>().into());
            let env = env.iter();
            let env = env.map(|(name, text)| (name.clone(), written(&format!("env.{name}"), text)));
            set("env", Value::Object(env.collect()));
            set("cwd", json!(cwd));
        }
        Address::Network { kind, url, headers } => {
            set("type", json!(kind));
            set("url", written("url", url));
            let headers = headers.iter();
            let headers = headers
                .map(|(name, text)| (name.clone(), written(&format!("headers.{name}"), text)));
            set("headers", Value::Object(headers.collect()));
        }
    }
}

fn oauth(settings: &Settings, written: &Written<'_>) -> Value {
    let mut oauth = Map::new();
    if let Some(id) = &settings.client_id {
        oauth.insert("client_id".to_owned(), json!(id));
    }
    if let Some(secret) = &settings.client_secret {
        let secret = written("oauth.client_secret", secret);
        oauth.insert("client_secret".to_owned(), secret);
    }
    if !settings.scopes.is_empty() {
        oauth.insert("scopes".to_owned(), json!(settings.scopes));
    }
    Value::Object(oauth)
}

/// A server and what becomes of it, in a few lines.
pub(super) fn told(item: &Item, screen: Screen) -> String {
    let server = &item.server;
    let (mark, label, name, more) = match &item.fate {
        Fate::Taken { name, renamed } => {
            let renamed = renamed.as_ref();
            let why = renamed.map(|why| format!("`{}` there: {why}", server.name));
            let built_in = ["time", "workspace", "echo", "resources", "artifacts"];
            let replaces = built_in
                .contains(&name.as_str())
                .then(|| "takes the place of the built-in server".to_owned());
            ("+", Label::Good, name, why.or(replaces))
        }
        Fate::Same(name) => (
            "=",
            Label::Dim,
            &server.name,
            Some(format!("the same as `{name}`")),
        ),
        Fate::Left(why) => ("-", Label::Warn, &server.name, Some(why.clone())),
    };
    let from = format!(
        "from {}, {}:{}",
        server.host.title(),
        server.file.display(),
        server.line
    );
    let name = visible::line(name).into_owned();
    let mut text = format!(
        "{} {} {}\n",
        screen.ink(label, mark),
        screen.ink(Label::Name, &name),
        screen.ink(Label::Dim, &visible::line(&from))
    );
    let mut line = |line: &str| text.extend(["    ", &*visible::line(line), "\n"]);
    if let Some(more) = more {
        line(&more);
    }
    if item.is_taken() {
        for moved in &item.moved {
            line(&format!(
                "{} is a secret and goes to {}",
                moved.key, moved.reference
            ));
        }
        for left in &server.left {
            line(&format!("{}: {}", left.key, left.why));
        }
    }
    text
}

/// The key of something that is not taken, as the beginning of a sentence about it.
pub(super) fn key_of(left: &Left) -> String {
    if left.key.is_empty() {
        String::new()
    } else {
        format!("{}: ", left.key)
    }
}

/// The same as data, secrets masked.
pub(super) fn as_json(item: &Item) -> Value {
    let server = &item.server;
    let (fate, name, why) = match &item.fate {
        Fate::Taken { name, renamed } => ("taken", Some(name), renamed.clone()),
        Fate::Same(name) => ("same", Some(name), None),
        Fate::Left(why) => ("left", None, Some(why.clone())),
    };
    let masked = |_: &str, text: &Text| -> Value { text.masked().into() };
    let settings = server.settings.as_ref().ok();
    let in_arguments = settings.into_iter().flat_map(texts);
    let in_arguments =
        in_arguments.filter(|(key, text)| key.starts_with("args.") && text.secret().is_some());
    json!({
        "host": server.host.name(),
        "file": server.file.to_string_lossy(),
        "line": server.line,
        "key": server.key,
        "name": server.name,
        "fate": fate,
        "as": name,
        "why": why,
        "settings": settings.map(|settings| keys(settings, &masked)),
        "secrets": item.moved.iter().map(|moved| json!({
            "key": moved.key,
            "reference": moved.reference.to_string(),
        })).collect::<Vec<_>>(),
        "secrets_in_arguments": in_arguments.map(|(key, _)| key).collect::<Vec<_>>(),
        "left": server.left.iter().map(|left| json!({
            "key": left.key,
            "why": left.why,
        })).collect::<Vec<_>>(),
    })
}
