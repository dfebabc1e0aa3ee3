//! HTTP/2 of the listeners of a configuration.

use doorbell::http::Limits;
use doorbell_grpc::OVERALL;
use doorbell_http2::{Common, GrpcOptions, ListenerOptions, Plan};
use doorbell_probes::Registry;
use doorbell_proxy_config::model::{AlbReply, ClientAuthMode, Config};
use std::sync::Arc;

/// Creates the plan; `None` if no listener has HTTP/2.
pub(crate) fn plan(config: &Config, registry: &Registry, common: Arc<Common>) -> Option<Plan> {
    (0..config.listeners.len()).find(|&listener| config.has_http2(listener))?;
    let grpc = config.grpc.enabled.then(|| (grpc_options(config), registry));
    Some(Plan::new(config.http2.max_connections, grpc, common))
}

fn grpc_options(config: &Config) -> GrpcOptions {
    let grpc = &config.grpc;
    let services = grpc.services.iter();
    let services = services.map(|(service, endpoint)| (service.value.clone(), endpoint.position));
    GrpcOptions {
        services: services.chain([(OVERALL.to_owned(), grpc.overall.position)]).collect(),
        watches_max: grpc.max_watches,
        watches_per_conn_max: grpc.watches_per_connection,
        always_healthy_for_alb: grpc.alb == AlbReply::Always,
    }
}

/// Options of the listener at this position.
pub(crate) fn listener_options(config: &Config, position: usize, limits: Limits) -> ListenerOptions {
    let tls = config.tls_of(position);
    ListenerOptions {
        limits,
        concurrent_streams_max: config.http2.concurrent_streams,
        streams_max: config.http2.max_requests,
        conns_per_ip_max: config.connections.per_ip_max,
        client_v6_len: config.runtime.client_ipv6_prefix,
        write_timeout: config.connections.write_timeout,
        linger_timeout: config.connections.linger_timeout,
        requests_client_cert: tls.is_some_and(|tls| tls.client_auth.mode != ClientAuthMode::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_proxy_config::{Source, parse};

    #[test]
    fn the_library_has_the_defaults_of_the_keys() {
        let text = "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n".to_owned();
        let config = parse(&Source { name: "f".to_owned(), text }, &|_| None).config.unwrap();
        let configured = listener_options(&config, 0, Limits::default());
        let default = ListenerOptions::new(Limits::default());
        assert_eq!(format!("{configured:?}"), format!("{default:?}"));
    }
}
