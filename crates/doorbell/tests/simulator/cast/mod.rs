//! The peers of the simulation: every kind of client, and the replies that each must receive.
//!
//! Does not know about: the worker, faults, the verdict on a run except for each [`Expectation`].

mod bad;
mod good;
mod handed;
mod raw;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use doorbell::HttpLimits;
use doorbell::id::ListenerIndex;
use doorbell_testkit::sim::{PeerPlan, PeerStep, Reading, Rng};

use crate::oracle::{Reply, count_whole};

/// The HTTP listener.
pub(crate) const HTTP: ListenerIndex = ListenerIndex(0);
/// The listener for raw lines.
pub(crate) const RAW: ListenerIndex = ListenerIndex(1);
/// The listener whose server sends first.
pub(crate) const GREETER: ListenerIndex = ListenerIndex(2);
/// The listener that hands over all connections.
pub(crate) const HANDED: ListenerIndex = ListenerIndex(3);
/// The listener whose replies are messages, written in parts.
pub(crate) const STREAMED: ListenerIndex = ListenerIndex(4);

/// The field that announces the last reply of a connection (RFC 9112 9.6).
const CLOSES: &[u8] = b"\r\nConnection: close\r\n";

/// The replies and the end that a peer must see if no fault occurs.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    /// The kind of client.
    pub(crate) kind: Kind,
    /// All replies, in order.
    pub(crate) replies: Vec<Reply>,
    /// The end of the connection.
    pub(crate) end: End,
}

/// The end of a connection if no fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All replies, then the server's FIN, and no reset.
    Replied,
    /// Like `Replied`, with the FIN at this time after accept.
    CutAfterAccept(Duration),
    /// Like `Replied`, with the FIN at this time after the last reply.
    CutAfterReply(Duration),
    /// Like `Replied`, with the FIN between these times after the peer's last byte.
    CutAfterSend(Duration, Duration),
    /// The peer leaves early: it may have received any prefix of its replies.
    Left,
    /// The server resets the connection at this time after the last byte that it could send.
    Stalled(Duration),
}

macro_rules! kinds {
    ($($kind:ident: $weight:literal, $cast:ident;)*) => {
        /// The kinds of client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind,)* }

        const KINDS: &[(Kind, u32)] = &[$((Kind::$kind, $weight),)*];

        fn cast(kind: Kind, caster: &mut Caster<'_>) -> Cast {
            match kind { $(Kind::$kind => caster.$cast(),)* }
        }
    };
}

kinds! {
    BeyondClose: 3, beyond_close;
    BodyStalled: 2, body_stalled;
    BodyWhole: 4, body_whole;
    Continue: 2, expect_continue;
    DataAndFin: 3, data_and_fin;
    EarlyError: 5, early_error;
    Greeted: 3, greeted;
    HandedOver: 8, handed_over;
    HandedSilent: 3, handed_silent;
    HandlerCloses: 1, handler_closes;
    HandlerPanics: 1, handler_panics;
    IdleKeepAlive: 2, idle_keep_alive;
    JobFaults: 1, job_faults;
    JobHasty: 1, job_hasty;
    JobLeaves: 3, job_leaves;
    KeepAlive: 6, keep_alive;
    LeavesMidway: 4, leaves_midway;
    NeverReads: 1, never_reads;
    Pipelined: 6, pipelined;
    Probe: 12, probe;
    RawKept: 2, raw_kept;
    RawOnce: 4, raw_once;
    Shared: 2, shared;
    Silent: 2, silent;
    SlowHeader: 2, slow_header;
    SlowReader: 3, slow_reader;
    TcpOnly: 5, tcp_only;
}

/// The script of a peer, and the expected replies and end.
struct Cast {
    listener: ListenerIndex,
    script: Vec<PeerStep>,
    replies: Vec<Reply>,
    end: End,
    reading: Reading,
    window_len: usize,
}

impl Cast {
    fn http(script: Vec<PeerStep>, replies: Vec<Reply>, end: End) -> Self {
        Self { listener: HTTP, script, replies, end, reading: Reading::Eager, window_len: 256 * 1024 }
    }
}

struct Caster<'a> {
    rng: &'a mut Rng,
    limits: &'a HttpLimits,
    write_timeout: Duration,
    next_id: &'a mut u64,
}

/// Creates a peer of a random kind.
pub(crate) fn random_peer(
    rng: &mut Rng,
    limits: &HttpLimits,
    write_timeout: Duration,
    next_id: &mut u64,
    connect_within: Duration,
) -> (PeerPlan, Expectation) {
    let weights: Vec<u32> = KINDS.iter().map(|(_, weight)| *weight).collect();
    let kind = KINDS[rng.weighted(&weights)].0;
    peer_of(kind, rng, limits, write_timeout, next_id, connect_within)
}

/// Creates a peer of this kind.
pub(crate) fn peer_of(
    kind: Kind,
    rng: &mut Rng,
    limits: &HttpLimits,
    write_timeout: Duration,
    next_id: &mut u64,
    connect_within: Duration,
) -> (PeerPlan, Expectation) {
    let cast = cast(kind, &mut Caster { rng, limits, write_timeout, next_id });
    let plan = PeerPlan {
        listener: cast.listener,
        addr: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, rng.range(1..6).to_le_bytes()[0]))),
        connect_after: Duration::from_nanos(
            rng.range(0..u64::try_from(connect_within.as_nanos()).unwrap_or(1).max(1)),
        ),
        script: cast.script,
        reading: cast.reading,
        window_len: cast.window_len,
        ignores_fin: false,
    };
    (plan, Expectation { kind, replies: cast.replies, end: cast.end })
}

impl Caster<'_> {
    fn id(&mut self) -> u64 {
        *self.next_id += 1;
        *self.next_id
    }

    fn body_len(&mut self) -> usize {
        let max = *self.rng.pick(&[1, 40, 200, 2_000, 20_000]);
        self.rng.index(max)
    }

    /// Sends these bytes in random chunks, with short pauses.
    fn send(&mut self, script: &mut Vec<PeerStep>, bytes: &[u8]) {
        let cuts_max = *self.rng.pick(&[0, 1, 3, 8]);
        for piece in self.rng.split(bytes, cuts_max) {
            script.push(PeerStep::Send(piece));
            let pause_us = *self.rng.pick(&[0, 0, 50, 1_000, 40_000, 300_000]);
            if pause_us > 0 {
                script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(0..pause_us) + 1)));
            }
        }
    }

    /// Continues when these replies have arrived, unless the last one announced a close.
    fn await_replies(script: &mut Vec<PeerStep>, replies: &[Reply]) {
        let replies = replies.to_vec();
        let closes = |received: &[u8]| received.windows(CLOSES.len()).any(|window| window == CLOSES);
        script.push(PeerStep::Await(Box::new(move |received| {
            count_whole(received, &replies) >= replies.len() && !closes(received)
        })));
    }
}
