//! The bucket of artifacts, as configuration and environment say it.

use outrigger_host::config::Config;
use outrigger_journal::{Bucket, BucketSettings};

use crate::error::CommandError;
use crate::{surroundings, visible};

/// The bucket, where one is said, with the secrets that the environment has for it.
pub(super) fn of(config: &Config) -> Result<(Option<Bucket>, Vec<String>), CommandError> {
    let Some(said) = config.storage.bucket() else {
        return Ok((None, Vec::new()));
    };
    let settings = BucketSettings {
        ca_files: config.defaults.ca_files.clone(),
        environment: surroundings::of_buckets(),
        ..said
    };
    let secret = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    let secret = secret
        .iter()
        .filter_map(|name| settings.environment.get(*name));
    let secrets = secret.cloned().collect();
    let bucket = Bucket::open(&settings).map_err(|error| {
        let error = visible::line(&format!("`storage.artifacts`: {error}")).to_string();
        CommandError::usage(error)
            .hint("where artifacts are kept is not known, so nothing was started")
    })?;
    Ok((Some(bucket), secrets))
}
