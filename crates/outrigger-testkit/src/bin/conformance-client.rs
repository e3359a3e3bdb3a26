//! The client of the official conformance suite, over the real [`Connection`].
//!
//! `conformance-client URL`: connects, lists, calls what is offered, closes. The suite says in
//! `MCP_CONFORMANCE_CONTEXT` which calls it wants; without that each tool is called once, with
//! arguments made up from its schema. Exit code 0: all of it worked.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program is told by its environment what to do"
)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_connect::{
    Asker, CallOptions, Connection, Connector, Deadlines, Elicitation, ElicitationAnswer,
    ElicitationHandler, Handlers, HttpSpec, Limits, MemoryTokens, OAuth, OAuthFlow, OAuthSettings,
    Protocol, Refusal, Secret, ServerName, ServerSpec, TransportSpec,
};
use outrigger_testkit::headless::Headless;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn Error>;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        return complain("usage: conformance-client URL");
    };
    match Box::pin(run(&url)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

#[allow(clippy::print_stderr, reason = "this is how a test program speaks")]
fn complain(words: &str) -> ExitCode {
    eprintln!("conformance-client: {words}");
    ExitCode::FAILURE
}

async fn run(url: &str) -> Result<(), Failure> {
    let context = context()?;
    let connection = connect(url, &context).await?;
    let done = play(&connection, &context).await;
    connection.close().await;
    done
}

/// What the suite says about this scenario; `null` when it says nothing.
fn context() -> Result<Value, Failure> {
    match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(_) => Ok(Value::Null),
    }
}

/// The client id metadata document that the suite knows.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Where its pages to sign in on lead back to; nobody listens there.
const REDIRECT: &str = "http://localhost:3000/callback";

/// As which client to sign in: the one that the suite has registered, or the document.
fn settings(context: &Value) -> OAuthSettings {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let flow = match std::env::var("MCP_CONFORMANCE_SCENARIO") {
        Ok(scenario) if scenario.contains("client-credentials") => OAuthFlow::ClientCredentials,
        _ => OAuthFlow::AuthorizationCode,
    };
    OAuthSettings {
        client_id: text("client_id").or_else(|| Some(DOCUMENT.to_owned())),
        client_secret: text("client_secret").map(Secret::new),
        flow,
        ..OAuthSettings::default()
    }
}

async fn connect(url: &str, context: &Value) -> Result<Connection, Failure> {
    let spec = ServerSpec {
        name: ServerName::new("conformance")?,
        transport: TransportSpec::Http(HttpSpec {
            oauth: settings(context),
            ..HttpSpec::new(url.parse()?)
        }),
        protocol: Protocol::Auto,
        versions: None,
        deadlines: Deadlines {
            start: Duration::from_secs(10),
            call: Duration::from_secs(15),
            ..Deadlines::default()
        },
        limits: Limits::default(),
    };
    let handlers = Handlers {
        elicitation: Some(Arc::new(Agreeable)),
        ..Handlers::default()
    };
    let handler = Headless::new(REDIRECT.parse()?);
    let oauth = OAuth::new(Arc::new(MemoryTokens::default())).with_handler(Arc::new(handler));
    let connector = Connector::new(env!("CARGO_PKG_VERSION"), None)
        .with_handlers(handlers)
        .with_oauth(oauth);
    Ok(connector.connect(&spec, &CancellationToken::new()).await?)
}

/// Accepts each form as the server has filled it in.
struct Agreeable;

impl ElicitationHandler for Agreeable {
    fn elicit(
        &self,
        _: Asker,
        question: Elicitation,
    ) -> BoxFuture<'static, Result<ElicitationAnswer, Refusal>> {
        Box::pin(async move {
            let values = Value::Object(question.defaults()).to_string();
            let values =
                RawValue::from_string(values).map_err(|error| Refusal(error.to_string()))?;
            Ok(ElicitationAnswer::Accept(Some(values)))
        })
    }
}

async fn play(connection: &Connection, context: &Value) -> Result<(), Failure> {
    let listing = connection.list_tools().await?;
    let tools: Result<Vec<Value>, _> = listing
        .tools
        .iter()
        .map(|tool| serde_json::from_str(tool.get()))
        .collect();
    let calls: Vec<(String, Value)> = match context["toolCalls"].as_array() {
        Some(calls) => calls.iter().filter_map(named).collect(),
        None => made_up(&tools?),
    };
    for (tool, arguments) in calls {
        let arguments = RawValue::from_string(arguments.to_string())?;
        connection
            .call_tool(&tool, &arguments, CallOptions::default())
            .await
            .map_err(|error| format!("`{tool}`: {error}"))?;
    }
    Ok(())
}

/// A call that the suite wants.
fn named(call: &Value) -> Option<(String, Value)> {
    Some((call["name"].as_str()?.to_owned(), call["arguments"].clone()))
}

/// A call of each tool, with one value for each argument that its schema names. A tool that wants a
/// schema gets that of the first, as it came.
fn made_up(tools: &[Value]) -> Vec<(String, Value)> {
    let call = |tool: &Value| {
        let properties = tool["inputSchema"]["properties"].as_object();
        let argument = |(name, schema): (&String, &Value)| {
            let value = match name.as_str() {
                "schema" => tools[0]["inputSchema"].clone(),
                _ => value_of(schema)?,
            };
            Some((name.clone(), value))
        };
        let arguments: Map<String, Value> = properties
            .into_iter()
            .flatten()
            .filter_map(argument)
            .collect();
        Some((tool["name"].as_str()?.to_owned(), arguments.into()))
    };
    tools.iter().filter_map(call).collect()
}

fn value_of(schema: &Value) -> Option<Value> {
    Some(match schema["type"].as_str()? {
        "string" => json!("text"),
        "integer" | "number" => json!(7),
        "boolean" => json!(true),
        "array" => json!([]),
        "object" => json!({}),
        _ => return None,
    })
}
