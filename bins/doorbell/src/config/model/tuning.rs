//! `[tuning]`: switches of the engine.
//!
//! Does not know about: what a switch does (`doorbell::Tuning` says).

use doorbell::{Accepting, Receiving};
use doorbell_config::{Problem, Section, Table, Words};
use std::time::Duration;

const ACCEPTS: [(&str, Accepting); 3] =
    [("multishot", Accepting::Multishot), ("poll", Accepting::Poll), ("single-shot", Accepting::SingleShot)];

const RECEIVES: [(&str, Receiving); 2] = [("poll", Receiving::Poll), ("single-shot", Receiving::SingleShot)];

/// How the engine does its work. The switches are there to be measured, and to be turned off where a kernel errs; clients see the same with any
/// of them. All but `send_more` are of io_uring.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Tuning {
    /// multishot is one operation for all connections, single-shot one each; with poll the listener is polled and emptied. A listening socket
    /// that workers or processes share is always polled.
    #[key(default = "multishot", words = ACCEPTS)]
    pub accept: Accepting,
    /// Completions do not interrupt the thread.
    #[key(default = true)]
    pub coop_taskrun: bool,
    /// Completions are worked off only when a worker waits; needs `single_issuer`.
    #[key(default = true)]
    pub defer_taskrun: bool,
    /// ordinary are those of the process, direct those of the ring, where the kernel closes them at once and no listening socket is shared.
    /// Direct ones hide the addresses of clients: a listener that needs them is refused at start.
    #[key(default = "ordinary")]
    pub descriptors: Descriptors,
    /// What should complete at once is a plain system call; of ordinary descriptors.
    #[key(default = true)]
    pub direct_calls: bool,
    /// No index array between submission and entries.
    #[key(default = true)]
    pub no_sqarray: bool,
    /// A receive that has to wait polls before it tries; of `receive = "single-shot"`.
    #[key(default = true)]
    pub poll_first: bool,
    /// poll polls a connection once for all its requests, single-shot has an operation for each wait.
    #[key(default = "poll", words = RECEIVES)]
    pub receive: Receiving,
    /// The descriptor of the ring is registered with its thread.
    #[key(default = true)]
    pub registered_ring: bool,
    /// A last answer leaves together with the end of the connection.
    #[key(default = true)]
    pub send_more: bool,
    /// One thread submits.
    #[key(default = true)]
    pub single_issuer: bool,
    /// A close that succeeds makes no completion; of direct descriptors.
    #[key(default = false)]
    pub skip_success: bool,
    /// After connections came, the next wait gathers more for so long; best with `accept = "poll"`.
    #[key(default = "0s", range = Duration::ZERO..=doorbell::Tuning::WAIT_MIN_MAX)]
    pub wait_min: Duration,
}

/// Which descriptors io_uring uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Descriptors {
    /// Of the ring, where the kernel closes them at once; ordinary ones elsewhere.
    Direct,
    /// Those of the process.
    Ordinary,
}

impl Tuning {
    /// The techniques of the drivers, each with the name and the default of its field.
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

    /// Names of the fields of a struct, from its `Debug` form.
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
