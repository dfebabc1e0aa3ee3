//! The simulated listeners: backlog, arming, and every way an accept can end or stall.

use core::time::Duration;

use doorbell::driver::{AcceptMode, Completion, Errno};
use doorbell::id::{ListenerIndex, SlotIndex};

use super::events::{Event, Ready};
use super::faults::FaultKind;
use super::peer::{PeerState, ResetCause};
use super::world::{AcceptState, World};

impl World {
    pub(super) fn arm(&mut self, listener: ListenerIndex) {
        self.note(|| format!("arm {listener:?}"));
        let state = &mut self.listeners[listener.index()];
        assert!(state.open, "accept is armed on a closed listener");
        match state.accept {
            AcceptState::Armed | AcceptState::Stalled => {}
            AcceptState::Disarming => panic!("D-2: accept is armed before its end was reported"),
            AcceptState::Idle => {
                state.accept = AcceptState::Armed;
                state.arms += 1;
                self.pump_accept(listener);
            }
        }
    }

    pub(super) fn disarm(&mut self, listener: ListenerIndex) {
        self.note(|| format!("disarm {listener:?}"));
        let state = &mut self.listeners[listener.index()];
        if !matches!(state.accept, AcceptState::Armed | AcceptState::Stalled) {
            return;
        }
        let was_stalled = state.accept == AcceptState::Stalled;
        state.accept = AcceptState::Disarming;
        let room = self.config.accept_batch_max.saturating_sub(state.batch);
        if !was_stalled
            && !state.backlog.is_empty()
            && room > 0
            && self.injects(FaultKind::AcceptedAfterDisarm)
        {
            for _ in 0..self.rng.range(1..u64::from(room) + 1) {
                self.give_slot(listener);
            }
        }
        let after = self.micros(0..200);
        self.schedule(after, Event::DisarmNow { listener });
    }

    pub(super) fn disarm_now(&mut self, listener: ListenerIndex) {
        let errno = self.disarm_fails_with.take();
        self.end_accept(listener, errno);
    }

    pub(super) fn downgrade(&mut self, listener: ListenerIndex) -> Option<AcceptMode> {
        let state = &mut self.listeners[listener.index()];
        assert_eq!(state.accept, AcceptState::Idle, "accept is downgraded only while it is not armed");
        state.mode = match state.mode {
            AcceptMode::Multishot => AcceptMode::SingleShot,
            AcceptMode::SingleShot => AcceptMode::Readiness,
            AcceptMode::Readiness => return None,
        };
        self.note(|| format!("downgrade {listener:?}"));
        Some(self.listeners[listener.index()].mode)
    }

    pub(super) fn stop_listening(&mut self, listener: ListenerIndex) {
        let state = self.listeners[listener.index()].accept;
        assert_eq!(state, AcceptState::Idle, "a listener is closed only while accept is not armed");
        self.note(|| format!("close {listener:?}"));
        self.close_listening(listener);
    }

    /// Schedules the accept of a client in the backlog, if allowed.
    pub(super) fn pump_accept(&mut self, listener: ListenerIndex) {
        let state = &mut self.listeners[listener.index()];
        let wanted = state.accept == AcceptState::Armed && !state.backlog.is_empty() && state.open;
        if wanted && !state.scheduled && state.batch < self.config.accept_batch_max {
            state.scheduled = true;
            let after = self.micros(0..50);
            self.schedule(after, Event::AcceptOne(listener));
        }
    }

    pub(super) fn accept_one(&mut self, listener: ListenerIndex) {
        let state = &mut self.listeners[listener.index()];
        state.scheduled = false;
        if state.accept != AcceptState::Armed || state.backlog.is_empty() || !state.open {
            return;
        }
        if state.mode != AcceptMode::Readiness && self.injects(FaultKind::AcceptStalled) {
            self.listeners[listener.index()].accept = AcceptState::Stalled;
            return;
        }
        if self.injects(FaultKind::AcceptEndedSilently) {
            self.end_accept(listener, None);
            return;
        }
        for (kind, errno) in FaultKind::ACCEPT_ERRNOS {
            if self.injects(kind) {
                self.fail_accept(listener, kind, errno);
                return;
            }
        }
        self.give_slot(listener);
        self.pump_accept(listener);
    }

    fn fail_accept(&mut self, listener: ListenerIndex, kind: FaultKind, errno: Errno) {
        if kind == FaultKind::AcceptConnAborted
            && let Some(peer) = self.listeners[listener.index()].backlog.pop_front()
        {
            self.peers[peer.0].log.faults.push(kind);
            self.peers[peer.0].place = PeerState::Closed;
            self.reset_peer(peer, ResetCause::ServerGone);
        }
        self.end_accept(listener, Some(errno));
    }

    /// Makes the next disarm by the worker end with an error.
    pub fn fail_next_disarm(&mut self, kind: FaultKind) {
        self.disarm_fails_with =
            FaultKind::ACCEPT_ERRNOS.iter().find(|(known, _)| *known == kind).map(|(_, errno)| *errno);
    }

    fn end_accept(&mut self, listener: ListenerIndex, errno: Option<Errno>) {
        self.note(|| format!("accept ended {listener:?} {errno:?}"));
        self.listeners[listener.index()].accept = AcceptState::Idle;
        self.complete_accept(listener, Completion::AcceptEnded { listener, errno });
    }

    fn give_slot(&mut self, listener: ListenerIndex) {
        let Some(&peer) = self.listeners[listener.index()].backlog.front() else { return };
        let Some(slot) = self.free.pop() else {
            // With a full table, the kernel accepts the client and closes its connection.
            self.violations.push(format!(
                "I-6: accept was armed with no slot free; the connection of {peer:?} would be lost"
            ));
            return;
        };
        let state = &mut self.listeners[listener.index()];
        state.backlog.pop_front();
        state.batch += 1;
        self.peers[peer.0].place = PeerState::Slot(slot);
        let held = &mut self.slots[slot.index()];
        held.peer = Some(peer);
        held.conn = None;
        self.note(|| format!("{peer:?} accepted into {slot:?}"));
        self.complete_accept(listener, Completion::Accepted { listener, slot });
    }

    /// Accept completions keep their order, even if one is delayed.
    fn complete_accept(&mut self, listener: ListenerIndex, completion: Completion) {
        let delay =
            if self.injects(FaultKind::CompletionDelayed) { self.micros(1..20_000) } else { Duration::ZERO };
        let now = self.now();
        let state = &mut self.listeners[listener.index()];
        let at = state.deliver_at.max(now + u64::try_from(delay.as_nanos()).unwrap_or(0));
        state.deliver_at = at;
        // Undelayed completions use the event queue too, after delayed ones with the same time.
        self.schedule_at(at, Event::Deliver(Ready::Plain(completion)));
    }

    /// Called when the worker takes the completion of an accepted connection.
    pub(super) fn accept_seen(&mut self, listener: ListenerIndex, slot: SlotIndex) {
        self.listeners[listener.index()].batch -= 1;
        let now = self.now();
        let peer = self.peer_of(slot);
        self.peers[peer.0].log.accepted_at = Some(now);
    }
}
