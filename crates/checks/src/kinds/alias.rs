//! The state of another check or endpoint: of this program, or in the health+json reply of another
//! doorbell.
//!
//! A missing or contradictory state is never up.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict};
use crate::kinds::expectations::HttpResponse;
use crate::kinds::http::HttpRunner;
use crate::kinds::lines::server_text;
use crate::kinds::materials::{Materials, StateReader};
use crate::kinds::{BoxedRun, KindRunner};
use crate::options::{AliasCheck, FieldValue, HttpCheck};
use crate::progress::Progress;
use doorbell_config::Secret;
use doorbell_health::{CheckState, Class, EndpointState, Format, Outcome};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

/// Follows one state.
#[derive(Debug)]
pub(crate) enum AliasRunner {
    Local { check: Box<AliasCheck>, states: Arc<dyn StateReader> },
    Remote { http: Box<HttpRunner>, bearer: Option<Secret> },
}

impl AliasRunner {
    pub(crate) fn build(check: &AliasCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let Some(followed) = check.followed() else {
            let bearer = check.bearer.clone();
            return Ok(Self::Remote { http: Box::new(HttpRunner::build(&request(check)?, with)?), bearer });
        };
        let states = with.shared.states.as_ref();
        let states = states.ok_or_else(|| format!("the state of {followed} cannot be read here"))?;
        match states.read(followed) {
            Some(_) => Ok(Self::Local { check: Box::new(check.clone()), states: Arc::clone(states) }),
            None => Err(format!("there is no {followed}")),
        }
    }

    async fn run(&self, progress: &Progress) -> Verdict {
        match self {
            Self::Local { check, states } => {
                let state = check.followed().and_then(|followed| states.read(followed));
                state.map_or_else(|| Err(Issue::error("the followed state is gone")), verdict)
            }
            Self::Remote { http, bearer } => {
                let (class, reason) = parse(&http.fetch(progress).await?)?;
                verdict((class, server_text(&reason, bearer.as_ref())))
            }
        }
    }
}

impl KindRunner for AliasRunner {
    fn dialer(&self) -> Option<&Dialer> {
        match self {
            Self::Local { .. } => None,
            Self::Remote { http, .. } => Some(http.dialer()),
        }
    }

    fn descriptors(&self) -> usize {
        0
    }

    fn run<'a>(&'a self, progress: &'a Progress, _start: Instant) -> BoxedRun<'a> {
        Box::pin(self.run(progress))
    }
}

fn verdict((class, reason): (Class, String)) -> Verdict {
    let outcome = match class {
        Class::Up => return Ok(()),
        Class::Degraded => Outcome::Degraded,
        Class::Down => Outcome::Failure,
        Class::Maintenance => Outcome::Maintenance,
        Class::Unknown => Outcome::Unknown,
    };
    Err(Issue { outcome, reason })
}

/// The request for a health+json reply of another doorbell.
fn request(check: &AliasCheck) -> Result<HttpCheck, String> {
    let mut url = check.url.clone().ok_or("nothing to follow")?;
    // By default, a route sends text whatever `Accept` is.
    url.target.push(if url.target.contains('?') { '&' } else { '?' });
    url.target.push_str("format=health+json");
    let accept = FieldValue::Open(Format::HealthJson.content_type().to_owned());
    Ok(HttpCheck {
        address: check.address.clone(),
        headers: vec![("Accept".to_owned(), accept)],
        bearer: check.bearer.clone(),
        tls: check.tls.clone(),
        resolve: check.resolve,
        ..HttpCheck::new(url)
    })
}

/// A health+json reply, of an endpoint or of one check.
#[derive(Deserialize)]
struct Reply {
    status: String,
    /// Only in detailed replies: the state, such as `down`; for an endpoint, followed by the
    /// deciding rule, as in `down by checks`.
    #[serde(default)]
    description: String,
    #[serde(default)]
    output: String,
    #[serde(default)]
    checks: FirstFailed,
}

/// Name and output of the first check that does not pass. A body begins with the checks that decide
/// the state.
#[derive(Default)]
struct FirstFailed(Option<(String, String)>);

/// The state that a reply reports, and the reason. A known state in the member `description`
/// decides, except that `up` with `"status": "fail"` is down. Without a known state, the member
/// `status` decides.
fn parse(response: &HttpResponse) -> Result<(Class, String), Issue> {
    let HttpResponse { status: code, body, is_cut, .. } = response;
    let reply: Reply = match serde_json::from_slice(body) {
        Ok(reply) if !is_cut => reply,
        _ => return Err(Issue::failure(format!("status {code}, and the content is not health+json"))),
    };
    let by_status = match (reply.status.as_str(), code) {
        ("pass", ..400) => Class::Up,
        ("warn", ..400) => Class::Degraded,
        ("fail", 400..) => Class::Down,
        (status, _) => {
            return Err(Issue::failure(format!("status {code} contradicts the state {status:?}")));
        }
    };
    // The state `going_down` still counts as up, although its status is `warn`.
    let class = match (class_of(&reply.description), by_status) {
        (Some(Class::Up), Class::Down) | (None, _) => by_status,
        (Some(class), _) => class,
    };
    let reason = match reply.checks.0 {
        _ if !reply.output.is_empty() => reply.output,
        Some((name, output)) => match output.split_once(": ") {
            Some((state, reason)) => format!("{name} {state} ({reason})"),
            None => format!("{name} {output}"),
        },
        None if reply.description.is_empty() => format!("status {code}, {}", reply.status),
        None => reply.description,
    };
    Ok((class, reason))
}

/// The class of the state in the description of an endpoint (`down by checks`) or of a check
/// (`down`).
fn class_of(description: &str) -> Option<Class> {
    if let Some((state, _rule)) = description.split_once(" by ") {
        let state = EndpointState::ALL.into_iter().find(|known| known.as_str() == state)?;
        return Some(state.class());
    }
    Some(match CheckState::ALL.into_iter().find(|known| known.as_str() == description)? {
        CheckState::Degraded => Class::Degraded,
        CheckState::Down | CheckState::Flapping | CheckState::GoingUp => Class::Down,
        CheckState::GoingDown | CheckState::Up => Class::Up,
        CheckState::Maintenance => Class::Maintenance,
        CheckState::Stale | CheckState::Unknown => Class::Unknown,
    })
}

impl<'de> Deserialize<'de> for FirstFailed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self(None))
    }
}

impl<'de> Visitor<'de> for FirstFailed {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("checks by name")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut checks: A) -> Result<Self, A::Error> {
        while let Some((name, results)) = checks.next_entry::<String, serde_json::Value>()? {
            let text = |key| results[0][key].as_str().unwrap_or_default();
            if self.0.is_none() && text("status") != "pass" {
                let name = name.strip_suffix(":responseTime").unwrap_or(&name);
                let name = name.replace("%3A", ":").replace("%25", "%");
                self.0 = Some((name, text("output").to_owned()));
            }
        }
        Ok(self)
    }
}
