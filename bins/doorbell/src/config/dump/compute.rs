//! `[compute]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::Compute;
use doorbell_config::{format_duration, format_size};
use serde_json::{Value, json};

pub(super) fn compute_value(compute: &Compute) -> Value {
    let auto = |value: Option<Value>| value.unwrap_or_else(|| json!("auto"));
    json!({
        "threads": auto(compute.threads.map(|threads| json!(threads))),
        "name": compute.name,
        "cpus": compute.cpus,
        "stack_size": auto(compute.stack_size.map(|bytes| json!(format_size(bytes.into())))),
        "nice": compute.nice,
        "queue_high": compute.queue_high,
        "queue_normal": compute.queue_normal,
        "timeout": format_duration(compute.timeout),
    })
}
