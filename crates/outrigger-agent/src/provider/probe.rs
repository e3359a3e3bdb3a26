//! Asks a model server on this machine which models it has.
//!
//! Short and silent: a server that does not answer in time is not there. Nothing is started and
//! nothing is downloaded.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use super::Timeouts;

/// A server on this machine answers within this time or is taken as absent.
const PATIENCE: Duration = Duration::from_millis(300);

/// Where Ollama listens, from the value of `OLLAMA_HOST`: `host`, `host:port`, `:port` or a URL.
/// A server that listens everywhere is reached on the loopback address.
pub(super) fn ollama_url(host: Option<&str>) -> Option<Url> {
    let host = host.map_or("", str::trim).trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let default_port = match scheme {
        _ if !host.contains("://") => "11434",
        "https" => "443",
        _ => "80",
    };
    let (name, port) = match address.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (name, port)
        }
        _ => (address, default_port),
    };
    let name = match name {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        name => name,
    };
    let path = if path.is_empty() {
        String::new()
    } else {
        format!("{path}/")
    };
    format!("{scheme}://{name}:{port}/{path}v1").parse().ok()
}

/// The models that Ollama has installed, newest first, without those that only embed.
/// `None`: nothing answers there. `base` is its OpenAI-compatible URL.
pub(super) async fn ollama_models(base: &Url) -> Option<Vec<String>> {
    let mut url = base.clone();
    let root = base
        .path()
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .to_owned();
    url.set_path(&format!("{root}/api/tags"));
    let tags = get(url).await?;
    let models = tags.get("models")?.as_array()?;
    let talks = |model: &&Value| {
        let family = model
            .pointer("/details/family")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = model["name"].as_str().unwrap_or_default();
        !family.contains("bert") && !name.contains("embed")
    };
    Some(
        models
            .iter()
            .filter(talks)
            .filter_map(|model| model["name"].as_str())
            .map(str::to_owned)
            .collect(),
    )
}

/// The models that an OpenAI-compatible server lists. `None`: nothing answers there.
pub(super) async fn listed_models(base: &Url) -> Option<Vec<String>> {
    let list = get(super::wire::endpoint(base, "models")).await?;
    let models = list.get("data")?.as_array()?;
    Some(
        models
            .iter()
            .filter_map(|model| model["id"].as_str())
            .map(str::to_owned)
            .collect(),
    )
}

async fn get(url: Url) -> Option<Value> {
    let client = super::client(&url, Timeouts::default()).ok()?;
    let asked = async {
        let response = client.get(url).send().await.ok()?.error_for_status().ok()?;
        serde_json::from_slice(&response.bytes().await.ok()?).ok()
    };
    tokio::time::timeout(PATIENCE, asked).await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_in_all_its_forms() {
        let url = |host: Option<&str>| ollama_url(host).unwrap().to_string();
        assert_eq!(url(None), "http://127.0.0.1:11434/v1");
        assert_eq!(url(Some("0.0.0.0")), "http://127.0.0.1:11434/v1");
        assert_eq!(url(Some("box:9000")), "http://box:9000/v1");
        assert_eq!(url(Some(":9000")), "http://127.0.0.1:9000/v1");
        assert_eq!(url(Some("https://box/ollama/")), "https://box/ollama/v1");
        assert_eq!(url(Some("http://box:1234")), "http://box:1234/v1");
    }
}
