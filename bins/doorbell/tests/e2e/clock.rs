//! The system clock, set an hour ahead and back while doorbell serves. Only what depends on the
//! time of day changes.
//!
//! Workers read clocks without libc, so only the simulator sets theirs. For the other threads
//! Debian's libfaketime changes the time of day and no other clock.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doorbell_testkit::peers::{exchange, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::control::{Controlled, config};
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, binary, is_full, on_auto, program, stdout};
use crate::upstream::{Does, Upstream};

on_auto! {
    clock_jumps_neither_break_checks_nor_extend_results
    drains_and_maintenance_last_as_long_as_declared
    a_stop_takes_as_long_as_it_is_given
}

const HOUR: i64 = 3600;

/// Time between two observations, in which every check runs several times.
const WATCHED: Duration = Duration::from_millis(1_200);

/// The time of day as one process sees it.
struct TimeOfDay {
    library: String,
    file: PathBuf,
    /// Offset of the faked clock. Locked while it changes, or while a file gets a time of that
    /// clock.
    ahead_secs: Mutex<i64>,
}

impl TimeOfDay {
    /// Finds libfaketime. Without it, prints a message and returns `None`.
    fn new(scratch: &Scratch) -> Option<Self> {
        let faketime = program("faketime")?;
        // `faketime` knows the path of its library.
        let library = stdout(&faketime, &["-m", "-f", "+0", "printenv", "LD_PRELOAD"]);
        let time = Self {
            library: library.trim().to_owned(),
            file: scratch.path("time-of-day"),
            ahead_secs: Mutex::new(0),
        };
        time.set(0);
        Some(time)
    }

    fn set(&self, ahead_secs: i64) {
        let mut now = self.ahead_secs.lock().unwrap();
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{ahead_secs:+}")).unwrap();
        fs::rename(&new, &self.file).unwrap();
        *now = ahead_secs;
    }

    fn unix_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis())
            .unwrap()
            .saturating_add_signed(*self.ahead_secs.lock().unwrap() * 1_000)
    }

    /// Writes a file whose modification time is from the faked clock.
    fn touch(&self, scratch: &Scratch) {
        let ahead = self.ahead_secs.lock().unwrap();
        let by = Duration::from_secs(ahead.unsigned_abs());
        let now = SystemTime::now();
        let file = File::create(scratch.path("beat.new")).unwrap();
        file.set_modified(if *ahead < 0 { now - by } else { now + by }).unwrap();
        fs::rename(scratch.path("beat.new"), scratch.path("beat")).unwrap();
    }

    fn start(&self, scratch: Scratch, engine: &str, more: &str) -> Controlled {
        let file = scratch.write("doorbell.toml", &config(&scratch, more));
        let mut command = Command::new(binary());
        command
            .args(["serve", "-c", &file, "--driver", engine])
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            // Modification times of files are not faked.
            .env("NO_FAKE_STAT", "1");
        let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"));
        let socket = scratch.path("control.sock");
        let control = Controlled { doorbell, socket, scratch };
        self.is_seen(&control.status());
        control
    }

    /// Asserts that doorbell sees the faked clock; otherwise the test would prove nothing.
    #[track_caller]
    fn is_seen(&self, status: &Value) {
        let (seen, is) = (status["now_unix_ms"].as_u64().unwrap(), self.unix_ms());
        assert!(seen.abs_diff(is) < 10_000, "time of day in the program: {seen}, expected {is}");
    }
}

fn restart(mut control: Controlled, time: &TimeOfDay, engine: &str, ahead_secs: i64) -> Controlled {
    control.doorbell.process.signal(Signal::TERM);
    assert_eq!(control.doorbell.process.wait().0.code(), Some(0), "{}", control.doorbell.process.log());
    time.set(ahead_secs);
    time.start(control.scratch, engine, OPERATED)
}

fn sets_said(control: &Controlled) -> usize {
    control.doorbell.process.log().matches("the system's clock was set").count()
}

/// Reports the application as alive in every way, while `is_alive` is set.
fn live(control: &Controlled, time: &TimeOfDay, is_alive: &AtomicBool) {
    while is_alive.load(Ordering::Relaxed) {
        time.touch(&control.scratch);
        push(control, "app");
        thread::sleep(Duration::from_millis(100));
    }
}

fn push(control: &Controlled, check: &str) {
    let request = format!("POST /push/{check}/pass HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    exchange(control.doorbell.addr, request.as_bytes()).unwrap();
}

fn await_status(control: &Controlled, path: &str, expected: u16, limit: Duration) -> bool {
    let has_status = || {
        thread::sleep(Duration::from_millis(20));
        control.probe(path).0 == expected
    };
    wait_until(limit, has_status).is_some()
}

/// Probes for a while, expects these replies, and checks the operator's view.
#[track_caller]
fn all_is_as_before(control: &Controlled, time: &TimeOfDay, started: Instant) {
    let since = Instant::now();
    while since.elapsed() < WATCHED {
        for (path, expected) in
            [("/well", (200, "up\n")), ("/sick", (503, "down\n")), ("/livez", (200, "up\n"))]
        {
            let (status, body) = control.probe(path);
            assert_eq!((status, &*body), expected, "{path}\n{}", control.doorbell.process.log());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let status = control.status();
    time.is_seen(&status);
    let checks: Value = serde_json::from_str(&control.say(&["checks", "-o", "json"])).unwrap();
    let probers: Value = serde_json::from_str(&control.say(&["probers", "-o", "json"])).unwrap();
    let mut ages = vec![&status["uptime_ms"], &status["lifecycle_age_ms"]];
    ages.extend(status["endpoints"].as_array().unwrap().iter().map(|endpoint| &endpoint["age_ms"]));
    ages.extend(probers.as_array().unwrap().iter().map(|prober| &prober["age_ms"]));
    for check in checks.as_array().unwrap() {
        let expected = if check["name"] == "sick" { "down" } else { "up" };
        assert_eq!(check["state"], expected, "{check}");
        let last = &check["last"]["age_ms"];
        if !["asked", "lease"].contains(&check["name"].as_str().unwrap()) {
            assert!(last.as_u64().unwrap() < 4_000, "the check must run as often as before: {check}");
        }
        ages.extend([&check["age_ms"], last]);
    }
    let age_max = u64::try_from(started.elapsed().as_millis()).unwrap() + 1_000;
    assert!(
        ages.iter().all(|age| age.as_u64().unwrap() <= age_max),
        "a result is older than {age_max}: {ages:?}"
    );
}

const CHECKED: &str = r#"
[check_defaults]
interval = "100ms"
fast_interval = "100ms"
down_interval = "100ms"
max_age = "5s"
rise = 1
fall = 1
[check.page]
type = "http"
url = "GOOD"
[check.port]
type = "tcp"
address = "ADDR"
[check.beat]
type = "file"
path = "SCRATCH/beat"
expect = { max_age = "4s" }
[check.app]
type = "ttl"
ttl = "4s"
[check.lease]
type = "ttl"
ttl = "30m"
[check.sick]
type = "http"
url = "BAD"
[health.well]
require = ["page", "port", "beat", "app", "lease"]
[health.sick]
require = ["sick"]
[route.well]
path = "/well"
health = "well"
[route.well_each]
path = "/well/{check}"
health = "well"
details = "always"
[route.sick]
path = "/sick"
health = "sick"
[route.livez]
path = "/livez"
health = "livez"
[route.push]
path = "/push/{check}/{result}"
methods = ["POST"]
push = true
"#;

fn clock_jumps_neither_break_checks_nor_extend_results(engine: &str) {
    let scratch = Scratch::new();
    let Some(time) = TimeOfDay::new(&scratch) else { return };
    let (good, bad) = (Upstream::start(Does::reply(200, "")), Upstream::start(Does::reply(500, "")));
    let rare = Upstream::start(Does::reply(200, ""));
    let asked = format!(
        "[check.asked]\ntype = \"http\"\nurl = {:?}\ncache = \"30m\"\nmax_age = \"1h\"\n[health.asked]\nrequire = [\"asked\"]\n\
         [route.asked]\npath = \"/asked\"\nhealth = \"asked\"\n",
        rare.url("/")
    );
    let checked = CHECKED.replace("GOOD", &good.url("/")).replace("BAD", &bad.url("/"));
    let checked = checked.replace("ADDR", &good.addr.to_string()) + &asked;
    let started = Instant::now();
    time.touch(&scratch);
    let control = time.start(scratch, engine, &checked);
    push(&control, "lease");
    let is_alive = AtomicBool::new(true);
    thread::scope(|scope| {
        let stop = StopAtEnd(&is_alive);
        scope.spawn(|| live(&control, &time, &is_alive));
        let is_known = || {
            let are_well = ["/well", "/asked"].iter().all(|path| control.probe(path).0 == 200);
            are_well && control.status()["checks"]["down"] == 1
        };
        wait_until(LIMIT, is_known).unwrap_or_else(|| panic!("{}", control.doorbell.process.log()));
        all_is_as_before(&control, &time, started);
        let before = control.status()["event"].as_u64().unwrap();
        for (sets, ahead_secs) in (1..).zip([HOUR, 0, -HOUR, HOUR, -HOUR]) {
            time.set(ahead_secs);
            all_is_as_before(&control, &time, started);
            assert_eq!(control.probe("/asked").0, 200);
            let said = wait_until(LIMIT, || sets_said(&control) >= sets);
            assert!(said.is_some(), "{sets} times:\n{}", control.doorbell.process.log());
        }
        let log = control.doorbell.process.log();
        assert_eq!(sets_said(&control), 5, "one message for each change of the clock:\n{log}");
        assert_eq!(control.status()["event"].as_u64(), Some(before), "nothing happened:\n{log}");
        assert_eq!(rare.conns(), 1, "the result is younger than its cache time of 30m");
        // The clock now reads an hour before the start of these results. A result that is not
        // renewed must not stay valid for an hour.
        time.set(0);
        all_is_as_before(&control, &time, started);
        drop(stop);
        time.set(-HOUR);
        for check in ["app", "beat"] {
            let came = await_status(&control, &format!("/well/{check}"), 503, LIMIT);
            assert!(came, "{check}: {}", control.doorbell.process.log());
        }
        assert_eq!(control.probe("/well/lease").0, 200);
    });
}

const OPERATED: &str = r#"
[lifecycle]
drain_delay = "0s"
state_file = "SCRATCH/state"
[health.first]
[health.second]
[health.third]
[health.fourth]
[route.one]
path = "/first"
health = "first"
[route.two]
path = "/second"
health = "second"
[route.three]
path = "/third"
health = "third"
[route.four]
path = "/fourth"
health = "fourth"
"#;

#[track_caller]
fn expect_statuses(control: &Controlled, expected: [u16; 4]) {
    let statuses = ["/first", "/second", "/third", "/fourth"].map(|path| control.probe(path).0);
    assert_eq!(statuses, expected, "{}\n{}", control.say(&["status"]), control.doorbell.process.log());
}

/// Checks the remaining time of the drain and the maintenance, which were declared for half an
/// hour.
#[track_caller]
fn half_hours_are_left(control: &Controlled, started: Instant) {
    let status = control.status();
    let declared = status["maintenance"].as_array().unwrap().iter().find(|hold| hold["target"] == "first");
    let passed = u64::try_from(started.elapsed().as_millis()).unwrap();
    for left in [&declared.unwrap()["left_ms"], &status["drains"][0]["left_ms"]] {
        let left = left.as_u64().unwrap();
        assert!(left <= 1_800_000 && left + passed >= 1_800_000 - 1_000, "{left} after {passed}: {status}");
    }
}

fn drains_and_maintenance_last_as_long_as_declared(engine: &str) {
    const SHORT: Duration = Duration::from_secs(1);
    let scratch = Scratch::new();
    let Some(time) = TimeOfDay::new(&scratch) else { return };
    let mut control = time.start(scratch, engine, OPERATED);
    let started = Instant::now();
    control.say(&["maint", "first", "--reason", "disks", "--for", "30m"]);
    control.say(&["drain", "second", "--reason", "fans", "--for", "30m"]);
    for ahead_secs in [0, HOUR, 0, -HOUR] {
        time.set(ahead_secs);
        thread::sleep(Duration::from_millis(200));
        expect_statuses(&control, [503, 503, 200, 200]);
        half_hours_are_left(&control, started);
        time.is_seen(&control.status());
        // A drain or maintenance that starts now lasts as long as declared, whatever the clock
        // reads.
        let until = |ahead_secs: i64| {
            let said = Instant::now();
            control.say(&["maint", "third", "--for", "1s"]);
            control.say(&["drain", "fourth", "--for", "1s"]);
            time.set(ahead_secs);
            let statuses = ["/third", "/fourth"].map(|path| control.probe(path).0);
            assert!(
                statuses == [503; 2] || said.elapsed() > SHORT,
                "{statuses:?} after {:?}",
                said.elapsed()
            );
            let are_over = ["/third", "/fourth"].map(|path| await_status(&control, path, 200, LIMIT));
            assert_eq!(
                are_over,
                [true; 2],
                "they must end after their duration\n{}",
                control.doorbell.process.log()
            );
            assert!(said.elapsed() >= SHORT, "{:?}", said.elapsed());
        };
        until(ahead_secs - HOUR);
        until(ahead_secs + HOUR);
    }
    for ahead_secs in [HOUR, 0, -HOUR] {
        control = restart(control, &time, engine, ahead_secs);
        expect_statuses(&control, [503, 503, 200, 200]);
        half_hours_are_left(&control, started);
        let log = control.doorbell.process.log();
        assert!(!log.contains("set aside") && sets_said(&control) == 0, "{log}");
    }
    control.say(&["ready", "first"]);
    control.say(&["undrain", "second"]);
    let control = restart(control, &time, engine, HOUR);
    expect_statuses(&control, [200; 4]);
}

fn a_stop_takes_as_long_as_it_is_given(engine: &str) {
    const DELAY: Duration = Duration::from_secs(3);
    let more = OPERATED.replace("drain_delay = \"0s\"", "drain_delay = \"3s\"");
    for ahead_secs in [HOUR, -HOUR] {
        let scratch = Scratch::new();
        let Some(time) = TimeOfDay::new(&scratch) else { return };
        let mut control = time.start(scratch, engine, &more);
        let began = Instant::now();
        control.doorbell.process.signal(Signal::TERM);
        wait_until(LIMIT, || control.probe("/first").0 == 503)
            .expect("the drain must be visible to load balancers");
        time.set(ahead_secs);
        thread::sleep(DELAY / 3);
        // All requests are served during the delay.
        expect_statuses(&control, [503; 4]);
        time.is_seen(&control.status());
        let (status, _) = control.doorbell.process.wait();
        let took = began.elapsed();
        assert!(took >= DELAY, "{ahead_secs}: {took:?}");
        assert_eq!(status.code(), Some(0), "{}", control.doorbell.process.log());
    }
}

/// Maintenance windows are checked every half minute.
#[test]
fn a_window_follows_the_time_of_day() {
    const SOON: Duration = Duration::from_secs(40);
    let scratch = Scratch::new();
    let Some(time) = TimeOfDay::new(&scratch) else { return };
    // The window opens half an hour from now and closes an hour later.
    let day_secs = (time.unix_ms() / 1_000 + 1_800) % 86_400;
    let (hour, minute) = (day_secs / 3_600, day_secs % 3_600 / 60);
    let window = format!(
        "[[maintenance.window]]\ncron = \"{minute} {hour} * * * UTC\"\nfor = \"1h\"\nendpoints = [\"first\"]\n"
    );
    let control = time.start(scratch, "epoll", &format!("{OPERATED}{window}"));
    expect_statuses(&control, [200; 4]);
    // Each change takes effect within half a minute.
    let set = [(HOUR, 503), (-HOUR, 200)];
    for &(ahead_secs, expected) in &set[..if is_full() { 2 } else { 1 }] {
        time.set(ahead_secs);
        let came = await_status(&control, "/first", expected, SOON);
        assert!(came, "{ahead_secs}: {}", control.doorbell.process.log());
        expect_statuses(&control, [expected, 200, 200, 200]);
    }
}
