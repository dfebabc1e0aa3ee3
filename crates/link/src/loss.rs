//! Counts the frames that were lost with connections.
//!
//! A connection delivers a prefix of the frames that were sent on it. The peer counts the frames
//! that arrived on ended connections, and reports that count when the next connection opens. The
//! frames sent on the same connections, minus that count, were lost.

/// Lost frames since the link was created.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    /// Lost frames that were sent to earlier incarnations of the peer.
    settled: u64,
    /// Lost frames that were sent to the current incarnation of the peer, as of the last opening.
    resolved: u64,
    /// Frames sent to the current incarnation of the peer on ended connections.
    ended: u64,
    /// Frames without a receipt on connections that ended since the last opening.
    doubtful: u64,
    /// The peer's count when its current incarnation was first seen.
    baseline: u64,
}

impl Loss {
    /// Records the end of a connection.
    pub(crate) const fn end(&mut self, sent: u64, receipted: u64) {
        self.ended += sent;
        self.doubtful += sent.saturating_sub(receipted);
    }

    /// Applies the peer's count of frames that arrived on ended connections. A restart of the peer
    /// loses its count, so frames without a receipt then count as lost.
    pub(crate) const fn resolve(&mut self, peer_frames: u64, was_restarted: bool) {
        if was_restarted {
            self.settled += self.resolved + self.doubtful;
            (self.resolved, self.ended, self.baseline) = (0, 0, peer_frames);
        } else {
            self.resolved = self.ended.saturating_sub(peer_frames.saturating_sub(self.baseline));
        }
        self.doubtful = 0;
    }

    /// Begins a new incarnation of this side, for which the peer counts from 0.
    pub(crate) const fn restart(&mut self) {
        *self = Self { settled: self.lost(), resolved: 0, ended: 0, doubtful: 0, baseline: 0 };
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.settled + self.resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_exact_while_the_peer_runs() {
        let mut loss = Loss::default();
        loss.resolve(0, false);
        loss.end(10, 4);
        loss.resolve(7, false);
        assert_eq!(loss.lost(), 3);
        loss.end(1, 0);
        loss.end(5, 0);
        assert_eq!(loss.lost(), 3, "unknown until the next opening");
        loss.resolve(7 + 5, false);
        assert_eq!(loss.lost(), 4);
    }

    #[test]
    fn after_a_restart_of_the_peer_receipts_decide() {
        let mut loss = Loss::default();
        loss.end(10, 4);
        loss.resolve(0, true);
        assert_eq!(loss.lost(), 6);
        loss.end(10, 0);
        loss.resolve(9, false);
        assert_eq!(loss.lost(), 7);
        loss.resolve(u64::MAX, false);
        assert_eq!(loss.lost(), 6, "any count of the peer is accepted");
    }
}
