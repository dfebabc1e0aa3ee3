//! Cost of a request whose work runs as a job, and the amount of work for which a job is
//! worthwhile.
//!
//! The work is a loop of known length.
//!
//! `cargo bench -p doorbell-benches --bench offload` times the same requests with the work on the
//! ring thread and in a job. `DOORBELL_OFFLOAD_RATIO=TURNS` alternates between both, TURNS times,
//! and prints the median ratio of their times, which depends less on other load.
//! `DOORBELL_OFFLOAD_COUNT=WAY,IN_FLIGHT,REQUESTS` only serves these requests, with the work on the
//! ring thread (WAY is `home`) or in a job (`away`), so that a profiler can count the ring thread:
//! `valgrind --tool=callgrind --separate-threads=yes`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a bench reads the clock and shows figures"
)]

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use doorbell::{Engine, Http1, HttpLimits, Listen, Offload, Reply, Server, Status, Workers, service_fn};

/// Sizes of the work, in rounds of [`work`].
const SIZES: [u64; 6] = [10, 1_000, 3_000, 10_000, 30_000, 100_000];

/// Requests of one measurement with `DOORBELL_OFFLOAD_RATIO`.
const REQUESTS: u64 = 2_000;

/// A number of multiplications that the optimizer cannot remove.
fn work(rounds: u64) -> Reply {
    let mut sum = black_box(1_u64);
    for round in 0..rounds {
        sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round));
    }
    Reply::text(Status::OK, if sum == 0 { "zero\n" } else { "done\n" })
}

/// Starts a server with `/home/ROUNDS` and `/away/ROUNDS`.
fn serve(engine: Engine) -> Server {
    let jobs = Offload::builder().build().unwrap();
    let service = service_fn(move |request, reply| {
        let (way, rounds) = request.path()[1..].split_once('/').unwrap_or(("home", "0"));
        let rounds = rounds.parse().unwrap_or(0);
        if way == "away" {
            jobs.run(request, reply, move || work(rounds))
        } else {
            reply.send_owned(work(rounds))
        }
    });
    let limits = HttpLimits { requests_per_conn_max: u32::MAX, ..HttpLimits::default() };
    Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::MIN))
        .conns_max(256)
        .listen(Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0))), Http1::new(service).limits(limits))
        .start()
        .unwrap()
}

/// A client that keeps one request in progress on each of its connections.
struct Client {
    streams: Vec<TcpStream>,
    reply_len: usize,
}

impl Client {
    fn new(server: &Server, in_flight: usize) -> Self {
        let connect = || {
            let stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        };
        let mut client = Self { streams: (0..in_flight).map(|_| connect()).collect(), reply_len: 0 };
        client.streams[0].write_all(&request("home", 0)).unwrap();
        client.reply_len = client.streams[0].read(&mut [0; 1024]).unwrap();
        client
    }

    /// Sends `requests`, rounded up to a multiple of the number of connections, and returns the
    /// time scaled to `requests`.
    fn run(&mut self, way: &str, rounds: u64, requests: u64) -> Duration {
        let request = request(way, rounds);
        let mut reply = vec![0; self.reply_len];
        let each = requests.div_ceil(self.streams.len() as u64);
        let begun = Instant::now();
        for _ in 0..each {
            self.streams.iter_mut().for_each(|stream| stream.write_all(&request).unwrap());
            for stream in &mut self.streams {
                stream.read_exact(&mut reply).unwrap();
                assert!(reply.ends_with(b"done\n"));
            }
        }
        let served = each * self.streams.len() as u64;
        begun.elapsed().mul_f64(requests as f64 / served as f64)
    }
}

fn request(way: &str, rounds: u64) -> Vec<u8> {
    format!("GET /{way}/{rounds} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

fn main() {
    if let Ok(asked) = std::env::var("DOORBELL_OFFLOAD_COUNT") {
        let mut words = asked.split(',');
        let (way, in_flight) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
        let requests = words.next().unwrap().parse().unwrap();
        let server = serve(Engine::Epoll);
        Client::new(&server, in_flight).run(way, 10, requests);
        println!("{way}, {in_flight} in flight, {requests} requests: {:?}", server.stats());
        return;
    }
    if let Ok(turns) = std::env::var("DOORBELL_OFFLOAD_RATIO") {
        return ratios(turns.parse().unwrap());
    }
    let mut criterion = Criterion::default().configure_from_args();
    crossover(&mut criterion);
    criterion.final_summary();
}

fn crossover(criterion: &mut Criterion) {
    for in_flight in [1, 64] {
        let server = serve(Engine::Auto);
        let mut client = Client::new(&server, in_flight);
        let mut group = criterion.benchmark_group(format!("offload/{in_flight} in flight"));
        for rounds in SIZES {
            for way in ["home", "away"] {
                group.bench_function(BenchmarkId::new(way, rounds), |b| {
                    b.iter_custom(|requests| client.run(way, rounds, requests));
                });
            }
        }
    }
}

fn ratios(turns: usize) {
    for in_flight in [1, 64] {
        let server = serve(Engine::Auto);
        let mut client = Client::new(&server, in_flight);
        for rounds in SIZES {
            let mut ratios: Vec<f64> = (0..turns)
                .map(|_| {
                    let home = client.run("home", rounds, REQUESTS);
                    client.run("away", rounds, REQUESTS).as_secs_f64() / home.as_secs_f64()
                })
                .collect();
            ratios.sort_by(f64::total_cmp);
            let took = time_of(rounds);
            println!(
                "{in_flight} in flight, work of {took:?}: away takes {:.2} times as long as home",
                ratios[turns / 2]
            );
        }
    }
}

/// The minimum time of 20 calls of [`work`].
fn time_of(rounds: u64) -> Duration {
    let once = || {
        let begun = Instant::now();
        let _reply = black_box(work(black_box(rounds)));
        begun.elapsed()
    };
    (0..20).map(|_| once()).min().unwrap()
}
