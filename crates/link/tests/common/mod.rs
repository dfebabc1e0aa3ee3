//! Simulated network between two sides of a link: reproducible by its seed, with delays in each
//! direction, different clocks, and connections that break at any byte.
#![allow(dead_code, reason = "each test uses a part of it")]

#[cfg(feature = "tokio")]
pub(crate) mod authority;

use doorbell_link::{Event, Link, LinkOptions, LinkReport, Receipt, State, Statement, Subject, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Start of the simulated time, in microseconds since 1970.
const START_US: u64 = 1_800_000_000_000_000;

/// SplitMix64
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Bytes in flight in one direction, in order.
#[derive(Debug, Default)]
struct Pipe {
    delay_us: u64,
    jitter_us: u64,
    bytes: VecDeque<(u64, Vec<u8>)>,
}

/// One side and its events.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) link: Link,
    skew_us: i64,
    pub(crate) transitions: Vec<Statement>,
    pub(crate) results: Vec<Statement>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) opened: u64,
}

impl Side {
    fn new(options: LinkOptions, incarnation: u64, skew_us: i64) -> Self {
        Self {
            link: Link::new(options, incarnation),
            skew_us,
            transitions: Vec::new(),
            results: Vec::new(),
            receipts: Vec::new(),
            opened: 0,
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.link.next_event() {
            match event {
                Event::Opened { .. } => self.opened += 1,
                Event::Receipt(receipt) => self.receipts.push(receipt),
                Event::Result(statement, _) => self.results.push(statement),
                Event::Transition(statement) => self.transitions.push(statement),
            }
        }
    }
}

/// Two sides and the network between them.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) random: Random,
    now_us: u64,
    pub(crate) sides: [Side; 2],
    pipes: [Pipe; 2],
    is_connected: bool,
}

impl World {
    pub(crate) fn new(seed: u64, options: &LinkOptions) -> Self {
        let mut random = Random(seed);
        let skew = |random: &mut Random| i64::try_from(random.below(10_000_001)).unwrap() - 5_000_000;
        let sides = [1, 2].map(|incarnation| {
            let skew = skew(&mut random);
            Side::new(options.clone(), incarnation, skew)
        });
        let pipes = [0, 1].map(|_| Pipe {
            delay_us: random.below(120_000),
            jitter_us: random.below(20_000),
            bytes: VecDeque::new(),
        });
        Self { random, now_us: START_US, sides, pipes, is_connected: false }
    }

    /// Makes all delays constant and returns their sum.
    pub(crate) fn without_jitter(&mut self) -> Duration {
        self.pipes.iter_mut().for_each(|pipe| pipe.jitter_us = 0);
        Duration::from_micros(self.pipes.iter().map(|pipe| pipe.delay_us).sum())
    }

    /// The clock of a side.
    pub(crate) fn clock(&self, side: usize) -> Time {
        Time::from_micros(self.now_us.checked_add_signed(self.sides[side].skew_us).unwrap())
    }

    pub(crate) fn connect(&mut self) {
        for side in [0, 1] {
            let now = self.clock(side);
            self.sides[side].link.connected(now);
        }
        self.is_connected = true;
    }

    /// Breaks the connection. A part of the bytes in flight still arrives before each side detects
    /// the break.
    pub(crate) fn disconnect(&mut self) {
        for to in [0, 1] {
            let from = 1 - to;
            let mut bytes: Vec<u8> = self.pipes[from].bytes.drain(..).flat_map(|(_, bytes)| bytes).collect();
            let len = self.random.below(bytes.len() as u64 + 1);
            bytes.truncate(usize::try_from(len).unwrap());
            let now = self.clock(to);
            self.sides[to].link.receive(now, &bytes).unwrap();
            self.sides[to].take_events();
        }
        for side in &mut self.sides {
            side.link.disconnected();
        }
        self.is_connected = false;
    }

    /// Advances the time: delivers bytes, and calls both sides at their deadlines.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now_us + u64::try_from(duration.as_micros()).unwrap();
        loop {
            self.transmit();
            let arrivals = self.pipes.iter().filter_map(|pipe| pipe.bytes.front().map(|(at, _)| *at));
            let deadlines = self.sides.iter().filter_map(|side| {
                side.link.deadline().map(|at| at.as_micros().checked_add_signed(-side.skew_us).unwrap())
            });
            let next = arrivals.chain(deadlines).min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now_us = self.now_us.max(next);
            self.deliver();
            for side in [0, 1] {
                let now = self.clock(side);
                self.sides[side].link.check(now).unwrap();
            }
        }
        self.now_us = end;
    }

    fn transmit(&mut self) {
        for from in [0, 1] {
            let (now, mut out) = (self.clock(from), Vec::new());
            self.sides[from].link.transmit(now, &mut out);
            if out.is_empty() || !self.is_connected {
                continue;
            }
            let jitter = self.random.below(self.pipes[from].jitter_us + 1);
            let pipe = &mut self.pipes[from];
            let at = self.now_us + pipe.delay_us + jitter;
            let at = pipe.bytes.back().map_or(at, |(last, _)| at.max(*last));
            pipe.bytes.push_back((at, out));
        }
    }

    fn deliver(&mut self) {
        for to in [0, 1] {
            let now = self.clock(to);
            let pipe = &mut self.pipes[1 - to];
            while let Some((_, bytes)) = pipe.bytes.pop_front_if(|(at, _)| *at <= self.now_us) {
                self.sides[to].link.receive(now, &bytes).unwrap();
            }
            self.sides[to].take_events();
        }
    }

    /// Queues a transition of a subject at a side.
    pub(crate) fn state(&mut self, side: usize, name: &str, state: State, reason: &str) {
        let now = self.clock(side);
        assert!(self.sides[side].link.transition(now, Subject::check(name), state, reason));
    }

    pub(crate) fn result(&mut self, side: usize, name: &str, reason: &str) {
        let now = self.clock(side);
        self.sides[side].link.result(now, Subject::check(name), State::Up, reason, None);
    }

    /// Connects, and waits until everything is delivered and acknowledged.
    pub(crate) fn settle(&mut self) {
        if !self.is_connected {
            self.connect();
        }
        for _ in 0..200 {
            self.run(Duration::from_millis(300));
            if self.sides.iter().all(|side| side.link.is_open() && side.link.is_flushed()) {
                break;
            }
        }
        self.run(Duration::from_secs(1));
    }

    pub(crate) fn report(&mut self, side: usize) -> LinkReport {
        let now = self.clock(side);
        self.sides[side].link.report(now)
    }

    /// The true latency of a frame that this side sent.
    pub(crate) fn latency(&self, side: usize, receipt: &Receipt) -> Duration {
        let true_us =
            |at: Time, side: usize| at.as_micros().checked_add_signed(-self.sides[side].skew_us).unwrap();
        Duration::from_micros(true_us(receipt.arrived, 1 - side) - true_us(receipt.sent, side))
    }

    /// True clock offset as seen from a side.
    pub(crate) fn offset(&self, side: usize) -> i64 {
        self.sides[1 - side].skew_us - self.sides[side].skew_us
    }
}
