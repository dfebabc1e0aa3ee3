//! A TLS handshake and the remaining lifetime of the server's certificates.

use crate::connect::certificate::now;
use crate::connect::dialer::Dialer;
use crate::connect::tls::{Tls, accepted, handshake};
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::materials::Materials;
use crate::options::{CertificateRule, TlsCheck};
use crate::progress::{Progress, Stage};
use doorbell_config::format_duration;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

/// Performs a handshake with one address.
#[derive(Debug)]
pub(crate) struct TlsRunner {
    check: TlsCheck,
    dialer: Dialer,
    tls: Tls,
    timeout: Duration,
}

impl_kind_runner!(TlsRunner);

impl TlsRunner {
    pub(crate) fn build(check: &TlsCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&check.address, check.resolve).with_proxy_header(check.proxy_protocol);
        let tls = with.shared.tls.take(&check.tls, &[], true)?;
        Ok(Self { check: check.clone(), dialer, tls, timeout: with.pace.timeout })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        progress.enter(Stage::Handshake);
        let name = self.check.tls.server_name.as_deref().unwrap_or_else(|| self.check.address.host());
        let mut stream = handshake(&self.tls, name, conn).await?;
        let latency = start.elapsed();
        progress.see_tls(stream.get_ref().1, &self.tls);
        // Sends close_notify, as any client does at the end.
        let _gone = stream.shutdown().await;
        stream.get_mut().0.close_with_fin();
        if self.check.tls.identity().is_some() {
            // Half of the remaining time, so that a silent server does not cause a timeout.
            accepted(&mut stream, self.timeout.saturating_sub(start.elapsed()) / 2).await?;
        }
        worse(evaluate(progress, &self.check.certificate), in_time(latency, self.check.latency))
    }
}

/// Evaluates the remaining lifetime of the certificates of the last handshake.
pub(crate) fn evaluate(progress: &Progress, rule: &CertificateRule) -> Verdict {
    match progress.certificate() {
        Some(ends) => evaluate_certificate(ends, now(), rule),
        None if rule.is_empty() => Ok(()),
        None => Err(Issue::failure("the server's certificate cannot be parsed")),
    }
}

/// Evaluates the remaining lifetime of a certificate. Both times are since 1970.
fn evaluate_certificate(ends: Duration, now: Duration, rule: &CertificateRule) -> Verdict {
    let Some(left) = ends.checked_sub(now) else {
        // Only an unverified certificate can have expired. Its expiry is a failure only if the rule
        // limits the lifetime.
        return match rule.is_empty() {
            true => Ok(()),
            false => Err(Issue::failure("the certificate has expired")),
        };
    };
    let reason = |least| {
        let left = format_duration(Duration::from_secs(left.as_secs()));
        format!("the certificate expires in {left}, below the minimum of {}", format_duration(least))
    };
    match (rule.expires_after, rule.expires_within) {
        (Some(least), _) if left < least => Err(Issue::failure(reason(least))),
        (_, Some(least)) if left < least => Err(Issue::degraded(reason(least))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn the_remaining_lifetime_determines_the_verdict() {
        let rule = CertificateRule { expires_after: Some(DAY * 2), expires_within: Some(DAY * 14) };
        let now = DAY * 20_000;
        for (left, expected) in [
            (DAY * 15, "ok"),
            (DAY * 14, "ok"),
            (DAY * 13, "degraded: the certificate expires in 13d, below the minimum of 14d"),
            (DAY * 2, "degraded: the certificate expires in 2d, below the minimum of 14d"),
            (DAY, "failure: the certificate expires in 1d, below the minimum of 2d"),
        ] {
            let found = match evaluate_certificate(now + left, now, &rule) {
                Ok(()) => "ok".to_owned(),
                Err(issue) => format!("{}: {}", issue.outcome.as_str(), issue.reason),
            };
            assert_eq!(found, expected);
        }
        assert_eq!(
            evaluate_certificate(now - DAY, now, &rule).unwrap_err().reason,
            "the certificate has expired"
        );
        assert_eq!(evaluate_certificate(now - DAY, now, &CertificateRule::default()), Ok(()));
    }
}
