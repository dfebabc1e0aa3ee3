//! Tests the registry of a configuration, and its clocks.

use super::*;
use doorbell_checks::{Finding, ResultSink as _};
use doorbell_health::{EndpointState, Outcome};
use doorbell_probes::CLOCK_STEP_MIN;
use doorbell_proxy_config::{Source, parse};
use std::time::Duration;

fn config(text: &str) -> Config {
    let source = Source { name: "f".to_owned(), text: format!("version = 1\n{text}") };
    let parsed = parse(&source, &|_| None);
    parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems))
}

const ONE: &str = "[check.app]\ntype = \"ttl\"\nttl = \"1h\"\n\
                   [health.readyz]\nrequire = [\"app\"]\n[health.off]\ninitial = \"down\"\n";

fn found(registry: &HealthRegistry, outcome: Outcome) -> Duration {
    registry.found(0, &Finding { outcome, latency: Duration::ZERO, reason: String::new() })
}

#[test]
fn endpoints_are_built_as_the_configuration_says() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let states = || -> Vec<(String, EndpointState)> {
        let set = registry.published().load();
        let states = config.health.iter().enumerate();
        states.map(|(at, health)| (health.name.clone(), set.states(at)[0].0)).collect()
    };
    let is = |name: &str, state: EndpointState| states().contains(&(name.to_owned(), state));
    assert!(is("readyz", EndpointState::Down) && is("off", EndpointState::Down));
    assert!(is("livez", EndpointState::Up), "{:?}", states());
    found(&registry, Outcome::Success);
    assert!(is("readyz", EndpointState::Up) && is("off", EndpointState::Down), "{:?}", states());
    registry.fail("a worker failed");
    assert!(is("readyz", EndpointState::Down) && is("livez", EndpointState::Up), "{:?}", states());
}

/// The fast, usual or slow interval of the configuration applies, depending on the state.
#[test]
fn intervals_are_those_of_the_configuration() {
    let config = config("[check.app]\ntype = \"tcp\"\naddress = \"a:1\"\nfall = 1\n");
    let registry = HealthRegistry::build(&config).unwrap();
    let (fast, usual, slow) = (Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(10));
    let after = [Outcome::Failure, Outcome::Success, Outcome::Success, Outcome::Failure];
    assert_eq!(after.map(|outcome| found(&registry, outcome)), [fast, fast, usual, slow]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "imitates a thread that is stopped between reading two clocks")]
fn a_clock_that_is_set_is_followed() {
    let registry = HealthRegistry::build(&config(ONE)).unwrap();
    let noon = Duration::from_secs(47_482 * 86_400 + 43_200);
    let is_shown = |time_of_day: Duration| {
        // `follow_clock` reports no step if the displayed times already follow this clock.
        let now = registry.now();
        !registry.registry.follow_clock(|| Some((time_of_day + now.since(Time::ZERO), now)))
    };
    found(&registry, Outcome::Success);
    assert!(is_shown(time_of_day() - registry.now().since(Time::ZERO)));
    registry.check_clock(|| noon);
    registry.check_clock(|| {
        std::thread::sleep(CLOCK_STEP_MIN + Duration::from_millis(200));
        noon + Duration::from_secs(3_600)
    });
    assert!(is_shown(noon), "the second pair of times is ignored");
    registry.tick();
    assert!(is_shown(time_of_day() - registry.now().since(Time::ZERO)), "a tick reads the clock");
}

/// A probe of an endpoint triggers the on-demand checks behind its aliases.
#[test]
fn aliases_pass_on_probes() {
    let config = config(
        "[check.db]\ntype = \"tcp\"\naddress = \"127.0.0.1:1\"\ncache = \"1s\"\n\
         [check.copy]\ntype = \"alias\"\nhealth = \"inner\"\n[health.inner]\nrequire = [\"db\"]\n\
         [health.outer]\nrequire = [\"copy\"]\n[health.none]\nrequire = []\n",
    );
    let registry = HealthRegistry::build(&config).unwrap();
    let planned = crate::build::checks::plan(&config, &Arc::default(), None, registry.registry());
    let (plan, _push) = planned.unwrap().unwrap();
    registry.run_on_demand(plan.run_requests());
    for (name, triggers) in [("inner", 1), ("outer", 1), ("none", 0)] {
        let position = config.health.iter().position(|endpoint| endpoint.name == name).unwrap();
        assert_eq!(registry.triggers_of(position).len(), triggers, "{name}");
    }
}
