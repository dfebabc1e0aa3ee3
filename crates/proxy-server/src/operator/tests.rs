//! Commands of operators and their effect on endpoints, without a server.

use super::clock::jump;
use super::*;
use crate::reload::watch::{Scan, Watched as _};
use crate::supervisor::Supervisor;
use doorbell_checks::{Finding, ResultSink as _};
use doorbell_control::{CheckWord, EndpointView, EndpointWord, Event, Lifecycle};
use doorbell_health::Outcome;
use doorbell_proxy_config::model::Config;
use doorbell_proxy_config::{Source, parse};
use std::path::Path;

fn config(more: &str) -> Config {
    let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1h\"\n\
                [health.readyz]\nrequire = []\n[health.second]\nrequire = [\"db\"]\n";
    let source = Source { name: "f".to_owned(), text: format!("{text}{more}") };
    parse(&source, &|_| None).config.unwrap()
}

fn registry() -> Arc<HealthRegistry> {
    HealthRegistry::build(&config("")).unwrap()
}

/// Returns an operator that was started with this state file.
fn operator_kept_in(path: &Path) -> (Operator, Arc<HealthRegistry>) {
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    operator.open_state_file(path);
    let registry = registry();
    operator.prepare(&registry);
    operator.adopt(&registry, Vec::new());
    (operator, registry)
}

fn operator() -> (Operator, Arc<HealthRegistry>) {
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let registry = registry();
    operator.prepare(&registry);
    operator.adopt(&registry, Vec::new());
    (operator, registry)
}

fn endpoint(registry: &HealthRegistry, name: &str) -> EndpointView {
    registry.endpoints().into_iter().find(|endpoint| endpoint.name == name).unwrap()
}

fn state(registry: &HealthRegistry, name: &str) -> EndpointWord {
    endpoint(registry, name).state
}

#[test]
fn a_drain_and_its_end_take_effect_before_the_call_returns() {
    let (operator, registry) = operator();
    operator.drain("all", "new kernel", None, true).unwrap();
    assert_eq!(state(&registry, "readyz"), EndpointWord::Drain);
    assert_eq!(
        (operator.status().lifecycle, operator.status().reason),
        (Lifecycle::Draining, "new kernel".into())
    );
    assert_eq!(endpoint(&registry, "readyz").note, "new kernel");
    let later = self::registry();
    operator.prepare(&later);
    operator.adopt(&later, Vec::new());
    assert_eq!(state(&later, "readyz"), EndpointWord::Drain, "a new registry drains too");
    assert_eq!(endpoint(&later, "readyz").note, "new kernel", "for the same reason");
    operator.drain("all", "newer kernel", None, true).unwrap();
    operator.begin_stop("SIGTERM");
    assert_eq!(endpoint(&later, "readyz").note, "newer kernel", "a stop keeps the operator's reason");
    operator.undrain("all").unwrap();
    assert_eq!([state(&registry, "readyz"), state(&later, "readyz")], [EndpointWord::Up; 2]);
    let (events, missed) = operator.events_since(0);
    assert_eq!(missed, 0);
    assert!(events.iter().any(|event| matches!(
        &event.what,
        EventKind::Lifecycle { to: Lifecycle::Draining, reason, .. } if reason == "new kernel"
    )));
    assert!(events.iter().any(|event| matches!(
        &event.what,
        EventKind::Endpoint { name, to: EndpointWord::Drain, .. } if name == "readyz"
    )));
}

#[test]
fn undrain_cancels_a_stop_until_it_closes() {
    let (operator, registry) = operator();
    assert!(operator.begin_stop("SIGTERM") && !operator.expire_due());
    assert!(!operator.begin_stop("SIGTERM"), "begun already");
    assert_eq!(state(&registry, "readyz"), EndpointWord::Drain);
    assert!(operator.next_deadline_in().is_some());
    operator.undrain("all").unwrap();
    assert_eq!(operator.next_deadline_in(), None);
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up);
    operator.close("SIGINT");
    assert!(!operator.expire_due(), "listeners are closed");
    for refused in [operator.undrain("all"), operator.drain("all", "", None, true)] {
        assert_eq!(refused.unwrap_err().kind, RefusalKind::TooLate);
    }
}

#[test]
fn the_first_sigterm_after_a_quit_does_not_skip_the_drain() {
    let (operator, _registry) = operator();
    operator.quit(false).unwrap();
    assert!(operator.begin_stop_on_sigterm(), "the first one");
    assert_eq!(
        (operator.status().lifecycle, operator.status().reason),
        (Lifecycle::Draining, "doorbell quit".into())
    );
    assert!(!operator.begin_stop_on_sigterm(), "the second one");
    operator.undrain("all").unwrap();
    assert!(operator.begin_stop_on_sigterm(), "the count starts from zero");
    assert!(!operator.begin_stop_on_sigterm());
}

/// Drains of one endpoint and of all are independent, in any order.
#[test]
fn an_endpoint_drains_alone_until_it_is_cancelled() {
    let (operator, registry) = operator();
    let states = |registry: &HealthRegistry| ["readyz", "second"].map(|name| state(registry, name));
    let done = operator.drain("second", "disks", None, true).unwrap();
    assert!(done.starts_with("second: draining until `doorbell undrain second`: not ready, "), "{done}");
    assert_eq!(states(&registry), [EndpointWord::Up, EndpointWord::Drain]);
    assert_eq!(endpoint(&registry, "second").note, "disks");
    assert_eq!(operator.status().lifecycle, Lifecycle::Starting, "the program as a whole does not drain");
    let drains = operator.status().drains;
    assert_eq!((drains.len(), &*drains[0].endpoint, &*drains[0].reason), (1, "second", "disks"));
    let later = self::registry();
    operator.prepare(&later);
    operator.adopt(&later, Vec::new());
    assert_eq!(states(&later), [EndpointWord::Up, EndpointWord::Drain], "a new registry drains too");

    operator.drain("all", "kernel", None, true).unwrap();
    assert_eq!(states(&later), [EndpointWord::Drain; 2]);
    let still = operator.undrain("second").unwrap();
    assert!(still.contains("the drain of all endpoints continues: `doorbell undrain` ends it"), "{still}");
    assert_eq!(states(&later), [EndpointWord::Drain; 2]);
    operator.drain("second", "disks", None, true).unwrap();
    assert!(operator.undrain("all").unwrap().starts_with("all drains ended"));
    assert_eq!((states(&later), operator.status().drains), ([EndpointWord::Up, EndpointWord::Down], vec![]));
    assert!(operator.undrain("second").unwrap().contains("had no drain of its own"));

    operator.drain("second", "", None, true).unwrap();
    operator.ready("readyz").unwrap();
    assert_eq!(state(&later, "second"), EndpointWord::Drain, "readyz is another endpoint");
    operator.ready("second").unwrap();
    assert_eq!(state(&later, "second"), EndpointWord::Down, "ready ends everything");
    operator.drain("second", "", None, true).unwrap();
    operator.ready("all").unwrap();
    assert_eq!(state(&later, "second"), EndpointWord::Down);

    let refused = operator.drain("db", "", None, true).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NotSupported);
    assert!(refused.text.contains("`doorbell maint check:db`"), "{refused}");
    assert_eq!(operator.drain("nobody", "", None, true).unwrap_err().kind, RefusalKind::NotFound);
    assert_eq!(operator.undrain("nobody").unwrap_err().kind, RefusalKind::NotFound);
    let (events, _) = operator.events_since(0);
    let of_drains: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::Drain { endpoint, on, reason, .. } => Some((&**endpoint, *on, &**reason)),
            _ => None,
        })
        .collect();
    assert_eq!(of_drains[..2], [("second", true, "disks"), ("second", false, "")]);
    assert!(of_drains.chunks(2).all(|two| (two[0].1, two[1].1) == (true, false)), "{of_drains:?}");
}

/// `all` is a permitted name: only without a prefix is it the target for everything.
#[test]
fn an_endpoint_and_a_check_named_all_are_targets() {
    let more = "[check.all]\ntype = \"ttl\"\nttl = \"1h\"\n[health.all]\nrequire = [\"all\"]\n";
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let registry = HealthRegistry::build(&config(more)).unwrap();
    operator.prepare(&registry);
    for target in ["endpoint:all", "check:all"] {
        operator.maintain(target, "disks", None).unwrap();
        assert_eq!(operator.status().maintenance[0].target, target);
        let states = ["all", "readyz"].map(|name| state(&registry, name));
        assert_eq!(states, [EndpointWord::Maintenance, EndpointWord::Up], "{target}");
        operator.ready(target).unwrap();
        assert_eq!(operator.status().maintenance, []);
    }
}

#[test]
fn limited_drains_end() {
    let (operator, registry) = operator();
    let done = operator.drain("all", "short", Some(Duration::ZERO), true).unwrap();
    assert!(done.starts_with("draining for 0s: not ready, ") && !done.contains("until"), "{done}");
    operator.drain("second", "short", Some(Duration::ZERO), true).unwrap();
    operator.drain("readyz", "long", Some(Duration::from_secs(3600)), true).unwrap();
    assert_eq!([state(&registry, "readyz"), state(&registry, "livez")], [EndpointWord::Drain; 2]);
    assert!(operator.next_deadline_in().unwrap().is_zero());
    assert!(!operator.expire_due());
    assert_eq!(state(&registry, "livez"), EndpointWord::Up);
    assert_eq!(state(&registry, "second"), EndpointWord::Down);
    assert_eq!(state(&registry, "readyz"), EndpointWord::Drain);
    let left = operator.next_deadline_in().unwrap();
    assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
    let view = operator.status();
    assert_eq!((view.observed_in_ms, view.drain_ends_in_ms, view.drains.len()), (None, None, 1));
    assert!(view.drains[0].left_ms.is_some_and(|left| left > 3_500_000), "{view:?}");
}

#[test]
fn maintenance_holds_for_what_was_named() {
    let (operator, registry) = operator();
    operator.maintain("second", "disks", None).unwrap();
    assert_eq!(
        (state(&registry, "second"), endpoint(&registry, "second").note),
        (EndpointWord::Maintenance, "disks".into())
    );
    assert_eq!([state(&registry, "readyz"), state(&registry, "livez")], [EndpointWord::Up; 2]);
    operator.maintain("all", "everything", None).unwrap();
    assert_eq!(state(&registry, "readyz"), EndpointWord::Maintenance);
    assert_eq!(state(&registry, "livez"), EndpointWord::Up, "or the kubelet would kill the process");
    assert_eq!(endpoint(&registry, "second").note, "disks", "maintenance of the endpoint continues");
    operator.ready("second").unwrap();
    assert_eq!(endpoint(&registry, "second").note, "everything");
    operator.maintain("livez", "on purpose", None).unwrap();
    assert_eq!(state(&registry, "livez"), EndpointWord::Maintenance);
    operator.drain("all", "", None, true).unwrap();
    operator.ready("all").unwrap();
    assert_eq!(operator.status().maintenance, []);
    assert_eq!([state(&registry, "readyz"), state(&registry, "livez")], [EndpointWord::Up; 2]);
    assert_eq!(state(&registry, "second"), EndpointWord::Down, "by its check");
    operator.maintain("db", "", None).unwrap();
    assert_eq!(operator.status().maintenance[0].target, "check:db");
    assert_eq!(state(&registry, "second"), EndpointWord::Maintenance);
    assert_eq!(operator.maintain("dbs", "", None).unwrap_err().kind, RefusalKind::NotFound);
}

/// After jumps of the clock in both directions, windows follow the time of day; nothing else
/// changes.
#[test]
fn a_clock_that_is_set_moves_windows_and_nothing_else() {
    const HOUR_MS: i64 = 3_600_000;
    // Sunday, 2026-11-22, 02:15 UTC.
    const WALL_MS: i64 = 1_795_313_700_000;
    let shift = WALL_MS - i64::try_from(unix_ms()).unwrap();
    jump::to(shift);
    let config = config(
        "[health.patched]\n[health.third]\n[health.fourth]\n\
         [[maintenance.window]]\ncron = \"0 3 * * SUN UTC\"\nfor = \"30m\"\nendpoints = [\"patched\"]\n",
    );
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let registry = HealthRegistry::build(&config).unwrap();
    operator.prepare(&registry);
    operator.adopt(&registry, Window::all(&config));
    let success = Finding { outcome: Outcome::Success, latency: Duration::ZERO, reason: String::new() };
    registry.found(0, &success);
    let long = Some(Duration::from_secs(7200));
    operator.maintain("third", "disks", long).unwrap();
    operator.drain("fourth", "fans", long, true).unwrap();
    let is_long = |left: Option<u64>| left.is_some_and(|left| (7_100_000..=7_200_000).contains(&left));
    for (jumped_ms, is_open) in
        [(0, false), (HOUR_MS, true), (0, false), (-HOUR_MS, false), (HOUR_MS, true), (-HOUR_MS, false)]
    {
        jump::to(shift + jumped_ms);
        let last = operator.status().event;
        registry.tick();
        assert!(
            operator.next_deadline_in().unwrap() <= Duration::from_secs(30),
            "windows are evaluated again soon"
        );
        // Simulates that the interval between evaluations has passed.
        operator.lock().windows.replace(Window::all(&config));
        assert!(!operator.expire_due());
        let expected = if is_open { EndpointWord::Maintenance } else { EndpointWord::Up };
        assert_eq!(state(&registry, "patched"), expected, "{jumped_ms}");
        let others = ["readyz", "second", "third", "fourth"].map(|name| state(&registry, name));
        assert_eq!(
            others,
            [EndpointWord::Up, EndpointWord::Up, EndpointWord::Maintenance, EndpointWord::Drain]
        );
        let (_, check) = registry.checks(None, true).remove(0);
        assert_eq!((check.state, check.history.len()), (CheckWord::Up, 1));
        for age in [check.age_ms, check.last.unwrap().age_ms, check.last_success_age_ms.unwrap()] {
            assert!(age < 60_000, "{check:?}");
        }
        let status = operator.status();
        assert!(status.uptime_ms < 60_000 && status.lifecycle_age_ms < 60_000, "{status:?}");
        assert!(status.now_unix_ms.abs_diff((WALL_MS + jumped_ms).unsigned_abs()) < 60_000, "{status:?}");
        let declared = status.maintenance.iter().find(|hold| hold.source == HoldSource::Operator).unwrap();
        assert!(is_long(declared.left_ms) && is_long(status.drains[0].left_ms), "{status:?}");
        let (events, _) = operator.events_since(last);
        let is_of_window = |event: &Event| match &event.what {
            EventKind::Maintenance { target, source, .. } => {
                target == "patched" && *source == HoldSource::Window
            }
            EventKind::Endpoint { name, .. } => name == "patched",
            _ => false,
        };
        assert!(events.iter().all(|event| is_of_window(event) && event.at_uptime_ms < 60_000), "{events:?}");
    }
    jump::to(0);
}

/// A state that was saved before the clock was set keeps its remaining times.
#[test]
fn a_state_file_keeps_remaining_times_when_the_clock_was_set() {
    let path = std::env::temp_dir().join(format!("doorbell-jump-{}", std::process::id()));
    let start = || operator_kept_in(&path);
    for (saved_ms, read_ms) in [(0, 3_600_000), (3_600_000, 0), (0, -3_600_000)] {
        jump::to(saved_ms);
        let (operator, registry) = start();
        operator.maintain("readyz", "disks", Some(Duration::from_secs(600))).unwrap();
        operator.drain("second", "fans", Some(Duration::from_secs(600)), true).unwrap();
        drop((operator, registry));
        jump::to(read_ms);
        let (operator, registry) = start();
        let states = ["readyz", "second"].map(|name| state(&registry, name));
        assert_eq!(states, [EndpointWord::Maintenance, EndpointWord::Drain], "{saved_ms} {read_ms}");
        let status = operator.status();
        for left in [status.maintenance[0].left_ms, status.drains[0].left_ms] {
            assert!(left.is_some_and(|left| (590_000..=600_000).contains(&left)), "{left:?}");
        }
    }
    jump::to(0);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn ready_names_what_still_applies_to_a_target_through_all() {
    let (operator, registry) = operator();
    operator.maintain("all", "everything", None).unwrap();
    let note = "all: still in maintenance by an operator; `doorbell ready all` ends it";
    assert_eq!(operator.ready("readyz").unwrap(), note);
    assert_eq!(state(&registry, "readyz"), EndpointWord::Maintenance);
    for unaffected in ["livez", "db"] {
        assert!(operator.ready(unaffected).unwrap().contains("was not in maintenance"), "{unaffected}");
    }
    operator.maintain("readyz", "disks", None).unwrap();
    assert_eq!(operator.ready("readyz").unwrap(), format!("readyz: maintenance ended\n{note}"));
    assert_eq!(operator.ready("all").unwrap(), "all: maintenance ended");

    operator.drain("all", "kernel", None, true).unwrap();
    let note = "the drain of all endpoints continues: `doorbell undrain` ends it";
    assert_eq!(operator.ready("readyz").unwrap(), format!("readyz: {note}"));
    assert_eq!(state(&registry, "readyz"), EndpointWord::Drain);
    operator.drain("readyz", "disks", None, true).unwrap();
    let done = operator.ready("readyz").unwrap();
    assert!(done.starts_with(&format!("readyz: drain ended; {note}")) && done.matches(note).count() == 1);
    assert!(operator.ready("db").unwrap().contains("was not in maintenance"), "checks do not drain");
}

#[test]
fn limited_maintenance_ends() {
    let (operator, registry) = operator();
    operator.maintain("readyz", "short", Some(Duration::ZERO)).unwrap();
    operator.maintain("second", "long", Some(Duration::from_secs(3600))).unwrap();
    assert!(!operator.expire_due());
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up);
    assert_eq!(state(&registry, "second"), EndpointWord::Maintenance);
    let left = operator.next_deadline_in().unwrap();
    assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
}

#[test]
fn a_reload_needs_a_callback() {
    let (operator, _registry) = operator();
    assert_eq!(operator.reload().unwrap_err().kind, RefusalKind::NotSupported);
    operator.on_reload(|| Err("line 3".to_owned()));
    assert_eq!(operator.reload().unwrap_err(), Refusal::new(RefusalKind::Failed, "line 3"));
    let (events, _) = operator.events_since(0);
    let last = &events.last().unwrap().what;
    assert_eq!(*last, EventKind::Reload { ok: false, text: "line 3".to_owned() });
    let refused = operator.status().refused_reload.unwrap();
    assert_eq!(refused.reason, "line 3");
}

#[test]
fn drains_and_maintenance_survive_a_restart() {
    let path = std::env::temp_dir().join(format!("doorbell-operator-{}", std::process::id()));
    let start = || operator_kept_in(&path);
    let (operator, registry) = start();
    assert!(!operator.maintain("second", "disks", None).unwrap().contains("not kept"));
    operator.maintain("livez", "over soon", Some(Duration::from_secs(9))).unwrap();
    operator.drain("readyz", "disks", Some(Duration::from_secs(9)), true).unwrap();
    operator.drain("second", "of a hook", None, false).unwrap();
    operator.drain("all", "kernel", None, true).unwrap();
    let (second, _registry) = start();
    assert!(second.status().maintenance.is_empty() && second.status().drains.is_empty());
    assert!(second.maintain("second", "", None).unwrap().contains("is in use by another instance"));
    drop((operator, registry, second));
    let (operator, registry) = start();
    assert_eq!(state(&registry, "readyz"), EndpointWord::Drain, "before the first probe");
    assert_eq!(endpoint(&registry, "readyz").note, "disks");
    assert_eq!(operator.status().drains.len(), 1, "a drain by a hook is not kept");
    assert_eq!(operator.status().reason, "kernel");
    operator.undrain("all").unwrap();
    assert_eq!(endpoint(&registry, "second").note, "disks");
    operator.drain("readyz", "disks", Some(Duration::from_secs(9)), true).unwrap();
    operator.drain("all", "of a hook", None, false).unwrap();
    drop((operator, registry));
    let mut state_file = StateFile::new(&path);
    let mut kept = state_file.load().unwrap();
    assert_eq!(kept.drains.len(), 1, "{kept:?}");
    kept.moment.since_boot_ms -= 10_000;
    state_file.save(&kept).unwrap();
    drop(state_file);
    let (operator, registry) = start();
    assert_eq!(state(&registry, "livez"), EndpointWord::Up, "over while nothing ran");
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up, "and so is its drain");
    assert_eq!(endpoint(&registry, "second").note, "disks");
    operator.ready("all").unwrap();
    drop((operator, registry));
    let (operator, _registry) = start();
    assert_eq!((operator.status().maintenance, operator.status().lifecycle), (vec![], Lifecycle::Starting));
    std::fs::remove_file(&path).unwrap();
}

/// A hook drains while an operator's drains are in effect, and then the process is killed.
#[test]
fn a_drain_by_a_hook_leaves_the_drain_of_an_operator_as_it_is() {
    let path = std::env::temp_dir().join(format!("doorbell-hook-{}", std::process::id()));
    let hour = Some(Duration::from_secs(3600));
    let (operator, registry) = operator_kept_in(&path);
    for target in ["all", "second"] {
        operator.drain(target, "kernel", hour, true).unwrap();
        operator.drain(target, "of a hook", None, false).unwrap();
    }
    operator.drain("readyz", "of a hook", None, false).unwrap();
    let status = operator.status();
    assert_eq!((&*status.reason, status.drain_ends_in_ms), ("kernel", None));
    operator.maintain("readyz", "saves the state", None).unwrap();
    drop((operator, registry));
    let (operator, registry) = operator_kept_in(&path);
    let is_hour = |left: Option<u64>| left.is_some_and(|left| left <= 3_600_000);
    let status = operator.status();
    assert!(status.reason == "kernel" && is_hour(status.drain_ends_in_ms), "{status:?}");
    assert!(status.drains.len() == 1 && is_hour(status.drains[0].left_ms), "{status:?}");
    operator.drain("all", "of a hook", None, false).unwrap();
    operator.drain("all", "over", Some(Duration::ZERO), true).unwrap();
    operator.expire_due();
    assert_eq!(operator.status().reason, "of a hook");
    assert_eq!(endpoint(&registry, "readyz").note, "saves the state");
    assert_eq!(StateFile::new(&path).load().unwrap().drains.len(), 1, "that of `second`");
    operator.undrain("all").unwrap();
    assert_eq!(operator.status().lifecycle, Lifecycle::Starting, "both have ended");
    drop((operator, registry));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_state_that_could_not_be_saved_is_saved_later() {
    let path = std::env::temp_dir().join(format!("doorbell-operator-full-{}", std::process::id()));
    let (operator, registry) = operator_kept_in(&path);
    operator.drain("all", "kernel", None, true).unwrap();
    std::os::unix::fs::symlink("/dev/full", path.with_added_extension("new")).unwrap();
    assert!(operator.undrain("all").unwrap().contains("not kept across restarts"));
    assert_eq!(StateFile::new(&path).load().unwrap().drains.len(), 1, "the file is the old one");
    assert!(operator.next_deadline_in().is_some(), "the supervisor wakes up");
    assert!(operator.status().unsaved.is_some());
    operator.lock().unsaved = Some((String::new(), Duration::ZERO));
    operator.expire_due();
    assert_eq!(StateFile::new(&path).load().unwrap().drains.len(), 0);
    assert_eq!(operator.next_deadline_in(), None, "nothing is left to save");
    drop((operator, registry));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_time_beyond_the_maximum_is_refused() {
    let (operator, registry) = operator();
    let (longest, longer) = (HOLD_MAX, HOLD_MAX + Duration::from_secs(1));
    for (refused, expected) in [
        (operator.maintain("readyz", "", Some(longer)), "`doorbell ready readyz`"),
        (operator.drain("readyz", "", Some(longer), true), "`doorbell undrain readyz`"),
        (operator.drain("all", "", Some(longer), true), "`doorbell undrain`"),
    ] {
        let Refusal { kind, text } = refused.unwrap_err();
        assert!(text.contains("longer than 366d") && text.ends_with(expected), "{text}");
        assert_eq!(kind, RefusalKind::Invalid);
    }
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up, "nothing was done");
    operator.maintain("readyz", "", Some(longest)).unwrap();
    assert_eq!(state(&registry, "readyz"), EndpointWord::Maintenance);
}

#[test]
fn files_declare_maintenance_until_they_are_gone() {
    let folder = std::env::temp_dir().join(format!("doorbell-operator-files-{}", std::process::id()));
    let (operator, registry) = operator();
    let mut files = MaintenanceFiles::new(&folder, &operator);
    assert_eq!(files.scan(), Scan::Same, "no directory, no maintenance");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("second"), "new disks\nsecond line\n").unwrap();
    std::fs::write(folder.join("nobody"), "").unwrap();
    std::fs::write(folder.join(".hidden"), "").unwrap();
    assert_eq!(files.scan(), Scan::Changed("nobody, second".to_owned()));
    assert_eq!(endpoint(&registry, "second").note, "new disks");
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up);
    assert!(operator.ready("second").unwrap().contains("still in maintenance by a file"));
    operator.maintain("second", "said", None).unwrap();
    assert_eq!(endpoint(&registry, "second").note, "said", "an operator takes precedence");
    operator.ready("second").unwrap();
    std::fs::write(folder.join("all"), "").unwrap();
    files.scan();
    assert_eq!(state(&registry, "readyz"), EndpointWord::Maintenance);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(files.scan(), Scan::Changed("no files".to_owned()));
    assert_eq!(
        [state(&registry, "readyz"), state(&registry, "second")],
        [EndpointWord::Up, EndpointWord::Down]
    );
}

/// The name of a window's target does not depend on later configurations.
#[test]
fn a_window_ends_with_its_endpoint() {
    // Always open: the schedule starts each minute, for longer than a minute.
    const WINDOW: &str =
        "[[maintenance.window]]\ncron = \"* * * * * UTC\"\nfor = \"10m\"\nendpoints = [\"patched\"]\n";
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let adopt = |more: &str| {
        let config = config(more);
        let registry = HealthRegistry::build(&config).unwrap();
        operator.prepare(&registry);
        operator.adopt(&registry, Window::all(&config));
        registry
    };
    let with_window = adopt(&format!("[health.patched]\n{WINDOW}"));
    assert_eq!(state(&with_window, "patched"), EndpointWord::Maintenance);
    drop((adopt(""), with_window));
    assert_eq!(operator.status().maintenance, []);
    assert_eq!(state(&adopt("[health.patched]\n"), "patched"), EndpointWord::Up);
}

#[test]
fn a_window_that_was_ended_stays_ended_after_a_restart() {
    let path = std::env::temp_dir().join(format!("doorbell-ended-window-{}", std::process::id()));
    // Open since the last full hour, in every hour.
    let window =
        "[[maintenance.window]]\ncron = \"0 * * * * UTC\"\nfor = \"24h\"\nendpoints = [\"readyz\"]\n";
    let start = |reason: &str| {
        let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
        operator.open_state_file(&path);
        let config = config(&format!("{window}reason = \"{reason}\"\n"));
        let registry = HealthRegistry::build(&config).unwrap();
        operator.prepare(&registry);
        operator.adopt(&registry, Window::all(&config));
        (operator, registry)
    };
    // Half past the hour, so that the next window does not open during the test.
    let into_hour = unix_ms() % 3_600_000;
    jump::to(1_800_000 - i64::try_from(into_hour).unwrap());
    let (operator, registry) = start("disks");
    assert_eq!(endpoint(&registry, "readyz").note, "disks");
    assert!(operator.ready("readyz").unwrap().contains("window ended early"));
    drop((operator, registry));
    let (operator, registry) = start("new disks");
    assert_eq!(state(&registry, "readyz"), EndpointWord::Up);
    drop((operator, registry));
    jump::to(1_800_000 + 3_600_000 - i64::try_from(into_hour).unwrap());
    let (_operator, registry) = start("disks");
    assert_eq!(state(&registry, "readyz"), EndpointWord::Maintenance, "the next window");
    jump::to(0);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_maintenance_file_applies_to_an_endpoint_that_a_reload_adds() {
    let (operator, _registry) = operator();
    let reasons = BTreeMap::from([("third".to_owned(), "disks".to_owned())]);
    assert_eq!(operator.set_file_maintenance(&reasons).len(), 1, "unknown");
    let later = HealthRegistry::build(&config("[health.third]\n")).unwrap();
    operator.prepare(&later);
    operator.adopt(&later, Vec::new());
    assert_eq!(endpoint(&later, "third").note, "disks");
}

/// After a start, the log names `undrain third` and `ready check:cache` as the commands that end
/// what was restored.
#[test]
fn a_drain_and_maintenance_of_what_a_reload_removed_can_be_ended() {
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let adopt = |more: &str| {
        let registry = HealthRegistry::build(&config(more)).unwrap();
        operator.prepare(&registry);
        operator.adopt(&registry, Vec::new());
        registry
    };
    let more = "[check.cache]\ntype = \"ttl\"\nttl = \"1h\"\n[health.third]\n";
    let declare = || {
        operator.drain("third", "disks", None, true).unwrap();
        operator.maintain("third", "disks", None).unwrap();
        operator.maintain("cache", "disks", None).unwrap();
    };
    let first = adopt(more);
    declare();
    drop((adopt(""), first));
    assert_eq!(operator.undrain("third").unwrap(), "third: drain ended");
    assert_eq!(operator.undrain("third").unwrap_err().kind, RefusalKind::NotFound, "ended already");
    assert_eq!(operator.ready("endpoint:third").unwrap(), "third: maintenance ended");
    assert_eq!(operator.ready("check:cache").unwrap(), "check:cache: maintenance ended");
    assert_eq!(operator.ready("third").unwrap_err().kind, RefusalKind::NotFound);
    assert_eq!((operator.status().drains.len(), operator.status().maintenance.len()), (0, 0));
    assert_eq!(operator.drain("third", "", None, true).unwrap_err().kind, RefusalKind::NotFound);

    let again = adopt(more);
    declare();
    drop((adopt(""), again));
    let done = operator.ready("third").unwrap();
    assert_eq!(done, "third: maintenance ended\nthird: drain ended");
    assert_eq!(operator.ready("cache").unwrap(), "check:cache: maintenance ended");
    let back = adopt(more);
    assert_eq!(state(&back, "third"), EndpointWord::Up);
}

/// A state file of an instance that crashed after the end.
#[test]
fn the_end_of_a_limited_drain_is_saved() {
    let path = std::env::temp_dir().join(format!("doorbell-ended-{}", std::process::id()));
    let (operator, registry) = operator_kept_in(&path);
    operator.drain("second", "fans", Some(Duration::ZERO), true).unwrap();
    operator.maintain("readyz", "disks", Some(Duration::ZERO)).unwrap();
    operator.expire_due();
    drop((operator, registry));
    let kept = StateFile::new(&path).load().unwrap();
    assert_eq!((kept.drains.len(), kept.maintenance.len()), (0, 0), "{kept:?}");
    std::fs::remove_file(&path).unwrap();
}
