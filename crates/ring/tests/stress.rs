//! 10,000 connections through one ring, as descriptors and as indices: every byte is correct and no
//! descriptor stays open.
//! Does not know about: single operations (`operations.rs`).
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use common::{alone, connect, fds_open, listener, ring, setup, token};
use doorbell_ring::{Accepted, Event, EventKind, Op, Received, Ring, Setup, Target};

const CONNS: u32 = 10_000;
const CLIENTS: u32 = 8;
const LISTENER: u32 = u32::MAX;

/// One connection of the server: its descriptor or index.
enum Conn {
    Fd(OwnedFd),
    Fixed(u32),
}

struct Echo {
    ring: Ring,
    conns: Vec<Option<Conn>>,
    free: Vec<u32>,
    served: u32,
}

impl Echo {
    fn new(ring: Ring, slots: u32) -> Self {
        Self { ring, conns: (0..slots).map(|_| None).collect(), free: (0..slots).rev().collect(), served: 0 }
    }

    fn run(&mut self, listener: &TcpListener, direct: bool) {
        self.ring.accept(token(LISTENER), listener.as_fd(), true, direct);
        while self.served < CONNS {
            self.ring.enter(1, Some(Duration::from_secs(5))).unwrap();
            let before = self.served;
            let mut events = 0;
            while let Some(event) = self.ring.next() {
                events += 1;
                self.apply(event);
            }
            assert!(events > 0 || before < self.served, "stalled after {before}: {:?}", self.ring.counters());
        }
        self.ring.cancel(Op::Accept, token(LISTENER));
    }

    fn apply(&mut self, event: Event) {
        let slot = event.token.slot;
        match event.kind {
            EventKind::Accepted(Ok(accepted)) => {
                assert!(event.more, "the multishot accept stays armed");
                let slot = self.free.pop().unwrap();
                self.conns[slot as usize] = Some(match accepted {
                    Accepted::Fd(fd) => Conn::Fd(fd),
                    Accepted::Fixed(index) => Conn::Fixed(index),
                });
                self.recv(slot);
            }
            EventKind::Received(Ok(Received { buf: Some(buf), .. })) => {
                let reply = self.ring.received(&buf).to_vec();
                self.ring.recycle(buf);
                let conn = self.conns[slot as usize].as_ref().unwrap();
                self.ring.send(token(slot), target(conn), reply.into(), true);
            }
            EventKind::Sent { result, buf } => {
                assert_eq!(result.unwrap() as usize, buf.remaining().len());
                self.close(slot);
            }
            EventKind::Closed(result) => {
                result.unwrap();
                self.served += 1;
                self.free.push(slot);
            }
            other => panic!("{other:?}"),
        }
    }

    fn recv(&mut self, slot: u32) {
        let conn = self.conns[slot as usize].as_ref().unwrap();
        self.ring.recv(token(slot), target(conn), false);
    }

    fn close(&mut self, slot: u32) {
        match self.conns[slot as usize].take().unwrap() {
            Conn::Fixed(index) => self.ring.close_fixed(token(slot), index),
            Conn::Fd(fd) => {
                drop(fd);
                self.served += 1;
                self.free.push(slot);
            }
        }
    }
}

fn target(conn: &Conn) -> Target<'_> {
    match conn {
        Conn::Fd(fd) => Target::Fd(fd.as_fd()),
        Conn::Fixed(index) => Target::Fixed(*index),
    }
}

fn client(addr: SocketAddr, id: u32) {
    for round in 0..CONNS / CLIENTS {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let question = format!("client {id} round {round} {}", "x".repeat((round % 200) as usize));
        stream.write_all(question.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, question, "the whole reply, and no other bytes");
    }
}

fn stress(direct: bool) {
    let _alone = alone();
    let before = fds_open();
    {
        let Some(ring) = ring(&Setup { slots: 256, recv_bufs: 64, ..setup() }) else { return };
        let listener = listener();
        drop(connect(&listener));
        drop(listener.accept().unwrap());
        let addr = listener.local_addr().unwrap();
        let mut echo = Echo::new(ring, 256);
        let clients: Vec<_> = (0..CLIENTS).map(|id| std::thread::spawn(move || client(addr, id))).collect();
        echo.run(&listener, direct);
        for client in clients {
            client.join().unwrap();
        }
        let counters = echo.ring.counters();
        assert_eq!((counters.buffers_lent, counters.bad_results, counters.cqes_dropped), (0, 0, 0));
        assert!(echo.conns.iter().all(Option::is_none));
        let end = echo.ring.tear_down(Duration::from_secs(1));
        assert!(!end.leaked, "{end:?}");
    }
    assert_eq!(fds_open(), before);
}

#[test]
fn ten_thousand_connections_as_descriptors() {
    stress(false);
}

#[test]
fn ten_thousand_connections_as_indices() {
    stress(true);
}
