//! The cost of echoing a datagram.

use std::cell::Cell;
use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use doorbell::Limits;
use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
use doorbell::driver::Driver;
use doorbell::http::limit::Quota;
use doorbell::worker::ServerShared;
use doorbell_ring::datagram::{Outgoing, RecvBatch, SendBatch};
use doorbell_testkit::skip;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::median;
use crate::server::{self, BATCH_MAX, Client, Open, PAYLOAD, SIZE_MAX, Server, start};

/// Datagrams of a sample.
const DATAGRAMS: u64 = 6_400;
/// Samples of each figure, taken in turn with those of the other figures. A figure is the median.
const SAMPLES: usize = 7;

/// One pass of the loop to compare with. Returns the number of datagrams.
fn plain(socket: &UdpSocket, batch: &mut RecvBatch, sends: &mut SendBatch) -> u64 {
    let len = batch.recv(socket.as_fd()).unwrap();
    let replies = (0..len).filter_map(|index| {
        let datagram = batch.get(index)?;
        Some(Outgoing { payload: datagram.payload, to: datagram.peer, from: datagram.local })
    });
    black_box(sends.send(socket.as_fd(), false, replies));
    len as u64
}

pub(crate) fn echo(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    reply.send(request.payload());
}

/// Replies that are one byte too long.
fn too_long(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    reply.send(request.payload());
    reply.send("x");
}

pub(crate) fn listen() -> DatagramListen {
    DatagramListen::udp((Ipv4Addr::LOCALHOST, 0).into())
}

fn limited() -> DatagramListen {
    listen().limit(Some((Quota::new(1 << 20, 10_000_000, Duration::from_secs(1)).unwrap(), 65_536)))
}

/// A server: its name, and a function `(rounds, count)` that returns its time for `rounds` batches
/// of `count` datagrams.
struct Row {
    name: String,
    time: Box<dyn FnMut(u64, usize) -> Duration>,
}

/// The time of the passes of `serve` for `rounds` batches of `count` datagrams, all with a reply or
/// all without. After a pass, `handled` returns the number of datagrams handled so far.
fn time(
    client: &mut Client,
    (rounds, count): (u64, usize),
    replies: bool,
    mut serve: impl FnMut(),
    mut handled: impl FnMut() -> u64,
) -> Duration {
    let mut sum = Duration::ZERO;
    for _ in 0..rounds {
        let end = handled() + count as u64;
        client.send(count);
        while handled() < end {
            let began = Instant::now();
            serve();
            sum += began.elapsed();
        }
        assert_eq!(client.reply_bytes(), if replies { count * PAYLOAD.len() } else { 0 });
    }
    sum
}

/// The loop to compare with. Each pass waits for a datagram, like a worker.
fn plain_loop() -> Row {
    let (mut client, socket) = Client::new();
    let (mut batch, mut sends) = (RecvBatch::new(BATCH_MAX, SIZE_MAX).unwrap(), SendBatch::new(BATCH_MAX));
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&poll, &socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    let mut events = Vec::with_capacity(1);
    let handled = Cell::new(0);
    let time = move |rounds, count| {
        let serve = || {
            epoll::wait(&poll, spare_capacity(&mut events), None).unwrap();
            events.clear();
            handled.set(handled.get() + plain(&socket, &mut batch, &mut sends));
        };
        time(&mut client, (rounds, count), true, serve, || handled.get())
    };
    Row { name: "loop".to_owned(), time: Box::new(time) }
}

fn of_driver<D: Driver + 'static>(name: &str, open: Open<D>) -> Vec<Row> {
    let shared = || ServerShared::new(Vec::new(), Limits::default(), 1);
    let rows = [
        ("", shared().receiving(&listen(), echo), true),
        (", limit", shared().receiving(&limited(), echo), true),
        (", refused by the guard", shared().receiving(&listen(), too_long), false),
    ];
    let row = |(row, shared, replies)| {
        let (mut client, socket) = Client::new();
        let Server { mut turn, shared } = start(open, None, socket, shared);
        let time = move |rounds, count| {
            time(&mut client, (rounds, count), replies, &mut turn, || shared.datagrams()[0].received)
        };
        Row { name: format!("{name}{row}"), time: Box::new(time) }
    };
    rows.into_iter().map(row).collect()
}

/// Nanoseconds of each server for a datagram in batches of `count`.
fn measure(rows: &mut [Row], count: usize) -> Vec<f64> {
    let mut samples = vec![Vec::new(); rows.len()];
    for turn in 0..=SAMPLES {
        for (row, samples) in rows.iter_mut().zip(&mut samples) {
            let time = (row.time)(DATAGRAMS / count as u64, count);
            // The first sample warms up.
            if turn > 0 {
                samples.push(time.as_secs_f64() * 1e9 / DATAGRAMS as f64);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

/// Measures all servers and prints their figures. Returns false if a row is more than `percent_max`
/// per cent above the loop.
pub(crate) fn print(percent_max: Option<f64>) -> bool {
    let mut rows = vec![plain_loop()];
    rows.extend(of_driver("epoll", server::epoll));
    if skip::io_uring() {
        rows.extend(of_driver("io_uring", server::io_uring));
    }
    let figures = [1, BATCH_MAX].map(|count| measure(&mut rows, count));
    println!("{:34}{:>10}{:>8}{:>10}{:>8}", "a datagram", "alone", "", "of 64", "");
    let mut highest = 0.0_f64;
    for (index, row) in rows.iter().enumerate() {
        print!("{:34}", row.name);
        for figures in &figures {
            let ratio = figures[index] / figures[0];
            highest = highest.max(ratio);
            print!("{:>10.0}{ratio:>8.3}", figures[index]);
        }
        println!();
    }
    percent_max.is_none_or(|max| (highest - 1.0) * 100.0 <= max)
}
