//! The closed loop: walks combinations of switches and values, measures each, and keeps what wins by more than two measurements of
//! the same thing differ.
//!
//! Does not know about: how a row is measured, what a switch does.

mod bench;
mod log;
mod rng;
mod space;
mod summary;
mod walk;

use std::path::{Path, PathBuf};

pub(crate) use bench::Score;
use bench::{Attempt, Bench};
use log::{Conditions, Line, Log};
use space::Space;
pub(crate) use summary::Form;
use walk::{Point, Role, Scorer};

use crate::error::RigError;
use crate::image::{Kernel, OurPrograms};
use crate::plan::Load;
use crate::session::{now_s, say};
use crate::variant::{self, Engine};
use crate::vm;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The kernel of the guest.
    pub(crate) kernel: Kernel,
    /// The driver.
    pub(crate) engine: Engine,
    /// Loads with their weights.
    pub(crate) loads: Vec<(Load, f64)>,
    /// What is counted.
    pub(crate) score: Score,
    /// Samples of each row.
    pub(crate) repeat: u32,
    /// Model of QEMU's `-cpu`.
    pub(crate) cpu: String,
    /// Of the order in which things are tried.
    pub(crate) seed: u64,
    /// Tries, those of a resumed log included.
    pub(crate) tries_max: usize,
    /// Seconds of this run.
    pub(crate) seconds_max: f64,
    /// The file of tries.
    pub(crate) log: PathBuf,
    /// Whether the file is there already.
    pub(crate) resume: bool,
}

/// Walks until nothing is gained any more, or a bound is reached. The text, and whether it was not stopped by the base.
pub(crate) fn run(question: &Question, ours: &OurPrograms, form: Form) -> Result<(String, bool), RigError> {
    let space = Space::new(question.engine, &variant::defaults(&ours.doorbell)?);
    let conditions = Conditions {
        seed: question.seed,
        score: question.score.name().to_owned(),
        loads: question.loads.clone(),
        engine: question.engine,
        repeat: question.repeat,
        cpu: question.cpu.clone(),
        qemu: vm::version()?,
        kernel: question.kernel.name().to_owned(),
        doorbell_fnv1a: log::fingerprint(&ours.doorbell)?,
        load_fnv1a: log::fingerprint(&ours.load)?,
        space: space.clone(),
    };
    let (known, log) = open(&question.log, question.resume, &conditions)?;
    let bench = Bench { question, ours, space: &space };
    let mut recorder = Recorder {
        measure: |points: &[Point]| bench.measure(points),
        config: |point: &Point| bench.variant(0, point).config(),
        space: &space,
        known,
        asked: 0,
        log,
        ends_s: now_s() + question.seconds_max,
    };
    let walked =
        walk::walk(&space.counts(), &space.start(), question.seed, question.tries_max, &mut recorder)?;
    let text = summary::show(&walked, &space, &conditions, form);
    let file = question.log.with_extension("md");
    std::fs::write(&file, summary::show(&walked, &space, &conditions, Form::Markdown))
        .map_err(RigError::io(&file))?;
    say(&format!("tries in {}, summary in {}", question.log.display(), file.display()));
    Ok((text, !matches!(walked.ended, walk::Ended::BaseRejected(_))))
}

fn open(path: &Path, resume: bool, conditions: &Conditions) -> Result<(Vec<Line>, Log), RigError> {
    if resume {
        return Log::resume(path, conditions);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(RigError::io(folder))?;
    }
    Ok((Vec::new(), Log::create(path, conditions)?))
}

/// Answers from the log first, and measures and writes down the rest.
struct Recorder<'a, M, C> {
    measure: M,
    config: C,
    space: &'a Space,
    known: Vec<Line>,
    /// Points that were asked for so far.
    asked: usize,
    log: Log,
    ends_s: f64,
}

impl<M, C> Scorer for Recorder<'_, M, C>
where
    M: FnMut(&[Point]) -> Result<Vec<Attempt>, RigError>,
    C: Fn(&Point) -> String,
{
    type Error = RigError;

    fn score(&mut self, role: Role, points: &[Point]) -> Result<Option<Vec<Result<f64, String>>>, RigError> {
        let mut scores = self.recorded(role, points)?;
        let new = &points[scores.len()..];
        if new.is_empty() {
            return Ok(Some(scores));
        }
        if now_s() > self.ends_s {
            return Ok(None);
        }
        say(&format!(
            "try {}: {} {}",
            self.asked,
            new.len(),
            if new.len() == 1 { "point" } else { "points" }
        ));
        for (point, attempt) in new.iter().zip((self.measure)(new)?) {
            let line = Line {
                number: self.asked,
                role,
                settings: self.space.settings(point),
                score: attempt.score.as_ref().ok().copied(),
                rejected: attempt.score.as_ref().err().cloned(),
                rows: attempt.rows,
                config: (self.config)(point),
            };
            self.log.write(&line)?;
            self.asked += 1;
            scores.push(attempt.score);
        }
        Ok(Some(scores))
    }
}

impl<M, C> Recorder<'_, M, C> {
    /// Scores of the first of these points, as many as the log has.
    fn recorded(&mut self, role: Role, points: &[Point]) -> Result<Vec<Result<f64, String>>, RigError> {
        let mut scores = Vec::new();
        for point in points {
            let Some(line) = self.known.get(self.asked) else { break };
            if (line.number, line.role, &line.settings) != (self.asked, role, &self.space.settings(point)) {
                return Err(RigError::Log {
                    path: PathBuf::from("the log"),
                    detail: format!("try {} is not what this search would have tried", line.number),
                });
            }
            scores.push(line.score.ok_or_else(|| line.rejected.clone().unwrap_or_default()));
            self.asked += 1;
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests;
