//! Push routes: accept the results of checks from the application.

use super::fixed::{Fixed, with_headers};
use crate::guards::browser::{is_cross_site, is_own_host};
use crate::query;
use doorbell::http::router::Params;
use doorbell::http::{Replied, Request, Responder, StaticReply, Status};
use doorbell_checks::options::CheckKind;
use doorbell_checks::{Finding, Push, PushRefused};
use doorbell_proxy_config::model::Config;
use std::collections::HashMap;

/// Accepts results for the checks of type `ttl`.
#[derive(Debug)]
pub(super) struct PushHandler {
    push: Push,
    /// Positions of the checks, by name.
    checks: HashMap<Box<[u8]>, usize>,
    accepted: StaticReply,
    busy: StaticReply,
    bad_result: StaticReply,
    bad_latency: StaticReply,
    cross_site: StaticReply,
    /// Whether the route is limited to named hosts.
    has_hosts: bool,
}

impl PushHandler {
    /// Builds the route; `None` if its header fields cannot be sent.
    pub(super) fn build(
        push: Push,
        config: &Config,
        has_hosts: bool,
        headers: &[(String, String)],
    ) -> Option<Self> {
        let pushed = config.checks.iter().enumerate();
        let pushed = pushed.filter(|(_, check)| matches!(check.kind, CheckKind::Ttl(_)));
        let text = |status, text: &'static str| with_headers(StaticReply::text(status, text), headers);
        Some(Self {
            push,
            checks: pushed.map(|(position, check)| (check.name.as_bytes().into(), position)).collect(),
            accepted: with_headers(StaticReply::new(Status::NO_CONTENT), headers)?,
            busy: text(Status::SERVICE_UNAVAILABLE, "too many results at once\n")?,
            bad_result: text(Status::BAD_REQUEST, "a result is pass, warn, fail or maintenance\n")?,
            bad_latency: text(
                Status::BAD_REQUEST,
                "a latency is a number of seconds or a duration, as in 2 or 250ms\n",
            )?,
            cross_site: text(Status::FORBIDDEN, "a page of another site may not push results\n")?,
            has_hosts,
        })
    }

    pub(super) fn send<'a>(
        &self,
        params: &Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let is_own = |host: &[u8]| self.has_hosts || is_own_host(host, &[]);
        let host = request.host_bytes().unwrap_or_default();
        if is_cross_site(|name| request.header(name), host, is_own) {
            return reply.send(&self.cross_site);
        }
        let value = |name| params.value(name).unwrap_or_default();
        let Some(&check) = self.checks.get(value("check")) else { return reply.send(&fixed.not_found) };
        let Some(outcome) = query::outcome(value("result")) else { return reply.send(&self.bad_result) };
        let query = request.query_bytes().unwrap_or_default();
        let Ok(latency) = query::duration(query, "latency") else { return reply.send(&self.bad_latency) };
        let finding = Finding { outcome, latency: latency.unwrap_or_default(), reason: query::note(query) };
        reply.send(match self.push.leave(check, finding) {
            Ok(()) => &self.accepted,
            Err(PushRefused::Full) => &self.busy,
            Err(PushRefused::NoCheck) => &fixed.not_found,
        })
    }
}
