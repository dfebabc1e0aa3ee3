//! Verifies the claims of a token (RFC 7519 4.1) against a policy.

use super::denied::Denied;
use super::json::{Json, Object};

/// The claims that a policy requires.
#[derive(Clone, Debug, Default)]
pub(super) struct RequiredClaims {
    pub(super) issuers: Vec<Box<str>>,
    pub(super) audiences: Vec<Box<str>>,
    pub(super) leeway_secs: i64,
    pub(super) claims: Vec<(Box<str>, Box<str>)>,
    /// Scopes, separated by spaces.
    pub(super) scope: String,
}

/// The last second of the year 9999. A later time is refused, because it is an error, usually a
/// time in milliseconds.
const SECS_MAX: i64 = 253_402_300_799;
/// Maximum length of a subject in OpenID Connect Core 2.
const SUBJECT_LEN_MAX: usize = 255;

impl RequiredClaims {
    /// Checks all claims and returns the subject. Validity is checked before permissions.
    pub(super) fn check(&self, claims: &Object<'_>, unix_secs: i64) -> Result<Box<str>, Denied> {
        self.check_times(claims, unix_secs)?;
        self.check_issuer(claims)?;
        self.check_audience(claims)?;
        let subject = claims.text("sub").map_err(|_| Denied::ClaimsMalformed)?.unwrap_or_default();
        if subject.len() > SUBJECT_LEN_MAX || subject.chars().any(char::is_control) {
            return Err(Denied::ClaimsMalformed);
        }
        self.check_rights(claims)?;
        Ok(subject.into())
    }

    /// Verifies that the token is valid from `nbf` on and before `exp`, each extended by the
    /// leeway.
    fn check_times(&self, claims: &Object<'_>, now: i64) -> Result<(), Denied> {
        let expiry = numeric_date(claims, "exp")?.ok_or(Denied::ExpiryMissing)?;
        if now >= expiry.saturating_add(self.leeway_secs) {
            return Err(Denied::Expired);
        }
        match numeric_date(claims, "nbf")? {
            Some(start) if now < start.saturating_sub(self.leeway_secs) => Err(Denied::NotYetValid),
            _ => Ok(()),
        }
    }

    fn check_issuer(&self, claims: &Object<'_>) -> Result<(), Denied> {
        let issuer = claims.text("iss").map_err(|_| Denied::ClaimsMalformed)?;
        let good = self.issuers.is_empty()
            || issuer.is_some_and(|issuer| self.issuers.iter().any(|required| **required == *issuer));
        if good { Ok(()) } else { Err(Denied::IssuerWrong) }
    }

    /// Verifies the audience. A token with an audience is valid only for that audience, even if the
    /// policy has no audience (RFC 7519 4.1.3).
    fn check_audience(&self, claims: &Object<'_>) -> Result<(), Denied> {
        let Some(audience) = claims.find("aud") else {
            return if self.audiences.is_empty() { Ok(()) } else { Err(Denied::AudienceWrong) };
        };
        let ours = audience.names_any(|name| self.audiences.iter().any(|required| **required == *name));
        if ours.ok_or(Denied::ClaimsMalformed)? { Ok(()) } else { Err(Denied::AudienceWrong) }
    }

    fn check_rights(&self, claims: &Object<'_>) -> Result<(), Denied> {
        for (name, required) in &self.claims {
            let found = claims.find(name).and_then(|value| value.names_any(|text| *text == **required));
            if found != Some(true) {
                return Err(Denied::ClaimMissing);
            }
        }
        for required in self.scope.split_ascii_whitespace() {
            let granted =
                claims.find("scope").and_then(|value| value.names_any(|text| grants(text, required)));
            if granted != Some(true) {
                return Err(Denied::ScopeMissing);
            }
        }
        Ok(())
    }
}

/// Whether a space-separated list of scopes (RFC 8693 4.2) contains `required`.
fn grants(scopes: &str, required: &str) -> bool {
    scopes.split(' ').any(|scope| scope == required)
}

/// Reads a NumericDate (RFC 7519 2) in whole seconds, rounded up. Rounding does not change the
/// result of comparisons with whole seconds.
fn numeric_date(claims: &Object<'_>, name: &str) -> Result<Option<i64>, Denied> {
    let secs = match claims.find(name) {
        None => return Ok(None),
        Some(Json::Integer(secs)) => *secs,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "the range is checked"
        )]
        Some(Json::Float(secs)) if (0.0..=SECS_MAX as f64).contains(secs) => secs.ceil() as i64,
        Some(_) => return Err(Denied::ClaimsMalformed),
    };
    if (0..=SECS_MAX).contains(&secs) { Ok(Some(secs)) } else { Err(Denied::ClaimsMalformed) }
}
