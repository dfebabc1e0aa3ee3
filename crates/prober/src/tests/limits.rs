//! Probes that run inside a runtime, and with extreme timeouts.

use super::*;
use doorbell_testkit::peers::free_addr;

/// One target of each kind, on whose address nothing listens.
fn unreachable() -> Vec<Target> {
    let addr = free_addr();
    let schemes = ["tcp", "tls", "redis", "http", "grpc", "postgres", "smtp", "ws"];
    let mut targets: Vec<_> =
        schemes.iter().map(|scheme| Target::parse(&format!("{scheme}://{addr}")).unwrap()).collect();
    targets.push(Target::parse("unix:/nonexistent/socket").unwrap());
    targets
}

#[test]
fn probes_run_inside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for target in unreachable() {
            let report = Probe::of(target.clone(), Prober::Doorbell).run();
            assert_eq!(report.verdict, Verdict::ConnectFailed, "{target}: {}", report.reason);
        }
    });
}

#[test]
fn the_longest_timeout_means_no_limit() {
    for target in unreachable() {
        let timeout = Duration::MAX;
        let report = Probe { timeout, ..Probe::of(target.clone(), Prober::Doorbell) }.run();
        assert_eq!(report.verdict, Verdict::ConnectFailed, "{target}: {}", report.reason);
    }
    let (report, _, _) = asked(OK, Prober::Doorbell, |probe| probe.timeout = Duration::MAX);
    assert_eq!(report.verdict, Verdict::Healthy, "{}", report.reason);
    let (addr, server) = grpc_server();
    let target = Target::parse(&format!("grpc://{addr}")).unwrap();
    let report = Probe { timeout: Duration::MAX, ..Probe::of(target, Prober::Doorbell) }.run();
    assert_eq!(report.verdict, Verdict::Unhealthy, "{}", report.reason);
    server.join().unwrap();
    let path = std::env::temp_dir().join(format!("doorbell-longest-{}", std::process::id()));
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let report =
        Probe { timeout: Duration::MAX, ..Probe::of(Target::Unix(path.clone()), Prober::Doorbell) }.run();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(report.verdict, Verdict::Healthy, "{}", report.reason);
}

/// The report of a failed probe contains what was sent, and the time of the phase that failed.
#[test]
fn a_failed_phase_has_its_time_and_nothing_is_reported_as_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    for scheme in ["https", "tls"] {
        let target = Target::parse(&format!("{scheme}://{addr}")).unwrap();
        let timeout = Duration::from_millis(50);
        let report = Probe { timeout, ..Probe::of(target, Prober::Kubelet) }.run();
        assert_eq!((report.verdict, report.sent), (Verdict::TimedOut, Vec::new()), "{}", report.reason);
        assert!(!report.phases.tls.is_zero(), "{:?}", report.phases);
    }
    let report = http(free_addr(), "/", Prober::Kubelet).run();
    assert!(!report.phases.connect.is_zero() && report.sent.is_empty(), "{report:?}");
}
