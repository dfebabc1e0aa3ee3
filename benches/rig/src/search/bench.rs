//! Points as servers in a guest, and the score of what they did there.
//!
//! Does not know about: walks, logs.

use super::Question;
use super::log::Measured;
use super::space::Space;
use super::walk::Point;
use crate::error::RigError;
use crate::image::OurPrograms;
use crate::plan::{Load, Plan, Row};
use crate::report::Outcome;
use crate::session::{Session, say};
use crate::variant::{self, Variant};

/// What is divided into 10^9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Score {
    /// Instructions of the whole machine.
    Machine,
    /// Instructions of the server.
    Server,
}

/// What one point did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    /// The score, or why there is none.
    pub(super) score: Result<f64, String>,
    /// Load by load, as far as it was measured.
    pub(super) rows: Vec<Measured>,
}

/// Measures in guests.
pub(super) struct Bench<'a> {
    pub(super) question: &'a Question,
    pub(super) ours: &'a OurPrograms,
    pub(super) space: &'a Space,
}

impl Score {
    /// In logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Server => "server",
        }
    }
}

impl Bench<'_> {
    /// All in one boot. When that boot does not come to its end, each in one of its own: a server may have stopped the guest.
    pub(super) fn measure(&self, points: &[Point]) -> Result<Vec<Attempt>, RigError> {
        match self.boot(points) {
            Ok(results) => Ok(results),
            Err(RigError::Guest { detail }) if points.len() == 1 => {
                Ok(vec![Attempt { score: Err(format!("the guest {detail}")), rows: Vec::new() }])
            }
            Err(RigError::Guest { detail }) => {
                say(&format!("the guest {detail}; each point gets a boot of its own"));
                let one_by_one = points.chunks(1).map(|point| self.measure(point));
                Ok(one_by_one.collect::<Result<Vec<_>, _>>()?.concat())
            }
            Err(error) => Err(error),
        }
    }

    /// The server of a point.
    pub(super) fn variant(&self, number: usize, point: &Point) -> Variant {
        let settings = self.space.changes(point);
        Variant { name: format!("{number}: {settings}"), engine: self.question.engine, settings }
    }

    fn boot(&self, points: &[Point]) -> Result<Vec<Attempt>, RigError> {
        let variants: Vec<Variant> =
            points.iter().enumerate().map(|(number, point)| self.variant(number, point)).collect();
        let loads = &self.question.loads;
        let rows = variants.iter().flat_map(|variant| {
            loads.iter().map(|(load, _)| Row {
                server: variant.name.clone(),
                mode: load.mode,
                in_flight: load.in_flight,
            })
        });
        let plan = Plan {
            repeat: self.question.repeat,
            rows: rows.collect(),
            servers: variants.iter().map(Variant::server).collect(),
            checks: Vec::new(),
        };
        let session = Session { kernel: self.question.kernel, cpu: self.question.cpu.clone() };
        let (outcomes, _) = session.run(&plan, &variant::contents(&variants, self.ours))?;
        Ok(outcomes
            .chunks(loads.len())
            .map(|outcomes| result(outcomes, loads, self.question.score))
            .collect())
    }
}

/// The weighted mean of `10^9 / instructions` over the loads: requests a second of a CPU with 10^9 instructions a second.
fn result(outcomes: &[Outcome], loads: &[(Load, f64)], score: Score) -> Attempt {
    let mut rows = Vec::new();
    let (mut sum, mut weights, mut why) = (0.0, 0.0, None);
    for (outcome, (load, weight)) in outcomes.iter().zip(loads) {
        let figures = outcome.figures();
        if let Some(figures) = figures {
            rows.push(Measured {
                load: *load,
                server: figures.server,
                machine: figures.machine,
                server_spread_percent: figures.server_spread_percent,
                machine_spread_percent: figures.machine_spread_percent,
                failed: figures.failed,
            });
        }
        match figures.filter(|_| outcome.is_clean()) {
            Some(figures) => {
                let instructions = if score == Score::Server { figures.server } else { figures.machine };
                sum += weight * 1e9 / instructions;
                weights += weight;
            }
            None => {
                let failure =
                    outcome.failure.clone().unwrap_or_else(|| "requests failed, or had a wrong byte".into());
                why.get_or_insert_with(|| format!("{load}: {failure}"));
            }
        }
    }
    Attempt { score: why.map_or(Ok(sum / weights), Err), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Mode, Sample};

    fn outcome(load: Load, server: i64, failed: u64) -> Outcome {
        let row = Row { server: "x".into(), mode: load.mode, in_flight: load.in_flight };
        let sample = Sample {
            requests: 10,
            server: 10 * server,
            machine: 50 * server,
            elapsed: 50 * server,
            failed,
            ..Sample::default()
        };
        Outcome { row, samples: vec![sample], failure: None }
    }

    #[test]
    fn a_score_is_a_weighted_mean_and_a_failed_request_leaves_none() {
        let loads = [
            (Load { mode: Mode::Close, in_flight: 64 }, 3.0),
            (Load { mode: Mode::Keep, in_flight: 64 }, 1.0),
        ];
        let good = [outcome(loads[0].0, 20_000, 0), outcome(loads[1].0, 10_000, 0)];
        let score = result(&good, &loads, Score::Server).score.unwrap();
        assert!((score - (3.0 * 50_000.0 + 100_000.0) / 4.0).abs() < 1e-6, "{score}");
        let machine = result(&good, &loads, Score::Machine).score.unwrap();
        assert!((machine - score / 5.0).abs() < 1e-6, "{machine}");
        let bad = [outcome(loads[0].0, 20_000, 0), outcome(loads[1].0, 10_000, 1)];
        let bad = result(&bad, &loads, Score::Server);
        assert_eq!(bad.score.unwrap_err(), "keep/64: requests failed, or had a wrong byte");
        assert_eq!((bad.rows.len(), bad.rows[1].failed), (2, 1));
    }
}
