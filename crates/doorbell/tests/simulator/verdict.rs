//! Judges a run: what must be true of every peer.
//!
//! Does not know about: the course of the run, except the peers' logs and the worker's counters.

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
    // With a cap per address, each peer's result depends on the others.
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
            assert!(stage.finished_at.is_some() || stage.failed, "a listener closes only at the end");
            continue;
        }
        case.ended(stage);
        case.whole_or_visible();
        // A wait that overran leaves little time for a linger, and reading in tiny delayed pieces
        // needs more.
        let starved = stage.small_reads
            && log.closed_at.is_some_and(|at| world.overran_within(at.saturating_sub(1_500_000_000), at));
        if starved && matches!(log.reset, Some((_, ResetCause::UnreadAtClose))) {
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

/// True if the drain finished before its deadline, or a retirement before its patience ended.
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
        matches!(self.log.own_end, Some((_, OwnEnd::Left | OwnEnd::Reset)))
    }

    /// True if its first byte arrived after the drain stopped waiting: a silent client has
    /// `linger_timeout` to begin. A byte on its way at that moment crosses the server's FIN, as
    /// with a real kernel.
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

    /// No connection is lost: an accepted one is closed in the end.
    fn ended(&self, stage: &Stage) {
        if !stage.failed && self.log.accepted_at.is_some() && self.log.closed_at.is_none() {
            self.fail("its connection was never closed");
        }
        if stage.finished_at.is_none() && !stage.failed && self.log.accepted_at.is_none() {
            self.fail("it was never accepted");
        }
    }

    /// A partial reply must be followed by a visible error.
    fn whole_or_visible(&self) {
        if self.comparison.partial && self.log.reset.is_none() && self.log.faults.is_empty() && !self.left() {
            self.fail("a cut reply ends like a whole one");
        }
    }

    /// The server's own reset must not destroy a reply on its way.
    fn not_destroyed(&self) {
        let Some((_, ResetCause::UnreadAtClose)) = self.log.reset else { return };
        if self.log.bytes_lost > 0 && self.log.faults.is_empty() && self.expectation.end == End::Answered {
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
            if !matches!(self.log.reset, Some((_, ResetCause::Asked))) {
                self.fail("a peer that does not read cannot detect that its reply is cut");
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
            self.fail("the server never ended it");
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
            End::Answered | End::Left => return,
            End::CutAfterAccept(time) => (log.accepted_at.map(|at| at + nanos(time)), None, replied_at),
            // From the time when the server made the reply; the peer may have received it a little
            // later.
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
            self.fail(&format!("cut {:?} too early", Duration::from_nanos(from - seen)));
        }
        if seen > until {
            self.fail(&format!("cut {:?} too late", Duration::from_nanos(seen - until)));
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
        "I-8: every accepted connection closed for a reason"
    );
    assert_eq!(snapshot.conns_live, 0);
    assert!(snapshot.jobs_queued >= snapshot.jobs_cancelled + snapshot.answers_dropped, "a job has one end");
    assert!(stage.short_queue || snapshot.jobs_refused == 0, "refused with room in the queue");
    assert_eq!(
        snapshot.closed_because(CloseReason::HandedOver),
        stage.app.taken,
        "every connection that left was taken"
    );
    assert_eq!(snapshot.hand_over_errors, report.faults.of(FaultKind::DetachRefused), "each is counted");
    assert_eq!(
        snapshot.stale_completions,
        report.faults.of(FaultKind::CompletionStale),
        "I-5: each stale completion is counted once"
    );
}
