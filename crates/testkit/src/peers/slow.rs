//! Slow clients: senders of one byte at a time, readers at a limited rate.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::end::End;

/// Result of a paced reader.
#[derive(Clone, Debug)]
pub struct Paced {
    /// Bytes that failed the caller's check.
    pub wrong: u64,
    /// Bytes received.
    pub len: u64,
    /// How the connection ended.
    pub end: End,
    /// Time from the first read to the end.
    pub took: Duration,
}

/// Reads to the end at no more than `bytes_per_sec`.
///
/// `wrong` gets each piece with its offset and returns the number of bad bytes.
///
/// # Errors
/// When the read timeout cannot be set.
pub fn read_paced(
    stream: &mut TcpStream,
    bytes_per_sec: u64,
    patience: Duration,
    mut wrong: impl FnMut(&[u8], u64) -> u64,
) -> io::Result<Paced> {
    let start = Instant::now();
    stream.set_read_timeout(Some(super::PATIENCE))?;
    let mut buf = vec![0; usize::try_from((bytes_per_sec / 20).clamp(1, 1 << 20)).expect("at most 1 MiB")];
    let mut paced = Paced { wrong: 0, len: 0, end: End::Silence, took: Duration::ZERO };
    while start.elapsed() < patience {
        match stream.read(&mut buf) {
            Ok(0) => {
                paced.end = End::Fin;
                break;
            }
            Ok(n) => {
                paced.wrong += wrong(&buf[..n], paced.len);
                paced.len += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let silent = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
                paced.end = if silent { End::Silence } else { End::Reset };
                break;
            }
        }
        let due = Duration::from_millis(paced.len.saturating_mul(1000) / bytes_per_sec.max(1));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    paced.took = start.elapsed();
    Ok(paced)
}

/// Many connections that each send one byte per `every`, all driven from the calling thread.
#[derive(Debug)]
pub struct Trickle {
    conns: Vec<Trickler>,
    every: Duration,
}

#[derive(Debug)]
struct Trickler {
    /// `None` after the server has closed the connection.
    stream: Option<TcpStream>,
    opened: Instant,
    first_byte: Option<Instant>,
    sent: usize,
    ended: Option<(End, Duration)>,
}

/// How the slow senders' connections ended.
#[derive(Clone, Debug, Default)]
pub struct TrickleReport {
    /// Lifetime of each connection that the server closed. It starts with the first byte, as does
    /// the timeout of a listener with deferred accept.
    pub cut_after: Vec<Duration>,
    /// Number of connections closed by reset.
    pub resets: usize,
    /// Number of connections that are still open.
    pub alive: usize,
}

impl Trickle {
    /// Takes connected streams with their connect times.
    ///
    /// # Errors
    /// When a stream cannot be made non-blocking.
    pub fn new(streams: Vec<(TcpStream, Instant)>, every: Duration) -> io::Result<Self> {
        let mut conns = Vec::with_capacity(streams.len());
        for (stream, opened) in streams {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            conns.push(Trickler { stream: Some(stream), opened, first_byte: None, sent: 0, ended: None });
        }
        Ok(Self { conns, every })
    }

    /// Sends `request` byte by byte (never its last byte) until all connections are closed or
    /// `patience` is over.
    pub fn run(mut self, request: &[u8], patience: Duration) -> TrickleReport {
        let start = Instant::now();
        while start.elapsed() < patience && self.conns.iter().any(|conn| conn.ended.is_none()) {
            for conn in self.conns.iter_mut().filter(|conn| conn.ended.is_none()) {
                conn.turn(request, self.every);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut report = TrickleReport::default();
        for conn in self.conns {
            match conn.ended {
                Some((end, life)) => {
                    report.cut_after.push(life);
                    report.resets += usize::from(end == End::Reset);
                }
                None => report.alive += 1,
            }
        }
        report
    }
}

impl Trickler {
    fn turn(&mut self, request: &[u8], every: Duration) {
        let Some(stream) = &mut self.stream else { return };
        let due = every.saturating_mul(u32::try_from(self.sent).unwrap_or(u32::MAX));
        if self.opened.elapsed() >= due && self.sent + 1 < request.len() {
            // A failed write shows up in the read below, with its error kind.
            let _ = stream.write(&request[self.sent..=self.sent]);
            self.sent += 1;
            self.first_byte.get_or_insert_with(Instant::now);
        }
        let mut buf = [0; 2048];
        let end = match stream.read(&mut buf) {
            Ok(0) => End::Fin,
            Ok(_) => return,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => End::Reset,
        };
        self.ended = Some((end, self.first_byte.unwrap_or(self.opened).elapsed()));
        self.stream = None;
    }
}
