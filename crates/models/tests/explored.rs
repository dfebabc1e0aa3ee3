//! Promise: shared state is correct under every explored interleaving.

#![expect(clippy::print_stdout, reason = "the test prints the number of interleavings")]

use doorbell_models::explored as models;

/// Explores a model, prints the number of interleavings, and asserts that there are several.
fn holds(name: &str, model: fn() -> usize) {
    let runs = model();
    println!("{name}: {runs} interleavings");
    assert!(runs > 4, "{name} has too few interleavings: {runs}");
}

#[test]
fn a_command_is_never_lost() {
    holds("commands", models::commands);
}

#[test]
fn an_answer_is_never_lost_and_a_sleeper_is_woken_once() {
    holds("answers", models::answers);
}

#[test]
fn answers_of_two_threads_are_found_and_a_sleeper_is_woken_once() {
    holds("answers of two", models::answers_of_two);
}

#[test]
fn a_cancelled_job_never_runs_and_another_runs_once() {
    holds("called off", models::called_off);
}

#[test]
fn jobs_of_two_workers_share_one_thread() {
    holds("one thread", models::one_thread);
}

#[test]
fn no_job_is_lost_when_threads_stop() {
    holds("pumps", models::pumps);
}

#[test]
fn cancelled_jobs_free_their_room() {
    holds("room of cancelled jobs", models::room_of_those_who_left);
}

#[test]
fn a_worker_waiting_for_room_is_woken() {
    holds("room", models::room);
}

#[test]
fn a_permit_goes_to_a_worker_at_any_gate() {
    holds("one house", models::one_house);
}

#[test]
fn a_worker_waiting_for_room_sees_the_end() {
    holds("closed gate", models::closed_gate);
}

#[test]
fn connections_are_received_once_and_in_order() {
    holds("delivered", models::delivered);
}

#[test]
fn a_task_waiting_for_an_empty_queue_sees_the_end() {
    holds("ended", models::ended);
}

#[test]
fn a_dropped_receiver_returns_all_permits() {
    holds("gone", models::gone);
}

#[test]
fn concurrent_requests_of_a_new_key_share_its_burst() {
    holds("new key", models::new_key);
}

#[test]
fn the_last_token_is_spent_once() {
    holds("last token", models::last_token);
}

#[test]
fn a_moved_entry_keeps_its_count() {
    holds("pushed aside", models::pushed_aside);
}

#[test]
fn two_new_keys_are_allowed_once_each() {
    holds("two new keys", models::two_new_keys);
}

#[test]
fn a_beat_during_the_end_leaves_the_slot_free() {
    holds("last beat", models::last_beat);
}

#[test]
fn a_slot_passes_to_the_next_heartbeat() {
    holds("next heart", models::next_heart);
}
