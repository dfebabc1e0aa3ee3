//! A link shared between tasks, and the I/O loop of one connection.

use super::clock::LinkClock;
use crate::ended::Ended;
use crate::link::{Event, Link};
use crate::report::LinkReport;
use crate::time::Time;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::Notify;
use tokio::time::sleep_until;

/// Maximum size of one read.
const READ_LEN: usize = 16 << 10;

/// Notification from a link. The receiver must neither block nor call the link.
#[derive(Debug)]
pub enum Notice {
    /// A connection or an attempt to connect ended, for this reason.
    Ended(String),
    /// An event of the link.
    Event(Event),
}

/// Handle to a link, shared between tasks.
#[derive(Clone)]
pub struct LinkHandle(Arc<Inner>);

struct Inner {
    link: Mutex<Link>,
    clock: LinkClock,
    wake: Notify,
    /// Number of the current connection; older ones end.
    current: AtomicU64,
    notify: Box<dyn Fn(Time, Notice) + Send + Sync>,
}

impl fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkHandle").finish_non_exhaustive()
    }
}

impl LinkHandle {
    /// Creates a handle. `notify` receives the events of the link.
    #[must_use]
    pub fn new(link: Link, clock: LinkClock, notify: impl Fn(Time, Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            link: Mutex::new(link),
            clock,
            wake: Notify::new(),
            current: AtomicU64::new(0),
            notify: Box::new(notify),
        }))
    }

    /// Changes the link, for example queues transitions, and wakes its connection.
    pub fn with<T>(&self, change: impl FnOnce(Time, &mut Link) -> T) -> T {
        let changed = change(self.0.clock.now(), &mut self.lock());
        self.0.wake.notify_one();
        changed
    }

    /// Returns the state, measurements and counters.
    #[must_use]
    pub fn report(&self) -> LinkReport {
        self.lock().report(self.0.clock.now())
    }

    /// Whether there is an open connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// Whether no transition or result waits to be sent or acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.lock().is_flushed()
    }

    pub(crate) fn report_end(&self, why: String) {
        (self.0.notify)(self.0.clock.now(), Notice::Ended(why));
    }

    /// Runs a connection until it ends. A connection that is already running ends with
    /// [`Ended::Replaced`]. If the future is dropped, the link is disconnected.
    pub async fn run(&self, stream: impl AsyncRead + AsyncWrite) -> Ended {
        let conn = self.begin();
        let Err(ended) = conn.exchange(stream).await;
        ended
    }

    fn begin(&self) -> Running<'_> {
        let mut link = self.lock();
        let number = self.0.current.fetch_add(1, Ordering::Relaxed) + 1;
        link.connected(self.0.clock.now());
        drop(link);
        self.0.wake.notify_waiters();
        Running { handle: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.0.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running connection.
struct Running<'a> {
    handle: &'a LinkHandle,
    number: u64,
}

impl Running<'_> {
    /// Exchanges bytes until the connection ends.
    async fn exchange(&self, stream: impl AsyncRead + AsyncWrite) -> Result<Infallible, Ended> {
        let (clock, wake) = (self.handle.0.clock, &self.handle.0.wake);
        let (mut reader, mut writer) = split(stream);
        let (mut input, mut output) = (vec![0; READ_LEN], Output::default());
        loop {
            let deadline = self.locked(|now, link| {
                link.check(now)?;
                if !output.is_pending() {
                    output.refill(|bytes| link.transmit(now, bytes));
                }
                // While output is pending, no frame is added, so only the deadline for input
                // applies.
                Ok(if output.is_pending() { link.dead_at() } else { link.deadline() })
            })?;
            let deadline = clock.instant(deadline.unwrap_or_else(|| clock.now()));
            tokio::select! {
                read = reader.read(&mut input) => {
                    let len = read.map_err(|error| io(&error))?;
                    if len == 0 {
                        return Err(Ended::Closed);
                    }
                    self.locked(|now, link| link.receive(now, &input[..len]))?;
                }
                written = output.write(&mut writer), if output.is_pending() => written.map_err(|error| io(&error))?,
                () = sleep_until(deadline) => {}
                () = wake.notified() => {}
            }
        }
    }

    /// Calls `with` if this connection is still the current one, and reports events.
    fn locked<T>(&self, with: impl FnOnce(Time, &mut Link) -> Result<T, Ended>) -> Result<T, Ended> {
        let inner = &self.handle.0;
        let mut link = self.handle.lock();
        if inner.current.load(Ordering::Relaxed) != self.number {
            return Err(Ended::Replaced);
        }
        let now = inner.clock.now();
        let result = with(now, &mut link);
        while let Some(event) = link.next_event() {
            (inner.notify)(now, Notice::Event(event));
        }
        result
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _replaced = self.locked(|_, link| {
            link.disconnected();
            Ok(())
        });
    }
}

/// Bytes to write, and whether TLS has buffered some of them.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    written: usize,
    is_unflushed: bool,
}

impl Output {
    const fn is_pending(&self) -> bool {
        self.written < self.bytes.len() || self.is_unflushed
    }

    fn refill(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.written = 0;
        fill(&mut self.bytes);
    }

    /// Writes a part of the bytes, or flushes TLS. Cancel safe.
    async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        if self.written < self.bytes.len() {
            let len = writer.write(&self.bytes[self.written..]).await?;
            if len == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.written += len;
            self.is_unflushed = true;
        } else {
            writer.flush().await?;
            self.is_unflushed = false;
        }
        Ok(())
    }
}

fn io(error: &std::io::Error) -> Ended {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Ended::Io(cause.map_or_else(|| error.to_string(), |cause| format!("TLS: {cause}")))
}
