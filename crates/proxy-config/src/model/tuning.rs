//! `[tuning]`: techniques of the drivers.
//!
//! Does not know about: the techniques themselves (see `doorbell::Tuning`).

use doorbell::{Accepting, Descriptors, Receiving};
use doorbell_config::{Problem, Section, Table};
use std::time::Duration;

const ACCEPTS: [(&str, Accepting); 3] =
    [("multishot", Accepting::Multishot), ("poll", Accepting::Poll), ("single-shot", Accepting::SingleShot)];

const DESCRIPTORS: [(&str, Descriptors); 2] =
    [("direct", Descriptors::Direct), ("ordinary", Descriptors::Auto)];

const RECEIVES: [(&str, Receiving); 2] = [("poll", Receiving::Poll), ("single-shot", Receiving::SingleShot)];

/// Techniques of the drivers, selectable for measurements and for kernels with a bug. The
/// techniques do not change replies. All but `send_more` are specific to io_uring.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Tuning {
    /// How connections are accepted. multishot: one operation for all connections; single-shot: one
    /// operation per connection; poll: a poll of the listener, then accepts until its backlog is
    /// empty. A listening socket that workers or processes share is always polled.
    #[key(default = "multishot", words = ACCEPTS)]
    pub accept: Accepting,
    /// Completions do not interrupt the thread (IORING_SETUP_COOP_TASKRUN).
    #[key(default = true)]
    pub coop_taskrun: bool,
    /// Completions are processed only while the worker waits (IORING_SETUP_DEFER_TASKRUN); needs
    /// `single_issuer`.
    #[key(default = true)]
    pub defer_taskrun: bool,
    /// ordinary uses descriptors of the process; direct uses those of the ring, if the kernel
    /// closes them at once and no listening socket is shared. Direct descriptors hide client
    /// addresses: a listener that needs client addresses is refused at start.
    #[key(default = "ordinary", words = DESCRIPTORS)]
    pub descriptors: Descriptors,
    /// With ordinary descriptors: operations that should complete at once are plain system calls.
    #[key(default = true)]
    pub direct_calls: bool,
    /// Omits the index array of the submission queue (IORING_SETUP_NO_SQARRAY).
    #[key(default = true)]
    pub no_sqarray: bool,
    /// A receive operation, as used with `receive = "single-shot"` and with direct descriptors,
    /// polls before its first attempt (IORING_RECVSEND_POLL_FIRST).
    #[key(default = true)]
    pub poll_first: bool,
    /// How requests are received on ordinary descriptors. poll: one poll per connection for all its
    /// requests; single-shot: one receive operation per wait for input. Always single-shot if
    /// `direct_calls` is false.
    #[key(default = "poll", words = RECEIVES)]
    pub receive: Receiving,
    /// Registers the descriptor of the ring with its thread (IORING_REGISTER_RING_FDS).
    #[key(default = true)]
    pub registered_ring: bool,
    /// Sends the last reply of a connection together with the FIN (MSG_MORE).
    #[key(default = true)]
    pub send_more: bool,
    /// Declares that only one thread submits (IORING_SETUP_SINGLE_ISSUER).
    #[key(default = true)]
    pub single_issuer: bool,
    /// With direct descriptors: a successful close produces no completion (IOSQE_CQE_SKIP_SUCCESS).
    #[key(default = false)]
    pub skip_success: bool,
    /// After a turn that accepted connections: time for which the next wait gathers further
    /// connections, for fewer wake-ups at a higher latency. Best with `accept = "poll"`.
    #[key(default = "0s", range = Duration::ZERO..=doorbell::Tuning::WAIT_MIN_MAX)]
    pub wait_min: Duration,
}

impl Tuning {
    /// Converts the table; each key except `descriptors` has the name and default of a field of
    /// [`doorbell::Tuning`].
    #[must_use]
    pub fn engine(&self) -> doorbell::Tuning {
        let mut engine = doorbell::Tuning::default();
        engine.accept = self.accept;
        engine.coop_taskrun = self.coop_taskrun;
        engine.defer_taskrun = self.defer_taskrun;
        engine.direct_calls = self.direct_calls;
        engine.no_sqarray = self.no_sqarray;
        engine.poll_first = self.poll_first;
        engine.receive = self.receive;
        engine.registered_ring = self.registered_ring;
        engine.send_more = self.send_more;
        engine.single_issuer = self.single_issuer;
        engine.skip_success = self.skip_success;
        engine.wait_min = self.wait_min;
        engine
    }

    fn check(&self, at: &Section<'_>) {
        let deferred = at.right_place("defer_taskrun").filter(|_| self.defer_taskrun && !self.single_issuer);
        if let Some(place) = deferred {
            let message = "`defer_taskrun` does nothing without `single_issuer`";
            at.problem(
                Problem::warning("no-effect", place, message)
                    .help("remove `single_issuer = false`, or set `defer_taskrun = false` too"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field names of a struct, taken from its `Debug` output.
    fn fields(shown: &str) -> Vec<&str> {
        let (_, inner) = shown.split_once(" { ").expect("a struct with names");
        let parts = inner.trim_end_matches(" }").split(", ");
        parts.filter_map(|part| part.split_once(": ")).map(|(name, _)| name).collect()
    }

    #[test]
    fn every_switch_of_the_engine_is_a_key_with_its_default() {
        let shown = format!("{:?}", doorbell::Tuning::default());
        let mut expected: Vec<&str> = fields(&shown);
        expected.push("descriptors");
        expected.sort_unstable();
        let found: Vec<&str> = Tuning::keys().iter().map(|key| key.name).collect();
        assert_eq!(found, expected);
        assert_eq!(Tuning::default().engine(), doorbell::Tuning::default());
    }
}
