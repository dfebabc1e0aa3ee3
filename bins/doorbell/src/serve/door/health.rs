//! The reply of a health endpoint: rendered for every state at the start, chosen when a probe comes.
//!
//! Does not know about: what makes a state.

use super::with_headers;
use crate::config::model;
use crate::http::router::MethodSet;
use crate::http::{Method, StaticReply, Status};
use crate::serve::state::{Endpoint, State, Verdict};

#[derive(Debug)]
pub(super) struct Health {
    endpoint: Endpoint,
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
            endpoint: Endpoint::of(health),
            replies: Replies::build(headers, None)?,
            replies_to_options: Replies::build(headers, Some(&allow))?,
        })
    }

    #[inline]
    pub(super) fn reply(&self, state: &State, method: Method) -> &StaticReply {
        let replies = if method == Method::Options { &self.replies_to_options } else { &self.replies };
        match self.endpoint.verdict(state) {
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
