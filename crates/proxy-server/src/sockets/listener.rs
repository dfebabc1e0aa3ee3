//! One listener: its sockets and protocols.

use super::descriptor_store::{self, InheritedSockets};
use super::raw::FixedReply;
use super::{address, inherit};
use crate::build::access_log::{self, HttpVersion};
use crate::build::http2::listener_options;
use crate::build::tls::{self, Pairs};
use crate::exit::Failure;
use crate::reload::watch::Watched;
use crate::routes::{BareService, LayeredService, Materials, RouteService};
use crate::stats::server::ServerStats;
use crate::workers;
use doorbell::access_log::AccessLog;
use doorbell::http::Service;
use doorbell::http::forwarded::{ForwardedFrom, Networks, TrustedProxies};
use doorbell::http::layer::AtMost;
use doorbell::protocol::{HelloInfo, ListenerProtocol};
use doorbell::tls::Acceptor;
use doorbell::{Listen, ServerBuilder};
use doorbell_http2::Plan;
use doorbell_proxy_config::model::{Config, Forwarded, Listener, Protocol, ProxyProtocol, Tls};
use doorbell_proxy_config::{Bind, BoundAddr};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for which the kernel delays accept(2) while no bytes have arrived (tcp(7),
/// `TCP_DEFER_ACCEPT`).
const DEFER_ACCEPT: Duration = Duration::from_secs(3);

/// Settings shared by all addresses of a listener.
#[derive(Debug)]
struct ListenerSettings<'a> {
    position: usize,
    access: Option<&'a AccessLog>,
    acceptor: Option<Acceptor>,
    at_most: Option<AtMost>,
}

/// Adds a listener with all its addresses.
pub(crate) fn add(
    mut builder: ServerBuilder,
    materials: &Materials<'_>,
    position: usize,
    access: Option<&AccessLog>,
    acceptor: Option<Acceptor>,
    server_stats: &mut ServerStats,
    plan: &mut Option<Plan>,
) -> Result<ServerBuilder, Failure> {
    let config = materials.config;
    let Some(listener) = config.listeners.get(position) else { return Ok(builder) };
    let tls = config.tls_of(position).map_or("", |tls| tls.name.as_str());
    let named = |acceptor: &Acceptor| (listener.name.as_str().into(), tls.into(), acceptor.clone());
    server_stats.acceptors.extend(acceptor.as_ref().map(named));
    let at_most = materials.common.tables().of_listener(&listener.name).cloned();
    let shared = ListenerSettings { position, access, acceptor, at_most };
    for bind in &listener.binds {
        for listen in listens(bind, config)? {
            let protocol = protocol(materials, listener, &shared, server_stats, plan.as_mut())?;
            server_stats.listeners.push(listener.name.as_str().into());
            builder = builder.listen(options(listen, listener).label(&listener.name), protocol);
        }
    }
    Ok(builder)
}

/// Creates the TLS acceptor of a listener with these certificates.
pub(crate) fn acceptor(
    pairs: Pairs,
    materials: &Materials<'_>,
    (position, table): (usize, &Tls),
    watched: &mut Vec<Box<dyn Watched>>,
) -> Result<Acceptor, Failure> {
    let config = materials.config;
    let gate = materials.common.tables().gate(&table.name);
    let (auth_mode, http2) = (config.handshake_client_auth(position), config.has_http2(position));
    let (acceptor, reader) = tls::open(pairs, table, auth_mode, http2, gate)
        .map_err(|error| Failure::bad_config(format!("tls {}: {error}", table.name)))?;
    watched.push(Box::new(reader));
    Ok(acceptor)
}

fn options(listen: Listen, listener: &Listener) -> Listen {
    let tcp = &listener.tcp;
    let bytes = |size: Option<u32>| size.map(|bytes| bytes as usize);
    let listen = listen
        .backlog(tcp.backlog)
        .balance(listener.balance)
        .mode(listener.mode)
        .defer_accept(tcp.defer_accept.then_some(DEFER_ACCEPT))
        .nodelay(tcp.nodelay)
        .quickack(tcp.quickack)
        .recv_buf_len(bytes(tcp.receive_buffer))
        .send_buf_len(bytes(tcp.send_buffer))
        .keepalive(tcp.keepalive)
        .fast_open(tcp.fast_open.unwrap_or(0))
        .dscp(u8::try_from(tcp.dscp).unwrap_or(0));
    let trusted = || networks(listener);
    match listener.proxy_protocol {
        ProxyProtocol::Accept => listen.proxy_protocol(doorbell::ProxyProtocol::accept(trusted())),
        ProxyProtocol::Off => listen,
        ProxyProtocol::Require => listen.proxy_protocol(doorbell::ProxyProtocol::require(trusted())),
    }
}

fn networks(listener: &Listener) -> Networks {
    listener.trusted().collect()
}

fn protocol(
    materials: &Materials<'_>,
    listener: &Listener,
    shared: &ListenerSettings<'_>,
    server_stats: &mut ServerStats,
    plan: Option<&mut Plan>,
) -> Result<ListenerProtocol, Failure> {
    let acceptor = shared.acceptor.clone();
    Ok(match listener.protocol {
        Protocol::Http1 => {
            let http = routes(materials, listener, shared, HttpVersion::Http1)?;
            server_stats.refusals.push(http.refusals());
            match plan {
                Some(plan) if listener.http2 => {
                    let http2 = routes(materials, listener, shared, HttpVersion::Http2)?;
                    server_stats.refusals.push(http2.refusals());
                    let options = listener_options(materials.config, shared.position, http_limits(listener));
                    plan.add(options, http2, acceptor.clone());
                }
                Some(plan) => plan.add_none(),
                None => {}
            }
            match acceptor {
                Some(acceptor) if listener.http2 => http.tls(acceptor).hand_over_if(prefers_http2).into(),
                Some(acceptor) => http.tls(acceptor).into(),
                None => http.into(),
            }
        }
        Protocol::Raw => {
            plan.into_iter().for_each(Plan::add_none);
            let reply = listener.reply.as_deref().unwrap_or_default();
            let raw = doorbell::Raw::new(FixedReply::new(reply, listener.speaks_first));
            let raw = raw.timeout(listener.timeouts.header);
            match acceptor {
                Some(acceptor) => raw.tls(acceptor).into(),
                None => raw.into(),
            }
        }
    })
}

/// Builds the routes of a listener for one protocol.
fn routes(
    materials: &Materials<'_>,
    listener: &Listener,
    shared: &ListenerSettings<'_>,
    version: HttpVersion,
) -> Result<doorbell::Http1, Failure> {
    let routes = RouteService::build(materials, shared.position, version).map_err(Failure::bad_config)?;
    let watched = LayeredService {
        routes,
        log: shared.access.map(|log| Arc::new(access_log::logger(materials.config, log, version))),
        proxies: proxies(listener),
        at_most: shared.at_most.clone(),
    };
    let limits = http_limits(listener);
    let routes = Arc::clone(&watched.routes);
    let (service, http) = match (watched.is_idle(), routes.counts()) {
        (true, true) => duplicate(BareService::<true>(watched.routes)),
        (true, false) => duplicate(BareService::<false>(watched.routes)),
        (false, _) => duplicate(watched),
    };
    materials.services.add(listener, version, routes, service);
    let http = http.limits(limits);
    match materials.config.tls_of(shared.position).and_then(|tls| tls.hsts.as_ref()) {
        Some(hsts) => http.hsts(hsts).map_err(Failure::bad_config),
        None => Ok(http),
    }
}

/// Returns a service twice: for the server, and for connections from the previous configuration.
fn duplicate<S: Service + Clone + Send + Sync + 'static>(
    service: S,
) -> (Arc<dyn Service + Send + Sync>, doorbell::Http1) {
    (Arc::new(service.clone()), doorbell::Http1::new(service))
}

/// Whether HTTP/2 is the first supported protocol in the client's ALPN list, which is in order of
/// preference (RFC 7301 3.1).
fn prefers_http2(hello: &HelloInfo<'_>) -> bool {
    hello.alpn.iter().find(|name| [&b"h2"[..], b"http/1.1", b"http/1.0"].contains(name)) == Some(&&b"h2"[..])
}

fn proxies(listener: &Listener) -> Option<TrustedProxies> {
    let from = match listener.forwarded {
        Forwarded::Off => return None,
        Forwarded::Forwarded => ForwardedFrom::Forwarded,
        Forwarded::XForwardedFor => ForwardedFrom::XForwardedFor,
    };
    Some(TrustedProxies::new(networks(listener), from))
}

pub(crate) fn listens(bind: &Bind, config: &Config) -> Result<Vec<Listen>, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    Ok(match bind {
        Bind::Fd(fd) => vec![Listen::inherited(inherit::numbered(*fd)?)],
        Bind::Systemd(name) => inherit::named(name, &env)?.into_iter().map(Listen::inherited).collect(),
        Bind::Tcp(addr) => {
            let bound = address::for_workers(*addr, config);
            if bound.addr != *addr {
                tracing::warn!("IPv6 is not available: {addr} listens on all IPv4 addresses instead");
            }
            tcp_listens(bound, config)
        }
        Bind::Unix(path) => vec![Listen::unix(path)],
    })
}

/// Sockets of a TCP address. Uses those of the previous process, if the service manager stored any.
fn tcp_listens(bound: BoundAddr, config: &Config) -> Vec<Listen> {
    let InheritedSockets { own, extra } = descriptor_store::take(bound, workers::count(config));
    let first = Listen::tcp(bound.addr).v6_only(bound.v6_only).listening(own);
    std::iter::once(first).chain(extra.into_iter().map(Listen::inherited)).collect()
}

fn http_limits(Listener { limits, keep_alive, timeouts, .. }: &Listener) -> doorbell::http::Limits {
    let default = doorbell::http::Limits::default();
    let head_bytes_max = limits.header_bytes as usize;
    doorbell::http::Limits {
        head_bytes_max,
        request_line_bytes_max: default.request_line_bytes_max.min(head_bytes_max),
        fields_max: limits.headers,
        body_bytes_max: limits.body_bytes as usize,
        requests_per_conn_max: keep_alive.max_requests,
        header_timeout: timeouts.header,
        idle_timeout: keep_alive.idle,
        body_idle_timeout: timeouts.body,
        body_total_timeout: default.body_total_timeout.max(timeouts.body),
        conn_age_max: keep_alive.max_age.unwrap_or(Duration::MAX),
        keep_alive: keep_alive.enabled,
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::model::KeepAlive;

    #[test]
    fn the_clients_first_choice_among_ours_decides() {
        let prefers = |alpn: &[&'static str]| {
            let alpn = alpn.iter().map(|name| name.as_bytes()).collect();
            prefers_http2(&HelloInfo { server_name: None, alpn })
        };
        assert!(prefers(&["h2"]) && prefers(&["h2", "http/1.1"]) && prefers(&["h3", "h2"]));
        assert!(
            !prefers(&[])
                && !prefers(&["http/1.1", "h2"])
                && !prefers(&["http/1.0", "h2"])
                && !prefers(&["http/1.1"])
                && !prefers(&["H2"])
        );
    }

    #[test]
    fn the_maximum_age_of_connections_is_configurable() {
        let default = Listener::default();
        let age = |max_age| {
            let keep_alive = KeepAlive { max_age, ..KeepAlive::default() };
            http_limits(&Listener { keep_alive, ..default.clone() }).conn_age_max
        };
        assert_eq!(age(default.keep_alive.max_age), doorbell::http::Limits::default().conn_age_max);
        assert_eq!(age(Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(age(None), Duration::MAX);
    }
}
