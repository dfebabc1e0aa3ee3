//! Promises about too many clients: slow clients are closed on time, a full table resets no client,
//! and neither case costs processor time.

#![expect(clippy::disallowed_methods, reason = "deadlines are real time here")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "measurements and skips are printed, and test helpers may panic"
)]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{Engine, HttpLimits};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::peers::{
    End, Reply, Shape, Trickle, connect_from, exchange, finish, misbehave, process, wait_until,
};

use crate::promise::{addr, alone, on_both_engines, serve_with};

on_both_engines! {
    slow_clients_are_cut_on_time_and_good_ones_served
    slow_clients_from_everywhere_are_cut_on_time
    a_full_table_resets_no_client
}

const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
const CUT_SLACK: Duration = Duration::from_millis(250);
/// Maximum lag of the clock of deadlines: CLOCK_MONOTONIC_COARSE advances in steps.
const CLOCK_STEP: Duration = Duration::from_millis(10);
const CONNS_MAX: u32 = 200;
const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn limits() -> HttpLimits {
    HttpLimits { header_timeout: HEADER_TIMEOUT, ..HttpLimits::default() }
}

/// Returns the processor time of all workers, as a share of one core.
fn cpu_share(since: Instant, before: Duration) -> f64 {
    let used = process::thread_cpu("self", "doorbell-").unwrap() - before;
    used.as_secs_f64() / since.elapsed().as_secs_f64()
}

/// With twice as many slow clients as slots, all from one address, the cap per address leaves most
/// slots free.
fn slow_clients_are_cut_on_time_and_good_ones_served(engine: Engine) {
    let _turn = alone();
    let server = serve_with(engine, limits()).conns_max(CONNS_MAX).conns_per_ip_max(50).start().unwrap();
    let server_addr = addr(&server);
    let (cpu, start) = (process::thread_cpu("self", "doorbell-").unwrap(), Instant::now());
    let attack = thread::spawn(move || {
        let streams = (0..2 * CONNS_MAX)
            .map(|_| (connect_from(Ipv4Addr::new(127, 0, 0, 66), server_addr).unwrap(), Instant::now()));
        Trickle::new(streams.collect(), Duration::from_secs(1)).unwrap().run(REQUEST, HEADER_TIMEOUT * 3)
    });
    thread::sleep(Duration::from_millis(300));
    let (mut good, mut slowest) = (0, Duration::ZERO);
    for _ in 0..100 {
        let asked = Instant::now();
        let got = exchange(server_addr, REQUEST).unwrap();
        good += usize::from(got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200"));
        slowest = slowest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    let report = attack.join().unwrap();
    let share = cpu_share(start, cpu);
    let held: Vec<Duration> =
        report.cut_after.iter().copied().filter(|life| *life > HEADER_TIMEOUT / 2).collect();
    eprintln!(
        "{engine:?}: good clients served: {good} of 100; {} slow clients accepted, closed after {:?} to {:?}; workers {:.1} % of a core",
        held.len(),
        held.iter().min(),
        held.iter().max(),
        share * 100.0
    );
    assert_eq!(report.alive, 0);
    // Workers start to count independently, so the cap may be exceeded once by the share of one
    // worker.
    assert!(!held.is_empty() && held.len() <= 75, "the cap is 50, {} connections were open", held.len());
    assert!(held.iter().all(|life| *life + CLOCK_STEP >= HEADER_TIMEOUT), "{held:?}");
    assert_eq!(good, 100);
    let latest = held.iter().copied().max().unwrap_or_default();
    at_most(format_args!("{engine:?}: lifetime of a slow client"), latest, HEADER_TIMEOUT + CUT_SLACK);
    at_most(format_args!("{engine:?}: reply time of a good client"), slowest, Duration::from_secs(1));
    at_most(format_args!("{engine:?}: share of a core"), share, 0.05);
    server.stop().unwrap();
}

/// With a different address for each slow client the cap has no effect: the table fills, the other
/// clients wait, and each client is closed on time.
fn slow_clients_from_everywhere_are_cut_on_time(engine: Engine) {
    let _turn = alone();
    let server = serve_with(engine, limits())
        .conns_max(CONNS_MAX)
        .workers(crate::promise::workers(1))
        .start()
        .unwrap();
    let (cpu, start) = (process::thread_cpu("self", "doorbell-").unwrap(), Instant::now());
    let streams = (0..2 * CONNS_MAX).map(|n| {
        let [.., high, low] = n.to_be_bytes();
        (connect_from(Ipv4Addr::new(127, 1, high, low), addr(&server)).unwrap(), Instant::now())
    });
    let mut report =
        Trickle::new(streams.collect(), Duration::from_secs(1)).unwrap().run(REQUEST, HEADER_TIMEOUT * 5);
    let share = cpu_share(start, cpu);
    report.cut_after.sort_unstable();
    assert_eq!((report.cut_after.len(), report.alive, report.resets), (2 * CONNS_MAX as usize, 0, 0));
    let (first, second) = report.cut_after.split_at(CONNS_MAX as usize);
    eprintln!(
        "{engine:?}: first {CONNS_MAX} clients closed after {:?} to {:?}, later ones after {:?} to {:?}; worker {:.1} % of a core",
        first[0],
        first[first.len() - 1],
        second[0],
        second[second.len() - 1],
        share * 100.0
    );
    assert!(first[0] + CLOCK_STEP >= HEADER_TIMEOUT, "{first:?}");
    at_most(
        format_args!("{engine:?}: lifetime of the clients in the table"),
        first[first.len() - 1],
        HEADER_TIMEOUT + CUT_SLACK,
    );
    // The deadline of a waiting client begins with its accept, when earlier clients are closed. A
    // full table accepts again only when it is nine tenths full, so a few clients wait one round
    // longer. (Multishot accept may accept some clients early.)
    let late = second.iter().map(|life| {
        let life = *life + CLOCK_STEP;
        let rounds = u32::try_from(life.as_millis() / HEADER_TIMEOUT.as_millis()).unwrap().clamp(1, 3);
        life.saturating_sub(HEADER_TIMEOUT * rounds) / rounds
    });
    let late = late.max().unwrap_or_default();
    at_most(format_args!("{engine:?}: delay per round"), late, CUT_SLACK + CLOCK_STEP);
    at_most(format_args!("{engine:?}: share of a core"), share, 0.05);
    server.stop().unwrap();
}

/// While clients that keep their connections use all slots, further clients wait. None of them is
/// reset, waiting costs nothing, and all are served as soon as slots are free.
fn a_full_table_resets_no_client(engine: Engine) {
    let _turn = alone();
    let conns_max = 64;
    let server = serve_with(engine, HttpLimits::default())
        .conns_max(conns_max)
        .workers(crate::promise::workers(1))
        .start()
        .unwrap();
    let holders: Vec<TcpStream> = (0..conns_max).map(|_| hold(addr(&server))).collect();
    let mut waiting: Vec<TcpStream> = (0..200).map(|_| send(addr(&server))).collect();
    thread::sleep(Duration::from_millis(200));
    let (cpu, start) = (process::thread_cpu("self", "doorbell-").unwrap(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let share = cpu_share(start, cpu);
    assert_eq!(server.stats().conns_live, u64::from(conns_max), "{:?}", server.stats());
    let freed = Instant::now();
    drop(holders);
    let mut served = 0;
    for stream in &mut waiting {
        let got = finish(stream, Duration::from_secs(5));
        assert_eq!(got.end, End::Fin, "client {served} was reset after its accept");
        assert_eq!(Reply::parse(&got.bytes, false).map(|reply| reply.status), Some(200));
        served += 1;
    }
    let recovery = freed.elapsed();
    eprintln!(
        "{engine:?}: {served} waiting clients served {recovery:?} after slots were free; full and idle: {:.2} % of a core",
        share * 100.0
    );
    at_most(format_args!("{engine:?}: all waiting clients are served"), recovery, Duration::from_secs(1));
    at_most(format_args!("{engine:?}: share of a core while full"), share, 0.01);
    assert!(server.stats().table_full >= 1);
    let empty = wait_until(Duration::from_secs(2), || server.stats().conns_live == 0);
    assert!(empty.is_some(), "{:?}", server.stats());
    server.stop().unwrap();
}

fn hold(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(&Shape::Envoy.request(server, "/livez")).unwrap();
    misbehave::read_replies(&mut stream, 1, false).unwrap();
    stream
}

fn send(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(REQUEST).unwrap();
    stream
}
