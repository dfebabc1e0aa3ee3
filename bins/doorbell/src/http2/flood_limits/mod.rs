//! What the frames of one HTTP/2 connection may cost: budgets for what a client gets for free, in a window of ten seconds.
//!
//! Does not know about: sockets, clocks, what frames carry. The protocol itself is hyper's; this looks at frame headers on their way
//! to it, and ends a connection before a flood of them is worked off.
//!
//! A flood is told from use by what it lacks: it resets what it asked for, it pings, it sends empty or tiny pieces. What a client does
//! at most in ten seconds is in [`Budget`], with the defaults of Envoy, HAProxy and nginx in mind.

mod frames;

use crate::http::Time;
use frames::{CONTINUATION, DATA, Frame, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE};
use std::time::Duration;

/// The client connection preface (RFC 9113 3.4).
const PREFACE_LEN: usize = 24;

/// How long one count goes on.
const WINDOW: Duration = Duration::from_secs(10);

/// Less than this in a DATA frame that does not end its stream is tiny.
const TINY_LEN: u32 = 16;

/// The window that every connection begins with (RFC 9113 6.9.2). Whoever has let out so much is slow, and did not close it on purpose.
const WINDOW_LEN: u32 = 65_535;

/// Streams that may be open as far as frames tell, refused ones among them until they are reset.
const OPEN_MAX: usize = 1024;

/// What a connection may do; counts are for ten seconds unless they say otherwise.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// Streams reset, by the client or because of it. 200.
    pub(super) resets: u32,
    /// SETTINGS, PING, PRIORITY, GOAWAY and frames of unknown types. 1,000.
    pub(super) control: u32,
    /// DATA frames with less than 16 bytes that do not end their stream. 1,024.
    pub(super) tiny_data: u32,
    /// WINDOW_UPDATE frames, beside two for every frame we sent. 1,000.
    pub(super) window_updates: u32,
    /// CONTINUATION frames of one header block. 4.
    pub(super) continuations: u32,
    /// Bytes of header blocks. 8 MiB.
    pub(super) header_bytes: u32,
    /// Streams of the connection, in all its life.
    pub(super) streams: u32,
}

/// Why a connection is ended at once.
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

/// What is counted anew in every window.
#[derive(Debug, Default)]
struct Counts {
    resets: u32,
    control: u32,
    tiny_data: u32,
    window_updates: u32,
    header_bytes: u32,
    sent: u32,
}

/// One connection's account.
#[derive(Debug)]
pub(super) struct FloodLimits {
    budget: Budget,
    received: Frames,
    sent: Frames,
    window_began: Time,
    counts: Counts,
    /// Of the header block that is being received.
    continuations: u32,
    /// Open streams, in the order of their numbers.
    open: Vec<u32>,
    last_stream: u32,
    streams: u32,
    /// Open streams that wait for something to happen, as Watch does.
    waiting: u32,
    /// Open streams that wait for a job of ours.
    working: u32,
    /// Open streams whose reply has begun, in the order of their numbers.
    replying: Vec<u32>,
    /// Bytes of content that were let out since no stream was open.
    let_out: u32,
    /// Since when replies make no progress.
    windowless: Option<Time>,
    /// The connection takes no bytes.
    is_blocked: bool,
    /// When streams last moved: one opened while none was, one ended, or content came.
    moved: Time,
    opened: Time,
    has_frames: bool,
}

/// What a connection is to be told at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// It has no request, and has had none for this long.
    Idle(Duration),
    /// It has requests, and nothing has come of them for this long.
    Stalled(Duration),
    /// It has said nothing of HTTP/2 for this long.
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
            let_out: 0,
            windowless: None,
            is_blocked: false,
            moved: now,
            opened: now,
            has_frames: false,
        }
    }

    /// Bytes came from the client and are not worked off yet.
    pub(super) fn handle_received(&mut self, mut bytes: &[u8], now: Time) -> Result<(), Abuse> {
        self.turn_window(now);
        while let Some(frame) = self.received.next(&mut bytes) {
            self.has_frames = true;
            self.count(frame, now)?;
        }
        Ok(())
    }

    /// Bytes went to the client. Streams reset here were reset because of it (MadeYouReset).
    pub(super) fn handle_sent(&mut self, mut bytes: &[u8], now: Time) -> Result<(), Abuse> {
        self.turn_window(now);
        while let Some(frame) = self.sent.next(&mut bytes) {
            self.counts.sent = self.counts.sent.saturating_add(1);
            self.look_for_window(&frame, now);
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
        // Trailers open nothing.
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
                self.let_out = 0;
            }
        }
    }

    /// A reply with content is all there when its fields are sent, and a stream of messages begins with one: what does not follow at once
    /// waits for a window, or for the network.
    fn look_for_window(&mut self, sent: &Frame, now: Time) {
        if sent.kind == DATA {
            self.let_out = self.let_out.saturating_add(sent.len);
            if sent.len > 0 {
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

    /// Replies made progress.
    const fn renew(&mut self, now: Time) {
        self.windowless = Some(now);
    }

    /// Replies of which more is to come. Streams that wait for something to happen have said what there is, once they said anything.
    const fn stalled_replies(&self) -> usize {
        match self.let_out {
            0 => self.replying.len(),
            _ => self.replying.len().saturating_sub(self.waiting as usize),
        }
    }

    /// The connection takes no bytes, or takes them again: then it is the network that is slow.
    pub(super) const fn block(&mut self, is_blocked: bool, now: Time) {
        if self.is_blocked && !is_blocked {
            self.renew(now);
        }
        self.is_blocked = is_blocked;
    }

    /// Since when replies wait for a window, on a connection that has not let out as much as everybody's first window. A slow client is not
    /// meant: what does not fit behind that is a matter of [`Due::Stalled`].
    pub(super) const fn windowless(&self) -> Option<Time> {
        if self.is_blocked || self.let_out >= WINDOW_LEN || self.stalled_replies() == 0 {
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

    /// A stream begins, or stops, to wait for something to happen.
    pub(super) const fn waits(&mut self, begins: bool) {
        if begins { self.waiting += 1 } else { self.waiting = self.waiting.saturating_sub(1) }
    }

    /// A stream begins, or stops, to wait for a job of ours: until then nothing is to be expected of it, and that is not its client's doing.
    pub(super) const fn works(&mut self, begins: bool, now: Time) {
        if begins {
            self.working += 1;
        } else {
            self.working = self.working.saturating_sub(1);
            self.moved = now;
        }
    }

    /// Streams that wait for something to happen.
    pub(super) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Streams from which something is to be expected.
    fn ordinary(&self) -> usize {
        self.open.len().saturating_sub(self.waiting as usize + self.working as usize)
    }

    /// True when the connection has had all the streams it may have.
    pub(super) const fn is_used_up(&self) -> bool {
        self.streams >= self.budget.streams
    }

    /// The highest stream that was begun.
    pub(super) const fn last_stream(&self) -> u32 {
        self.last_stream
    }

    /// True when a frame of ours may be put in between.
    pub(super) const fn is_between_sent(&self) -> bool {
        self.sent.is_between()
    }

    /// What takes how long already.
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

/// Adds to a count, unless that is too much.
const fn within(count: &mut u32, more: u32, max: u32) -> Option<()> {
    *count = count.saturating_add(more);
    if *count <= max { Some(()) } else { None }
}

#[cfg(test)]
mod tests;
