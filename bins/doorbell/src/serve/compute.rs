//! The compute lane as the configuration wants it, and files that are read there.
//!
//! Does not know about: what is in the files, other jobs.

use super::watch::Look;
use crate::config::model::{Compute, Config};
use crate::exit::{Exit, Failure};
use doorbell::Offload;
use doorbell::offload::Class;
use std::num::NonZeroU16;
use std::sync::mpsc::sync_channel;

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

/// Where files are looked at.
#[derive(Clone, Debug)]
pub(super) struct Reading(Option<Offload>);

impl Reading {
    /// On this lane; without one, by whoever wants it done.
    pub(super) const fn new(lane: Option<Offload>) -> Self {
        Self(lane)
    }

    /// Has a look taken in turn with the other jobs, and waits for it. When there are too many of those, nothing has changed until the next look.
    pub(super) fn look(&self, look: impl FnOnce() -> Look + Send + 'static) -> Look {
        let Some(lane) = &self.0 else { return look() };
        let (tell, told) = sync_channel(1);
        let spawned = lane.spawn(move || {
            let _gone = tell.send(look());
        });
        match told.recv() {
            _ if !spawned => Look::Same,
            Ok(look) => look,
            Err(_) => Look::Refused("a defect of doorbell: the look panicked".to_owned()),
        }
    }
}
