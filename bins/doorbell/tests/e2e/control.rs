//! Operator commands against a running instance. Also sockets in use, stale sockets, and peers with
//! another protocol version.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use doorbell_testkit::peers::{Reply, exchange, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto, on_both_engines};

on_both_engines! { every_command_works }

on_auto! {
    the_next_probe_after_a_command_sees_it
    a_stop_can_be_cancelled_until_listeners_close
    events_are_followed_to_the_end
    the_last_event_reaches_followers
}

/// An instance with its own control socket.
pub(crate) struct Controlled {
    pub(crate) doorbell: Doorbell,
    pub(crate) socket: PathBuf,
    pub(crate) scratch: Scratch,
}

impl Controlled {
    /// Starts an instance with `more` in its configuration. `SCRATCH` stands for the folder of the
    /// test.
    pub(crate) fn start(engine: &str, more: &str) -> Self {
        Self::start_in(Scratch::new(), engine, more)
    }

    pub(crate) fn start_in(scratch: Scratch, engine: &str, more: &str) -> Self {
        let socket = scratch.path("control.sock");
        let doorbell = Doorbell::start_with(engine, &config(&scratch, more));
        Self { doorbell, socket, scratch }
    }

    /// Runs a command against this instance.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        run_at(&self.socket, args)
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn say(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}\n{}", self.doorbell.process.log());
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.say(&["status", "-o", "json"])).unwrap()
    }

    /// Returns status code and body of a probe.
    pub(crate) fn probe(&self, path: &str) -> (u16, String) {
        let got = exchange(self.doorbell.addr, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let reply = Reply::parse(&got.bytes, false).unwrap();
        (reply.status, String::from_utf8(reply.body).unwrap())
    }

    pub(crate) fn kill(mut self) -> Scratch {
        self.doorbell.process.signal(Signal::KILL);
        self.doorbell.process.wait();
        self.scratch
    }
}

pub(crate) fn config(scratch: &Scratch, more: &str) -> String {
    let folder = scratch.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let lifecycle = if more.contains("[lifecycle]") { "" } else { "[lifecycle]\ndrain_delay = \"0s\"\n" };
    format!(
        "version = 1\n[listener.probes]\nbind = \"127.0.0.1:0\"\n[control]\nsocket = \"{folder}/control.sock\"\n\
         {lifecycle}{}",
        more.replace("SCRATCH", folder)
    )
}

fn run_at(socket: &Path, args: &[&str]) -> Output {
    Command::new(binary()).args(args).arg("--socket").arg(socket).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const CHECKS: &str = "[check.self]\ntype = \"file\"\npath = \"/proc/self/status\"\ninterval = \"1h\"\nrise = 1\n\
                      [check.beat]\ntype = \"ttl\"\nttl = \"1h\"\nseverity = \"info\"\n\
                      [check.asked]\ntype = \"file\"\npath = \"/proc/self/status\"\ncache = \"1h\"\nmax_age = \"10h\"\n";

fn every_command_works(engine: &str) {
    let mut control = Controlled::start(engine, CHECKS);
    wait_until(LIMIT, || control.status()["checks"]["up"] == 2).expect("checks must run at the start");
    let status = control.status();
    assert_eq!(status["lifecycle"], "ready");
    assert_eq!(status["pid"].to_string(), control.doorbell.process.pid());
    let driver = status["workers"][0]["driver"].as_str().unwrap();
    assert!(["epoll", "io_uring"].contains(&driver), "{driver}");
    assert_eq!(status["addresses"][0], control.doorbell.addr.to_string());
    let text = control.say(&["status"]);
    assert!(text.starts_with("doorbell ") && text.contains("ready for") && text.contains("readyz"), "{text}");
    assert!(!text.contains('\x1b'), "no colors without a terminal: {text:?}");
    assert!(control.say(&["status", "-o", "wide"]).contains("conns_accepted"));

    let checks = control.say(&["checks"]);
    assert!(checks.starts_with("CHECK  TYPE  STATE") && checks.contains("on push"), "{checks}");
    assert!(checks.lines().any(|line| line.starts_with("asked") && line.contains("on demand")), "{checks}");
    let runs = || {
        let checks: Value =
            serde_json::from_str(&control.say(&["checks", "self", "--history", "-o", "json"])).unwrap();
        checks[0]["history"].as_array().unwrap().len()
    };
    let before = runs();
    control.say(&["checks", "self", "--run"]);
    assert_eq!(runs(), before + 1, "`--run` must start a run before the interval has passed");
    assert!(said(&control.run(&["checks", "beat", "--run"])).contains("its results are pushed"));
    let missing = control.run(&["checks", "nix"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).contains("unknown check \"nix\""), "{}", said(&missing));
    control.say(&["probers"]);

    control.say(&["maint", "--reason", "weekly patch", "--for", "30m"]);
    assert_eq!((control.probe("/readyz").0, control.probe("/livez").0), (503, 200));
    assert!(control.say(&["status"]).contains("all: weekly patch (operator, 29m"));
    control.say(&["ready"]);
    assert_eq!(control.probe("/readyz").0, 200);
    control.say(&["maint", "self"]);
    assert_eq!(control.status()["maintenance"][0]["target"], "check:self");
    control.say(&["ready", "self"]);
    assert_eq!(control.run(&["maint", "nobody"]).status.code(), Some(1));
    assert_eq!(control.run(&["maint", "--for", "soon"]).status.code(), Some(2));

    let log = control.say(&["events"]);
    for line in ["starting -> ready", "check self: unknown -> up", "all: in maintenance by operator until"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(control.say(&["quit", "--wait"]).contains("draining"));
    assert!(control.doorbell.process.has_ended(), "`quit --wait` must return after the exit");
    let (status, _) = control.doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", control.doorbell.process.log());
    let gone = control.run(&["status"]);
    assert_eq!(gone.status.code(), Some(69));
    assert!(said(&gone).contains("no control socket at"), "{}", said(&gone));
    assert!(!control.socket.exists(), "the socket must be removed");
}

fn the_next_probe_after_a_command_sees_it(engine: &str) {
    let control = Controlled::start(engine, "");
    for round in 0..20 {
        control.say(&["drain", "--reason", "kernel"]);
        let done = Instant::now();
        assert_eq!(control.probe("/readyz").0, 503, "round {round}: {:?} after the reply", done.elapsed());
        control.say(&["undrain"]);
        assert_eq!(control.probe("/readyz").0, 200, "round {round}");
    }
    assert_eq!(control.status()["lifecycle"], "ready");
}

fn a_stop_can_be_cancelled_until_listeners_close(engine: &str) {
    let mut control = Controlled::start(engine, "[lifecycle]\ndrain_delay = \"1h\"\n");
    control.doorbell.process.signal(Signal::TERM);
    wait_until(LIMIT, || control.probe("/readyz").0 == 503).expect("SIGTERM drains");
    let status = control.status();
    assert_eq!((&status["lifecycle"], &status["reason"]), (&"draining".into(), &"SIGTERM".into()));
    assert!(status["stops_in_ms"].as_u64().unwrap() > 3_500_000);
    control.say(&["undrain"]);
    assert_eq!(control.probe("/readyz").0, 200);
    assert_eq!(control.status()["lifecycle"], "ready");
    assert!(control.say(&["quit"]).contains("undrain"));
    assert_eq!(control.probe("/readyz").0, 503);
    control.say(&["ready"]);
    assert_eq!(control.probe("/readyz").0, 200, "`ready` ends every drain and maintenance");
    let waited = std::thread::scope(|scope| {
        let quit = scope.spawn(|| control.run(&["quit", "--wait"]));
        wait_until(LIMIT, || control.probe("/readyz").0 == 503).unwrap();
        control.say(&["undrain"]);
        quit.join().unwrap()
    });
    assert_eq!(waited.status.code(), Some(1), "{waited:?}");
    assert!(said(&waited).contains("the stop was cancelled"), "{}", said(&waited));
    // The first SIGTERM after a quit is not a second one.
    control.say(&["quit"]);
    control.doorbell.process.signal(Signal::TERM);
    wait_until(LIMIT, || control.doorbell.process.log().contains("SIGTERM: the stop continues")).unwrap();
    control.say(&["undrain"]);
    // After four cancelled stops signals still work, and the count of SIGTERM starts from zero.
    control.doorbell.process.signal(Signal::TERM);
    wait_until(LIMIT, || control.probe("/readyz").0 == 503).unwrap();
    control.doorbell.process.signal(Signal::TERM);
    let (status, _) = control.doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", control.doorbell.process.log());
}

fn events_are_followed_to_the_end(engine: &str) {
    let mut control = Controlled::start(engine, "");
    let mut follower = Command::new(binary())
        .args(["events", "--follow", "-o", "json", "--socket"])
        .arg(&control.socket)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The follower is connected once it has printed an earlier event.
    let first = lines.next().expect("the start is an event");
    control.say(&["drain", "--reason", "kernel"]);
    control.say(&["quit", "--now", "--wait"]);
    assert!(control.doorbell.process.has_ended(), "`quit --wait` must return after the exit");
    let events: Vec<Value> =
        std::iter::once(first).chain(lines).map(|line| serde_json::from_str(&line).unwrap()).collect();
    let status = follower.wait().unwrap();
    assert!(status.success(), "the stop of the instance is not an error of `events --follow`");
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert_eq!(
        numbers,
        (1..=events.len() as u64).collect::<Vec<_>>(),
        "each event must arrive once and in order"
    );
    assert!(
        events.iter().any(|event| event["to"] == "draining" && event["reason"] == "kernel"),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap()["to"], "stopping", "{events:?}");
}

/// Checked for every way to stop, also immediately after another event.
fn the_last_event_reaches_followers(engine: &str) {
    type End = fn(&Controlled);
    let ends: [(&str, End); 3] = [
        ("SIGTERM", |control| control.doorbell.process.signal(Signal::TERM)),
        ("stop", |control| control.doorbell.process.signal(Signal::INT)),
        ("quit", |control| drop(control.say(&["quit"]))),
    ];
    for (round, (reason, end)) in ends.iter().cycle().take(12).enumerate() {
        let mut control = Controlled::start(engine, "");
        let follow = |args: &[&str]| {
            let mut command = Command::new(binary());
            command
                .args(["events", "--follow", "-o", "json"])
                .args(args)
                .arg("--socket")
                .arg(&control.socket);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut followers = [follow(&[]), follow(&["--since", "1"])];
        // Both followers have received the previous event, so the next one is sent separately.
        control.say(&["maint", "--reason", "before"]);
        let firsts = followers.each_mut().map(|follower| {
            let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
            let before = lines.find(|line| line.as_ref().unwrap().contains("\"before\""));
            assert!(before.is_some(), "{reason} {round}");
            lines
        });
        end(&control);
        for lines in firsts {
            let rest: Vec<String> = lines.map(Result::unwrap).collect();
            let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
            assert_eq!(last["to"], "stopping", "{reason} {round}: {rest:?}");
        }
        for mut follower in followers {
            assert!(follower.wait().unwrap().success());
        }
        assert_eq!(control.doorbell.process.wait().0.code(), Some(0));
    }
}

#[test]
fn a_socket_in_use_is_kept_and_a_stale_one_is_replaced() {
    let first = Controlled::start("epoll", "");
    let mode = fs::metadata(&first.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Doorbell::start_with("epoll", &config(&first.scratch, ""));
    let log = second.process.log();
    assert!(log.contains("another instance listens there"), "{log}");
    assert_eq!(first.status()["pid"].to_string(), first.doorbell.process.pid());
    drop(second);
    assert_eq!(
        first.status()["lifecycle"],
        "ready",
        "the exit of the second instance must not affect the first"
    );
    let scratch = first.kill();
    let socket = scratch.path("control.sock");
    assert!(socket.exists(), "a killed process leaves its socket file");
    let gone = run_at(&socket, &["status"]);
    assert_eq!(gone.status.code(), Some(69));
    assert!(said(&gone).contains("it was killed"), "{}", said(&gone));
    let third = Controlled::start_in(scratch, "epoll", "");
    assert_eq!(third.status()["lifecycle"], "ready");
}

#[test]
fn several_instances_have_their_own_sockets() {
    let scratch = Scratch::new();
    let start = || {
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("RUNTIME_DIRECTORY", scratch.path("run"));
        Doorbell::try_start_command(&mut command).unwrap()
    };
    let status = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["status"]).args(args).env("RUNTIME_DIRECTORY", scratch.path("run"));
        command.env_remove("XDG_RUNTIME_DIR").output().unwrap()
    };
    let first = start();
    let second = start();
    let several = status(&[]);
    assert_eq!(several.status.code(), Some(2));
    for doorbell in [&first, &second] {
        let line = format!("pid {}, {}", doorbell.process.pid(), doorbell.addr);
        assert!(said(&several).contains(&line), "{line}: {}", said(&several));
    }
    let own = scratch.path(&format!("run/control-{}.sock", second.process.pid()));
    let text = status(&["--socket", own.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&text.stdout).contains(&second.addr.to_string()), "{text:?}");
}

/// Sends bytes, and returns the reply up to the end of the connection.
fn answered(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset also counts as the end of the connection.
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn other_protocols_get_an_explanation() {
    let control = Controlled::start("epoll", "");
    let hello = |version: u16| [b"doorbell".as_slice(), &version.to_le_bytes(), &[0, 0]].concat();
    let other = answered(&control.socket, &hello(99));
    let version = u16::from_le_bytes(other[8..10].try_into().unwrap());
    assert!(
        version != 99 && other == hello(version),
        "the server sends its version, so that the peer can report the mismatch: {other:?}"
    );
    wait_until(LIMIT, || control.doorbell.process.log().contains("version 99 of the control protocol"))
        .unwrap();
    for _ in 0..50 {
        answered(&control.socket, &hello(98));
    }
    let refusals = control.doorbell.process.log().matches("control connection refused").count();
    assert!((1..=10).contains(&refusals), "refusals are logged at most once a second: {refusals}");
    let http = answered(&control.socket, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(http.starts_with(b"This is the control socket of doorbell"), "{http:?}");
    let framed = |len: u32, bytes: &[u8]| [hello(version).as_slice(), &len.to_le_bytes(), bytes].concat();
    for (bytes, why) in [
        (framed(u32::MAX, b""), "the maximum is 16384"),
        (framed(16_385, &[0; 16_385]), "the maximum is 16384"),
        (framed(3, &[0xff; 3]), "invalid frame"),
        (framed(0, b""), "invalid frame"),
    ] {
        let answer = answered(&control.socket, &bytes);
        assert!(String::from_utf8_lossy(&answer).contains(why), "{why}: {answer:?}");
    }
    assert_eq!(control.status()["lifecycle"], "ready");
}

#[test]
fn too_many_operators_are_refused_and_silent_ones_time_out() {
    let control = Controlled::start("epoll", "");
    let silent: Vec<UnixStream> = (0..32).map(|_| UnixStream::connect(&control.socket).unwrap()).collect();
    let busy = control.run(&["status"]);
    assert_eq!(busy.status.code(), Some(1), "{busy:?}");
    assert!(
        said(&busy).contains("too many connections to the control socket: the maximum is 32"),
        "{}",
        said(&busy)
    );
    assert_eq!(control.probe("/readyz").0, 200);
    drop(silent);
    wait_until(LIMIT, || control.run(&["status"]).status.success())
        .expect("the control socket must accept connections again");
}
