//! Promise: a served probe of any shape never sees a reset, and an idle client delays no other
//! client.

#![expect(clippy::disallowed_methods, reason = "latency is real time")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "measurements and skips are printed, and test helpers may panic"
)]

use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{CloseReason, Engine, Server};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::peers::{Close, End, Exchange, Reply, Shape, percentile, wait_until};

use crate::promise::{addr, alone, on_both_engines, serve, sized};

on_both_engines! {
    every_shape_is_served_without_a_reset
    the_kernel_counts_no_reset_either
    one_idle_client_delays_no_other
}

fn every_shape_is_served_without_a_reset(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).start().unwrap();
    let each = sized(1_000, 100_000);
    thread::scope(|scope| {
        for shapes in Shape::ALL.chunks(Shape::ALL.len().div_ceil(3)) {
            let server = &server;
            scope.spawn(move || shapes.iter().for_each(|&shape| probe_many(server, shape, each)));
        }
    });
    let freed = wait_until(Duration::from_secs(5), || server.stats().conns_live == 0);
    let stats = server.stats();
    assert!(freed.is_some(), "{stats:?}");
    assert_eq!(stats.conns_accepted, stats.closed_total(), "every connection is accounted for");
    assert_eq!(stats.closed_because(CloseReason::SendFailed), 0, "{stats:?}");
    eprintln!("{engine:?}: {each} probes of each of {} shapes, 0 resets", Shape::ALL.len());
    server.stop().unwrap();
}

fn probe_many(server: &Server, shape: Shape, count: usize) {
    for n in 0..count {
        let got = shape
            .probe(addr(server), "/readyz")
            .unwrap_or_else(|error| panic!("{shape:?}, probe {n}: {error}"));
        assert!(is_served(shape, &got), "{shape:?}, probe {n}: {got:?}");
    }
}

fn is_served(shape: Shape, got: &Exchange) -> bool {
    let reply = Reply::parse(&got.bytes, shape == Shape::CurlHead);
    got.end == End::Fin
        && reply.is_some_and(|reply| reply.status == 200 && reply.len == got.bytes.len())
            == shape.expects_reply()
}

/// `OutRsts` counts all resets that leave this network namespace. In a separate namespace the count
/// is exact, and includes resets sent after the client stopped reading. This test runs itself again
/// in such a namespace.
fn the_kernel_counts_no_reset_either(engine: Engine) {
    let name = format!(
        "probes::{}::the_kernel_counts_no_reset_either",
        if engine == Engine::Epoll { "epoll" } else { "io_uring" }
    );
    if std::env::var_os("DOORBELL_OWN_NETNS").is_some() {
        count_resets(engine);
        return;
    }
    let script = "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture";
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]).arg(own).arg(&name);
    let output = match command.env("DOORBELL_OWN_NETNS", "1").output() {
        Ok(output) => output,
        Err(error) => {
            return crate::promise::skipped(&format!(
                "no separate network namespace ({error}); resets were counted by clients only"
            ));
        }
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !out.contains("running 1 test") {
        return crate::promise::skipped(&format!(
            "no separate network namespace ({}); resets were counted by clients only",
            err.trim()
        ));
    }
    eprint!("{err}");
    assert!(output.status.success(), "{out}{err}");
}

/// A client that closes without sending is excluded: when both sides close at the same time, the
/// kernel answers a few of the last segments with a reset, even for a server that only accepts,
/// reads and closes. No prober can see such a reset.
fn count_resets(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).start().unwrap();
    let mut resets = Vec::new();
    for &shape in Shape::ALL.iter().filter(|shape| shape.close() == Close::Fin && shape.expects_reply()) {
        let before = resets_sent();
        probe_many(&server, shape, 300);
        let freed = wait_until(Duration::from_secs(5), || server.stats().conns_live == 0);
        assert!(freed.is_some(), "{:?}", server.stats());
        // The close of the last client may still be in progress.
        thread::sleep(Duration::from_millis(5));
        resets.push((shape, resets_sent() - before));
    }
    server.stop().unwrap();
    let sum: u64 = resets.iter().map(|(_, count)| count).sum();
    eprintln!(
        "{engine:?}: 300 probes of each of {} shapes, {sum} resets sent, as counted by the kernel",
        resets.len()
    );
    assert_eq!(sum, 0, "{resets:?}");
}

/// Returns `OutRsts` of `/proc/net/snmp`.
fn resets_sent() -> u64 {
    let snmp = fs::read_to_string("/proc/net/snmp").unwrap();
    let mut tcp = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (tcp.next().unwrap(), tcp.next().unwrap());
    let at = names.split(' ').position(|name| name == "OutRsts").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// While one client keeps its connection after a reply, the reply and FIN of another client must
/// arrive at once. Kernels before 6.13 delay closes of direct descriptors while another direct
/// descriptor is idle.
fn one_idle_client_delays_no_other(engine: Engine) {
    let _turn = alone();
    let server = serve(engine).workers(crate::promise::workers(1)).start().unwrap();
    let mut idle = TcpStream::connect(addr(&server)).unwrap();
    std::io::Write::write_all(&mut idle, &Shape::Envoy.request(addr(&server), "/livez")).unwrap();
    doorbell_testkit::peers::misbehave::read_replies(&mut idle, 1, false).unwrap();
    let mut took = Vec::new();
    for _ in 0..1_000 {
        let start = Instant::now();
        let got = Shape::Kubelet.probe(addr(&server), "/livez").unwrap();
        took.push(start.elapsed());
        assert!(is_served(Shape::Kubelet, &got), "{got:?}");
    }
    let p99 = percentile(&mut took, 99.0);
    eprintln!(
        "{engine:?}: connect to FIN while another client is idle: p50 {:?}, p99 {p99:?}",
        percentile(&mut took, 50.0)
    );
    at_most(format_args!("{engine:?}: p99 of connect to FIN"), p99, Duration::from_millis(5));
    server.stop().unwrap();
}
