//! A protected MCP server and its authorization server, on one loopback socket. Each fault of an
//! authorization server is a knob.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use outrigger_connect::{
    AuthorizationHandler, HttpSpec, OAuthSettings, ServerSpec, TransportSpec, Visit, VisitError,
};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::peer::spec;
use crate::web::{Asked, Reply, Web, good, plain};

/// What this authority does wrong, or differently.
#[derive(Clone)]
pub(crate) struct Knobs {
    /// Merged into the authorization-server metadata; `null` removes a member.
    pub(crate) metadata: Value,
    /// Merged into the protected-resource metadata; `null` removes a member.
    pub(crate) resource: Value,
    /// The path of its issuer.
    pub(crate) tenant: &'static str,
    /// Seconds that tokens live.
    pub(crate) lives: u64,
    /// Refresh tokens are refused.
    pub(crate) forgets: bool,
    /// The resource refuses every token.
    pub(crate) refuses_all: bool,
    /// `tools/call` needs this scope.
    pub(crate) call_scope: Option<&'static str>,
    /// Only these scopes are granted, whatever is asked for.
    pub(crate) grants: Option<&'static str>,
    /// The redirect carries these instead of the right ones.
    pub(crate) redirect: Vec<(&'static str, &'static str)>,
    /// `scope` of the challenge.
    pub(crate) challenge_scope: Option<&'static str>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            metadata: json!({}),
            resource: json!({}),
            tenant: "",
            lives: 3600,
            forgets: false,
            refuses_all: false,
            call_scope: None,
            grants: None,
            redirect: Vec::new(),
            challenge_scope: None,
        }
    }
}

#[derive(Default)]
struct Records {
    /// Access tokens and their scopes.
    tokens: HashMap<String, String>,
    refresh: HashMap<String, String>,
    codes: HashMap<String, HashMap<String, String>>,
    visits: Vec<HashMap<String, String>>,
    requests: Vec<HashMap<String, String>>,
    authorizations: Vec<Option<String>>,
    registrations: Vec<Value>,
    revoked: HashSet<String>,
    count: usize,
}

/// The server; it is gone when this is dropped.
pub(crate) struct Authority {
    pub(crate) web: Web,
    pub(crate) knobs: Arc<Mutex<Knobs>>,
    records: Arc<Mutex<Records>>,
}

impl Authority {
    pub(crate) async fn new(knobs: Knobs) -> Self {
        let knobs = Arc::new(Mutex::new(knobs));
        let records: Arc<Mutex<Records>> = Arc::default();
        let (its_knobs, its_records) = (knobs.clone(), records.clone());
        let web = Web::new(move |asked| {
            let knobs = its_knobs.lock().unwrap().clone();
            let mut records = its_records.lock().unwrap();
            answer(asked, &knobs, &mut records)
        })
        .await;
        Self {
            web,
            knobs,
            records,
        }
    }

    pub(crate) fn base(&self) -> String {
        self.web.url.trim_end_matches("/mcp").to_owned()
    }

    pub(crate) fn http(&self, settings: OAuthSettings) -> HttpSpec {
        HttpSpec {
            oauth: settings,
            ..HttpSpec::new(self.web.url.parse().unwrap())
        }
    }

    pub(crate) fn spec(&self) -> ServerSpec {
        self.spec_with(OAuthSettings::default())
    }

    pub(crate) fn spec_with(&self, settings: OAuthSettings) -> ServerSpec {
        spec(TransportSpec::Http(self.http(settings)))
    }

    /// Somebody who signs in at once.
    pub(crate) fn person(&self) -> Arc<Person> {
        Arc::new(Person {
            knobs: self.knobs.clone(),
            records: self.records.clone(),
            redirect: "http://127.0.0.1:9/callback".parse().unwrap(),
        })
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap()
    }

    /// What pages were visited with.
    pub(crate) fn visits(&self) -> Vec<HashMap<String, String>> {
        self.records().visits.clone()
    }

    /// The requests for tokens of this kind.
    pub(crate) fn requests(&self, grant: &str) -> Vec<HashMap<String, String>> {
        let mut requests = self.records().requests.clone();
        requests.retain(|form| form["grant_type"] == grant);
        requests
    }

    /// The `Authorization` headers of all requests for tokens.
    pub(crate) fn authorizations(&self) -> Vec<Option<String>> {
        self.records().authorizations.clone()
    }

    pub(crate) fn registrations(&self) -> Vec<Value> {
        self.records().registrations.clone()
    }

    pub(crate) fn revoked(&self) -> usize {
        self.records().revoked.len()
    }

    /// The resource knows none of the tokens issued so far any more.
    pub(crate) fn forget_tokens(&self) {
        self.records().tokens.clear();
    }

    pub(crate) fn asked(&self, path: &str) -> usize {
        let asked = self.web.asked.lock().unwrap();
        asked.iter().filter(|one| one.path == path).count()
    }
}

/// Signs in as a browser would, without one.
#[derive(Clone)]
pub(crate) struct Person {
    knobs: Arc<Mutex<Knobs>>,
    records: Arc<Mutex<Records>>,
    redirect: Url,
}

impl AuthorizationHandler for Person {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Visit>, VisitError>> {
        let visit: Box<dyn Visit> = Box::new(self.clone());
        Box::pin(std::future::ready(Ok(visit)))
    }
}

impl Visit for Person {
    fn redirect_uri(&self) -> &Url {
        &self.redirect
    }

    fn run(self: Box<Self>, page: Url) -> BoxFuture<'static, Result<String, VisitError>> {
        let asked: HashMap<String, String> = page.query_pairs().into_owned().collect();
        let mut records = self.records.lock().unwrap();
        records.count += 1;
        let code = format!("code-{}", records.count);
        let mut back: HashMap<&str, String> = HashMap::new();
        back.insert("code", code.clone());
        back.insert("state", asked["state"].clone());
        for (name, value) in &self.knobs.lock().unwrap().redirect {
            back.insert(name, (*value).to_owned());
        }
        records.codes.insert(code, asked.clone());
        records.visits.push(asked);
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(back)
            .finish();
        Box::pin(std::future::ready(Ok(query)))
    }
}

fn answer(asked: &Asked, knobs: &Knobs, records: &mut Records) -> Reply {
    let base = format!("http://{}", asked.header("host").unwrap());
    let issuer = format!("{base}{}", knobs.tenant);
    match asked.path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            let usual =
                json!({ "resource": format!("{base}/mcp"), "authorization_servers": [issuer] });
            document(usual, &knobs.resource)
        }
        path if path == format!("/.well-known/oauth-authorization-server{}", knobs.tenant) => {
            document(metadata(&base, &issuer), &knobs.metadata)
        }
        "/register" => register(asked, records),
        "/token" => token(asked, knobs, records),
        "/revoke" => {
            records.revoked.insert(form(asked)["token"].clone());
            plain(200, "text/plain", "")
        }
        "/mcp" => resource(asked, &base, knobs, records),
        _ => plain(404, "text/plain", "no such page"),
    }
}

fn metadata(base: &str, issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "revocation_endpoint": format!("{base}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

fn document(mut usual: Value, merged: &Value) -> Reply {
    for (name, value) in merged.as_object().unwrap() {
        if value.is_null() {
            usual.as_object_mut().unwrap().remove(name);
        } else {
            usual[name] = value.clone();
        }
    }
    plain(200, "application/json", &usual.to_string())
}

fn register(asked: &Asked, records: &mut Records) -> Reply {
    records.registrations.push(asked.body.clone());
    let client = json!({ "client_id": format!("client-{}", records.registrations.len()) });
    plain(201, "application/json", &client.to_string())
}

fn form(asked: &Asked) -> HashMap<String, String> {
    form_urlencoded::parse(asked.text.as_bytes())
        .into_owned()
        .collect()
}

fn token(asked: &Asked, knobs: &Knobs, records: &mut Records) -> Reply {
    let form = form(asked);
    records.requests.push(form.clone());
    records
        .authorizations
        .push(asked.header("authorization").map(str::to_owned));
    let scope = match form["grant_type"].as_str() {
        "authorization_code" => records
            .codes
            .remove(&form["code"])
            .filter(|visit| visit["code_challenge"] == s256(&form["code_verifier"]))
            .filter(|visit| visit["redirect_uri"] == form["redirect_uri"])
            .map(|visit| visit.get("scope").cloned().unwrap_or_default()),
        "refresh_token" => records
            .refresh
            .remove(&form["refresh_token"])
            .filter(|_| !knobs.forgets),
        _ => Some(form.get("scope").cloned().unwrap_or_default()),
    };
    let Some(scope) = scope else {
        let refusal = json!({ "error": "invalid_grant", "error_description": "revoked" });
        return plain(400, "application/json", &refusal.to_string());
    };
    let scope = knobs.grants.map_or(scope, str::to_owned);
    records.count += 1;
    let (access, refresh) = (
        format!("access-{}", records.count),
        format!("refresh-{}", records.count),
    );
    records.tokens.insert(access.clone(), scope.clone());
    let mut issued = json!({ "access_token": access, "token_type": "Bearer", "expires_in": knobs.lives, "scope": scope });
    if form["grant_type"] != "client_credentials" {
        records.refresh.insert(refresh.clone(), scope);
        issued["refresh_token"] = refresh.into();
    }
    plain(200, "application/json", &issued.to_string())
}

/// RFC 7636, section 4.6: what the issuer compares.
fn s256(verifier: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(verifier))
}

fn resource(asked: &Asked, base: &str, knobs: &Knobs, records: &Records) -> Reply {
    let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
    let refuse = |status, error: &str, scope: Option<&str>| {
        let scope = scope
            .map(|scope| format!(", scope=\"{scope}\""))
            .unwrap_or_default();
        let challenge =
            format!("Bearer resource_metadata=\"{metadata}\", error=\"{error}\"{scope}");
        Reply::Full(status, vec![("WWW-Authenticate", challenge)], String::new())
    };
    let token = asked
        .header("authorization")
        .and_then(|header| header.strip_prefix("Bearer "));
    let scope = token.and_then(|token| records.tokens.get(token));
    let Some(scope) = scope.filter(|_| !knobs.refuses_all) else {
        return refuse(401, "invalid_token", knobs.challenge_scope);
    };
    match knobs.call_scope {
        Some(wanted)
            if asked.method() == "tools/call" && !scope.split(' ').any(|scope| scope == wanted) =>
        {
            refuse(403, "insufficient_scope", Some(wanted))
        }
        _ => good(asked),
    }
}
