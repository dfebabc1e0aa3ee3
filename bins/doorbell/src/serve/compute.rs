//! The compute lane as the configuration wants it.
//!
//! Does not know about: jobs.

use crate::config::model::{Compute, Config};
use crate::exit::{Exit, Failure};
use doorbell::Offload;
use doorbell::offload::Class;
use std::num::NonZeroU16;

/// Starts the threads; `None` where nothing needs them.
pub(super) fn start(config: &Config) -> Result<Option<Offload>, Failure> {
    if !config.needs_compute() {
        return Ok(None);
    }
    let Compute { threads, name, cpus, stack_size, queue_high, queue_normal, timeout } = &config.compute;
    let cpus: Vec<usize> = cpus.iter().map(|cpu| *cpu as usize).collect();
    let mut builder = Offload::builder()
        .name(name)
        .cpus(&cpus)
        .queue_max(Class::High, *queue_high as usize)
        .queue_max(Class::Normal, *queue_normal as usize)
        .timeout(*timeout);
    if let Some(threads) = threads.and_then(|count| NonZeroU16::new(u16::try_from(count).ok()?)) {
        builder = builder.threads(threads);
    }
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(*bytes as usize);
    }
    builder.build().map(Some).map_err(|error| Failure::new(Exit::Failure, error.to_string()))
}
