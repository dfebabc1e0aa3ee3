//! Rejected configurations: no part of them takes effect, each is reported once with its position,
//! and fixed keys are reported by name.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::generations::{Reloaded, ask, config};
use crate::support::{LIMIT, Scratch, free_port, on_auto};

on_auto! {
    nothing_of_a_rejected_file_takes_effect
    an_address_in_use_rejects_the_file
    an_invalid_file_is_reported_once_with_its_position
    a_failed_reload_is_shown_until_one_succeeds
    the_former_content_ends_a_failed_reload
    an_unreadable_file_keeps_the_current_configuration
    unused_threads_keep_their_settings
}

const READY: &str = "[route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n";

fn threads(reloaded: &Reloaded) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", reloaded.doorbell.process.pid())).unwrap();
    // A thread may exit while its name is read.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

fn a_failed_reload_is_shown_until_one_succeeds(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let shown = || (reloaded.status()["refused_reload"].clone(), reloaded.say(&["status"]));
    assert!(shown().0.is_null());
    reloaded.write("1", "[nothing]\n");
    for round in 0..2 {
        assert!(!reloaded.run(&["reload"]).status.success());
        let (refused, said) = shown();
        assert!(refused["reason"].as_str().is_some_and(|why| why.contains("nothing")), "{round}: {refused}");
        assert!(said.contains("failed ") && said.contains("has an error"), "{round}: {said}");
    }
    reloaded.write("1", "");
    reloaded.say(&["reload"]);
    let (refused, said) = shown();
    assert!(refused.is_null() && !said.contains("reload  "), "{refused} {said}");
}

/// The watched file gets an error, and then its former content.
fn the_former_content_ends_a_failed_reload(engine: &str) {
    let scratch = Scratch::new();
    let text = config(&scratch.path(""), "1", "").replace("reload = \"SIGHUP\"", "reload = \"file\"");
    let reloaded = Reloaded::start_in(scratch, engine, &text);
    let is_refused = || !reloaded.status()["refused_reload"].is_null();
    fs::write(&reloaded.file, format!("{text}[nothing]\n")).unwrap();
    wait_until(LIMIT, is_refused).expect("the file is watched");
    fs::write(&reloaded.file, text).unwrap();
    wait_until(LIMIT, || !is_refused()).expect("the file is as it was");
}

/// Everything in the file is built before one of its addresses turns out to be in use.
fn nothing_of_a_rejected_file_takes_effect(engine: &str) {
    let reloaded = Reloaded::start(engine, READY);
    let (stranger, target) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    target.set_nonblocking(true).unwrap();
    let path = |name: &str| reloaded.scratch.path(name);
    let (gate, probes) = (free_port(), free_port());
    fs::write(path("links.map"), "/a https://a.test/\n").unwrap();
    let more = format!(
        "{READY}[log]\naccess = \"all\"\naccess_file = {:?}\n[compute]\nthreads = 2\nname = \"refused\"\n\
         [[maintenance.window]]\ncron = \"* * * * *\"\nfor = \"1h\"\nreason = \"weekly\"\n\
         [check.other]\ntype = \"tcp\"\naddress = \"{}\"\ninterval = \"100ms\"\n\
         [tcp_gate.g]\nbind = \"127.0.0.1:{gate}\"\nwhen_down = \"reset\"\n[blackbox]\nbind = \"127.0.0.1:{probes}\"\ntargets = [\"127.0.0.0/8\"]\n\
         [agent.a]\nbind = \"127.0.0.1:0\"\n[listener.unix]\nbind = \"unix:{}\"\n\
         [route.links]\nlistener = \"unix\"\npath = \"/{{*rest}}\"\nredirect = {{ map = {:?} }}\n\
         [listener.more]\nbind = \"{}\"\n",
        path("access.log"),
        target.local_addr().unwrap(),
        path("new.sock").display(),
        path("links.map"),
        stranger.local_addr().unwrap(),
    );
    let text = config(&path(""), "bad", &more);
    let text = text.replace("path = \"/hello\"", "listener = \"web\"\npath = \"/hello\"");
    let text = text.replace("path = \"/readyz\"", "listener = \"web\"\npath = \"/readyz\"");
    fs::write(&reloaded.file, &text).unwrap();
    let fds = reloaded.doorbell.fds_at_rest();
    for _ in 0..3 {
        let output = reloaded.run(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("address in use"), "{said}");
    }
    let (status, body) = ask(reloaded.doorbell.addr, "/readyz");
    assert_eq!((status, reloaded.hello().as_str()), (200, "0"), "{body}");
    let state = reloaded.status();
    assert_eq!((&state["maintenance"], &state["generation"]), (&Value::Array(Vec::new()), &1.into()));
    for name in ["access.log", "new.sock"] {
        assert!(!path(name).exists(), "{name} must not exist");
    }
    for port in [gate, probes] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port} is open");
    }
    assert_eq!(
        target.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "no check of the rejected file may run"
    );
    // The threads of the rejected configuration exit in the background.
    let are_gone = || !threads(&reloaded).iter().any(|name| name.starts_with("refused"));
    assert!(wait_until(LIMIT, are_gone).is_some(), "{:?}", threads(&reloaded));
    assert_eq!(reloaded.doorbell.fds_at_rest(), fds);
    // Names in commands refer to the current configuration.
    assert_eq!(reloaded.run(&["maint", "check:other"]).status.code(), Some(1));
    // Once the address is free, the whole file takes effect.
    drop(stranger);
    reloaded.say(&["reload"]);
    assert_eq!((reloaded.hello().as_str(), ask(reloaded.doorbell.addr, "/readyz").0), ("bad", 503));
    assert_eq!(reloaded.status()["maintenance"][0]["reason"], "weekly");
    assert!(path("access.log").exists() && path("new.sock").exists());
    assert!(threads(&reloaded).iter().any(|name| name.starts_with("refused")));
    assert!(wait_until(LIMIT, || target.accept().is_ok()).is_some());
}

/// An address in use also rejects the file if it belongs to a port outside the workers. Open ports
/// stay open.
fn an_address_in_use_rejects_the_file(engine: &str) {
    let ports = [free_port(), free_port()];
    let [gate, probes] = ports;
    let open = format!(
        "{READY}[tcp_gate.g]\nbind = \"127.0.0.1:{gate}\"\n[blackbox]\nbind = \"127.0.0.1:{probes}\"\ntargets = [\"127.0.0.0/8\"]\n"
    );
    let reloaded = Reloaded::start(engine, &open);
    let are_open = || ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok());
    assert!(wait_until(LIMIT, are_open).is_some());
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = stranger.local_addr().unwrap();
    let own = format!("bind = \"127.0.0.1:{gate}\"");
    let other = format!("bind = \"127.0.0.1:{probes}\"");
    for (was, table) in [(&own, "[tcp_gate.g]"), (&other, "[blackbox]")] {
        let both = format!("bind = [\"{taken}\", {}]", was.trim_start_matches("bind = "));
        reloaded.write("bad", &open.replace(was, &both));
        let output = reloaded.run(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("cannot bind {taken} of {table}: address in use")), "{said}");
        assert!(are_open() && reloaded.hello() == "0");
    }
    drop(stranger);
    let both = format!("bind = [\"{taken}\", {}]", own.trim_start_matches("bind = "));
    reloaded.write("good", &open.replace(&own, &both));
    reloaded.say(&["reload"]);
    assert!(are_open() && reloaded.hello() == "good");
    assert!(wait_until(LIMIT, || TcpStream::connect(taken).is_ok()).is_some());
}

fn an_invalid_file_is_reported_once_with_its_position(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let file = &reloaded.file;
    let good = |hello: &str| {
        config(&reloaded.scratch.path(""), hello, "")
            .replace("reload = \"SIGHUP\"", "reload = [\"SIGHUP\", \"file\"]")
    };
    fs::write(file, good("1")).unwrap();
    // The file is watched from this reload on.
    reloaded.say(&["reload"]);
    let log = || reloaded.doorbell.process.log();
    let failures = || log().matches("reload failed").count();
    let whole = good("2");
    let half = &whole[..whole.find("[route.hello]").unwrap() + 8];
    for (at, (text, expected)) in [
        (None, "no such file"),
        (Some(""), "doorbell.toml:1:1"),
        (Some("version = 1\n[listener.web]\nbind = 8080\n"), "doorbell.toml:3:8"),
        (Some(half), "doorbell.toml:"),
    ]
    .into_iter()
    .enumerate()
    {
        match text {
            Some(text) => fs::write(file, text).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
        assert!(wait_until(LIMIT, || failures() == at + 1).is_some(), "{text:?}: {}", log());
        let log = log();
        let line = log.lines().filter(|line| line.contains("reload failed")).nth(at).unwrap();
        assert!(line.contains(expected), "{text:?}: {line}");
        assert_eq!(reloaded.hello(), "1", "{text:?}");
    }
    // A directory at this path cannot be read as a file.
    fs::remove_file(file).unwrap();
    assert!(wait_until(LIMIT, || failures() == 5).is_some(), "{}", log());
    fs::create_dir(file).unwrap();
    assert!(wait_until(LIMIT, || failures() == 6 && log().contains("is a directory")).is_some(), "{}", log());
    // Further polls log nothing; a reload signal reports the error again.
    thread::sleep(Duration::from_millis(5500));
    assert_eq!((failures(), reloaded.hello().as_str()), (6, "1"), "{}", log());
    reloaded.doorbell.process.signal(Signal::HUP);
    assert!(wait_until(LIMIT, || failures() == 7).is_some(), "{}", log());
    fs::remove_dir(file).unwrap();
    assert!(wait_until(LIMIT, || failures() == 8).is_some(), "{}", log());
    fs::write(file, good("2")).unwrap();
    assert!(wait_until(LIMIT, || reloaded.hello() == "2").is_some(), "{}", log());
    assert_eq!(failures(), 8, "{}", log());
}

/// The path becomes a directory, a dangling link, and a link to itself. The current configuration
/// stays in use, and command, log and metrics report the failure.
fn an_unreadable_file_keeps_the_current_configuration(engine: &str) {
    let reloaded = Reloaded::start(engine, "[admin]\nbind = \"127.0.0.1:0\"\n");
    let (file, admin) = (&reloaded.file, reloaded.doorbell.addr_of(1));
    let is_as_metrics_say = |successful: u32, failed: u32| {
        let (_, text) = ask(admin, "/metrics");
        let has = |line: String| text.lines().any(|found| found == line);
        has(format!("doorbell_config_last_reload_successful {successful}.0"))
            && has(format!("doorbell_config_reloads_total{{result=\"failed\"}} {failed}.0"))
    };
    assert!(is_as_metrics_say(1, 0), "{}", ask(admin, "/metrics").1);
    let whole = fs::read(file).unwrap();
    let makes: [(&str, &dyn Fn()); 3] = [
        ("is a directory", &|| fs::create_dir(file).unwrap()),
        ("no such file", &|| symlink(reloaded.scratch.path("nowhere"), file).unwrap()),
        ("symbolic link", &|| symlink(file, file).unwrap()),
    ];
    for (at, (why, make)) in (1..).zip(makes) {
        fs::remove_file(file).unwrap();
        make();
        let output = reloaded.run(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.to_lowercase().contains(why), "{why}: {said}");
        assert!(said.contains("doorbell.toml"), "{said}");
        // The log line may appear a few milliseconds after the reply.
        let is_logged = || {
            let log = reloaded.doorbell.process.log();
            let line = log.lines().filter(|line| line.contains("reload failed")).nth(at - 1);
            line.is_some_and(|line| line.to_lowercase().contains(why))
        };
        assert!(wait_until(LIMIT, is_logged).is_some(), "{}", reloaded.doorbell.process.log());
        assert!(is_as_metrics_say(0, u32::try_from(at).unwrap()), "{}", ask(admin, "/metrics").1);
        assert_eq!((reloaded.hello().as_str(), &reloaded.status()["generation"]), ("0", &1.into()));
        if file.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir(file).unwrap();
            fs::write(file, "").unwrap();
        }
    }
    fs::remove_file(file).unwrap();
    fs::write(file, &whole).unwrap();
    reloaded.write("1", "[admin]\nbind = \"127.0.0.1:0\"\n");
    reloaded.say(&["reload"]);
    assert!(is_as_metrics_say(1, 3), "{}", ask(admin, "/metrics").1);
    assert_eq!(reloaded.hello(), "1");
}

/// The threads exist from their first use on. Later settings have no effect, which must be
/// reported.
fn unused_threads_keep_their_settings(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let map = reloaded.scratch.write("links.map", "/a https://a.test/\n");
    let links = format!("[route.links]\npath = \"/{{*rest}}\"\nredirect = {{ map = {map:?} }}\n");
    let compute = |threads: u32| format!("[compute]\nthreads = {threads}\nname = \"jobs\"\n");
    let count = || threads(&reloaded).iter().filter(|name| name.starts_with("jobs")).count();
    let reload = |hello: &str, more: &str| {
        reloaded.write(hello, more);
        let said = reloaded.say(&["reload"]);
        assert_eq!(reloaded.hello(), hello);
        said.contains("compute.threads cannot change while doorbell runs")
    };
    assert!(!reload("1", &compute(3)), "no threads exist yet");
    assert!(!reload("2", &format!("{}{links}", compute(2))));
    assert_eq!(count(), 2);
    assert!(!reload("3", &compute(2)));
    // This configuration does not need the threads, but they still run.
    assert!(reload("4", &compute(1)), "the change must be reported");
    assert!(reload("5", &format!("{}{links}", compute(1))));
    assert_eq!((count(), ask(reloaded.doorbell.addr, "/a").0), (2, 308));
    let is_logged = || reloaded.doorbell.process.log().contains("compute.threads cannot change");
    assert!(wait_until(LIMIT, is_logged).is_some(), "the change must be logged");
}
