//! Walks with scores that are made up: they find the best point, twice the same, and go on from any place.
//!
//! Does not know about: guests, logs.

use super::*;

const VALUES: [usize; 5] = [2, 3, 4, 2, 2];
const START: [usize; 5] = [0; 5];

/// A hill with its top at 1, 2, 3; the last two parameters gain only together. Values of 9 are out of the question.
fn height(point: &[usize]) -> f64 {
    let far = |at: usize, top: usize| (f64::from(u32::try_from(point[at].abs_diff(top)).unwrap())) * 10.0;
    let together =
        if point[3] == 1 && point[4] == 1 { 50.0 } else { -20.0 * f64::from(u8::from(point[3] != point[4])) };
    1_000.0 - far(0, 1) - far(1, 2) - far(2, 3) + together
}

/// Scores with a little noise, the same for the same try; some first tries are known already.
struct Fake<'a> {
    known: &'a [Try],
    asked: usize,
    measured: usize,
    noise: f64,
    rejects: fn(&[usize]) -> bool,
    time_for: usize,
}

impl Fake<'_> {
    fn new(known: &[Try]) -> Fake<'_> {
        Fake { known, asked: 0, measured: 0, noise: 1.0, rejects: |_| false, time_for: usize::MAX }
    }
}

impl Scorer for Fake<'_> {
    type Error = String;

    fn score(&mut self, role: Role, points: &[Point]) -> Result<Option<Vec<Result<f64, String>>>, String> {
        if self.measured >= self.time_for {
            return Ok(None);
        }
        let mut scores = Vec::new();
        for point in points {
            let score = match self.known.get(self.asked) {
                Some(known) if known.point == *point && known.role == role => known.score.clone(),
                Some(known) => return Err(format!("{known:?} is known, {point:?} is asked")),
                None => {
                    self.measured += 1;
                    let noise = [0.0, 0.4, -0.5, 0.5][self.asked % 4] * self.noise;
                    if (self.rejects)(point) { Err("a wrong byte".into()) } else { Ok(height(point) + noise) }
                }
            };
            self.asked += 1;
            scores.push(score);
        }
        Ok(Some(scores))
    }
}

fn run(seed: u64, tries_max: usize, fake: &mut Fake<'_>) -> Walked {
    walk(&VALUES, &START.to_vec(), seed, tries_max, fake).unwrap()
}

#[test]
fn the_top_is_found_from_every_seed() {
    for seed in 0..50 {
        let walked = run(seed, 10_000, &mut Fake::new(&[]));
        assert_eq!((walked.ended, walked.best), (Ended::Found, vec![1, 2, 3, 1, 1]), "seed {seed}");
        assert!(walked.best_score > walked.base_score && walked.repeatability < 0.002);
        assert_eq!(walked.kept.first().unwrap(), &START.to_vec());
        assert_eq!(walked.kept.last().unwrap(), &vec![1, 2, 3, 1, 1]);
    }
}

#[test]
fn the_same_seed_walks_the_same_way() {
    let (one, two) = (run(7, 10_000, &mut Fake::new(&[])), run(7, 10_000, &mut Fake::new(&[])));
    assert_eq!(one, two);
    let other = run(8, 10_000, &mut Fake::new(&[]));
    assert_ne!(one.tries, other.tries);
}

#[test]
fn a_walk_goes_on_after_every_try() {
    let whole = run(3, 10_000, &mut Fake::new(&[]));
    for known in 0..=whole.tries.len() {
        let mut fake = Fake::new(&whole.tries[..known]);
        let resumed = run(3, 10_000, &mut fake);
        assert_eq!(resumed, whole, "after {known}");
        assert_eq!(fake.measured, whole.tries.len() - known, "nothing is measured twice");
    }
}

#[test]
fn what_fails_is_never_kept() {
    for seed in 0..20 {
        let mut fake = Fake { rejects: |point| point[1] == 2 || point == [1, 1, 3, 0, 0], ..Fake::new(&[]) };
        let walked = run(seed, 10_000, &mut fake);
        assert!(
            walked.kept.iter().all(|point| point[1] != 2 && point != &[1, 1, 3, 0, 0]),
            "{:?}",
            walked.kept
        );
        assert_eq!(walked.best, [1, 1, 3, 1, 1]);
    }
}

#[test]
fn a_base_that_fails_ends_it() {
    let walked = run(0, 10_000, &mut Fake { rejects: |point| point == START, ..Fake::new(&[]) });
    assert_eq!(walked.ended, Ended::BaseRejected("a wrong byte".into()));
    assert_eq!(walked.tries.len(), 1);
}

#[test]
fn a_gain_within_the_noise_is_not_kept() {
    let walked = run(0, 10_000, &mut Fake { noise: 400.0, ..Fake::new(&[]) });
    assert_eq!(walked.kept.len(), 1, "{:?}", walked.kept);
}

#[test]
fn tries_and_time_are_bounds() {
    let whole = run(5, 10_000, &mut Fake::new(&[]));
    for tries_max in 0..whole.tries.len() {
        let walked = run(5, tries_max, &mut Fake::new(&[]));
        assert_eq!(walked.ended, Ended::OutOfTries, "{tries_max}");
        assert_eq!(walked.tries, whole.tries[..tries_max], "a shorter walk is the beginning of a longer one");
    }
    let walked = run(5, 10_000, &mut Fake { time_for: 9, ..Fake::new(&[]) });
    assert_eq!(walked.ended, Ended::OutOfTime);
    assert!(walked.tries.len() >= 9 && walked.tries == whole.tries[..walked.tries.len()]);
}

#[test]
fn no_point_is_measured_twice_as_a_candidate() {
    let walked = run(11, 10_000, &mut Fake::new(&[]));
    let mut candidates: Vec<&Point> =
        walked.tries.iter().filter(|known| known.role == Role::Candidate).map(|known| &known.point).collect();
    let count = candidates.len();
    candidates.sort();
    candidates.dedup();
    assert_eq!(candidates.len(), count);
}
