//! Durations of the phases of a run, named as in blackbox_exporter.

use crate::progress::{Seen, Stage};
use std::ops::AddAssign;
use std::time::Duration;

/// Duration of each phase of a run; zero for phases that were not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Lookup of the name.
    pub resolve: Duration,
    /// Establishing the connection.
    pub connect: Duration,
    /// TLS handshake.
    pub tls: Duration,
    /// Sending the request and waiting for the response.
    pub processing: Duration,
    /// Content of the response.
    pub transfer: Duration,
}

impl Phases {
    /// Computes the phases from the starts of the stages of a run that took `all`.
    #[must_use]
    pub fn of(seen: &Seen, all: Duration) -> Self {
        let mut phases = Self::default();
        let ends = seen.stages.iter().skip(1).map(|(_, at)| *at).chain([all]);
        for ((stage, from), to) in seen.stages.iter().zip(ends) {
            let took = to.saturating_sub(*from);
            match stage {
                Stage::Resolve => phases.resolve += took,
                Stage::Connect => phases.connect += took,
                Stage::Handshake => phases.tls += took,
                Stage::Response => phases.processing += took,
                Stage::Content => phases.transfer += took,
                Stage::Start | Stage::End => {}
            }
        }
        phases
    }

    /// The durations with their names.
    #[must_use]
    pub const fn named(self) -> [(&'static str, Duration); 5] {
        let Self { resolve, connect, tls, processing, transfer } = self;
        [
            ("resolve", resolve),
            ("connect", connect),
            ("tls", tls),
            ("processing", processing),
            ("transfer", transfer),
        ]
    }
}

impl AddAssign for Phases {
    fn add_assign(&mut self, other: Self) {
        self.resolve += other.resolve;
        self.connect += other.connect;
        self.tls += other.tls;
        self.processing += other.processing;
        self.transfer += other.transfer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_the_times_between_stages() {
        let ms = Duration::from_millis;
        let stages = vec![
            (Stage::Resolve, ms(0)),
            (Stage::Connect, ms(1)),
            (Stage::Handshake, ms(3)),
            (Stage::Response, ms(7)),
            (Stage::Content, ms(20)),
            (Stage::End, ms(25)),
        ];
        let mut phases = Phases::of(&Seen { stages, ..Seen::default() }, ms(30));
        phases += Phases { resolve: ms(10), ..Phases::default() };
        assert_eq!(phases.named().map(|(_, took)| took), [ms(11), ms(2), ms(4), ms(13), ms(5)]);
    }
}
