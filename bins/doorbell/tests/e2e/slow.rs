//! slowhttptest in four modes at once, without effect on probes.
//!
//! `DOORBELL_FULL=1` takes longer and limits the p99 of probes to 50 ms. The limit of the slowest
//! probe is 50 ms plus the slowest reply of another server, with one thread and without slow
//! clients, on the same machine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{percentile, wait_until};

use crate::plain::{request, send_from};
use crate::support::{Doorbell, Process, Scratch, StopAtEnd, at_most, is_full, on_both_engines, program};

on_both_engines! {
    slow_clients_do_not_affect_probes
}

/// The modes of slowhttptest, with their options.
const MODES: [(&str, &[&str]); 4] = [
    ("slow headers", &["-H", "-i", "1"]),
    ("slow body", &["-B", "-i", "1", "-s", "8192"]),
    ("ranges", &["-R", "-a", "10", "-b", "3000"]),
    ("slow read", &["-X", "-w", "1", "-y", "8", "-n", "1", "-z", "1", "-k", "3"]),
];

/// Slow readers of a reply that exceeds the send buffer. There are few of them, because the kernel
/// buffers megabytes for each.
const BIG_READERS: (&str, &[&str]) =
    ("slow read of much", &["-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "1"]);
const BIG_CONNS: &str = "20";
const BIG_LEN: usize = 8 << 20;

/// Promised maximum latency of a probe.
const PROMISE: Duration = Duration::from_millis(50);

const PROBER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn slow_clients_do_not_affect_probes(engine: &str) {
    let Some(slowhttptest) = program("slowhttptest") else { return };
    let (secs, conns) = if is_full() { ("30", "250") } else { ("8", "200") };
    // A file that exceeds the smallest window, for slow readers.
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("files")).unwrap();
    scratch.write("files/big", &"big ".repeat(BIG_LEN / 4));
    let dir = scratch.path("files");
    let config = format!(
        "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"0s\"\ndrain_timeout = \"1s\"\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\n[connections]\nwrite_timeout = \"3s\"\n\
         [route.big]\npath = \"/files/{{name}}\"\nfiles = {{ dir = {dir:?}, max_bytes = \"16MiB\" }}\n\
         [route.live]\npath = \"/livez\"\nhealth = \"livez\"\n\
         [route.hello]\npath = \"/hello\"\nmethods = [\"GET\", \"HEAD\", \"POST\"]\nreply = {{ body = \"{}\" }}\n",
        "hello ".repeat(2_000)
    );
    let doorbell = Doorbell::start_with(engine, &config);
    let url = doorbell.url("/hello");
    let probing = AtomicBool::new(true);
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    let control_addr = control.local_addr().unwrap();
    // The thread ends with the process.
    thread::spawn(move || serve(&control));
    let ((mut took, lost), (mut control_took, control_lost)) = thread::scope(|scope| {
        let end = StopAtEnd(&probing);
        let prober = scope.spawn(|| probe_until(doorbell.addr, &probing));
        let control_prober = scope.spawn(|| probe_until(control_addr, &probing));
        let start = |(name, how): (&'static str, &[&str]), conns: &str, url: &str| {
            let mut command = Command::new(&slowhttptest);
            command.args(how).args(["-c", conns, "-r", "100", "-l", secs, "-p", "3", "-u", url]);
            (name, Process::spawn(&mut command))
        };
        let mut attacks: Vec<_> = MODES.iter().map(|mode| start(*mode, conns, &url)).collect();
        attacks.push(start(BIG_READERS, BIG_CONNS, &doorbell.url("/files/big")));
        for (name, mut attack) in attacks {
            // The last lines of output may arrive after the exit.
            let is_over = || attack.has_ended() && attack.log().contains("Exit status");
            let ended = wait_until(Duration::from_secs(60), is_over);
            let log = attack.log();
            assert!(ended.is_some(), "{name}: {log}");
            assert!(!log.contains("service available:   NO"), "{name}: {log}");
        }
        drop(end);
        (prober.join().unwrap(), control_prober.join().unwrap())
    });
    let (count, p50, p99, max) =
        (took.len(), percentile(&mut took, 50.0), percentile(&mut took, 99.0), percentile(&mut took, 100.0));
    let control_max = percentile(&mut control_took, 100.0);
    eprintln!(
        "{engine}: {count} probes with {conns} slow clients in each of four modes: p50 {p50:?}, p99 {p99:?}, max {max:?}, {} lost; \
         a server without slow clients: p99 {:?}, max {control_max:?}, {} lost",
        lost.len(),
        percentile(&mut control_took, 99.0),
        control_lost.len()
    );
    assert!(lost.is_empty() && count > 0, "{count}: {:?}", &lost[..lost.len().min(5)]);
    at_most(format_args!("{engine}: p99 of probes with slow clients"), p99, PROMISE);
    at_most(format_args!("{engine}: slowest probe with slow clients"), max, PROMISE + control_max);
    assert!(!doorbell.process.log().contains("ERROR"), "{}", doorbell.process.log());
    let totals = doorbell.totals();
    assert!(
        totals["closed"].as_str().unwrap().contains("write_timeout="),
        "a send must have timed out: {totals}"
    );
}

/// A minimal server with one thread, for comparison.
fn serve(listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

/// Sends a probe every 20 ms, each on a new connection.
fn probe_until(server: SocketAddr, probing: &AtomicBool) -> (Vec<Duration>, Vec<String>) {
    let (mut took, mut lost) = (Vec::new(), Vec::new());
    let probe = request("/livez", &["User-Agent: kube-probe/1.34"]);
    while probing.load(Ordering::Relaxed) {
        let start = Instant::now();
        match send_from(PROBER, server, &probe) {
            Ok(reply) if reply.status == 200 => took.push(start.elapsed()),
            other => lost.push(format!("{other:?}")),
        }
        thread::sleep(Duration::from_millis(20));
    }
    (took, lost)
}
