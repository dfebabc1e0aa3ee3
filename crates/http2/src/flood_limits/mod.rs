//! Limits frames that an HTTP/2 client can send cheaply, with budgets for each window of ten
//! seconds.
//!
//! Floods consist of frames that are rare in normal use, such as RST_STREAM, PING, and empty or
//! tiny DATA frames. [`Budget`] contains the maxima for each window, based on the defaults of
//! Envoy, HAProxy and nginx.

mod frames;

use doorbell::http::Time;
use frames::{CONTINUATION, DATA, Frame, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE};
use std::time::Duration;

/// Length of the client connection preface (RFC 9113 3.4).
const PREFACE_LEN: usize = 24;

/// Length of a window in which frames are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// A DATA frame that is shorter than this and does not end its stream counts as tiny.
const TINY_LEN: u32 = 16;

/// Initial flow-control window of every connection (RFC 9113 6.9.2). A client that has used up this
/// window is considered slow instead of hostile.
const WINDOW_LEN: u32 = 65_535;

/// Maximum number of open streams. Refused streams count until they are reset.
pub(super) const OPEN_MAX: usize = 1024;

/// Limits of a connection for each window of ten seconds, unless noted.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// Streams reset by the client or by the server: 200.
    pub(super) resets: u32,
    /// SETTINGS, PING, PRIORITY, GOAWAY and frames of unknown types: 1,000.
    pub(super) control: u32,
    /// DATA frames with less than 16 bytes that do not end their stream: 1,024.
    pub(super) tiny_data: u32,
    /// WINDOW_UPDATE frames, in addition to two for every sent frame: 1,000.
    pub(super) window_updates: u32,
    /// CONTINUATION frames of one header block: 4.
    pub(super) continuations: u32,
    /// Bytes of header blocks: 8 MiB.
    pub(super) header_bytes: u32,
    /// Streams over the lifetime of the connection.
    pub(super) streams: u32,
}

/// Why a connection is ended immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abuse {
    Continuations,
    Control,
    HeaderBytes,
    Resets,
    Streams,
    TinyData,
    WindowUpdates,
    Windowless,
}

/// Counters of one window of length [`WINDOW`].
#[derive(Debug, Default)]
struct Counts {
    resets: u32,
    control: u32,
    tiny_data: u32,
    window_updates: u32,
    header_bytes: u32,
    sent: u32,
}

/// The counters of one connection.
#[derive(Debug)]
pub(super) struct FloodLimits {
    budget: Budget,
    received: Frames,
    sent: Frames,
    window_began: Time,
    counts: Counts,
    /// CONTINUATION frames of the current header block.
    continuations: u32,
    /// Open streams, sorted.
    open: Vec<u32>,
    last_stream: u32,
    streams: u32,
    /// Number of open streams that wait for an event, as Watch streams do.
    waiting: u32,
    /// Number of open streams that wait for a job.
    working: u32,
    /// Open streams whose reply has begun, sorted.
    replying: Vec<u32>,
    /// Bytes of content sent since the last moment at which no stream was open.
    content_sent: u32,
    /// Time since which replies have made no progress.
    windowless: Option<Time>,
    /// Whether the socket is not writable.
    is_blocked: bool,
    /// Time of the last progress: a stream was opened while all others waited for events or jobs, a
    /// stream or a job ended, or content was received or sent.
    moved: Time,
    opened: Time,
    has_frames: bool,
}

/// The timeout that applies to a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No timeout.
    Nothing,
    /// No request for this long.
    Idle(Duration),
    /// Requests without progress for this long.
    Stalled(Duration),
    /// No HTTP/2 frame yet, for this long.
    Silent(Duration),
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            resets: 200,
            control: 1000,
            tiny_data: 1024,
            window_updates: 1000,
            continuations: 4,
            header_bytes: 8 << 20,
            streams: 10_000,
        }
    }
}

impl FloodLimits {
    pub(super) fn new(budget: Budget, now: Time) -> Self {
        Self {
            budget,
            received: Frames::after(PREFACE_LEN),
            sent: Frames::after(0),
            window_began: now,
            counts: Counts::default(),
            continuations: 0,
            open: Vec::new(),
            last_stream: 0,
            streams: 0,
            waiting: 0,
            working: 0,
            replying: Vec::new(),
            content_sent: 0,
            windowless: None,
            is_blocked: false,
            moved: now,
            opened: now,
            has_frames: false,
        }
    }

    /// Counts the frames in `bytes` from the client, before hyper processes them.
    pub(super) fn handle_received(&mut self, mut bytes: &[u8], now: Time) -> Result<(), Abuse> {
        self.turn_window(now);
        while let Some(frame) = self.received.next(&mut bytes) {
            self.has_frames = true;
            self.count(frame, now)?;
        }
        Ok(())
    }

    /// Counts the frames in `bytes` to the client. Resets by the server also count, because a
    /// client can cause them by its errors (MadeYouReset).
    pub(super) fn handle_sent(&mut self, mut bytes: &[u8], now: Time) -> Result<(), Abuse> {
        self.turn_window(now);
        if self.sent.is_within_data() && !bytes.is_empty() {
            self.moved = now;
        }
        while let Some(frame) = self.sent.next(&mut bytes) {
            self.counts.sent = self.counts.sent.saturating_add(1);
            self.track_window(&frame, now);
            if frame.kind == RST_STREAM {
                self.end(frame.stream, now);
                within(&mut self.counts.resets, 1, self.budget.resets).ok_or(Abuse::Resets)?;
            } else if frame.ends_stream {
                self.end(frame.stream, now);
                self.renew(now);
            }
        }
        Ok(())
    }

    fn count(&mut self, frame: Frame, now: Time) -> Result<(), Abuse> {
        let Self { counts, budget, .. } = self;
        match frame.kind {
            DATA => {
                self.moved = now;
                if frame.len < TINY_LEN && !frame.ends_stream {
                    within(&mut counts.tiny_data, 1, budget.tiny_data).ok_or(Abuse::TinyData)?;
                }
            }
            HEADERS => {
                self.continuations = 0;
                within(&mut counts.header_bytes, frame.len, budget.header_bytes).ok_or(Abuse::HeaderBytes)?;
                self.open(frame.stream, now)?;
            }
            CONTINUATION => {
                within(&mut self.continuations, 1, budget.continuations).ok_or(Abuse::Continuations)?;
                within(&mut counts.header_bytes, frame.len, budget.header_bytes).ok_or(Abuse::HeaderBytes)?;
            }
            RST_STREAM => {
                within(&mut counts.resets, 1, budget.resets).ok_or(Abuse::Resets)?;
                self.end(frame.stream, now);
            }
            WINDOW_UPDATE => {
                let max = counts.sent.saturating_mul(2).saturating_add(budget.window_updates);
                within(&mut counts.window_updates, 1, max).ok_or(Abuse::WindowUpdates)?;
            }
            _ => within(&mut counts.control, 1, budget.control).ok_or(Abuse::Control)?,
        }
        Ok(())
    }

    fn open(&mut self, stream: u32, now: Time) -> Result<(), Abuse> {
        // Trailers do not open a stream.
        if stream <= self.last_stream {
            return Ok(());
        }
        if self.open.len() == OPEN_MAX {
            return Err(Abuse::Streams);
        }
        if self.ordinary() == 0 {
            self.moved = now;
        }
        self.last_stream = stream;
        self.streams = self.streams.saturating_add(1);
        self.open.push(stream);
        Ok(())
    }

    fn end(&mut self, stream: u32, now: Time) {
        if let Ok(at) = self.open.binary_search(&stream) {
            self.open.remove(at);
            self.moved = now;
            if let Ok(at) = self.replying.binary_search(&stream) {
                self.replying.remove(at);
            }
            if self.open.is_empty() {
                self.content_sent = 0;
            }
        }
    }

    /// Detects replies that wait for a flow-control window. When the header of a reply is sent, its
    /// content is available: all of a body, or the first message of a message stream. If the
    /// content does not follow immediately, it waits for a window or for the network.
    fn track_window(&mut self, sent: &Frame, now: Time) {
        if sent.kind == DATA {
            self.content_sent = self.content_sent.saturating_add(sent.len);
            if sent.len > 0 {
                self.moved = now;
                self.renew(now);
            }
        } else if sent.kind == HEADERS && !sent.ends_stream && self.open.binary_search(&sent.stream).is_ok() {
            if self.stalled_replies() == 0 {
                self.windowless = Some(now);
            }
            if let Err(at) = self.replying.binary_search(&sent.stream) {
                self.replying.insert(at, sent.stream);
            }
        }
    }

    /// Records progress of replies.
    const fn renew(&mut self, now: Time) {
        self.windowless = Some(now);
    }

    /// Number of replies with pending content. Streams that wait for events have no pending content
    /// after their first message.
    const fn stalled_replies(&self) -> usize {
        match self.content_sent {
            0 => self.replying.len(),
            _ => self.replying.len().saturating_sub(self.waiting as usize),
        }
    }

    /// Records whether the socket is writable; if not, the network is slow.
    pub(super) const fn block(&mut self, is_blocked: bool, now: Time) {
        if self.is_blocked && !is_blocked {
            self.renew(now);
        }
        self.is_blocked = is_blocked;
    }

    /// Time since which replies wait for a flow-control window, although less content was sent than
    /// the initial window allows. For slow clients, [`Due::Stalled`] applies instead.
    pub(super) const fn windowless(&self) -> Option<Time> {
        if self.is_blocked || self.content_sent >= WINDOW_LEN || self.stalled_replies() == 0 {
            return None;
        }
        self.windowless
    }

    fn turn_window(&mut self, now: Time) {
        if now >= self.window_began.after(WINDOW) {
            self.window_began = now;
            self.counts = Counts::default();
        }
    }

    /// Records that a stream begins or stops waiting for an event.
    pub(super) const fn set_waiting(&mut self, begins: bool) {
        if begins { self.waiting += 1 } else { self.waiting = self.waiting.saturating_sub(1) }
    }

    /// Records that a stream begins or stops waiting for a job. While a stream waits, missing
    /// progress is not the fault of the client.
    pub(super) const fn set_working(&mut self, begins: bool, now: Time) {
        if begins {
            self.working += 1;
        } else {
            self.working = self.working.saturating_sub(1);
            self.moved = now;
        }
    }

    /// Time without progress since `from` that is the fault of the client; `None` while a stream
    /// waits for a job.
    pub(super) fn stalled_since(&self, from: Time, now: Time) -> Option<Duration> {
        (self.working == 0).then(|| now.since(from.max(self.moved)))
    }

    /// Number of streams that wait for an event.
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Number of streams that should make progress.
    fn ordinary(&self) -> usize {
        self.open.len().saturating_sub(self.waiting as usize + self.working as usize)
    }

    /// Whether the connection has used all its streams.
    pub(super) const fn is_used_up(&self) -> bool {
        self.streams >= self.budget.streams
    }

    /// The highest stream identifier.
    pub(super) const fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// Whether a frame can be inserted into the sent bytes.
    pub(super) const fn is_between_sent(&self) -> bool {
        self.sent.is_between()
    }

    /// Returns the timeout that applies now, with the elapsed time.
    pub(super) fn due(&self, now: Time) -> Due {
        if !self.has_frames {
            Due::Silent(now.since(self.opened))
        } else if self.ordinary() > 0 {
            Due::Stalled(now.since(self.moved))
        } else if self.open.is_empty() {
            Due::Idle(now.since(self.moved))
        } else {
            Due::Nothing
        }
    }
}

/// Adds to a counter; `None` if it exceeds the limit.
const fn within(count: &mut u32, more: u32, max: u32) -> Option<()> {
    *count = count.saturating_add(more);
    if *count <= max { Some(()) } else { None }
}

#[cfg(test)]
mod tests;
