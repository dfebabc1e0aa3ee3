//! What operators want against what endpoints then answer, without a server.
//!
//! Does not know about: sockets, signals.

use super::*;
use crate::config::{Source, parse};
use crate::serve::lifecycle::Supervisor;
use crate::serve::watch::{Look, Watched as _};
use crate::wire::{EndpointView, EndpointWord, Lifecycle};

fn keeper() -> Arc<Keeper> {
    let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1h\"\n\
                [health.readyz]\nrequire = []\n[health.second]\nrequire = [\"db\"]\n";
    let source = Source { name: "f".to_owned(), text: text.to_owned() };
    Keeper::build(&parse(&source, &|_| None).config.unwrap()).unwrap()
}

fn operator() -> (Operator, Arc<Keeper>) {
    let operator = Operator::new(Supervisor::without_signals().notes());
    let keeper = keeper();
    operator.prepare(&keeper);
    operator.adopt(&keeper);
    (operator, keeper)
}

fn endpoint(keeper: &Keeper, name: &str) -> EndpointView {
    keeper.endpoints().into_iter().find(|endpoint| endpoint.name == name).unwrap()
}

fn state(keeper: &Keeper, name: &str) -> EndpointWord {
    endpoint(keeper, name).state
}

#[test]
fn a_drain_is_answered_before_the_call_returns_and_called_off_the_same_way() {
    let (operator, keeper) = operator();
    operator.drain("new kernel").unwrap();
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Drain);
    assert_eq!(
        (operator.status().lifecycle, operator.status().reason),
        (Lifecycle::Draining, "new kernel".into())
    );
    let later = self::keeper();
    operator.prepare(&later);
    operator.adopt(&later);
    assert_eq!(state(&later, "readyz"), EndpointWord::Drain, "a new board drains, too");
    operator.undrain().unwrap();
    assert_eq!([state(&keeper, "readyz"), state(&later, "readyz")], [EndpointWord::Up; 2]);
    let (events, missed) = operator.events_since(0);
    assert_eq!(missed, 0);
    assert!(events.iter().any(|event| matches!(
        &event.what,
        Happening::Lifecycle { to: Lifecycle::Draining, reason, .. } if reason == "new kernel"
    )));
    assert!(events.iter().any(|event| matches!(
        &event.what,
        Happening::Endpoint { name, to: EndpointWord::Drain, .. } if name == "readyz"
    )));
}

#[test]
fn a_stop_is_called_off_by_undrain_until_it_closes() {
    let (operator, keeper) = operator();
    assert!(operator.begin_stop("SIGTERM") && !operator.let_time_pass());
    assert!(!operator.begin_stop("SIGTERM"), "begun already");
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Drain);
    assert!(operator.idle_for().is_some());
    operator.undrain().unwrap();
    assert_eq!(operator.idle_for(), None);
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Up);
    operator.close("SIGINT");
    assert!(!operator.let_time_pass(), "listeners are closed already");
    for refused in [operator.undrain(), operator.drain("")] {
        assert_eq!(refused.unwrap_err().kind, RefusalKind::TooLate);
    }
}

#[test]
fn maintenance_holds_for_what_was_named() {
    let (operator, keeper) = operator();
    operator.maintain("second", "disks", None).unwrap();
    assert_eq!(
        (state(&keeper, "second"), endpoint(&keeper, "second").note),
        (EndpointWord::Maintenance, "disks".into())
    );
    assert_eq!([state(&keeper, "readyz"), state(&keeper, "livez")], [EndpointWord::Up; 2]);
    operator.maintain("all", "everything", None).unwrap();
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Maintenance);
    assert_eq!(state(&keeper, "livez"), EndpointWord::Up, "or the kubelet would kill the process");
    assert_eq!(endpoint(&keeper, "second").note, "disks", "what was said of it stays");
    operator.ready("second").unwrap();
    assert_eq!(endpoint(&keeper, "second").note, "everything");
    operator.maintain("livez", "on purpose", None).unwrap();
    assert_eq!(state(&keeper, "livez"), EndpointWord::Maintenance);
    operator.drain("").unwrap();
    operator.ready("all").unwrap();
    assert_eq!(operator.status().maintenance, []);
    assert_eq!([state(&keeper, "readyz"), state(&keeper, "livez")], [EndpointWord::Up; 2]);
    assert_eq!(state(&keeper, "second"), EndpointWord::Down, "by its check");
    operator.maintain("db", "", None).unwrap();
    assert_eq!(operator.status().maintenance[0].target, "check:db");
    assert_eq!(state(&keeper, "second"), EndpointWord::Maintenance);
    assert_eq!(operator.maintain("dbs", "", None).unwrap_err().kind, RefusalKind::NotFound);
}

#[test]
fn maintenance_ends_by_itself() {
    let (operator, keeper) = operator();
    operator.maintain("readyz", "short", Some(Duration::ZERO)).unwrap();
    operator.maintain("second", "long", Some(Duration::from_secs(3600))).unwrap();
    assert!(!operator.let_time_pass());
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Up);
    assert_eq!(state(&keeper, "second"), EndpointWord::Maintenance);
    let left = operator.idle_for().unwrap();
    assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
}

#[test]
fn without_a_hook_a_reload_says_so() {
    let (operator, _keeper) = operator();
    assert_eq!(operator.reload().unwrap_err().kind, RefusalKind::NotSupported);
    operator.on_reload(|| Err("line 3".to_owned()));
    assert_eq!(operator.reload().unwrap_err(), Refusal::new(RefusalKind::Failed, "line 3"));
    let (events, _) = operator.events_since(0);
    let last = &events.last().unwrap().what;
    assert_eq!(*last, Happening::Reload { ok: false, text: "line 3".to_owned() });
}

#[test]
fn what_was_declared_is_there_after_a_restart() {
    let path = std::env::temp_dir().join(format!("doorbell-operator-{}", std::process::id()));
    let start = || {
        let operator = Operator::new(Supervisor::without_signals().notes());
        operator.keep_in(&path);
        let keeper = keeper();
        operator.prepare(&keeper);
        operator.adopt(&keeper);
        (operator, keeper)
    };
    let (operator, _keeper) = start();
    assert!(!operator.maintain("second", "disks", None).unwrap().contains("not kept"));
    operator.maintain("livez", "over soon", Some(Duration::from_secs(9))).unwrap();
    operator.drain("kernel").unwrap();
    let (operator, keeper) = start();
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Drain, "before anybody asks");
    assert_eq!(operator.status().reason, "kernel");
    operator.undrain().unwrap();
    assert_eq!(endpoint(&keeper, "second").note, "disks");
    let mut store = Store::new(&path);
    let mut kept = store.load().unwrap();
    kept.moment.since_boot_ms -= 10_000;
    store.save(&kept).unwrap();
    let (operator, keeper) = start();
    assert_eq!(state(&keeper, "livez"), EndpointWord::Up, "over while nothing ran");
    assert_eq!(endpoint(&keeper, "second").note, "disks");
    operator.ready("all").unwrap();
    let (operator, _keeper) = start();
    assert_eq!((operator.status().maintenance, operator.status().lifecycle), (vec![], Lifecycle::Starting));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn files_declare_maintenance_until_they_are_gone() {
    let folder = std::env::temp_dir().join(format!("doorbell-files-{}", std::process::id()));
    let (operator, keeper) = operator();
    let mut files = MaintenanceFiles::new(&folder, &operator);
    assert_eq!(files.look(), Look::Same, "no directory, no maintenance");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("second"), "new disks\nsecond line\n").unwrap();
    std::fs::write(folder.join("nobody"), "").unwrap();
    std::fs::write(folder.join(".hidden"), "").unwrap();
    assert_eq!(files.look(), Look::Changed("nobody, second".to_owned()));
    assert_eq!(endpoint(&keeper, "second").note, "new disks");
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Up);
    assert!(operator.ready("second").unwrap().contains("still in maintenance by a file"));
    operator.maintain("second", "said", None).unwrap();
    assert_eq!(endpoint(&keeper, "second").note, "said", "an operator speaks first");
    operator.ready("second").unwrap();
    std::fs::write(folder.join("all"), "").unwrap();
    files.look();
    assert_eq!(state(&keeper, "readyz"), EndpointWord::Maintenance);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(files.look(), Look::Changed("none any more".to_owned()));
    assert_eq!([state(&keeper, "readyz"), state(&keeper, "second")], [EndpointWord::Up, EndpointWord::Down]);
}
