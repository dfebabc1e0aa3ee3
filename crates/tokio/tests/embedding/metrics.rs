//! Promise: the metrics of an embedding program have the names and values of the program
//! `doorbell`, as a page and as a collector, and do not keep a server running.
//!
//! Does not know about: the texts of other families, see the golden files of the program.

use std::collections::BTreeSet;

use doorbell_testkit::peers::exchange;
use doorbell_tokio::prometheus_client::encoding::text::encode;
use doorbell_tokio::prometheus_client::registry::Registry;
use doorbell_tokio::{Control, Embed, Handed, Health, Metrics, Ttl};

use crate::common::{ENGINES, builder, limited, on_runtime, status, until};

/// Metrics of the program `doorbell`.
const PROGRAM: &str = include_str!("../../../proxy-server/src/stats/metrics/golden/metrics.txt");

/// Families that only a program with an embedded server has.
const OWN: [&str; 2] = ["doorbell_handed_", "doorbell_runtime_"];

fn page(metrics: &Metrics) -> String {
    metrics.render(b"").1
}

/// The value of the sample that begins with this name and these labels.
fn value(page: &str, sample: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

fn families(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect()
}

async fn server(way: usize, health: &Health) -> (Control, Handed) {
    match ENGINES.get(way) {
        Some(way) => Embed::new(builder(*way, health)).health(health).start(),
        None => on_runtime(health).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_follow_the_health_and_the_server() {
    for way in 0..=ENGINES.len() {
        let health =
            limited(|health| health.push("queue", Ttl::of(std::time::Duration::from_secs(3_600)).required()));
        let (control, handed) = server(way, &health).await;
        control.ready().await.unwrap();
        let metrics = health.metrics().with_server(&control);
        let ready = "doorbell_endpoint_up{endpoint=\"readyz\"}";
        assert_eq!(value(&page(&metrics), ready), Some(0.0));
        health.set_ready(true);
        health.pushed("queue").unwrap().ok();
        until("the result is known", || health.is_ready()).await;
        let addr = control.tcp_addr(0).unwrap();
        let probed =
            tokio::task::spawn_blocking(move || (0..3).map(|_| status(addr, "/readyz")).collect::<Vec<_>>());
        assert_eq!(probed.await.unwrap(), [Ok(200), Ok(200), Ok(200)]);
        until("the requests are counted", || {
            value(&page(&metrics), "doorbell_requests_total{protocol=\"http1\"}") >= Some(3.0)
        })
        .await;
        let now = page(&metrics);
        assert_eq!(
            (value(&now, ready), value(&now, "doorbell_check_up{check=\"queue\"}")),
            (Some(1.0), Some(1.0))
        );
        let probes = "doorbell_probes_total{endpoint=\"readyz\",prober=\"other\",verdict=\"up\"}";
        assert_eq!(value(&now, probes), Some(3.0), "{now}");
        assert_eq!(value(&now, "doorbell_handed_active"), Some(0.0));
        let accepted = [
            "doorbell_worker_connections_accepted_total{worker=\"0\"}",
            "doorbell_runtime_connections_accepted_total",
        ];
        let expected = if way < ENGINES.len() { [Some(3.0), None] } else { [None, Some(3.0)] };
        // A worker counts connections at the end of a turn, after their requests.
        let accepted = || {
            let now = page(&metrics);
            accepted.map(|name| value(&now, name))
        };
        until("the connections are counted", || accepted() == expected).await;
        let foreign: Vec<_> = families(&now).difference(&families(PROGRAM)).copied().collect();
        assert!(foreign.iter().all(|family| OWN.iter().any(|own| family.starts_with(own))), "{foreign:?}");
        // The metrics do not keep the server.
        drop((control, handed));
        until("the server is gone", || !page(&metrics).contains("doorbell_requests")).await;
    }
}

#[tokio::test]
async fn a_registry_collects_what_the_page_shows() {
    let health = Health::builder().build().unwrap();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(health.metrics()));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let (content_type, page) = health.metrics().render(b"application/openmetrics-text; version=1.0.0");
    assert!(content_type.starts_with("application/openmetrics-text"), "{content_type}");
    assert_eq!(families(&text), families(&page));
    assert!(text.contains("doorbell_check_up{check=\"alive\"} 1.0"), "{text}");
}

#[tokio::test]
async fn the_page_is_a_route() {
    let health = Health::builder().build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let app: axum::Router = health.metrics().routes();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let bytes = tokio::task::spawn_blocking(move || exchange(addr, request).unwrap().bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("\ndoorbell_endpoint_up{endpoint=\"livez\"} 1.0\n"), "{text}");
}
