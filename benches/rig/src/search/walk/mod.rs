//! The walk through combinations: one parameter at a time, then two at a time where one alone gains nothing.
//!
//! Does not know about: what a parameter is, how a point is measured, files. The same seed and the same scores give the same walk,
//! so a walk whose first tries are known already goes on where it ended.

use std::collections::HashMap;

use crate::search::rng::Rng;

/// Tries of the base at the start: how far apart they are is what a gain has to beat.
pub(super) const BASE_TRIES: usize = 4;
/// Points that are measured together while pairs are tried.
const BATCH_MAX: usize = 8;

/// The position of a value for each parameter.
pub(super) type Point = Vec<usize>;

/// Why a point is tried.
#[derive(Clone, Copy, Debug, serde::Deserialize, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// The start, again and again.
    Base,
    /// It may be better.
    Candidate,
    /// It seemed better.
    Confirm,
}

/// One try: a score, or why the point is out of the question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Try {
    pub(super) role: Role,
    pub(super) point: Point,
    pub(super) score: Result<f64, String>,
}

/// What measures.
pub(super) trait Scorer {
    /// What ends the whole walk.
    type Error;

    /// Scores of the points, in their order. `None` when there is no time for more.
    fn score(
        &mut self,
        role: Role,
        points: &[Point],
    ) -> Result<Option<Vec<Result<f64, String>>>, Self::Error>;
}

/// Why a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The base itself is out of the question.
    BaseRejected(String),
    /// Neither one nor two changes gain anything.
    Found,
    /// There is no time for more.
    OutOfTime,
    /// As many tries as allowed.
    OutOfTries,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Walked {
    pub(super) ended: Ended,
    pub(super) tries: Vec<Try>,
    /// The point that was kept last.
    pub(super) best: Point,
    pub(super) best_score: f64,
    /// The middle score of the base.
    pub(super) base_score: f64,
    /// What a gain had to beat, as a share: 0.01 is one per cent.
    pub(super) repeatability: f64,
    /// Points that were kept, in order, the base first.
    pub(super) kept: Vec<Point>,
}

/// Walks from `start` through `values`, the number of values of each parameter.
pub(super) fn walk<S: Scorer>(
    values: &[usize],
    start: &Point,
    seed: u64,
    tries_max: usize,
    scorer: &mut S,
) -> Result<Walked, S::Error> {
    let mut walk = Walk {
        values,
        rng: Rng::new(seed),
        tries_max,
        scorer,
        tries: Vec::new(),
        known: HashMap::new(),
        best: start.clone(),
        best_score: f64::NAN,
        base_score: f64::NAN,
        repeatability: f64::NAN,
        kept: vec![start.clone()],
    };
    let ended = match walk.run() {
        Ok(()) => Ended::Found,
        Err(Stop::Ended(ended)) => ended,
        Err(Stop::Error(error)) => return Err(error),
    };
    let Walk { tries, best, best_score, base_score, repeatability, kept, .. } = walk;
    Ok(Walked { ended, tries, best, best_score, base_score, repeatability, kept })
}

enum Stop<E> {
    Ended(Ended),
    Error(E),
}

struct Walk<'a, S: Scorer> {
    values: &'a [usize],
    rng: Rng,
    tries_max: usize,
    scorer: &'a mut S,
    tries: Vec<Try>,
    /// First scores of points that were tried; none for those that are out of the question.
    known: HashMap<Point, Option<f64>>,
    best: Point,
    best_score: f64,
    base_score: f64,
    repeatability: f64,
    kept: Vec<Point>,
}

impl<S: Scorer> Walk<'_, S> {
    fn run(&mut self) -> Result<(), Stop<S::Error>> {
        self.measure_base()?;
        loop {
            let one = self.one_at_a_time()?;
            if !one && !self.two_at_a_time()? {
                return Ok(());
            }
        }
    }

    fn measure_base(&mut self) -> Result<(), Stop<S::Error>> {
        let base = self.best.clone();
        let mut scores = Vec::new();
        for _ in 0..BASE_TRIES {
            match self.ask(Role::Base, vec![base.clone()])?.remove(0) {
                Ok(score) => scores.push(score),
                Err(why) => return Err(Stop::Ended(Ended::BaseRejected(why))),
            }
            scores.sort_by(f64::total_cmp);
            self.base_score = scores[scores.len() / 2];
            self.best_score = self.base_score;
        }
        self.repeatability = (scores[scores.len() - 1] - scores[0]) / scores[0];
        self.known.insert(base, Some(self.base_score));
        Ok(())
    }

    /// Every parameter once, in an order of chance. Whether anything was kept.
    fn one_at_a_time(&mut self) -> Result<bool, Stop<S::Error>> {
        let mut gained = false;
        for parameter in self.rng.shuffled(self.values.len()) {
            let others = (0..self.values[parameter]).filter(|&value| value != self.best[parameter]);
            let points: Vec<Point> = others
                .map(|value| {
                    let mut point = self.best.clone();
                    point[parameter] = value;
                    point
                })
                .collect();
            gained |= self.try_all(points)?;
        }
        Ok(gained)
    }

    /// Every pair of parameters, in an order of chance, until something is kept.
    fn two_at_a_time(&mut self) -> Result<bool, Stop<S::Error>> {
        let count = self.values.len();
        let pairs: Vec<(usize, usize)> =
            (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two))).collect();
        let mut batch: Vec<Point> = Vec::new();
        for at in self.rng.shuffled(pairs.len()) {
            let (one, two) = pairs[at];
            for first in (0..self.values[one]).filter(|&value| value != self.best[one]) {
                for second in (0..self.values[two]).filter(|&value| value != self.best[two]) {
                    let mut point = self.best.clone();
                    (point[one], point[two]) = (first, second);
                    if !self.known.contains_key(&point) {
                        batch.push(point);
                    }
                }
            }
            if batch.len() >= BATCH_MAX && self.try_all(std::mem::take(&mut batch))? {
                return Ok(true);
            }
        }
        self.try_all(batch)
    }

    /// Measures those that are not known, and keeps the best of all when it wins twice.
    fn try_all(&mut self, points: Vec<Point>) -> Result<bool, Stop<S::Error>> {
        let new: Vec<Point> =
            points.iter().filter(|point| !self.known.contains_key(*point)).cloned().collect();
        self.ask(Role::Candidate, new)?;
        let scored = points.into_iter().filter_map(|point| Some((self.known.get(&point).copied()??, point)));
        let Some((score, point)) = scored.max_by(|one, two| one.0.total_cmp(&two.0)) else {
            return Ok(false);
        };
        if !self.wins(score) {
            return Ok(false);
        }
        let again = self.ask(Role::Confirm, vec![point.clone()])?.remove(0);
        // The worse of the two counts, for this point and whenever it is looked at again.
        let score = again.ok().map(|again| again.min(score));
        self.known.insert(point.clone(), score);
        match score {
            Some(score) if self.wins(score) => {
                (self.best, self.best_score) = (point.clone(), score);
                self.kept.push(point);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn wins(&self, score: f64) -> bool {
        score > self.best_score * (1.0 + self.repeatability)
    }

    /// Measures, as many as are allowed. Those beyond end the walk once the others are known.
    fn ask(
        &mut self,
        role: Role,
        mut points: Vec<Point>,
    ) -> Result<Vec<Result<f64, String>>, Stop<S::Error>> {
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let allowed = self.tries_max.saturating_sub(self.tries.len());
        let wanted = points.len();
        points.truncate(allowed);
        if points.is_empty() {
            return Err(Stop::Ended(Ended::OutOfTries));
        }
        let scores = match self.scorer.score(role, &points) {
            Ok(Some(scores)) => scores,
            Ok(None) => return Err(Stop::Ended(Ended::OutOfTime)),
            Err(error) => return Err(Stop::Error(error)),
        };
        for (point, score) in points.into_iter().zip(&scores) {
            self.known.entry(point.clone()).or_insert_with(|| score.as_ref().ok().copied());
            self.tries.push(Try { role, point, score: score.clone() });
        }
        if wanted > allowed { Err(Stop::Ended(Ended::OutOfTries)) } else { Ok(scores) }
    }
}

#[cfg(test)]
mod tests;
