//! Skewed load with each mode of [`Balance`], which distributes connections to workers: about one
//! connection in ten is heavy and long-lived.
//!
//! A heavy connection sends a request, waits for the reply, pauses for [`PAUSE`], and repeats this.
//! Each request keeps its worker busy for [`WORK`]. After [`HEAVY_REQUESTS`] requests a new
//! connection replaces the heavy one. About ten light connections come for each heavy one, at fixed
//! times, with one request each and hardly any work. The figures are the times from the planned
//! start of a light connection to its whole reply, and the share of the heavy requests that the
//! busiest worker handles.
//!
//! The work is a sleep, so the figures depend little on the number and the load of the processors.
//! The connections have different source addresses, like those of different clients.
//!
//! `cargo bench -p doorbell-benches --bench balance` takes a minute. The section on `balance` in
//! the book has figures.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench reads the clock, sleeps and shows figures"
)]

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use doorbell::{Balance, Engine, Http1, HttpLimits, Listen, Server, Status, Workers, service_fn};
use doorbell_testkit::peers::{connect_from, percentile};
use doorbell_testkit::skip;

const WORKERS: u16 = 4;
/// Time for which a heavy request keeps its worker busy.
const WORK: Duration = Duration::from_millis(1);
/// Pause of a heavy connection between two requests.
const PAUSE: Duration = Duration::from_millis(1);
/// Number of heavy connections at any time.
const HEAVY: u32 = 4;
/// Number of requests of a heavy connection.
const HEAVY_REQUESTS: u32 = 50;
/// Number of threads that open light connections.
const LIGHT: u32 = 8;
/// Interval between the light connections of a thread, so that about ten come for each heavy one.
const LIGHT_EVERY: Duration = Duration::from_millis(20);

const BALANCES: [Balance; 5] =
    [Balance::Kernel, Balance::SourceHash, Balance::Cpu, Balance::RoundRobin, Balance::LeastConnections];

/// Number of heavy requests by worker.
type Works = Arc<Mutex<HashMap<ThreadId, u32>>>;

#[derive(Default)]
struct Figures {
    light: Vec<Duration>,
    works: Vec<u32>,
}

fn serve(engine: Engine, balance: Balance, works: Works) -> Server {
    let service = service_fn(move |request, reply| {
        if request.path() == "/heavy" {
            *works.lock().unwrap().entry(thread::current().id()).or_default() += 1;
            thread::sleep(WORK);
        }
        reply.status(Status::OK).text("ok\n")
    });
    let limits = HttpLimits { requests_per_conn_max: u32::MAX, ..HttpLimits::default() };
    Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::new(WORKERS).unwrap()))
        .conns_max(1024)
        .listen(
            Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()).balance(balance),
            Http1::new(service).limits(limits),
        )
        .start()
        .unwrap()
}

/// Connects from the next source address.
fn connect(server: SocketAddr, sources: &AtomicU32) -> TcpStream {
    let number = sources.fetch_add(1, Ordering::Relaxed);
    let [_, _, high, low] = (number % 60_000).to_be_bytes();
    let stream = connect_from(Ipv4Addr::new(127, 1, high, low.max(1)), server).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn heavy(server: SocketAddr, sources: &AtomicU32, going: &AtomicBool) {
    let mut reply = [0; 1024];
    while going.load(Ordering::Relaxed) {
        let mut stream = connect(server, sources);
        for _ in 0..HEAVY_REQUESTS {
            stream.write_all(b"GET /heavy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert!(stream.read(&mut reply).unwrap() > 0);
            thread::sleep(PAUSE);
        }
    }
}

fn light(server: SocketAddr, sources: &AtomicU32, first: Instant, until: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut planned = first;
    let mut reply = Vec::new();
    while planned < until {
        thread::sleep(planned.saturating_duration_since(Instant::now()));
        let mut stream = connect(server, sources);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        reply.clear();
        stream.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200"));
        times.push(planned.elapsed());
        planned += LIGHT_EVERY;
    }
    times
}

/// Measures one server for `time`.
fn round(engine: Engine, balance: Balance, time: Duration, figures: &mut Figures) {
    let works = Works::default();
    let server = serve(engine, balance, Arc::clone(&works));
    let addr = server.tcp_addr(0).unwrap();
    let (going, sources) = (AtomicBool::new(true), AtomicU32::new(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        (0..HEAVY).for_each(|_| drop(scope.spawn(|| heavy(addr, &sources, &going))));
        let lights: Vec<_> = (0..LIGHT)
            .map(|number| {
                let first = begun + LIGHT_EVERY * number / LIGHT;
                let sources = &sources;
                scope.spawn(move || light(addr, sources, first, begun + time))
            })
            .collect();
        lights.into_iter().for_each(|light| figures.light.extend(light.join().unwrap()));
        going.store(false, Ordering::Relaxed);
    });
    server.stop().unwrap();
    let mut works: Vec<u32> = works.lock().unwrap().values().copied().collect();
    works.sort_unstable_by(|one, other| other.cmp(one));
    works.resize(usize::from(WORKERS), 0);
    figures.works.resize(works.len(), 0);
    figures.works.iter_mut().zip(works).for_each(|(sum, work)| *sum += work);
}

fn main() {
    // `cargo bench -- --test` only checks that benches run, like `cargo test --benches`.
    let has = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    let is_measured = has("--bench") && !has("--test");
    let (rounds, time) =
        if is_measured { (6, Duration::from_secs(1)) } else { (1, Duration::from_millis(50)) };
    println!(
        "{:<10} {:<18} {:>9} {:>9} {:>9} {:>15}",
        "driver", "balance", "p50", "p99", "p99.9", "busiest worker"
    );
    let engines = [Engine::Epoll, Engine::IoUring];
    for engine in engines.into_iter().filter(|engine| *engine == Engine::Epoll || skip::io_uring()) {
        for balance in BALANCES {
            let mut figures = Figures::default();
            (0..rounds).for_each(|_| round(engine, balance, time, &mut figures));
            let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| percentile(&mut figures.light, percent));
            let share = f64::from(figures.works[0]) / f64::from(figures.works.iter().sum::<u32>().max(1));
            let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            let name = if engine == Engine::Epoll { "epoll" } else { "io_uring" };
            println!(
                "{name:<10} {:<18} {:>9} {:>9} {:>9} {:>13.0} %",
                balance.as_str(),
                ms(p50),
                ms(p99),
                ms(p999),
                share * 100.0
            );
        }
    }
}
