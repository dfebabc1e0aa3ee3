//! Owns the self-test of the kernel's behaviour, on loopback connections and a separate ring.
//! Start at [`capabilities`].

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sockopt::{TcpState, tcp_info};
use crate::{Accepted, Errno, Event, EventKind, Payload, Received, Ring, SendBuf, Setup, Target, Token};

/// The verdict on one capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the capability works as required.
    pub ok: bool,
    /// The observation, for a log line.
    pub why: String,
    /// How long the test took.
    pub took: Duration,
}

/// Capabilities of this kernel, as observed by the self-test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// One accept operation delivers more than one connection.
    pub multishot_accept: Verdict,
    /// A receive from an accepted index works, and closing an index takes effect at once while
    /// another connection is idle. Before Linux 6.4 a close was delayed by up to a second; before
    /// Linux 6.13 a close waited for the idle connection.
    pub direct_descriptors: Verdict,
    /// A reply sent with `MSG_MORE` and the FIN of the following close leave at once, in one
    /// segment.
    pub reply_and_fin: Verdict,
}

/// Maximum duration of the whole self-test on a machine with an idle processor.
///
/// On a busy machine the self-test takes longer, with the same number of attempts.
pub const TIME_MAX: Duration = Duration::from_millis(40);

/// Reserve within `TIME_MAX` for tear-down.
const RESERVE: Duration = Duration::from_millis(10);
/// Deadline for the tear-down of the ring of one test.
const TEAR_DOWN: Duration = Duration::from_millis(1);
/// Maximum time of one wait; a correct kernel needs a fraction of a millisecond, a faulty one 200
/// ms or more.
const PATIENCE: Duration = Duration::from_millis(9);
/// Minimum number of polls before a wait times out. On a busy machine this thread and the kernel's
/// threads may not run at all during `PATIENCE`.
const LOOKS_MIN: u32 = 32;
/// Pause between polls.
const A_MOMENT: Duration = Duration::from_micros(200);
/// A measured duration of at least this value is inconclusive, and the test is repeated: the cause
/// may be a kernel timer or a lack of processor time.
const DOUBTFUL: Duration = Duration::from_millis(150);
/// Maximum number of attempts per test.
const TRIES_MAX: u32 = 3;
/// Timeout of a loopback connect, which succeeds at once even on kernels with faulty rings.
const CONNECT_MAX: Duration = Duration::from_secs(1);

const LISTENER: Token = Token::new(0, 0);
const IDLE: Token = Token::new(1, 0);
const BUSY: Token = Token::new(2, 0);

/// Tests the kernel with the set-up flags of `setup`.
///
/// Each test has its own small ring and listener, so that a fault in one test does not affect the
/// next test. No descriptor stays open.
#[must_use]
pub fn capabilities(setup: &Setup) -> Capabilities {
    let ends_at = now() + TIME_MAX - RESERVE;
    let multishot_accept = verdict(setup, ends_at, Bench::multishot_accept);
    let reply_and_fin = verdict(setup, ends_at, |bench| bench.reply_and_fin(false, true));
    let mut direct_descriptors = verdict(setup, ends_at, Bench::direct_descriptors);
    if direct_descriptors.ok && reply_and_fin.ok {
        let with_direct = verdict(setup, ends_at, |bench| bench.reply_and_fin(true, true));
        if !with_direct.ok {
            direct_descriptors = with_direct;
        }
    }
    Capabilities { multishot_accept, direct_descriptors, reply_and_fin }
}

struct Bench {
    ring: Ring,
    listener: TcpListener,
    addr: SocketAddr,
    ends_at: Instant,
    /// Whether the last measured duration was inconclusive (see `DOUBTFUL`).
    is_doubtful: bool,
}

/// The deadline of a wait, and the number of its polls so far.
struct Wait {
    until: Instant,
    looks: u32,
}

impl Wait {
    /// Counts a poll without result. Returns true if the wait is over.
    fn is_over(&mut self) -> bool {
        self.looks += 1;
        self.looks >= LOOKS_MIN && now() >= self.until
    }
}

enum Conn {
    Fd(OwnedFd),
    Fixed(u32),
}

impl Conn {
    fn target(&self) -> Target<'_> {
        match self {
            Self::Fd(fd) => Target::Fd(fd.as_fd()),
            Self::Fixed(index) => Target::Fixed(*index),
        }
    }
}

impl Bench {
    fn open(setup: &Setup, ends_at: Instant) -> Result<Self, String> {
        let small = Setup {
            sq_entries: 64,
            cq_entries: 256,
            slots: 4,
            fixed_files: 8,
            recv_bufs: 8,
            recv_buf_len: 64,
            datagram_bufs: 0,
            datagram_len: 0,
            restrict: setup.restrict,
            levers: setup.levers,
            fault: setup.fault,
        };
        let ring = Ring::open(&small).map_err(|error| error.to_string())?;
        let no_loopback = |error| format!("no loopback listener for the self-test: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .or_else(|_| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)))
            .map_err(no_loopback)?;
        let addr = listener.local_addr().map_err(no_loopback)?;
        Ok(Self { ring, listener, addr, ends_at, is_doubtful: false })
    }

    fn multishot_accept(&mut self) -> Result<String, String> {
        self.ring.accept(LISTENER, self.listener.as_fd(), true, false);
        let mut conns = Vec::new();
        for round in 1..=2 {
            let client = self.connect()?;
            let (conn, more) = self.accepted()?;
            if !more {
                return Err(format!("a multishot accept ended after {round} connections"));
            }
            conns.push((client, conn));
        }
        Ok("one accept delivered two connections".into())
    }

    fn direct_descriptors(&mut self) -> Result<String, String> {
        if self.ring.report().fixed_files == 0 {
            return Err(format!("no table of direct descriptors: {}", self.ring.report()));
        }
        self.ring.accept(LISTENER, self.listener.as_fd(), true, true);
        let _idle_client = self.connect()?;
        let (idle, _) = self.accepted()?;
        self.ring.recv(IDLE, idle.target(), false);
        let mut client = self.connect()?;
        let (conn, _) = self.accepted()?;
        let Conn::Fixed(index) = conn else {
            return Err("a direct accept delivered an ordinary descriptor".into());
        };
        client.write_all(b"?").map_err(|error| format!("loopback: {error}"))?;
        self.ring.recv(BUSY, conn.target(), false);
        self.received_one_byte()?;
        let closed_at = now();
        self.ring.close_fixed(BUSY, index);
        self.turn_until_readable(&client)
            .map_err(|why| format!("a close while another connection is idle: {why}"))?;
        let took = self.took_since(closed_at)?;
        if !matches!(client.read(&mut [0; 8]), Ok(0)) {
            return Err(
                "the peer of a closed connection read something other than the end of the stream".into()
            );
        }
        Ok(format!("a close took {} us while another connection was idle", took.as_micros()))
    }

    fn reply_and_fin(&mut self, direct: bool, more: bool) -> Result<String, String> {
        self.ring.accept(LISTENER, self.listener.as_fd(), true, direct);
        let client = self.connect()?;
        let (conn, _) = self.accepted()?;
        let info =
            |client: &TcpStream| tcp_info(client.as_fd()).map_err(|errno| format!("TCP_INFO: {errno}"));
        let before = info(&client)?;
        self.ring.send(BUSY, conn.target(), SendBuf::new(Payload::Owned(b"!".to_vec())), more);
        self.sent_one_byte()?;
        let closed_at = now();
        match conn {
            Conn::Fd(fd) => drop(fd),
            Conn::Fixed(index) => self.ring.close_fixed(BUSY, index),
        }
        self.turn_until_readable(&client).map_err(|why| format!("a held reply and a close: {why}"))?;
        let took = self.took_since(closed_at)?;
        let after = info(&client)?;
        let segments = after.segs_in.wrapping_sub(before.segs_in);
        if after.state != TcpState::CloseWait || segments != 1 {
            return Err(format!("reply and FIN arrived in {segments} segments, state {:?}", after.state));
        }
        Ok(format!("reply and FIN arrived as one segment after {} us", took.as_micros()))
    }

    fn connect(&self) -> Result<TcpStream, String> {
        TcpStream::connect_timeout(&self.addr, CONNECT_MAX).map_err(|error| format!("loopback: {error}"))
    }

    fn accepted(&mut self) -> Result<(Conn, bool), String> {
        let answer = self.wait(|event| match event.kind {
            EventKind::Accepted(Ok(Accepted::Fd(fd))) => Some(Ok((Conn::Fd(fd), event.more))),
            EventKind::Accepted(Ok(Accepted::Fixed(index))) => Some(Ok((Conn::Fixed(index), event.more))),
            EventKind::Accepted(Err(errno)) => Some(Err(errno)),
            _ => None,
        })?;
        answer.map_err(|errno| format!("accept: {errno}"))
    }

    fn received_one_byte(&mut self) -> Result<(), String> {
        let answer = self.wait(|event| match event.kind {
            EventKind::Received(Ok(Received { buf, .. })) if event.token == BUSY => {
                Some(buf.ok_or(Errno::IO))
            }
            EventKind::Received(Err(errno)) if event.token == BUSY => Some(Err(errno)),
            _ => None,
        })?;
        let buf = answer.map_err(|errno| format!("receive from a direct descriptor: {errno}"))?;
        let right = self.ring.received(&buf) == b"?";
        self.ring.recycle(buf);
        if right { Ok(()) } else { Err("a direct descriptor delivered bytes of another connection".into()) }
    }

    fn sent_one_byte(&mut self) -> Result<(), String> {
        let answer = self.wait(|event| match event.kind {
            EventKind::Sent { result, .. } => Some(result),
            _ => None,
        })?;
        match answer {
            Ok(1) => Ok(()),
            Ok(_) => Err("a send of one byte sent nothing".into()),
            Err(errno) => Err(format!("send: {errno}")),
        }
    }

    /// Enters the ring until `pick` accepts an event, or until the wait times out.
    fn wait<T>(&mut self, mut pick: impl FnMut(Event) -> Option<T>) -> Result<T, String> {
        let mut wait = self.begin_wait();
        loop {
            self.ring.enter(1, Some(A_MOMENT)).map_err(|error| error.to_string())?;
            while let Some(event) = self.ring.next() {
                if let Some(picked) = pick(event) {
                    return Ok(picked);
                }
            }
            if wait.is_over() {
                return Err(format!("no event within {} ms", PATIENCE.as_millis()));
            }
        }
    }

    /// Enters the ring in a loop, as a worker does, until the client can read.
    fn turn_until_readable(&mut self, client: &TcpStream) -> Result<(), String> {
        let mut wait = self.begin_wait();
        loop {
            self.ring.enter(0, None).map_err(|error| error.to_string())?;
            while self.ring.next().is_some() {}
            let mut fds = [PollFd::new(client, PollFlags::IN)];
            let a_moment = Timespec { tv_sec: 0, tv_nsec: A_MOMENT.subsec_nanos().into() };
            if poll(&mut fds, Some(&a_moment)).is_ok_and(|ready| ready > 0) {
                return Ok(());
            }
            if wait.is_over() {
                return Err(format!("the peer received nothing within {} ms", PATIENCE.as_millis()));
            }
        }
    }

    fn begin_wait(&self) -> Wait {
        Wait { until: self.ends_at.min(now() + PATIENCE), looks: 0 }
    }

    /// Returns the time since the close, or an error if it is inconclusive (`DOUBTFUL`).
    fn took_since(&mut self, closed_at: Instant) -> Result<Duration, String> {
        let took = closed_at.elapsed();
        self.is_doubtful = took >= DOUBTFUL;
        if self.is_doubtful { Err(format!("a close took {} ms", took.as_millis())) } else { Ok(took) }
    }
}

fn verdict(
    setup: &Setup,
    ends_at: Instant,
    mut test: impl FnMut(&mut Bench) -> Result<String, String>,
) -> Verdict {
    let begun = now();
    let mut once = || {
        Bench::open(setup, ends_at).map(|mut bench| {
            let result = test(&mut bench);
            bench.ring.tear_down(TEAR_DOWN);
            (result, bench.is_doubtful)
        })
    };
    let mut tries = 1;
    let result = loop {
        match once() {
            Ok((_, true)) if tries < TRIES_MAX => tries += 1,
            Ok((result, _)) => break result,
            Err(why) => break Err(why),
        }
    };
    let (ok, why) = match result {
        Ok(why) => (true, why),
        Err(why) => (false, why),
    };
    Verdict { ok, why, took: begun.elapsed() }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a self-test at the start has no turn whose time it could read"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
