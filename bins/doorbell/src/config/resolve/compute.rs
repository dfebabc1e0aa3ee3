//! `[compute]` resolved, and whether anything needs it.
//!
//! Does not know about: threads.

use super::super::model::{Compute, Config};
use super::super::written;
use super::or;
use doorbell_config::{Problem, Problems};

pub(super) fn resolve(written: Option<&written::Compute>) -> Compute {
    let default = Compute::default();
    let Some(written) = written else { return default };
    Compute {
        threads: written.threads.as_ref().map(|at| at.value),
        name: or(&written.name, default.name),
        cpus: or(&written.cpus, default.cpus),
        stack_size: written.stack_size.as_ref().map(|at| at.value),
        nice: written.nice.as_ref().map_or(default.nice, |at| u8::try_from(at.value).unwrap_or(default.nice)),
        queue_high: or(&written.queue_high, default.queue_high),
        queue_normal: or(&written.queue_normal, default.queue_normal),
        timeout: or(&written.timeout, default.timeout),
    }
}

/// What only says the default has the effect that it would have anyway.
pub(super) fn lint(file: &written::File, config: &Config, problems: &Problems) {
    let Some(written) = file.compute.as_ref().filter(|_| config.compute != Compute::default()) else {
        return;
    };
    if !config.needs_compute() {
        let message = "[compute] has no effect: nothing here is work for its threads";
        problems.add(
            Problem::warning("no-effect", written.span.clone(), message)
                .help("remove it; files of routes are read there, and tokens with a public key (RS256, ES256, EdDSA) verified, where a route asks for them"),
        );
    }
}
