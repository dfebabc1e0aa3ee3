//! `[tuning]`: the switches of the engine, read, checked and shown.
//!
//! Does not know about: what a switch does (`doorbell::Tuning` says), the other tables.

use super::model::{Descriptors, Tuning};
use doorbell::{Accepting, Receiving};
use doorbell_config::{At, Problem, Section, format_duration};
use serde_json::{Value, json};
use std::time::Duration;

const ACCEPTS: [(&str, Accepting); 3] =
    [("multishot", Accepting::Multishot), ("poll", Accepting::Poll), ("single-shot", Accepting::SingleShot)];

const RECEIVES: [(&str, Receiving); 2] = [("poll", Receiving::Poll), ("single-shot", Receiving::SingleShot)];

const DESCRIPTORS: [(&str, Descriptors); 2] =
    [("direct", Descriptors::Direct), ("ordinary", Descriptors::Ordinary)];

/// The table; what is not written is the default. No key of it depends on another table, so there is nothing to resolve later.
pub(crate) fn read(mut at: Section<'_>) -> Tuning {
    let mut tuning = Tuning::default();
    let engine = &mut tuning.engine;
    put(&mut engine.accept, at.choice("accept", &ACCEPTS));
    put(&mut engine.coop_taskrun, at.bool("coop_taskrun"));
    let defer_taskrun = at.bool("defer_taskrun");
    put(&mut tuning.descriptors, at.choice("descriptors", &DESCRIPTORS));
    put(&mut engine.direct_calls, at.bool("direct_calls"));
    put(&mut engine.no_sqarray, at.bool("no_sqarray"));
    put(&mut engine.poll_first, at.bool("poll_first"));
    put(&mut engine.receive, at.choice("receive", &RECEIVES));
    put(&mut engine.registered_ring, at.bool("registered_ring"));
    put(&mut engine.send_more, at.bool("send_more"));
    put(&mut engine.single_issuer, at.bool("single_issuer"));
    put(&mut engine.skip_success, at.bool("skip_success"));
    put(&mut engine.wait_min, at.duration("wait_min", Duration::ZERO..=doorbell::Tuning::WAIT_MIN_MAX));
    if let Some(deferred) = defer_taskrun.as_ref().filter(|at| at.value && !engine.single_issuer) {
        let message = "`defer_taskrun` does nothing without `single_issuer`";
        at.problem(
            Problem::warning("no-effect", deferred.span.clone(), message)
                .help("remove `single_issuer = false`, or set `defer_taskrun = false` too"),
        );
    }
    put(&mut engine.defer_taskrun, defer_taskrun);
    at.finish();
    tuning
}

/// As it is written in a file.
pub(crate) fn to_value(tuning: &Tuning) -> Value {
    let Tuning { engine, descriptors } = tuning;
    json!({
        "accept": name_of(&ACCEPTS, engine.accept),
        "coop_taskrun": engine.coop_taskrun,
        "defer_taskrun": engine.defer_taskrun,
        "descriptors": name_of(&DESCRIPTORS, *descriptors),
        "direct_calls": engine.direct_calls,
        "no_sqarray": engine.no_sqarray,
        "poll_first": engine.poll_first,
        "receive": name_of(&RECEIVES, engine.receive),
        "registered_ring": engine.registered_ring,
        "send_more": engine.send_more,
        "single_issuer": engine.single_issuer,
        "skip_success": engine.skip_success,
        "wait_min": format_duration(engine.wait_min),
    })
}

fn put<T>(place: &mut T, written: Option<At<T>>) {
    if let Some(at) = written {
        *place = at.value;
    }
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let named = names.iter().find(|(_, known)| *known == value);
    named.map(|(name, _)| *name).expect("every value has a name")
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
    fn every_switch_of_the_engine_is_a_key() {
        let shown = format!("{:?}", doorbell::Tuning::default());
        let mut expected: Vec<&str> = fields(&shown);
        expected.push("descriptors");
        expected.sort_unstable();
        let value = to_value(&Tuning::default());
        let found: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_value_has_a_name() {
        for accept in [Accepting::Multishot, Accepting::Poll, Accepting::SingleShot] {
            assert!(!name_of(&ACCEPTS, accept).is_empty());
        }
        for receive in [Receiving::Poll, Receiving::SingleShot] {
            assert!(!name_of(&RECEIVES, receive).is_empty());
        }
        for descriptors in [Descriptors::Direct, Descriptors::Ordinary] {
            assert!(!name_of(&DESCRIPTORS, descriptors).is_empty());
        }
    }
}
