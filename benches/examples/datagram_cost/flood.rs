//! The cost of a TCP probe beside a flood of datagrams.
//!
//! A round has 64 probes, each on its own connection, or a flood, or both. The flood is a fixed
//! number of datagrams. While it lasts, more than a batch of them waits before each turn, so each
//! turn handles as many as the driver permits. The cost of a probe beside the flood is the time of
//! both less the time of the flood, divided by the number of probes; all rounds with the flood
//! handle the same number of datagrams.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use doorbell::driver::Driver;
use doorbell::worker::ServerShared;
use doorbell::{Http1, Limits, StaticReply, Status, service_fn};
use doorbell_testkit::skip;

use crate::echo::{echo, listen};
use crate::median;
use crate::server::{BATCH_MAX, Client, Open, PAYLOAD, Server, epoll, io_uring, start};

const PROBES: usize = 64;
/// Datagrams of a round: enough for the turns of all probes.
const FLOOD: u64 = 1_024;
/// Datagrams in the queue of the socket before each turn; a default buffer has room for them.
const QUEUE: u64 = 2 * BATCH_MAX as u64;
/// A round takes fewer turns, unless a datagram was lost.
const TURNS_MAX: usize = 1_000;
/// Rounds of a sample.
const ROUNDS: u32 = 4;
/// Samples of each kind of round, in turn. A figure is the median.
const SAMPLES: usize = 11;

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A worker that serves probes and echoes datagrams, and the numbers of bytes of its datagrams.
struct Flooded {
    server: Server,
    addr: SocketAddr,
    client: Client,
    received_bytes: u64,
    reflected_bytes: u64,
}

impl Flooded {
    fn new<D: Driver + 'static>(open: Open<D>) -> Self {
        let ok = StaticReply::text(Status::OK, "ok\n");
        let http = Http1::new(service_fn(move |_, reply| reply.send(&ok)));
        let server = ServerShared::new(vec![http.into()], Limits::default(), 1).receiving(&listen(), echo);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let (client, socket) = Client::new();
        let server = start(open, Some(listener), socket, server);
        Self { server, addr, client, received_bytes: 0, reflected_bytes: 0 }
    }

    /// Numbers of ended connections and of received datagrams.
    fn handled(&self) -> (u64, u64) {
        let shared = &self.server.shared;
        (shared.snapshot().closed_total(), shared.datagrams()[0].received)
    }

    fn probe(&self) -> TcpStream {
        let mut probe = TcpStream::connect(self.addr).unwrap();
        probe.write_all(REQUEST).unwrap();
        probe
    }

    /// Elapsed time of the server's turns in a round, in nanoseconds.
    fn round(&mut self, probes: usize, flood: u64) -> f64 {
        let (closed, received) = self.handled();
        let end = (closed + probes as u64, received + flood);
        let probes: Vec<_> = (0..probes).map(|_| self.probe()).collect();
        let (mut nanos, mut sent, mut outlasts_probes) = (0, received, flood == 0);
        for turn in 0.. {
            assert!(turn < TURNS_MAX, "{:?} of {end:?} after {turn} turns", self.handled());
            let (closed, received) = self.handled();
            outlasts_probes |= closed == end.0 && received < end.1;
            if (closed, received) == end {
                break;
            }
            while sent + BATCH_MAX as u64 <= end.1.min(received + QUEUE) {
                self.client.send(BATCH_MAX);
                sent += BATCH_MAX as u64;
            }
            let began = Instant::now();
            (self.server.turn)();
            nanos += began.elapsed().as_nanos();
            self.reflected_bytes += self.client.reply_bytes() as u64;
        }
        assert!(outlasts_probes, "the flood ended before the last probe");
        self.received_bytes += flood * PAYLOAD.len() as u64;
        for mut probe in probes {
            let mut reply = String::new();
            probe.read_to_string(&mut reply).unwrap();
            assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("ok\n"), "{reply}");
        }
        nanos as f64
    }

    /// Elapsed time of the server's turns in [`ROUNDS`] rounds, in nanoseconds.
    fn rounds(&mut self, probes: usize, flood: u64) -> f64 {
        (0..ROUNDS).map(|_| self.round(probes, flood)).sum()
    }
}

/// Prints the figures of a driver, and returns how much more a probe costs beside a flood, in per
/// cent.
fn of_driver<D: Driver + 'static>(name: &str, open: Open<D>) -> f64 {
    let mut server = Flooded::new(open);
    let (mut alone, mut beside, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..=SAMPLES {
        let probes = server.rounds(PROBES, 0);
        let flood = server.rounds(0, FLOOD);
        let both = server.rounds(PROBES, FLOOD);
        // The first sample warms up.
        if sample > 0 {
            let count = f64::from(ROUNDS) * PROBES as f64;
            alone.push(probes / count);
            beside.push((both - flood) / count);
            datagrams.push(flood / f64::from(ROUNDS) / FLOOD as f64);
        }
    }
    let Flooded { received_bytes, reflected_bytes, .. } = server;
    assert!(reflected_bytes <= received_bytes, "{reflected_bytes} bytes sent for {received_bytes}");
    let (alone, beside) = (median(alone), median(beside));
    print!("{name:34}{alone:>10.0}{beside:>10.0}{:>8.3}", beside / alone);
    println!("{:>10.0}{:>8.3}", median(datagrams), reflected_bytes as f64 / received_bytes as f64);
    (beside / alone - 1.0) * 100.0
}

/// Measures each driver and prints its figures. Returns false if a flood adds more than
/// `percent_max` per cent to the cost of a probe.
pub(crate) fn print(percent_max: Option<f64>) -> bool {
    println!("{:34}{:>10}{:>10}{:>8}{:>10}{:>8}", "a probe of 64", "alone", "flood", "", "datagram", "bytes");
    let mut percents = vec![of_driver("epoll", epoll)];
    if skip::io_uring() {
        percents.push(of_driver("io_uring", io_uring));
    }
    percent_max.is_none_or(|max| percents.iter().all(|percent| *percent <= max))
}
