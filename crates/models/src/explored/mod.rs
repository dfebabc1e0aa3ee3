//! The models, and the function that explores a model.

mod beats;
mod hand_over;
mod jobs;
mod limits;
mod wakes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use beats::{last_beat, next_heart};
pub use hand_over::{closed_gate, delivered, ended, gone, one_house, room};
pub use jobs::{called_off, one_thread, pumps, room_of_those_who_left};
pub use limits::{last_token, new_key, pushed_aside, two_new_keys};
pub use wakes::{answers, answers_of_two, commands};

/// Runs `model` under every interleaving with at most `preemptions` involuntary thread switches, or
/// for `None` under all interleavings, and returns the number of executions. Two switches reveal
/// most faults. The more threads a model has, the larger the share of skipped interleavings.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    runs.load(Ordering::Relaxed)
}
