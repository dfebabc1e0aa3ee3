//! Drains and maintenance across restarts and with damaged state files; and maintenance by files.
//!
//! Does not know about: other commands; kills and full disks (`kills`).

use std::fs;
use std::process::Command;

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::control::{Controlled, config};
use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto};

on_auto! {
    maintenance_survives_a_restart_and_ends_by_itself
    a_drain_survives_a_restart
    the_state_directory_of_systemd_is_used
    files_declare_maintenance
    a_liveness_endpoint_of_the_app_depends_on_the_app_only
}

pub(crate) const STATE: &str = "[lifecycle]\ndrain_delay = \"0s\"\nstate_file = \"SCRATCH/state\"\n";

/// Stops with SIGTERM, as systemd does, and starts again.
fn restart(mut control: Controlled, engine: &str) -> Controlled {
    control.doorbell.process.signal(Signal::TERM);
    control.doorbell.process.wait();
    Controlled::start_in(control.scratch, engine, STATE)
}

fn maintenance_survives_a_restart_and_ends_by_itself(engine: &str) {
    let control = Controlled::start(engine, STATE);
    let said = control.say(&["maint", "readyz", "--reason", "new disks", "--for", "3s"]);
    assert!(!said.contains("not kept"), "{said}");
    let control = restart(control, engine);
    assert_eq!(control.probe("/readyz").0, 503, "maintenance must apply from the first probe on");
    assert_eq!(control.status()["maintenance"][0]["reason"], "new disks");
    wait_until(LIMIT, || control.probe("/readyz").0 == 200).expect("maintenance must end after its duration");
    assert!(control.say(&["events"]).contains("readyz: out of maintenance by operator"));
    let control = restart(control, engine);
    assert_eq!(control.probe("/readyz").0, 200, "maintenance must not come back");
}

fn a_drain_survives_a_restart(engine: &str) {
    let control = Controlled::start(engine, STATE);
    control.say(&["drain", "--reason", "kernel"]);
    let control = restart(control, engine);
    assert_eq!(control.probe("/readyz").0, 503);
    assert_eq!(control.status()["reason"], "kernel");
    control.say(&["undrain"]);
    let control = restart(control, engine);
    assert_eq!((control.probe("/readyz").0, &control.status()["lifecycle"]), (200, &"ready".into()));
}

/// The configuration does not set `state_file`.
fn the_state_directory_of_systemd_is_used(engine: &str) {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("lib")).unwrap();
    let file = scratch.write("doorbell.toml", &config(&scratch, ""));
    let start = || {
        let mut command = Command::new(binary());
        command.args(["serve", "--driver", engine, "-c", &file]).env("STATE_DIRECTORY", scratch.path("lib"));
        Doorbell::try_start_command(&mut command).unwrap()
    };
    let say = |args: &[&str]| {
        let output =
            Command::new(binary()).args(args).arg("--socket").arg(scratch.path("control.sock")).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let mut doorbell = start();
    let said = say(&["maint", "readyz", "--reason", "new disks"]);
    assert!(!said.contains("not kept"), "{said}");
    doorbell.process.signal(Signal::TERM);
    doorbell.process.wait();
    let _again = start();
    assert!(say(&["status"]).contains("readyz: new disks"), "{}", say(&["status"]));
    assert!(scratch.path("lib/state").is_file());
}

fn files_declare_maintenance(engine: &str) {
    let control = Controlled::start(engine, "[maintenance]\nfile_dir = \"SCRATCH/maint\"\n");
    assert_eq!(control.probe("/readyz").0, 200);
    fs::create_dir(control.scratch.path("maint")).unwrap();
    fs::write(control.scratch.path("maint/all"), "rolling kernels\n").unwrap();
    wait_until(LIMIT, || control.probe("/readyz").0 == 503).expect("a new file must start maintenance");
    assert_eq!(control.probe("/livez").0, 200);
    let held = &control.status()["maintenance"][0];
    assert_eq!((&held["source"], &held["reason"]), (&"file".into(), &"rolling kernels".into()));
    assert!(control.say(&["ready"]).contains("still in maintenance by a file"));
    let control =
        Controlled::start_in(control.kill(), engine, "[maintenance]\nfile_dir = \"SCRATCH/maint\"\n");
    assert_eq!(
        control.probe("/readyz").0,
        503,
        "a file created while doorbell was stopped must apply from the first probe on"
    );
    fs::remove_file(control.scratch.path("maint/all")).unwrap();
    wait_until(LIMIT, || control.probe("/readyz").0 == 200)
        .expect("the removal of the file must end maintenance");
}

/// As in the Kubernetes file, the endpoint is named `livez`. Drains and maintenance do not affect
/// it, because a failing liveness probe would restart the app.
fn a_liveness_endpoint_of_the_app_depends_on_the_app_only(engine: &str) {
    let output = Command::new(binary()).args(["config", "init", "k8s"]).output().unwrap();
    let file = String::from_utf8(output.stdout).unwrap();
    let from = file.find("[health.livez]").unwrap();
    let app = "[check.app]\ntype = \"file\"\npath = \"SCRATCH/app\"\ninterval = \"100ms\"\n";
    let control = Controlled::start(engine, &format!("{app}{}", &file[from..]));
    let now = || ["/livez", "/app/livez", "/readyz"].map(|path| control.probe(path).0);
    fs::write(control.scratch.path("app"), "").unwrap();
    wait_until(LIMIT, || now() == [200, 200, 200]).expect("all endpoints must be up");
    control.say(&["drain"]);
    assert_eq!(now(), [200, 200, 503]);
    control.say(&["undrain"]);
    control.say(&["maint"]);
    assert_eq!(now(), [200, 200, 503]);
    control.say(&["ready"]);
    assert_eq!(now(), [200, 200, 200]);
    fs::remove_file(control.scratch.path("app")).unwrap();
    wait_until(LIMIT, || now() == [200, 503, 503])
        .expect("a hanging app must fail the endpoints that require it");
}

#[test]
fn a_window_of_the_configuration_is_maintenance_while_it_is_open() {
    let window = |cron: &str| {
        format!("[[maintenance.window]]\ncron = \"{cron}\"\nfor = \"5m\"\nreason = \"weekly patch\"\n")
    };
    let control = Controlled::start("epoll", &window("* * * * * UTC"));
    assert_eq!((control.probe("/readyz").0, control.probe("/livez").0), (503, 200));
    let held = control.status()["maintenance"][0].clone();
    assert_eq!((&held["source"], &held["reason"]), (&"window".into(), &"weekly patch".into()));
    assert!(held["left_ms"].as_u64().unwrap() > 200_000, "{held}");
    assert!(control.say(&["ready"]).contains("maintenance window ended early"));
    // This window is open on 29 February only.
    let control = Controlled::start_in(control.kill(), "epoll", &window("0 0 29 2 * UTC"));
    assert_eq!(control.probe("/readyz").0, 200);
}

#[test]
fn a_damaged_state_is_set_aside_and_logged_once() {
    let control = Controlled::start("epoll", STATE);
    control.say(&["maint", "readyz"]);
    let scratch = control.kill();
    let state = scratch.path("state");
    let whole = fs::read(&state).unwrap();
    for (round, bytes) in [&whole[..whole.len() / 2], b"", b"{\"json\": true}"].into_iter().enumerate() {
        fs::write(&state, bytes).unwrap();
        let doorbell = Doorbell::start_with("epoll", &config(&scratch, STATE));
        let log = doorbell.process.log();
        assert_eq!(log.matches("; set aside as").count(), 1, "round {round}: {log}");
        assert_eq!(fs::read(scratch.path("state.damaged")).unwrap(), bytes);
        assert!(!state.exists());
    }
    let control = Controlled::start_in(scratch, "epoll", STATE);
    assert!(!control.doorbell.process.log().contains("set aside"), "{}", control.doorbell.process.log());
    assert_eq!(control.probe("/readyz").0, 200);
    // A file of a later version is also set aside.
    let mut foreign = whole;
    foreign[8] = 7;
    let scratch = control.kill();
    fs::write(&state, &foreign).unwrap();
    let control = Controlled::start_in(scratch, "epoll", STATE);
    assert_eq!(fs::read(control.scratch.path("state.foreign")).unwrap(), foreign);
    let log = control.doorbell.process.log();
    assert!(log.contains("the file has version 7, this program supports version 3"), "{log}");
}

#[test]
fn two_instances_do_not_share_a_file() {
    let first = Controlled::start("epoll", STATE);
    first.say(&["maint", "readyz", "--reason", "of the first"]);
    let path = first.scratch.path("state");
    let shared = STATE.replace("SCRATCH/state", path.to_str().unwrap());
    let second = Controlled::start("epoll", &shared);
    let log = second.doorbell.process.log();
    assert!(log.contains(&format!("state file {} is in use by another instance", path.display())), "{log}");
    assert_eq!(second.probe("/readyz").0, 200, "the state belongs to the other instance");
    let said = second.say(&["drain"]);
    assert!(said.contains("not kept across restarts: the state file"), "{said}");
    let first = restart(first, "epoll");
    assert_eq!(first.status()["maintenance"][0]["reason"], "of the first");
    assert_eq!(first.status()["lifecycle"], "ready");
}

#[test]
fn an_unwritable_path_is_reported_by_validate() {
    let scratch = Scratch::new();
    let path = scratch.write("state", "");
    for (name, expected) in [("state", true), ("state/state", false), ("new/state", true), ("", false)] {
        let place = if name.is_empty() { "/dev".to_owned() } else { path.replace("state", name) };
        let file = scratch.write("f.toml", &format!("version = 1\n[lifecycle]\nstate_file = {place:?}\n"));
        let output = Command::new(binary()).args(["validate", "-c", &file]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(!said.contains("unwritable-state"), expected, "{name}: {said}");
        assert!(expected || said.contains(&format!("{place:?} cannot be written: ")), "{said}");
    }
}

#[test]
fn a_state_that_cannot_be_written_is_reported_and_stops_nothing() {
    let state = STATE.replace("SCRATCH/state", "/dev/full/state");
    let control = Controlled::start("epoll", &state);
    let log = control.doorbell.process.log();
    assert!(log.contains("cannot write /dev/full/state"), "the failure must be logged at the start: {log}");
    let said = control.say(&["maint", "readyz"]);
    assert!(said.contains("not kept across restarts: "), "{said}");
    assert_eq!(control.probe("/readyz").0, 503, "maintenance must take effect although it cannot be saved");
    control.say(&["maint", "readyz", "--reason", "again"]);
    control.say(&["ready"]);
    let log = control.doorbell.process.log();
    assert_eq!(log.matches("a restart would restore the state before the last change").count(), 1, "{log}");
    assert_eq!(control.probe("/readyz").0, 200);
}
