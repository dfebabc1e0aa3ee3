//! A health probe and a fixed reply.
//!
//! Each row is a whole request on a worker that has served the same request before: parsing, route,
//! state, counters, rendering. The request comes one second after the previous one, because a
//! second request within one step of the clock costs ten instructions less. **A row of `health` may
//! cost at most 60 instructions more than the same row of `fixed`.** The exception is
//! `haproxy_state`: the state that HAProxy sends with `send-state` differs each time and is parsed.

use crate::harness::at_most;
use doorbell::http::Next;
use doorbell_benches::machine::Machine;
use doorbell_benches::probes::{ELB, ENVOY, HAPROXY, HAPROXY_STATE, KEEP_ALIVE, KUBELET};
use doorbell_proxy_config::{Source, parse};
use gungraun::{library_benchmark, library_benchmark_group};

const FIXED: &str = "reply = { status = 200, content_type = \"text/plain\", body = \"up\\n\" }\nmethods = [\"GET\", \"OPTIONS\"]";
const HEALTH: &str = "health = \"readyz\"";
/// A health route with the format chosen by `Accept`, and details for authenticated clients.
const CHOSEN: &str =
    "health = \"readyz\"\nformat = \"auto\"\ndetails = \"authenticated\"\ndetails_auth = \"ops\"";

/// A connection on a worker that has served the same request several times.
fn probed(route: &str, input: &[u8]) -> Box<Machine> {
    configured("", route, input)
}

/// [`probed`] with metrics enabled.
fn scraped(route: &str, input: &[u8]) -> Box<Machine> {
    configured("[admin]\nbind = \"127.0.0.1:0\"\n", route, input)
}

fn configured(more: &str, route: &str, input: &[u8]) -> Box<Machine> {
    let text = format!(
        "version = 1\n{more}[auth.ops]\ntokens = {{ ops = \"0123456789abcdef0123456789abcdef\" }}\n\
         [listener.probes]\nbind = \"127.0.0.1:0\"\n[health.readyz]\n\
         [route.probe]\nlistener = \"probes\"\npath = \"/livez\"\n{route}\n"
    );
    let parsed = parse(&Source { name: "bench".to_owned(), text }, &|_| None);
    let config = parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems));
    let service = doorbell_proxy_server::service(&config).expect("a service");
    let mut machine = Machine::serving(input, service);
    for _ in 0..3 {
        machine.warm();
        machine.send();
    }
    machine
}

// All rows have the same reply, so they differ by the cost of recognizing the request.
#[library_benchmark]
#[bench::kubelet(args = (probed(FIXED, KUBELET)), config = at_most(282))]
#[bench::haproxy(args = (probed(FIXED, HAPROXY)), config = at_most(282))]
#[bench::haproxy_state(args = (probed(FIXED, HAPROXY_STATE)), config = at_most(830))]
#[bench::elb(args = (probed(FIXED, ELB)), config = at_most(300))]
#[bench::envoy(args = (probed(FIXED, ENVOY)), config = at_most(354))]
#[bench::keep_alive(args = (probed(FIXED, KEEP_ALIVE)), config = at_most(366))]
#[bench::kubelet_scraped(args = (scraped(FIXED, KUBELET)), config = at_most(286))]
#[bench::keep_alive_scraped(args = (scraped(FIXED, KEEP_ALIVE)), config = at_most(369))]
fn fixed(mut machine: Box<Machine>) -> (Next, Box<Machine>) {
    (machine.handle_seen(), machine)
}

#[library_benchmark]
#[bench::kubelet(args = (probed(HEALTH, KUBELET)), config = at_most(336))]
#[bench::haproxy(args = (probed(HEALTH, HAPROXY)), config = at_most(336))]
#[bench::haproxy_state(args = (probed(HEALTH, HAPROXY_STATE)), config = at_most(4_000))]
#[bench::elb(args = (probed(HEALTH, ELB)), config = at_most(354))]
#[bench::envoy(args = (probed(HEALTH, ENVOY)), config = at_most(409))]
#[bench::keep_alive(args = (probed(HEALTH, KEEP_ALIVE)), config = at_most(421))]
#[bench::chosen(args = (probed(CHOSEN, KUBELET)), config = at_most(336))]
#[bench::kubelet_scraped(args = (scraped(HEALTH, KUBELET)), config = at_most(341))]
#[bench::keep_alive_scraped(args = (scraped(HEALTH, KEEP_ALIVE)), config = at_most(426))]
fn health(mut machine: Box<Machine>) -> (Next, Box<Machine>) {
    (machine.handle_seen(), machine)
}

library_benchmark_group!(name = probes, benchmarks = [fixed, health]);

/// Asserts that the counted operations give the correct results.
pub(crate) fn check_replies() {
    for input in [KUBELET, HAPROXY, HAPROXY_STATE, ELB, ENVOY, KEEP_ALIVE] {
        for route in [FIXED, HEALTH, CHOSEN] {
            let mut machine = probed(route, input);
            let _ = machine.handle_seen();
            let output = machine.output();
            assert!(output.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", output.escape_ascii());
            let is_options = input == HAPROXY;
            assert!(output.ends_with(b"\r\n\r\nup\n") || is_options, "{}", output.escape_ascii());
        }
    }
}
