//! Judges a run: the conditions that must hold for every peer.

use core::time::Duration;

use doorbell::CloseReason;
use doorbell_testkit::sim::{FaultKind, OwnEnd, PeerIndex, PeerLog, ResetCause, World};

use super::cast::{End, Expectation, Kind};
use super::oracle::{Comparison, compare};
use super::run::{Ending, Report, Stage};

/// Maximum delay of a deadline (a promise of the project).
const LATE_MAX: Duration = Duration::from_millis(250);

/// Judges every peer; panics at the first violation.
pub(super) fn judge(stage: &Stage, ending: Ending) -> Report {
    let world = stage.sim.world();
    let mut report = Report {
        faults: world.faults().clone(),
        turns: stage.turns(),
        jobs: stage.pool.done(),
        ..Report::default()
    };
    // With a cap per address, each peer's result depends on the other peers.
    let per_ip = stage.limits.conns_per_ip_max as usize;
    let capped = stage.refuses
        || (1..stage.expectations.len()).contains(&per_ip)
        || stage.limits.input_bytes_max < 1_000_000;
    for (index, expectation) in &stage.expectations {
        let log = world.log(*index);
        let comparison = compare(&log.received, &expectation.replies)
            .unwrap_or_else(|why| panic!("I-9: {index:?} {:?}: {why}\n{log:?}", expectation.kind));
        report.replies_whole += comparison.replies as u64;
        report.requests += expectation.replies.len() as u64;
        report.conns += u64::from(log.accepted_at.is_some());
        let case = Case { index: *index, expectation, log, comparison };
        if log.refused || log.connected_at.is_none() {
            assert!(
                stage.finished_at.is_some() || stage.failed,
                "a listener closes only when the worker ends"
            );
            continue;
        }
        case.ended(stage);
        case.whole_or_visible();
        // A linger and a pause of deadlines have fixed times. If a wait overruns, the rest of that
        // time may be too short for a worker that reads in tiny chunks.
        let starved = stage.small_reads
            && log.closed_at.is_some_and(|at| world.overran_within(at.saturating_sub(1_500_000_000), at));
        let is_late = case.comparison.error == Some(408);
        if starved && (is_late || matches!(log.reset, Some((_, ResetCause::UnreadAtClose)))) {
            continue;
        }
        if !capped {
            case.not_destroyed();
        }
        if ending == Ending::None && !stage.failed && log.faults.is_empty() && !capped {
            report.strict += 1;
            case.served();
            case.deadlines(&world);
        }
        if matches!(ending, Ending::Drain(..) | Ending::Retire(..))
            && drained_in_time(stage, ending)
            && log.faults.is_empty()
            && !capped
            && !case.spoke_too_late(stage, ending)
        {
            case.not_reset();
        }
    }
    counters(stage, &report);
    report
}

/// True if the drain finished before its deadline, or the retirement before the end of its
/// patience.
fn drained_in_time(stage: &Stage, ending: Ending) -> bool {
    let (Ending::Drain(at, timeout) | Ending::Retire(at, timeout)) = ending else { return false };
    let deadline = at + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    stage.finished_at.is_some_and(|finished_at| finished_at < deadline)
}

struct Case<'a> {
    index: PeerIndex,
    expectation: &'a Expectation,
    log: &'a PeerLog,
    comparison: Comparison,
}

impl Case<'_> {
    fn fail(&self, why: &str) -> ! {
        let short = PeerLog { received: Vec::new(), ..self.log.clone() };
        panic!(
            "{:?} {:?}: {why}\n  comparison {:?}, {} bytes\n  {:?}\n  {short:?}",
            self.index,
            self.expectation.kind,
            self.comparison,
            self.log.received.len(),
            self.expectation.end,
        );
    }

    fn left(&self) -> bool {
        matches!(self.log.own_end, Some((_, OwnEnd::Closed | OwnEnd::Reset)))
    }

    /// True if the peer's first byte arrived after the drain had stopped waiting for silent
    /// clients. Such clients have `linger_timeout` to send their first byte. A byte in transit at
    /// that moment crosses the server's FIN, as with a real kernel.
    fn spoke_too_late(&self, stage: &Stage, ending: Ending) -> bool {
        const ON_ITS_WAY_NANOS: u64 = 1_000_000;
        let Ending::Drain(began_at, _) = ending else { return false };
        let grace = u64::try_from(stage.limits.linger_timeout.as_nanos()).unwrap_or(u64::MAX);
        self.log.received.is_empty()
            && self
                .log
                .first_sent_at
                .is_some_and(|sent_at| sent_at + ON_ITS_WAY_NANOS > began_at.saturating_add(grace))
    }

    /// Every accepted connection is closed at the end: no connection is lost.
    fn ended(&self, stage: &Stage) {
        if !stage.failed && self.log.accepted_at.is_some() && self.log.closed_at.is_none() {
            self.fail("the connection was never closed");
        }
        if stage.finished_at.is_none() && !stage.failed && self.log.accepted_at.is_none() {
            self.fail("the connection was never accepted");
        }
    }

    /// A partial reply must be followed by a visible error.
    fn whole_or_visible(&self) {
        if self.comparison.partial && self.log.reset.is_none() && self.log.faults.is_empty() && !self.left() {
            self.fail("a truncated reply ends like a complete one");
        }
    }

    /// A reset sent by the server must not destroy a reply in transit.
    fn not_destroyed(&self) {
        let Some((_, ResetCause::UnreadAtClose)) = self.log.reset else { return };
        if self.log.bytes_lost > 0 && self.log.faults.is_empty() && self.expectation.end == End::Replied {
            self.fail("a close with unread input destroyed a reply");
        }
    }

    fn served(&self) {
        if self.expectation.end == End::Left {
            if self.expectation.kind == Kind::TcpOnly && !self.log.received.is_empty() {
                self.fail("a reply without a request");
            }
            return;
        }
        if let End::Stalled(_) = self.expectation.end {
            if !matches!(self.log.reset, Some((_, ResetCause::Requested))) {
                self.fail("a peer that does not read cannot detect that its reply is truncated");
            }
            return;
        }
        if self.comparison.replies < self.expectation.replies.len() || self.comparison.partial {
            self.fail("not every reply arrived");
        }
        if self.comparison.error.is_some() {
            self.fail("an unexpected error");
        }
        if self.log.fin_at.is_none() {
            self.fail("the server never ended the connection");
        }
        self.not_reset();
    }

    fn not_reset(&self) {
        if let Some((_, cause)) = self.log.reset
            && !matches!(self.expectation.end, End::Stalled(_))
        {
            self.fail(&format!("reset: {cause:?}"));
        }
    }

    fn deadlines(&self, world: &World) {
        let log = self.log;
        let replied_at = log.first_received_at.or(log.fin_at);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (from, until, seen) = match self.expectation.end {
            End::Replied | End::Left => return,
            End::CutAfterAccept(time) => (log.accepted_at.map(|at| at + nanos(time)), None, replied_at),
            // The deadline counts from the time at which the server made the reply; the peer may
            // have received the reply later.
            End::CutAfterReply(time) => (
                log.last_received_at.map(|at| (at + nanos(time)).saturating_sub(3_000_000_000)),
                log.last_received_at.map(|at| at + nanos(time)),
                log.fin_at,
            ),
            End::CutAfterSend(earliest, latest) => (
                log.first_sent_at.map(|at| at + nanos(earliest)),
                log.accepted_at.max(log.last_sent_at).map(|at| at + nanos(latest)),
                replied_at,
            ),
            End::Stalled(time) => (log.last_taken_at.map(|at| at + nanos(time)), None, log.closed_at),
        };
        let (Some(from), Some(seen)) = (from, seen) else { self.fail("no deadline was reached") };
        let until = until.unwrap_or(from) + nanos(LATE_MAX);
        if world.overran_within(from.saturating_sub(10_000_000_000), until) {
            return;
        }
        if seen < from {
            self.fail(&format!("closed {:?} too early", Duration::from_nanos(from - seen)));
        }
        if seen > until {
            self.fail(&format!("closed {:?} too late", Duration::from_nanos(seen - until)));
        }
    }
}

/// Compares the worker's counters with the events of the world.
fn counters(stage: &Stage, report: &Report) {
    let snapshot = stage.snapshot();
    if stage.failed {
        return;
    }
    assert_eq!(snapshot.conns_accepted, report.conns, "accepted");
    assert_eq!(
        snapshot.closed.iter().sum::<u64>(),
        report.conns,
        "I-8: every accepted connection has one close reason"
    );
    assert_eq!(snapshot.conns_live, 0);
    assert!(snapshot.jobs_queued >= snapshot.jobs_cancelled + snapshot.answers_dropped, "a job has one end");
    assert!(stage.short_queue || snapshot.jobs_refused == 0, "a job was refused although the queue had room");
    assert_eq!(
        snapshot.closed_because(CloseReason::HandedOver),
        stage.app.taken,
        "the application took every connection that was handed over"
    );
    assert_eq!(
        snapshot.hand_over_errors,
        report.faults.of(FaultKind::DetachRefused),
        "each refused detach is counted"
    );
    assert_eq!(
        snapshot.stale_completions,
        report.faults.of(FaultKind::CompletionStale),
        "I-5: each stale completion is counted once"
    );
}
