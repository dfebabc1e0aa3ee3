//! Many unique requests in flight from one thread, every byte of every reply's body checked.
//!
//! Does not know about: the server, except that it responds to `GET /unique/ID/LEN` over HTTP/1.1.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use socket2::{Domain, Socket, Type};

use super::unique::Unique;

/// How requests share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One request per connection, with `Connection: close`; the end must be a FIN.
    Close,
    /// One request at a time, this many per connection.
    KeepAlive(u32),
    /// This many requests per write, in ten rounds per connection.
    Pipelined(u32),
}

/// The requests to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Address of the server.
    pub server: SocketAddr,
    /// Source addresses, used in turn; if empty, the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
    /// Total number of requests.
    pub requests: u64,
    /// Number of requests outstanding at any time.
    pub in_flight: u32,
    /// How requests share connections.
    pub mode: Mode,
    /// The first id; ids are consecutive. The ids of two loads must not overlap.
    pub first_id: u64,
    /// Time limit.
    pub patience: Duration,
}

/// Results of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Complete replies, correct or not.
    pub replies: u64,
    /// Wrong, missing and excess bytes of bodies, and bytes of replies to no request.
    pub foreign_bytes: u64,
    /// Replies with a status other than 200.
    pub refusals: u64,
    /// Connections that ended before their replies were complete, by FIN or reset.
    pub cut_short: u64,
    /// Connections that ended with a reset.
    pub resets: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Connections opened.
    pub conns: u64,
    /// Requests without a reply when their connection or the time limit ended.
    pub unanswered: u64,
    /// Body bytes checked.
    pub body_bytes: u64,
    /// Time from request to complete reply, one sample per request up to a million.
    pub latencies: Vec<Duration>,
    /// Total duration.
    pub took: Duration,
}

impl LoadReport {
    /// Whether every request got exactly its own reply and no connection was reset or refused.
    pub fn is_clean(&self) -> bool {
        self.foreign_bytes + self.refusals + self.cut_short + self.resets + self.refused + self.unanswered
            == 0
    }
}

struct Conn {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    awaited: VecDeque<(Unique, Instant)>,
    requests_left: u32,
}

struct Run<'a> {
    load: &'a Load,
    epoll: rustix::fd::OwnedFd,
    conns: Vec<Option<Conn>>,
    issued: u64,
    opened: u64,
    buf: Vec<u8>,
    report: LoadReport,
}

impl Load {
    /// Sends all requests and waits for all replies.
    ///
    /// # Errors
    /// When this side runs out of descriptors, ports or memory.
    pub fn run(&self) -> io::Result<LoadReport> {
        let start = Instant::now();
        let depth = if let Mode::Pipelined(depth) = self.mode { depth.max(1).min(self.in_flight) } else { 1 };
        let width = (self.in_flight / depth).max(1);
        let mut run = Run {
            load: self,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            conns: (0..width).map(|_| None).collect(),
            issued: 0,
            opened: 0,
            buf: vec![0; 256 * 1024],
            report: LoadReport::default(),
        };
        for place in 0..run.conns.len() {
            run.refill(place)?;
        }
        let mut events =
            vec![epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 256];
        while run.conns.iter().any(Option::is_some) && start.elapsed() < self.patience {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let ready = match epoll::wait(&run.epoll, &mut events[..], Some(&timeout)) {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for event in &events[..ready] {
                let place = usize::try_from(event.data.u64()).expect("an index of this load");
                run.turn(place)?;
            }
        }
        run.report.unanswered +=
            run.conns.iter().flatten().map(|conn| conn.awaited.len() as u64).sum::<u64>()
                + (self.requests - run.issued);
        run.report.took = start.elapsed();
        Ok(run.report)
    }
}

impl Run<'_> {
    /// Opens a connection at an empty place if there are requests left to send.
    fn refill(&mut self, place: usize) -> io::Result<()> {
        while self.conns[place].is_none() && self.issued < self.load.requests {
            let socket = Socket::new(Domain::for_address(self.load.server), Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            if !self.load.sources.is_empty() {
                let turn = usize::try_from(self.opened).unwrap_or(0) % self.load.sources.len();
                socket.set_reuse_address(true)?;
                socket.bind(&SocketAddr::from((self.load.sources[turn], 0)).into())?;
            }
            self.opened += 1;
            match socket.connect(&self.load.server.into()) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.report.refused += 1;
                    self.issued += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.report.conns += 1;
            let requests_left = match self.load.mode {
                Mode::Close => 1,
                Mode::KeepAlive(count) => count.max(1),
                Mode::Pipelined(depth) => depth.max(1) * 10,
            };
            let mut conn = Conn {
                stream: socket.into(),
                out: Vec::new(),
                sent: 0,
                input: Vec::new(),
                awaited: VecDeque::new(),
                requests_left,
            };
            self.ask(&mut conn);
            let flags = epoll::EventFlags::IN
                | epoll::EventFlags::OUT
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::ET;
            epoll::add(&self.epoll, &conn.stream, epoll::EventData::new_u64(place as u64), flags)?;
            self.conns[place] = Some(conn);
        }
        Ok(())
    }

    /// Appends the next request, or the next round of pipelined ones, to the connection's output.
    fn ask(&mut self, conn: &mut Conn) {
        let depth = if let Mode::Pipelined(depth) = self.load.mode {
            depth.max(1).min(self.load.in_flight)
        } else {
            1
        };
        let now = Instant::now();
        for _ in 0..depth.min(conn.requests_left) {
            if self.issued == self.load.requests {
                break;
            }
            let unique = Unique::from_id(self.load.first_id + self.issued);
            self.issued += 1;
            conn.requests_left -= 1;
            let close = if self.load.mode == Mode::Close { "Connection: close\r\n" } else { "" };
            let request = format!("GET {} HTTP/1.1\r\nHost: load\r\n{close}\r\n", unique.path());
            conn.out.extend_from_slice(request.as_bytes());
            conn.awaited.push_back((unique, now));
        }
        if conn.awaited.is_empty() {
            conn.requests_left = 0;
        }
    }

    /// Handles one readiness event of a connection.
    fn turn(&mut self, place: usize) -> io::Result<()> {
        let Some(mut conn) = self.conns[place].take() else { return Ok(()) };
        loop {
            let broken = conn.flush().err();
            let over = self.read(&mut conn, broken);
            let answered = self.take_replies(&mut conn);
            if over {
                self.account(&conn);
                return self.refill(place);
            }
            if answered && conn.awaited.is_empty() {
                if self.load.mode == Mode::Close {
                    // The reply is complete; the required FIN has not arrived yet.
                    break;
                }
                self.ask(&mut conn);
                if conn.awaited.is_empty() {
                    return self.refill(place);
                }
                continue;
            }
            break;
        }
        self.conns[place] = Some(conn);
        Ok(())
    }

    /// Reads available bytes; returns true when the connection is over. `broken` is the error of a
    /// failed write, which a later read no longer returns.
    fn read(&mut self, conn: &mut Conn, broken: Option<io::Error>) -> bool {
        let mut broken = broken;
        loop {
            match broken.take().map_or_else(|| conn.stream.read(&mut self.buf), Err) {
                Ok(0) => return true,
                Ok(n) => conn.input.extend_from_slice(&self.buf[..n]),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected => return false,
                    io::ErrorKind::ConnectionRefused => {
                        self.report.refused += 1;
                        conn.awaited.clear();
                        return true;
                    }
                    _ => {
                        self.report.resets += 1;
                        return true;
                    }
                },
            }
        }
    }

    /// Checks every complete reply against the oldest request; true if there was a complete reply.
    fn take_replies(&mut self, conn: &mut Conn) -> bool {
        let mut from = 0;
        while let Some((head_len, body_len, status)) = frame(&conn.input[from..]) {
            let start = from + head_len;
            let Some(body) = conn.input.get(start..start + body_len) else { break };
            from = start + body_len;
            self.report.replies += 1;
            let Some((unique, asked)) = conn.awaited.pop_front() else {
                self.report.foreign_bytes += (head_len + body_len) as u64;
                continue;
            };
            if status == 200 {
                self.report.foreign_bytes +=
                    unique.foreign(body, 0) + unique.len.saturating_sub(body_len) as u64;
                self.report.body_bytes += body_len as u64;
            } else {
                self.report.refusals += 1;
            }
            if self.report.latencies.len() < 1_000_000 {
                self.report.latencies.push(asked.elapsed());
            }
        }
        conn.input.drain(..from);
        from > 0
    }

    fn account(&mut self, conn: &Conn) {
        if !conn.awaited.is_empty() {
            self.report.cut_short += 1;
            self.report.unanswered += conn.awaited.len() as u64;
        }
        self.report.foreign_bytes += if conn.awaited.is_empty() { conn.input.len() as u64 } else { 0 };
    }
}

impl Conn {
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    // A server may close early after sending its reply: only the received bytes are
                    // evaluated.
                    io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected | io::ErrorKind::WouldBlock => {
                        return Ok(());
                    }
                    _ => return Err(error),
                },
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Head length including its empty line, declared body length, and status of the reply at the start
/// of `bytes`.
fn frame(bytes: &[u8]) -> Option<(usize, usize, u16)> {
    let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..head_len]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let mut fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let len = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()?;
    Some((head_len, len, status))
}
