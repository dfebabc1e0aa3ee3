//! State machine of one side of a link, without I/O.

use crate::conn::Conn;
use crate::ended::Ended;
use crate::loss::Loss;
use crate::minute::Minutes;
use crate::offset::Offset;
use crate::outbox::Outbox;
use crate::report::{LinkCounters, LinkReport};
use crate::time::Time;
use crate::wire::{self, Measured, Opening, Payload, State, Statement, Subject};
use std::collections::VecDeque;
use std::time::Duration;

/// Size of the output after which [`Link::transmit`] adds no more frames. The order of frames is
/// fixed when they are added, so a new transition waits behind at most about this many bytes.
const OUTPUT_LEN_MAX: usize = 16 << 10;

/// Settings of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Idle time after which a side sends a frame.
    pub keepalive: Duration,
    /// Time without a complete frame from the peer after which a connection ends.
    pub dead_after: Duration,
    /// Maximum number of unacknowledged transitions. The latest one of each subject is always kept,
    /// so the number exceeds this limit if there are more subjects.
    pub transitions_max: usize,
    /// Maximum number of queued results; beyond it, the oldest is dropped.
    pub results_max: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            keepalive: Duration::from_secs(5),
            dead_after: Duration::from_secs(15),
            transitions_max: 4096,
            results_max: 1024,
        }
    }
}

/// One side of a link. It outlives connections.
#[derive(Debug)]
pub struct Link {
    options: LinkOptions,
    incarnation: u64,
    outbox: Outbox,
    peer: Peer,
    conn: Option<Conn>,
    loss: Loss,
    offset: Offset,
    minutes: Minutes,
    last_round_trip: Option<Duration>,
    counters: LinkCounters,
    events: VecDeque<Event>,
}

/// State of the peer.
#[derive(Debug, Default)]
struct Peer {
    incarnation: u64,
    /// Number of frames that arrived on ended connections.
    frames: u64,
    /// Sequence number of the last transition that arrived.
    sequence: u64,
}

/// Event of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's opening frame has arrived, so other frames can follow. If the peer was restarted,
    /// its previous statements are void, and it sends all states again.
    Opened {
        /// True if the peer is new or was restarted, false if it is that of the previous
        /// connection.
        is_new_peer: bool,
    },
    /// A frame arrived at the peer.
    Receipt(Receipt),
    /// The peer sent a result.
    Result(Statement, Option<Measured>),
    /// The peer stated the state of a subject: a change or, if this side does not have the peer's
    /// states, the latest state. Transitions are reported once and in order; a full queue at the
    /// peer drops superseded ones.
    Transition(Statement),
}

/// The arrival of one frame at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Number of the connection.
    pub connection: u64,
    /// Number of the frame on this connection.
    pub number: u64,
    /// Size with the length prefix, without TLS.
    pub size: u32,
    /// Time of sending on this side's clock.
    pub sent: Time,
    /// Time of arrival on the peer's clock.
    pub arrived: Time,
    /// Round-trip time, without the time that the peer waited before it replied.
    pub round_trip: Duration,
    /// Lower and upper bound of the latency to the peer.
    pub one_way: [Duration; 2],
}

impl Link {
    /// Creates a link without a connection. `incarnation` must differ from that of every other
    /// link, including links of earlier processes and a link that this one replaces; 0 is replaced
    /// by 1.
    #[must_use]
    pub fn new(options: LinkOptions, incarnation: u64) -> Self {
        let outbox = Outbox::new(options.transitions_max, options.results_max);
        Self {
            options,
            incarnation: incarnation.max(1),
            outbox,
            peer: Peer::default(),
            conn: None,
            loss: Loss::default(),
            offset: Offset::default(),
            minutes: Minutes::new(),
            last_round_trip: None,
            counters: LinkCounters::default(),
            events: VecDeque::new(),
        }
    }

    /// Queues a state change; returns false if the name of the subject is too long. The change is
    /// kept until the peer acknowledges it: it is sent once per connection, and again after a
    /// reconnect.
    pub fn transition(&mut self, now: Time, subject: Subject, state: State, reason: &str) -> bool {
        if subject.name.len() > wire::NAME_LEN_MAX {
            return false;
        }
        let statement = self.outbox.stamp(now, subject, state, shortened(reason));
        self.outbox.push(statement);
        true
    }

    /// Queues the state of a subject as a transition, unless the last transition of the subject has
    /// the same state.
    pub fn restate(&mut self, now: Time, subject: Subject, state: State, reason: &str) {
        if self.outbox.latest(&subject) != Some(state) {
            self.transition(now, subject, state, reason);
        }
    }

    /// Queues [`State::Removed`] for each known subject for which `exists` returns false.
    pub fn retain(&mut self, now: Time, mut exists: impl FnMut(&Subject) -> bool) {
        let gone: Vec<Subject> =
            self.outbox.subjects().filter(|&subject| !exists(subject)).cloned().collect();
        for subject in gone {
            self.transition(now, subject, State::Removed, "");
        }
    }

    /// Queues a result with the current state. It is sent at most once; if the queue is full, the
    /// oldest result is dropped. Does nothing if the name of the subject is too long.
    pub fn result(
        &mut self,
        now: Time,
        subject: Subject,
        state: State,
        reason: &str,
        measured: Option<Measured>,
    ) {
        if subject.name.len() <= wire::NAME_LEN_MAX {
            let statement = self.outbox.stamp(now, subject, state, shortened(reason));
            self.outbox.push_result(statement, measured);
        }
    }

    /// Starts a connection. A previous connection ends first.
    pub fn connected(&mut self, now: Time) {
        self.disconnected();
        self.counters.connections += 1;
        self.conn = Some(Conn::new(self.counters.connections, now));
    }

    /// Ends the connection.
    pub fn disconnected(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        self.peer.frames += conn.arrivals.last;
        self.loss.end(conn.sent.last, conn.sent.receipted);
        self.counters.add(&conn);
    }

    /// Whether the peer has opened the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.conn.as_ref().is_some_and(|conn| conn.has_peer)
    }

    /// Whether no transition or result waits to be sent or acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.outbox.kept() == 0 && !self.outbox.has_result()
    }

    /// Processes bytes from the peer.
    ///
    /// # Errors
    /// If the connection must end. Call [`Self::disconnected`] next.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<(), Ended> {
        // After a pause of this process, old frames wait in the socket. They would count as new.
        self.check(now)?;
        let Some(conn) = &mut self.conn else { return Ok(()) };
        self.minutes.received(now, bytes.len());
        conn.input.extend_from_slice(bytes);
        while let Some((sent, payload)) = self.conn.as_mut().map_or(Ok(None), |conn| conn.next(now))? {
            self.take(now, sent, payload)?;
        }
        Ok(())
    }

    /// Appends to `out` the bytes to send next; possibly none.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) {
        let Some(conn) = &mut self.conn else { return };
        let before = out.len();
        conn.greet(out);
        if conn.may_open() {
            let opening = Payload::Open(Opening {
                incarnation: self.incarnation,
                peer_incarnation: self.peer.incarnation,
                peer_frames: self.peer.frames,
                peer_sequence: self.peer.sequence,
            });
            // Until the peer's opening arrives, `self.peer` is the state at the end of the previous
            // connection.
            conn.open(now, opening, out);
        }
        while conn.is_open() && out.len() < OUTPUT_LEN_MAX {
            let Some(payload) = next(conn, &mut self.outbox, &self.peer, now, self.options.keepalive) else {
                break;
            };
            conn.send(now, payload, out);
        }
        self.minutes.sent(now, out.len() - before);
    }

    /// Latest time of the next calls of [`Self::check`] and [`Self::transmit`].
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let conn = self.conn.as_ref()?;
        let dead = self.dead_at()?;
        if !conn.is_open() {
            return Some(dead);
        }
        let idle = conn.last_sent.after(self.options.keepalive);
        Some([Some(dead), Some(idle), conn.arrivals.due].into_iter().flatten().min().unwrap_or(dead))
    }

    /// Time at which [`Self::check`] fails if no complete frame arrives. While output is blocked,
    /// only this deadline applies.
    #[must_use]
    pub fn dead_at(&self) -> Option<Time> {
        Some(self.conn.as_ref()?.last_received.after(self.options.dead_after))
    }

    /// Checks that a complete frame has arrived from the peer within [`LinkOptions::dead_after`].
    ///
    /// # Errors
    /// If the connection must end. Call [`Self::disconnected`] next.
    pub fn check(&self, now: Time) -> Result<(), Ended> {
        if self.dead_at().is_some_and(|dead| dead <= now) { Err(Ended::Silent) } else { Ok(()) }
    }

    /// Removes and returns the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the state, measurements and counters.
    pub fn report(&mut self, now: Time) -> LinkReport {
        let (mut counters, conn) = (self.counters, self.conn.as_ref());
        conn.iter().for_each(|conn| counters.add(conn));
        counters.lost = self.loss.lost();
        counters.superseded = self.outbox.superseded;
        counters.results_dropped = self.outbox.results_dropped;
        LinkReport {
            connected_for: conn.filter(|conn| conn.has_peer).map(|conn| now.since(conn.began)),
            version: conn.and_then(|conn| conn.version),
            waiting: self.outbox.kept() as u64,
            round_trip: self.last_round_trip,
            clock_offset: self.offset.estimate(now),
            minute: self.minutes.report(now),
            counters,
        }
    }

    /// Handles the peer's opening: compares the peer's knowledge of this side with what was sent.
    fn open(&mut self, opening: &Opening) -> Result<(), Ended> {
        let is_known_there = opening.peer_incarnation == self.incarnation;
        let is_new_peer = opening.incarnation != self.peer.incarnation;
        if is_known_there && !self.outbox.has_given(opening.peer_sequence) {
            // This process was restored from a snapshot. The peer would ignore its transitions as
            // repeated ones, so the next connection is that of a new incarnation.
            self.incarnation = self.incarnation.wrapping_add(1).max(1);
            self.loss.restart();
            return Err(Ended::Order("opening confirms a transition that was not sent"));
        }
        self.loss.resolve(opening.peer_frames, is_new_peer && self.peer.incarnation != 0);
        if is_known_there {
            self.outbox.acknowledge(opening.peer_sequence);
        }
        // A new peer has none of this side's states, even if it knows this side's incarnation: this
        // side's opening may have arrived before the peer sent its own.
        if is_new_peer || !is_known_there {
            self.outbox.restate();
        }
        if is_new_peer {
            self.peer = Peer { incarnation: opening.incarnation, ..Peer::default() };
        }
        self.events.push_back(Event::Opened { is_new_peer });
        Ok(())
    }

    fn take(&mut self, now: Time, sent: Time, payload: Payload) -> Result<(), Ended> {
        match payload {
            Payload::Ack { sequence } => {
                if !self.outbox.has_given(sequence) {
                    return Err(Ended::Order("acknowledgement of a transition that was not sent"));
                }
                self.outbox.acknowledge(sequence);
            }
            Payload::Idle => {}
            Payload::Open(opening) => self.open(&opening)?,
            Payload::Receipts { first, base_us, after_us } => {
                let arrived = |after: u64| Time::from_micros(base_us.saturating_add(after));
                let after = std::iter::once(0).chain(after_us.into_iter().map(u64::from));
                for (index, after) in (0..).zip(after) {
                    self.receipt(now, sent, first.saturating_add(index), arrived(after))?;
                }
            }
            Payload::Result { statement, measured } => {
                self.counters.results_received += 1;
                self.events.push_back(Event::Result(checked(statement)?, measured));
            }
            Payload::Transition { sequence, statement } => {
                let statement = checked(statement)?;
                self.conn.iter_mut().for_each(|conn| conn.ack_due = true);
                if sequence <= self.peer.sequence {
                    self.counters.duplicates += 1;
                } else {
                    self.peer.sequence = sequence;
                    self.counters.transitions_received += 1;
                    self.events.push_back(Event::Transition(statement));
                }
            }
        }
        Ok(())
    }

    /// Measures the latency of a frame from its receipt, which the peer sent at `replied`.
    fn receipt(&mut self, now: Time, replied: Time, number: u64, arrived: Time) -> Result<(), Ended> {
        let Some(conn) = &mut self.conn else { return Ok(()) };
        let frame = conn.sent.take(number);
        let frame = frame.map_err(|()| Ended::Order("receipt of a frame that was not sent"))?;
        let Some(frame) = frame else { return Ok(()) };
        self.offset.add([frame.at, arrived, replied, now]);
        let waited = replied.minus(arrived).max(0);
        let round_trip = micros(now.minus(frame.at).saturating_sub(waited));
        let (low, high) = self.offset.bounds(now).unwrap_or_default();
        let apparent = arrived.minus(frame.at);
        let one_way = [micros(apparent.saturating_sub(high)), micros(apparent.saturating_sub(low))];
        let estimate = one_way[0] + (one_way[1] - one_way[0]) / 2;
        self.minutes.add(now, frame.size, round_trip, [estimate, one_way[1] - estimate]);
        self.last_round_trip = Some(round_trip);
        let (connection, size, sent) = (conn.number, frame.size, frame.at);
        let receipt = Receipt { connection, number, size, sent, arrived, round_trip, one_way };
        self.events.push_back(Event::Receipt(receipt));
        Ok(())
    }
}

impl LinkCounters {
    /// Adds the counts of a connection.
    const fn add(&mut self, conn: &Conn) {
        self.receipts_dropped += conn.arrivals.dropped;
        self.sent += conn.sent.last;
        self.received += conn.arrivals.last;
    }
}

/// Returns the next payload by priority: acknowledgements and transitions, results, receipts,
/// keepalive.
fn next(
    conn: &mut Conn,
    outbox: &mut Outbox,
    peer: &Peer,
    now: Time,
    keepalive: Duration,
) -> Option<Payload> {
    if std::mem::take(&mut conn.ack_due) {
        return Some(Payload::Ack { sequence: peer.sequence });
    }
    if let Some((sequence, statement)) = outbox.transition_from(conn.next_transition) {
        conn.next_transition = sequence + 1;
        return Some(Payload::Transition { sequence, statement: statement.clone() });
    }
    if let Some((statement, measured)) = outbox.pop_result() {
        return Some(Payload::Result { statement, measured });
    }
    if let Some(receipts) = conn.arrivals.take(now) {
        return Some(receipts);
    }
    (conn.last_sent.after(keepalive) <= now).then_some(Payload::Idle)
}

/// Converts signed microseconds to a duration; negative values become zero.
fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Truncates a reason to its maximum length at a character boundary.
fn shortened(reason: &str) -> String {
    reason[..reason.floor_char_boundary(wire::REASON_LEN_MAX)].to_owned()
}

/// Checks the lengths of the texts of a peer's statement.
fn checked(statement: Statement) -> Result<Statement, Ended> {
    let is_long =
        statement.subject.name.len() > wire::NAME_LEN_MAX || statement.reason.len() > wire::REASON_LEN_MAX;
    if is_long { Err(Ended::Order("text too long")) } else { Ok(statement) }
}
