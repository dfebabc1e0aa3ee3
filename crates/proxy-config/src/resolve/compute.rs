//! Warns of a `[compute]` table without effect.

use super::super::model::{Compute, Config};
use doorbell_config::{Places, Problem, Problems};

/// Reports a `[compute]` table with values other than the defaults if no route needs its threads.
pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    let Some(place) = places.get("compute").filter(|_| config.compute != Compute::default()) else {
        return;
    };
    if !config.needs_compute() {
        let message = "[compute] has no effect: no route needs its threads";
        problems.add(
            Problem::warning("no-effect", place, message)
                .help("remove it; the threads read files and link maps of routes, and verify tokens with a public key (RS256, ES256, EdDSA)"),
        );
    }
}
