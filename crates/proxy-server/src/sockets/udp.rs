//! `[udp.NAME]`: replies to datagrams, and ports that are closed while an endpoint does not
//! serve.

use crate::registry::HealthRegistry;
use crate::stats::server::ServerStats;
use doorbell::datagram::{DatagramHandler, DatagramListen, DatagramReply, DatagramRequest};
use doorbell::http::limit::Quota;
use doorbell::{Handle, ServerBuilder};
use doorbell_health::Audience;
use doorbell_probes::{ProbeCounters, Published, RunTrigger};
use doorbell_proxy_config::model::{Config, Udp, UdpReply, UdpWhenDown};
use std::num::NonZeroU16;
use std::sync::Arc;

/// Number of client addresses that the rate limit of a listener stores; they take 512 KiB.
const ADDRESSES_MAX: usize = 1 << 16;

/// The replies of one listener.
#[derive(Debug)]
struct Responder {
    /// `None` for an echo.
    bytes: Option<Box<[u8]>>,
    follows: Option<Follows>,
}

/// The endpoint of a listener.
#[derive(Debug)]
struct Follows {
    endpoint: usize,
    published: Arc<Published>,
    triggers: Box<[RunTrigger]>,
    probe_counters: Option<Arc<ProbeCounters>>,
}

/// Datagram listeners: index in the engine and, if the port is closed while an endpoint does not
/// serve, the position of that endpoint.
#[derive(Debug, Default)]
pub(crate) struct Closable(Vec<(usize, Option<usize>)>);

/// Adds the datagram listeners to the server and to its counters.
pub(crate) fn add(
    mut builder: ServerBuilder,
    config: &Config,
    registry: &HealthRegistry,
    server_stats: &mut ServerStats,
) -> (ServerBuilder, Closable) {
    let (mut closable, mut index) = (Vec::new(), 0);
    for udp in &config.udp {
        for bind in &udp.binds {
            server_stats.datagrams.push(udp.name.as_str().into());
            let follows = udp.follows().map(|link| Follows::of(registry, link.position));
            let bytes = if udp.reply == UdpReply::Echo { None } else { udp.bytes() };
            let responder = Responder { bytes: bytes.map(Vec::into_boxed_slice), follows };
            let listen = options(DatagramListen::udp(bind.value), udp)
                .v6_only(config.bound_datagram(bind.value).v6_only);
            builder =
                builder.listen_datagrams(listen.client_v6_len(config.runtime.client_ipv6_prefix), responder);
            let closes = udp.when_down == UdpWhenDown::Unreachable;
            closable.push((index, udp.follows().filter(|_| closes).map(|link| link.position)));
            index += 1;
        }
    }
    (builder, Closable(closable))
}

fn options(listen: DatagramListen, udp: &Udp) -> DatagramListen {
    let factor = u16::try_from(udp.amplification).ok().and_then(NonZeroU16::new);
    let quota = udp.per_ip_rate.and_then(|rate| Quota::per_second(rate).ok());
    listen
        .name(&udp.name)
        .size_max(udp.max_size as usize)
        .amplification(factor.unwrap_or(NonZeroU16::MIN))
        .limit(quota.map(|quota| (quota, ADDRESSES_MAX)))
        .recv_buf_len(udp.receive_buffer.map(|bytes| bytes as usize))
}

impl Closable {
    /// Closes and opens the ports of a running server, now and after every change of a state. Once
    /// the server has begun to close its listeners, the ports stay as they are.
    pub(crate) fn follow(&self, registry: &HealthRegistry, handle: &Handle) {
        for &(index, endpoint) in &self.0 {
            let Some(endpoint) = endpoint else {
                // The previous server may have closed the port after this server took over its
                // socket.
                if let Err(error) = handle.refuse_datagrams(index, false) {
                    tracing::warn!(%error, "cannot open a UDP port");
                }
                continue;
            };
            let handle = handle.clone();
            registry.follow(move |serving| {
                let (_, is_up) = serving.state(endpoint, Audience::LoadBalancer);
                if let Err(error) = handle.refuse_datagrams(index, !is_up) {
                    tracing::warn!(%error, "cannot open or close a UDP port: clients get no reply instead");
                }
            });
        }
    }
}

impl Follows {
    fn of(registry: &HealthRegistry, endpoint: usize) -> Self {
        Self {
            endpoint,
            published: Arc::clone(registry.published()),
            triggers: registry.triggers_of(endpoint),
            probe_counters: registry.prober_stats().probe_counters(endpoint).cloned(),
        }
    }

    /// Whether the endpoint serves load balancers. Counts a probe, and requests runs of on-demand
    /// checks.
    fn is_up(&self, request: &DatagramRequest<'_>) -> bool {
        self.triggers.iter().for_each(RunTrigger::request);
        let (state, is_up) = self.published.load().states(self.endpoint)[Audience::LoadBalancer as usize];
        if let Some(probe_counters) = &self.probe_counters {
            probe_counters.own().count(None, state, request.now());
        }
        is_up
    }
}

impl DatagramHandler for Responder {
    fn handle(&self, request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
        if self.follows.as_ref().is_none_or(|follows| follows.is_up(request)) {
            reply.send(self.bytes.as_deref().unwrap_or_else(|| request.payload()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::testing::{DatagramOutcome, ask_datagram};

    #[test]
    fn fixed_and_echoed_replies() {
        let reply = |bytes: Option<&[u8]>, payload: &str| {
            let responder = Responder { bytes: bytes.map(Into::into), follows: None };
            ask_datagram(&responder, payload)
        };
        assert_eq!(reply(None, "x y"), DatagramOutcome::Reply(b"x y".to_vec()));
        assert_eq!(reply(Some(b"pong"), "ping"), DatagramOutcome::Reply(b"pong".to_vec()));
        assert_eq!(reply(Some(b"pong"), "p"), DatagramOutcome::TooLong);
    }
}
