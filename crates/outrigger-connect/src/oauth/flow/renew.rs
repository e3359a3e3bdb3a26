//! Renewing a token by its refresh token.
//!
//! Promises: one renewal at a time among all processes, the others take its result; a refresh token
//! that was refused is dropped and never sent again; one that was replaced is kept before the lock
//! ends.

use super::Flow;
use crate::oauth::error::Description;
use crate::oauth::grant::Grant;
use crate::oauth::{OAuthError, metadata, token};

/// What came of it.
pub(in crate::oauth) enum Renewed {
    Grant(Box<Grant>),
    /// It cannot be renewed any more and is not kept any longer.
    Ended(Description),
}

impl Flow {
    /// Renews `held`, which has ended or was refused.
    pub(in crate::oauth) async fn renew(&self, held: &Grant) -> Result<Renewed, OAuthError> {
        let _lock = self.lock(&held.key).await?;
        let Some(kept) = self.load(&held.key).await? else {
            return Ok(Renewed::Ended(Description::default()));
        };
        if kept.access_token != held.access_token && !kept.has_ended() {
            tracing::debug!(issuer = %kept.key.issuer, "renewed by another process");
            return Ok(Renewed::Grant(Box::new(kept)));
        }
        let Some(refresh_token) = &kept.refresh_token else {
            self.remove(&kept.key).await?;
            return Ok(Renewed::Ended(Description::default()));
        };
        let issuer = metadata::issuer(&self.fetch, &kept.key.issuer).await?;
        let form = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh_token.reveal().to_owned()),
        ];
        let asked = token::request(&self.fetch, &issuer, &kept.client, form, &kept.key.resource);
        match asked.await {
            Ok(token) => {
                let grant = kept.renewed(token);
                self.save(&grant).await?;
                tracing::debug!(issuer = %grant.key.issuer, "renewed");
                Ok(Renewed::Grant(Box::new(grant)))
            }
            // RFC 6749, section 5.2: the token or the client is not known any more.
            Err(OAuthError::Refused {
                error, description, ..
            }) if matches!(
                error.as_str(),
                "invalid_grant" | "invalid_client" | "unauthorized_client"
            ) =>
            {
                self.remove(&kept.key).await?;
                let words = description.0.unwrap_or(error);
                Ok(Renewed::Ended(Description(Some(words))))
            }
            Err(error) => Err(error),
        }
    }
}
