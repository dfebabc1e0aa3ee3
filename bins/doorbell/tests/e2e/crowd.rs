//! Reloads, drains, maintenance and pushed results under many new connections a second. No
//! connection fails or is reset, and the next probe gets the new state.
//!
//! Does not know about: slow or persistent clients (`generations`). `DOORBELL_FULL=1` with the
//! shipped build uses the promised 20,000 connections a second, takes longer, and requires every
//! change within 10 ms.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::wait_until;
use doorbell_testkit::skip;
use rustix::process::Signal;
use serde_json::Value;

use crate::plain::{send, try_get};
use crate::support::{
    Doorbell, LIMIT, Process, Scratch, at_most, binary, is_judged, load_program, on_both_engines, print_line,
};

on_both_engines! {
    a_crowd_notices_neither_reloads_nor_drains
    a_crowd_is_answered_or_refused_when_listeners_close
}

/// Promised rate of new connections.
const CONNS_A_SECOND: u32 = 20_000;
const VISIBLE: Duration = Duration::from_millis(10);
/// A drain delay so long that listeners stay open until a second signal.
const LONG: &str = "1m";
/// Rate for builds without optimisation and with other tests running.
const CONNS_A_SECOND_SLOW: u32 = 1_000;

fn config(folder: &Path, round: usize, drain_delay: &str) -> String {
    let socket = folder.join("control.sock");
    format!(
        "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"{drain_delay}\"\nreload = \"SIGHUP\"\n[control]\nsocket = {socket:?}\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\n[connections]\nper_ip_max = 60000\n\
         [check.app]\ntype = \"ttl\"\nttl = \"1h\"\nrise = 1\nfall = 1\n[health.readyz]\nrequire = [\"app\"]\n\
         [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n\
         [route.push]\npath = \"/push/{{check}}/{{result}}\"\npush = true\n\
         [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n\
         [route.round]\npath = \"/round\"\nreply = {{ body = \"{round}\" }}\n"
    )
}

/// The instance, and the times until changes were visible.
struct Scene {
    doorbell: Doorbell,
    scratch: Scratch,
    round: usize,
    seen: Vec<(&'static str, Duration)>,
}

impl Scene {
    fn start(engine: &str, drain_delay: &str) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("doorbell.toml", &config(&scratch.path(""), 0, drain_delay));
        let doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine])
            .unwrap_or_else(|log| panic!("{log}"));
        Self { doorbell, scratch, round: 0, seen: Vec::new() }
    }

    fn say(&self, words: &[&str]) {
        let mut command = Command::new(binary());
        let output =
            command.args(words).arg("--socket").arg(self.scratch.path("control.sock")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}\n{}", self.doorbell.process.log());
    }

    /// Returns status and body.
    fn ask(&self, path: &str) -> (u16, Vec<u8>) {
        let reply = try_get(self.doorbell.addr, path, &[]);
        let reply = reply.unwrap_or_else(|what| panic!("{path}: {what}\n{}", self.doorbell.process.log()));
        (reply.status, reply.body)
    }

    /// Makes a change and probes continuously. Records the start of the last probe that got the old
    /// state, as time since the change. Later probes get the new state.
    fn sees(&mut self, what: &'static str, path: &str, is_new: impl Fn(&(u16, Vec<u8>)) -> bool) {
        let done = Instant::now();
        let mut last_old = Duration::ZERO;
        loop {
            let began = done.elapsed();
            if is_new(&self.ask(path)) {
                break;
            }
            last_old = began;
            assert!(began < LIMIT, "{what} never takes effect: {}", self.doorbell.process.log());
        }
        self.seen.push((what, last_old));
    }

    fn reload(&mut self) {
        self.round += 1;
        fs::write(self.scratch.path("doorbell.toml"), config(&self.scratch.path(""), self.round, LONG))
            .unwrap();
        self.say(&["reload"]);
        let wanted = self.round.to_string().into_bytes();
        self.sees("reload", "/round", |(_, content)| *content == wanted);
    }

    fn push(&mut self, result: &str, wanted: u16) {
        let request = format!(
            "POST /push/app/{result} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(send(self.doorbell.addr, request.as_bytes()).unwrap().status, 204);
        self.sees("push", "/readyz", |(status, _)| *status == wanted);
    }

    fn operate(&mut self, words: &[&str], wanted: u16) {
        self.say(words);
        self.sees("command", "/readyz", |(status, _)| *status == wanted);
    }

    /// Makes every kind of change once.
    fn day(&mut self) {
        self.push("fail", 503);
        self.push("pass", 200);
        self.operate(&["drain"], 503);
        self.reload();
        self.operate(&["undrain"], 200);
        self.operate(&["maint", "readyz"], 503);
        self.push("fail", 503);
        self.push("pass", 503);
        self.operate(&["ready", "readyz"], 200);
        self.push("warn", 200);
        self.reload();
    }
}

fn a_crowd_notices_neither_reloads_nor_drains(engine: &str) {
    let Some(program) = load_program() else { return };
    take(engine, &program);
}

/// Starts a load of new connections at a rate; each of them must get a reply. Returns `None` if the
/// load program is not available.
fn crowd(doorbell: &Doorbell, program: &Path, rate: u32, secs: u64) -> Option<Process> {
    let url = doorbell.url("/hello");
    // The load program needs io_uring.
    if !skip::io_uring() {
        return None;
    }
    let (rate, secs) = (rate.to_string(), format!("{secs}s"));
    let times = ["--rate", &rate, "--duration", &secs, "--connections", "1k", "--timeout", "10s"];
    let rest = ["--source", "127.1.0.0/24", "--expect-body", "hello\n", "--output", "json", "--quiet", &url];
    Some(Process::spawn(Command::new(program).args(times).args(rest)))
}

/// The report of the load program.
fn report(load: &mut Process) -> Value {
    load.wait();
    // The last line of output may arrive after the exit.
    let mut report = Value::Null;
    let is_whole = || serde_json::from_str(&load.log()).map(|whole| report = whole).is_ok();
    assert!(wait_until(LIMIT, is_whole).is_some(), "{}", load.log());
    report
}

/// Makes all changes under load, if the load program is available.
fn take(engine: &str, program: &Path) {
    let (rate, secs) = if is_judged() { (CONNS_A_SECOND, 10) } else { (CONNS_A_SECOND_SLOW, 3) };
    let mut scene = Scene::start(engine, LONG);
    scene.push("pass", 200);
    scene.seen.clear();
    let Some(mut load) = crowd(&scene.doorbell, program, rate, secs) else { return };
    let start = Instant::now();
    let mut days = 0;
    while start.elapsed() < Duration::from_secs(secs).mul_f64(0.7) {
        scene.day();
        days += 1;
        // Each command is a process of its own, which competes with the load for two CPUs.
        thread::sleep(Duration::from_millis(200));
    }
    // The load still runs when the stop begins.
    scene.push("pass", 200);
    scene.doorbell.process.signal(Signal::TERM);
    scene.sees("signal", "/readyz", |(status, _)| *status == 503);
    let report = report(&mut load);
    scene.doorbell.process.signal(Signal::TERM);
    let (ended, _) = scene.doorbell.process.wait();
    assert_eq!(ended.code(), Some(0), "{}", scene.doorbell.process.log());
    judge(engine, &report, days, scene.seen);
}

fn judge(engine: &str, report: &Value, days: usize, mut seen: Vec<(&'static str, Duration)>) {
    seen.sort_unstable_by_key(|(_, took)| *took);
    let (middle, last) = (seen[seen.len() / 2], seen[seen.len() - 1]);
    let a_second = report["requests_per_s"].as_f64().unwrap();
    let said = format!(
        "{engine}: {days} rounds with 2 reloads each, {a_second:.0} connections a second, {} of {} failed; of {} changes the median \
         took effect after {:?}, the slowest after {last:?}",
        report["failed"],
        report["requests"],
        seen.len(),
        middle.1
    );
    print_line(&said);
    assert_eq!(
        (&report["failed"], &report["failures"]),
        (&0.into(), &Value::Array(Vec::new())),
        "{said}: {report}"
    );
    assert!(a_second > 0.0 && days > 0, "{said}");
    at_most(format_args!("{engine}: time until the slowest change took effect"), last.1, VISIBLE);
    let offered = f64::from(CONNS_A_SECOND);
    at_most(
        format_args!("{engine}: connections a second that were not offered"),
        offered - a_second,
        // Not a promise, but a check that there was a crowd: the load program competes with the
        // commands for two CPUs.
        0.2 * offered,
    );
}

/// Tested with and without a delay between the signal and the close of the listeners.
fn a_crowd_is_answered_or_refused_when_listeners_close(engine: &str) {
    let Some(program) = load_program() else { return };
    let (rate, takes) = if is_judged() { (CONNS_A_SECOND, 10) } else { (CONNS_A_SECOND_SLOW, 2) };
    for drain_delay in ["0s", "300ms"] {
        for _ in 0..takes {
            let mut scene = Scene::start(engine, drain_delay);
            let Some(mut load) = crowd(&scene.doorbell, &program, rate, 3) else { return };
            thread::sleep(Duration::from_secs(1));
            scene.doorbell.process.signal(Signal::TERM);
            let (ended, _) = scene.doorbell.process.wait();
            assert_eq!(ended.code(), Some(0), "{}", scene.doorbell.process.log());
            let report = report(&mut load);
            let (requests, failed) =
                (report["requests"].as_u64().unwrap(), report["failed"].as_u64().unwrap());
            let said = format!("{engine}, {drain_delay}: {requests} answered, {failed} refused");
            print_line(&said);
            let failures = report["failures"].as_array().unwrap();
            // Refused connections are the only kind of failure.
            let [only] = failures.as_slice() else { panic!("{said}: {report}") };
            let refused = only["first_error"].as_str().unwrap().contains("refused");
            assert!(only["kind"] == "connect" && refused, "{said}: {report}");
            assert!(failed > 0 && requests > u64::from(rate) / 4, "{said}: {report}");
        }
    }
}
