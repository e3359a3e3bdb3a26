//! Access tokens of an authorization server: JWTs that its keys have signed.
//!
//! Promises: only algorithms that configuration names, of public keys alone; issuer, audience and end
//! are required; whoever the token is about has one name here, and two have never the same.
//! Source: RFC 7519, RFC 8725, RFC 9068.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use globset::GlobMatcher;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use outrigger_connect::KeySource;
use outrigger_host::config::OAuthResource;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::Failure;
use super::keys::Keys;
use super::signature;

/// Seconds that two clocks may differ by.
const LEEWAY: u64 = 30;
/// Bytes of a token.
const LONGEST: usize = 16 << 10;
/// Bytes of a name.
const LONGEST_NAME: usize = 128;
/// For how long a token that was good is, before it is looked at again.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Tokens that are remembered at one time.
const MOST: usize = 4096;

/// Looks at them.
pub(super) struct Jwts {
    settings: OAuthResource,
    algorithms: Vec<Algorithm>,
    subjects: Vec<GlobMatcher>,
    keys: Keys,
    /// By hash: a signature costs more than that.
    good: Mutex<HashMap<[u8; 32], Good>>,
}

/// Whose, and until when.
type Good = (Arc<str>, Instant);
type Claims = Map<String, Value>;

impl Jwts {
    /// `None`: what was configured cannot be used, which was said when it was read.
    pub(super) fn new(settings: &OAuthResource) -> Option<Self> {
        signature::install();
        let algorithms = settings.algorithms.iter().map(|word| word.parse().ok());
        let subjects = settings.subjects.iter();
        let subjects = subjects.map(|glob| Some(globset::Glob::new(glob).ok()?.compile_matcher()));
        Some(Self {
            algorithms: algorithms.collect::<Option<_>>()?,
            subjects: subjects.collect::<Option<_>>()?,
            keys: Keys::new(KeySource::new(&settings.issuer, settings.jwks_uri.clone())?),
            settings: settings.clone(),
            good: Mutex::default(),
        })
    }

    /// Whose a token is.
    pub(super) async fn owner(&self, token: &str) -> Result<Arc<str>, Failure> {
        if token.len() > LONGEST {
            return Err(invalid("the token is too long"));
        }
        let hash: [u8; 32] = Sha256::digest(token).into();
        if let Some(name) = self.remembered(&hash) {
            return Ok(name);
        }
        let claims = self.claims(token).await?;
        let name: Arc<str> = self.name(&claims)?.into();
        self.remember(hash, &name, &claims);
        Ok(name)
    }

    async fn claims(&self, token: &str) -> Result<Claims, Failure> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| invalid("the token is not known here"))?;
        let kind = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
        // RFC 9068, section 4; many servers leave it at `JWT`.
        if !matches!(kind.as_str(), "jwt" | "at+jwt" | "application/at+jwt") {
            return Err(invalid("it is no access token"));
        }
        if !self.algorithms.contains(&header.alg) {
            return Err(invalid("it is signed in a way that is not taken here"));
        }
        let keys = self.keys.find(header.kid.as_deref(), header.alg).await;
        let keys = keys.map_err(Failure::Unavailable)?;
        let validation = self.validation(header.alg);
        let mut failure = invalid("it is signed by a key that is not known");
        for key in keys {
            match jsonwebtoken::decode::<Claims>(token, &key.public, &validation) {
                // More than one issuer is none.
                Ok(read) if read.claims["iss"] == self.settings.issuer => return Ok(read.claims),
                Ok(_) => failure = invalid("it is of another issuer"),
                Err(error) => failure = invalid(words(error.kind())),
            }
        }
        Err(failure)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_audience(&self.settings.audience);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation
    }

    /// The name of whom it is about, if they may be here.
    fn name(&self, claims: &Claims) -> Result<String, Failure> {
        let settings = &self.settings;
        let scopes = words_of(claims, &["scope", "scp"]);
        if !settings.scopes.iter().all(|scope| scopes.contains(scope)) {
            return Err(Failure::Scope);
        }
        let claim = claims.get(&settings.claim).and_then(Value::as_str);
        let subject = claim.filter(|subject| !subject.is_empty());
        let Some(subject) = subject else {
            let words = format!("it has no `{}`", settings.claim);
            return Err(Failure::Forbidden(words));
        };
        if !self.subjects.is_empty() && !self.subjects.iter().any(|glob| glob.is_match(subject)) {
            return Err(forbidden("it is about somebody who is not let in"));
        }
        let groups = words_of(claims, &[&settings.groups_claim]);
        if !settings.groups.is_empty() && !settings.groups.iter().any(|it| groups.contains(it)) {
            return Err(forbidden("it is of none of the groups that are let in"));
        }
        let name = named(subject);
        if name.len() > LONGEST_NAME {
            return Err(forbidden("the name that it is about is too long"));
        }
        Ok(name)
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Arc<str>> {
        let good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, until) = good.get(hash)?;
        (Instant::now() < *until).then(|| Arc::clone(name))
    }

    fn remember(&self, hash: [u8; 32], name: &Arc<str>, claims: &Claims) {
        let now = Instant::now();
        let end = claims.get("exp").and_then(Value::as_f64).unwrap_or(0.0);
        let end = Duration::try_from_secs_f64(end).unwrap_or_default();
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let left = end.saturating_sub(clock.unwrap_or(Duration::MAX));
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.len() >= MOST {
            good.retain(|_, (_, until)| now < *until);
        }
        if good.len() < MOST {
            let until = now + left.min(REMEMBERED);
            good.insert(hash, (Arc::clone(name), until));
        }
    }
}

fn invalid(words: &str) -> Failure {
    Failure::Invalid(words.to_owned())
}

fn forbidden(words: &str) -> Failure {
    Failure::Forbidden(words.to_owned())
}

fn words(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "it has ended",
        ErrorKind::ImmatureSignature => "it does not hold yet",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => "it names no audience",
        ErrorKind::MissingRequiredClaim(claim) if claim == "exp" => "it never ends",
        ErrorKind::MissingRequiredClaim(_) => "it names no issuer",
        ErrorKind::InvalidSignature => "its signature is not good",
        _ => "it cannot be read",
    }
}

/// The words of a claim: a text with spaces (RFC 8693, section 4.2), or a list.
fn words_of(claims: &Claims, names: &[&str]) -> Vec<String> {
    let values = names.iter().filter_map(|name| claims.get(*name));
    let words = values.flat_map(|value| match value {
        Value::String(text) => text.split(' ').map(str::to_owned).collect(),
        Value::Array(items) => {
            let texts = items.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    });
    words.collect()
}

/// A name that can stand in paths, out of any text. What cannot stand there is written as `%` and two
/// hex digits, so that two texts have never the same name.
fn named(subject: &str) -> String {
    let mut name = String::with_capacity(subject.len());
    for (at, byte) in subject.bytes().enumerate() {
        let good = byte.is_ascii_alphanumeric() || (at > 0 && b"_-.@".contains(&byte));
        if good {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_subjects_have_never_the_same_name() {
        for (subject, name) in [
            ("alice", "alice"),
            ("a.b-c_d@example.com", "a.b-c_d@example.com"),
            ("auth0|12", "auth0%7C12"),
            ("auth0%7C12", "auth0%257C12"),
            ("..", "%2E."),
            ("../x", "%2E.%2Fx"),
            ("é", "%C3%A9"),
            ("-rf", "%2Drf"),
        ] {
            assert_eq!(named(subject), name);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_name_leads_back_to_its_subject(subject in ".{1,40}") {
            let name = named(&subject);
            let mut bytes = Vec::new();
            let mut rest = name.as_str();
            while let Some(at) = rest.find('%') {
                bytes.extend(rest[..at].bytes());
                bytes.push(u8::from_str_radix(&rest[at + 1..at + 3], 16).unwrap());
                rest = &rest[at + 3..];
            }
            bytes.extend(rest.bytes());
            proptest::prop_assert_eq!(bytes, subject.into_bytes());
            proptest::prop_assert!(!name.contains('/') && !name.starts_with('.'));
        }
    }

    #[test]
    fn words_of_a_claim_are_a_text_or_a_list() {
        let claims = |json: &str| serde_json::from_str::<Claims>(json).unwrap();
        let of = |json: &str| words_of(&claims(json), &["scope", "scp"]);
        assert_eq!(of(r#"{"scope":"a b"}"#), ["a", "b"]);
        assert_eq!(of(r#"{"scp":["a","b c",7]}"#), ["a", "b c"]);
        assert!(of(r#"{"scope":{"a":1}}"#).is_empty());
    }
}
