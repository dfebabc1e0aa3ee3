//! From a configuration to a board.
//!
//! Does not know about: what happens on it.

use super::Places;
use crate::config::model::{Config, Health, HealthState, Role};
use doorbell_checks::options::{Check, CheckKind};
use doorbell_health::{
    Board, BoardBuilder, CheckConfig, CheckIndex, Command, ConfigError, Details, EndpointConfig, FailOpen,
    Forced, ForcedState, Grace, Note, Target, Time, Use,
};
use std::time::Duration;

/// A board with all checks and endpoints, and where they are. `unix` is the time of day at the origin of all times.
pub(super) fn build(config: &Config, now: Time, unix: Duration) -> Result<(Board, Places), String> {
    let mut builder = Board::builder(now).unix_at_zero(unix);
    let mut places = Places::default();
    for check in &config.checks {
        let index = builder.check(&check.name, check_config(check));
        places.checks.push(index.map_err(|error| format!("check {}: {error}", check.name))?);
    }
    let grace = config.lifecycle.grace().map(|duration| Grace { duration });
    for health in &config.health {
        // To have started is earned by results: a latch has no grace by itself.
        let grace = grace.filter(|_| Role::of(&health.name) != Role::Startup);
        let index = endpoint(&mut builder, health, &places.checks, grace);
        places.endpoints.push(index.map_err(|error| format!("health {}: {error}", health.name))?);
    }
    let mut board = builder.build();
    for (health, &index) in config.health.iter().zip(&places.endpoints) {
        if health.initial == HealthState::Down && health.uses.is_empty() {
            let forced = Forced { state: ForcedState::Down, reason: Note::default(), until: None };
            board.command(Command::Force { target: Target::One(index), forced: Some(forced) }, now);
        }
    }
    Ok((board, places))
}

fn check_config(check: &Check) -> CheckConfig {
    let pace = &check.pace;
    let passive = matches!(check.kind, CheckKind::Ttl(_));
    CheckConfig {
        interval: pace.interval,
        fast_interval: pace.fast_interval,
        down_interval: pace.down_interval,
        passive,
        rise: pace.rise,
        fall: pace.fall,
        initial: pace.initial,
        max_age: Some(pace.max_age),
        flap: pace.flap,
        history_len: pace.history as usize,
    }
}

fn endpoint(
    builder: &mut BoardBuilder,
    health: &Health,
    checks: &[CheckIndex],
    grace: Option<Grace>,
) -> Result<doorbell_health::EndpointIndex, ConfigError> {
    let uses = health.uses.iter().map(|one| {
        let check = checks.get(one.check).copied().ok_or(ConfigError::UnknownCheck)?;
        Ok(Use {
            check,
            severity: one.severity,
            in_quorum: one.in_quorum,
            weight: one.weight,
            code: one.code,
        })
    });
    builder.endpoint(EndpointConfig {
        uses: uses.collect::<Result<_, _>>()?,
        quorum: health.quorum(),
        fail_open: health.fail_open.as_ref().map(|open| FailOpen { max_age: open.max_age }),
        latch: health.latch,
        on_stale: health.on_stale,
        grace,
        codes: health.codes(),
        on_drain: health.on_drain(),
        // Each route says who sees them; both are rendered.
        details: Details::Authenticated,
        body_len_max: health.max_body as usize,
        ..EndpointConfig::new(health.name.as_str())
    })
}
