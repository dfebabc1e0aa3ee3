//! The reply of a health endpoint: rendered for every state at the start, chosen when a probe comes.
//!
//! Does not know about: what makes a state.

use super::with_headers;
use crate::config::model::{self, HealthState};
use crate::http::router::MethodSet;
use crate::http::{Method, StaticReply, Status};
use crate::serve::state::{State, Verdict};

#[derive(Debug)]
pub(super) struct Health {
    initial: HealthState,
    /// False for endpoints that stay up while the process lives.
    is_readiness: bool,
    replies: Replies,
    /// The same with `Allow`.
    replies_to_options: Replies,
}

#[derive(Debug)]
struct Replies {
    degraded: StaticReply,
    down: StaticReply,
    draining: StaticReply,
    up: StaticReply,
}

impl Health {
    pub(super) fn build(
        health: &model::Health,
        headers: &[(String, String)],
        methods: &[Method],
    ) -> Option<Self> {
        let allow = MethodSet::of(methods).to_string();
        Some(Self {
            initial: health.initial,
            is_readiness: health.name != "livez" && health.name != "startupz",
            replies: Replies::build(headers, None)?,
            replies_to_options: Replies::build(headers, Some(&allow))?,
        })
    }

    #[inline]
    pub(super) fn reply(&self, state: &State, method: Method) -> &StaticReply {
        let verdict = match (self.initial, self.is_readiness) {
            (HealthState::Down, _) => Verdict::Down,
            (HealthState::Up, true) => state.readiness(),
            (HealthState::Up, false) => Verdict::Up,
        };
        let replies = if method == Method::Options { &self.replies_to_options } else { &self.replies };
        match verdict {
            Verdict::Degraded => &replies.degraded,
            Verdict::Down => &replies.down,
            Verdict::Draining => &replies.draining,
            Verdict::Up => &replies.up,
        }
    }
}

impl Replies {
    fn build(headers: &[(String, String)], allow: Option<&str>) -> Option<Self> {
        let reply = |status, word: &str| {
            let own_cache_control =
                headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
            let mut reply = with_headers(StaticReply::text(status, format!("{word}\n")), headers)?;
            if !own_cache_control {
                reply = reply.header("Cache-Control", "no-store").ok()?;
            }
            match allow {
                Some(allow) => reply.header("Allow", allow).ok(),
                None => Some(reply),
            }
        };
        Some(Self {
            degraded: reply(Status::SERVICE_UNAVAILABLE, "degraded")?,
            down: reply(Status::SERVICE_UNAVAILABLE, "down")?,
            draining: reply(Status::SERVICE_UNAVAILABLE, "draining")?,
            up: reply(Status::OK, "ok")?,
        })
    }
}
