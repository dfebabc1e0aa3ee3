//! One connection of a server on the runtime: its bytes pass through the state machine that the
//! ring threads use, so replies, limits and refusals are the same.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use doorbell::http::{Client, Conn, Date, Io, Next, Out, Phase};
use doorbell::id::ListenerIndex;
use doorbell::time::{Clock as _, OsClock};
use doorbell::{HandedConn, Handler, Permit, Taker as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::ServerContext;

/// Size of one read.
const READ_LEN: usize = 4096;

/// Maximum time without write progress. The ring threads have the same limit.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time, and maximum input in bytes, from the FIN of the server to that of the client. The
/// ring threads have the same limits. Closing with unread input would reset the connection and
/// discard the reply.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const LINGER_LEN_MAX: usize = 64 << 10;

/// How long a drain waits for the request of an idle connection: it may have arrived, and closing
/// would then reset the connection.
const LAST_CALL: Duration = Duration::from_millis(50);

/// What happened on a connection.
#[derive(Clone, Copy)]
enum Event {
    /// Input of this length. 0: the client has closed its side.
    Input(usize),
    Timeout,
    /// A drain began.
    Closing,
}

/// How serving a connection ends.
enum End {
    Close,
    HandOver(Permit),
    Linger,
}

struct Served<'s, S> {
    stream: TcpStream,
    shared: &'s ServerContext<S>,
    conn: Conn,
    carry: Vec<u8>,
    out: Out,
    closing: watch::Receiver<bool>,
}

/// Serves a connection until it ends or is handed over.
pub(super) async fn serve<S: Handler + Sync>(stream: TcpStream, shared: &ServerContext<S>) {
    // Replies are written whole, so Nagle's algorithm would only delay them.
    let _unsupported = stream.set_nodelay(true);
    let conn = Conn::new(OsClock.now(), &shared.limits);
    let closing = shared.closing.clone();
    let mut served = Served { stream, shared, conn, carry: Vec::new(), out: Out::new(), closing };
    let end = served.run().await;
    shared.counters.requests.fetch_add(u64::from(served.conn.requests()), Ordering::Relaxed);
    match end {
        Ok(End::HandOver(permit)) => served.leave(permit),
        Ok(End::Linger) => served.linger().await,
        Ok(End::Close) | Err(_) => {}
    }
}

impl<S: Handler + Sync> Served<'_, S> {
    async fn run(&mut self) -> io::Result<End> {
        let mut input = vec![0; READ_LEN];
        loop {
            let is_closing = *self.closing.borrow_and_update();
            let event = if is_closing && self.conn.phase() == Phase::Idle && self.carry.is_empty() {
                match timeout(LAST_CALL, self.stream.read(&mut input)).await {
                    Ok(len) => Event::Input(len?),
                    Err(_elapsed) => return Ok(End::Linger),
                }
            } else {
                self.event(&mut input).await?
            };
            let mut next = self.handle(event, &input);
            loop {
                self.write().await?;
                next = match next {
                    Next::Close | Next::CloseClean => return Ok(End::Close),
                    Next::CloseLinger => return Ok(End::Linger),
                    Next::Flush => self.step(|conn, io, service| conn.handle_input(&[], io, service)),
                    Next::HandOver => match self.shared.places.take() {
                        Some(permit) => return Ok(End::HandOver(permit)),
                        None => self.refuse(),
                    },
                    Next::Read => break,
                    // Never reached: `Probes` and `HandOverAll` do not defer replies.
                    Next::Wait => self.refuse(),
                };
            }
        }
    }

    /// Waits for the next event.
    async fn event(&mut self, input: &mut [u8]) -> io::Result<Event> {
        let left = self.conn.deadline().since(OsClock.now());
        let is_closing = *self.closing.borrow();
        tokio::select! {
            biased;
            () = sleep(left) => Ok(Event::Timeout),
            _changed = self.closing.changed(), if !is_closing => Ok(Event::Closing),
            len = self.stream.read(input) => Ok(Event::Input(len?)),
        }
    }

    fn handle(&mut self, event: Event, input: &[u8]) -> Next {
        self.step(|conn, io, service| match event {
            Event::Input(0) => conn.handle_eof(io),
            Event::Input(len) => conn.handle_input(input.get(..len).unwrap_or_default(), io, service),
            Event::Timeout => conn.handle_timeout(io),
            Event::Closing => Next::Read,
        })
    }

    /// Refuses the pending request with a 503.
    fn refuse(&mut self) -> Next {
        self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.step(|conn, io, _service| conn.handle_overload(io))
    }

    fn step(&mut self, step: impl FnOnce(&mut Conn, Io<'_>, &S) -> Next) -> Next {
        let Self { shared, conn, carry, out, closing, .. } = self;
        let date = Date::new(OsClock.unix_secs());
        let io = Io {
            now: OsClock.now(),
            date: &date,
            limits: &shared.limits,
            carry,
            out,
            closing: *closing.borrow(),
            client: &Client::UNKNOWN,
        };
        step(conn, io, &shared.service)
    }

    async fn write(&mut self) -> io::Result<()> {
        let Self { stream, out, .. } = self;
        for mut part in [out.unsent(), &out.body] {
            while !part.is_empty() {
                let len = timeout(WRITE_TIMEOUT, stream.write(part)).await??;
                part = part.get(len..).filter(|_| len > 0).ok_or(io::ErrorKind::WriteZero)?;
            }
        }
        out.clear();
        Ok(())
    }

    /// Sends the FIN, then drops a bounded amount of input.
    async fn linger(mut self) {
        let mut left = LINGER_LEN_MAX;
        let drop_input = async {
            let mut input = vec![0; READ_LEN];
            self.stream.shutdown().await?;
            while left > 0 {
                match self.stream.read(&mut input).await? {
                    0 => break,
                    len => left = left.saturating_sub(len),
                }
            }
            io::Result::Ok(())
        };
        // The connection is closed in any case.
        let _late = timeout(LINGER_TIMEOUT, drop_input).await;
    }

    fn leave(self, permit: Permit) {
        let time_left = self.conn.deadline().since(OsClock.now());
        let Ok(stream) = self.stream.into_std() else { return };
        let (fd, bytes, listener) = (stream.into(), self.carry, ListenerIndex(0));
        // If the receiver was dropped, the connection stays in `handed`, whose drop closes it.
        let mut handed = vec![HandedConn { fd, bytes, listener, client: None, time_left, permit }];
        self.shared.queue.take(&mut handed);
    }
}
