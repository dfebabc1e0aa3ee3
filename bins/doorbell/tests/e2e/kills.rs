//! SIGKILL at random moments, also during a start, and full disks: acknowledged drains and
//! maintenance survive in every case.
//!
//! Does not know about: damaged files (`declared`). `DOORBELL_KILL_SEED` selects other moments;
//! `DOORBELL_FULL=1` runs more rounds.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::{exchange, free_addr, wait_until};
use doorbell_testkit::sim::Rng;
use rustix::process::Signal;
use serde_json::Value;

use crate::control::{Controlled, config};
use crate::support::{
    Doorbell, LIMIT, Process, Scratch, StopAtEnd, binary, is_full, on_auto, print_line, program, skipped,
};

on_auto! {
    a_kill_at_any_moment_keeps_what_was_acknowledged
    an_immediate_successor_gets_the_addresses
}

const CONFIG: &str = "[lifecycle]\ndrain_delay = \"0s\"\nstate_file = \"SCRATCH/state\"\nreload = \"SIGHUP\"\n\
    [check.app]\ntype = \"ttl\"\nttl = \"1h\"\nrise = 1\nfall = 1\n[health.readyz]\nrequire = [\"app\"]\n[health.second]\n\
    [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n[route.second]\npath = \"/second\"\nhealth = \"second\"\n\
    [route.push]\npath = \"/push/{check}/{result}\"\nmethods = [\"POST\"]\npush = true\n";

/// A target on which an operator sets and clears maintenance or a drain.
struct Subject {
    /// Name in commands. `None` for the drain of all endpoints.
    name: Option<&'static str>,
    /// Name in `status`.
    target: &'static str,
    rng: Rng,
    number: u32,
    acknowledged: Option<String>,
    /// Reason in a command that is not acknowledged yet; `Some(None)` for a command that clears.
    under_way: Option<Option<String>>,
}

impl Subject {
    fn all(rng: &mut Rng) -> Vec<Self> {
        let subjects = [
            (Some("readyz"), "readyz"),
            (Some("second"), "second"),
            (Some("app"), "check:app"),
            (None, "drain"),
        ];
        let subject = |(name, target)| {
            let rng = rng.fork();
            Self { name, target, rng, number: 0, acknowledged: None, under_way: None }
        };
        subjects.map(subject).into()
    }

    /// Returns the next random command.
    fn next(&mut self) -> Vec<String> {
        self.number += 1;
        let reason = self.rng.hits(700_000).then(|| format!("{} {}", self.target, self.number));
        let mut words: Vec<String> = match (self.name, &reason) {
            (Some(name), Some(reason)) => ["maint", name, "--reason", reason].map(str::to_owned).into(),
            (Some(name), None) => ["ready", name].map(str::to_owned).into(),
            (None, Some(reason)) => ["drain", "--reason", reason].map(str::to_owned).into(),
            (None, None) => vec!["undrain".to_owned()],
        };
        if self.name.is_some() && reason.is_some() && self.rng.hits(300_000) {
            words.extend(["--for", "1h"].map(str::to_owned));
        }
        self.under_way = Some(reason);
        words
    }

    /// Sends commands until the instance is killed.
    fn operate(&mut self, socket: &Path, goes_on: &AtomicBool) {
        while goes_on.load(Ordering::Relaxed) {
            let words = self.next();
            let output = Command::new(binary()).args(&words).arg("--socket").arg(socket).output().unwrap();
            if !output.status.success() {
                assert_eq!(
                    output.status.code(),
                    Some(69),
                    "a command may fail only after a kill: {words:?} {output:?}"
                );
                return;
            }
            assert!(!String::from_utf8_lossy(&output.stdout).contains("not kept"), "{words:?} {output:?}");
            self.acknowledged = self.under_way.take().flatten();
        }
    }

    /// Compares the status after a restart with the acknowledged commands.
    fn check(&mut self, status: &Value) -> Result<(), String> {
        let held =
            status["maintenance"].as_array().unwrap().iter().find(|held| held["target"] == self.target);
        let reason = match self.name {
            Some(_) => held.map(|held| &held["reason"]),
            None => (status["lifecycle"] == "draining").then_some(&status["reason"]),
        };
        let reason = reason.map(|reason| reason.as_str().unwrap().to_owned());
        if reason != self.acknowledged && self.under_way.as_ref() != Some(&reason) {
            let Self { target, acknowledged, under_way, .. } = self;
            return Err(format!(
                "{target}: restored {reason:?}, acknowledged {acknowledged:?}, sent {under_way:?}"
            ));
        }
        (self.acknowledged, self.under_way) = (reason, None);
        Ok(())
    }
}

/// Pushes alternating results as fast as possible, until the instance is killed.
fn push_until_end(doorbell: &Doorbell, goes_on: &AtomicBool) -> usize {
    let mut pushed = 0;
    while goes_on.load(Ordering::Relaxed) {
        let result = ["fail?note=kill", "pass"][pushed % 2];
        let request = format!(
            "POST /push/app/{result} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        if exchange(doorbell.addr, request.as_bytes()).is_err() {
            break;
        }
        pushed += 1;
    }
    pushed
}

/// Sends commands and results for a while, then kills the instance. Returns the numbers of commands
/// and of results.
fn work_and_kill(control: &mut Controlled, subjects: &mut [Subject], rng: &mut Rng) -> (u32, usize) {
    let said = |subjects: &[Subject]| subjects.iter().map(|subject| subject.number).sum::<u32>();
    let before = said(subjects);
    let time = Duration::from_micros(rng.range(0..250_000));
    let reload_at = rng.hits(500_000).then(|| time.mul_f64(rng.range(0..1_000) as f64 / 1_000.0));
    let goes_on = AtomicBool::new(true);
    let pushed = thread::scope(|scope| {
        let stop = StopAtEnd(&goes_on);
        let (socket, doorbell, goes_on) = (&control.socket, &control.doorbell, &goes_on);
        for subject in &mut *subjects {
            scope.spawn(move || subject.operate(socket, goes_on));
        }
        let pushing = scope.spawn(|| push_until_end(doorbell, goes_on));
        if let Some(reload_at) = reload_at {
            thread::sleep(reload_at);
            let more =
                format!("{CONFIG}[route.round]\npath = \"/round\"\nreply = {{ body = \"{before}\" }}\n");
            control.scratch.write("doorbell.toml", &config(&control.scratch, &more));
            doorbell.process.signal(Signal::HUP);
        }
        thread::sleep(time - reload_at.unwrap_or_default());
        doorbell.process.signal(Signal::KILL);
        let pushed = pushing.join().unwrap();
        drop(stop);
        pushed
    });
    control.doorbell.process.wait();
    (said(subjects) - before, pushed)
}

fn serve(scratch: &Scratch, engine: &str) -> Command {
    let file = scratch.write("doorbell.toml", &config(scratch, CONFIG));
    let mut command = Command::new(binary());
    command.args(["serve", "-c", &file, "--driver", engine]);
    command
}

fn start(scratch: Scratch, engine: &str) -> Controlled {
    let socket = scratch.path("control.sock");
    let doorbell =
        Doorbell::try_start_command(&mut serve(&scratch, engine)).unwrap_or_else(|log| panic!("{log}"));
    Controlled { doorbell, socket, scratch }
}

/// Kills the instance during starts, also with the partial file of an interrupted write.
fn kill_starts(scratch: &Scratch, engine: &str, rng: &mut Rng) {
    for _ in 0..rng.range(0..3) {
        let whole = fs::read(scratch.path("state")).unwrap_or_default();
        let torn = rng.range(0..whole.len() as u64 + 1);
        fs::write(scratch.path("state.new"), &whole[..usize::try_from(torn).unwrap()]).unwrap();
        let mut process = Process::spawn(&mut serve(scratch, engine));
        thread::sleep(Duration::from_micros(rng.range(0..40_000)));
        process.signal(Signal::KILL);
        process.wait();
    }
}

fn a_kill_at_any_moment_keeps_what_was_acknowledged(engine: &str) {
    let seed = std::env::var("DOORBELL_KILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(6);
    let rounds = if is_full() { 60 } else { 8 };
    let mut rng = Rng::new(seed);
    let mut subjects = Subject::all(&mut rng);
    let mut control = start(Scratch::new(), engine);
    let (mut said, mut pushed) = (0, 0);
    for round in 0..rounds {
        let at = format!("{engine}, seed {seed}, round {round}");
        let done = work_and_kill(&mut control, &mut subjects, &mut rng);
        (said, pushed) = (said + done.0, pushed + done.1);
        kill_starts(&control.scratch, engine, &mut rng);
        control = start(control.scratch, engine);
        let log = control.doorbell.process.log();
        assert!(!log.contains("set aside") && !log.contains("cannot read"), "{at}: {log}");
        let status = control.status();
        for subject in &mut subjects {
            subject.check(&status).unwrap_or_else(|why| panic!("{at}: {why}"));
        }
        let is_out = subjects[1].acknowledged.is_some() || subjects[3].acknowledged.is_some();
        let code = control.probe("/second").0;
        assert_eq!(
            code,
            if is_out { 503 } else { 200 },
            "{at}: the state must apply from the first probe on: {status}"
        );
    }
    print_line(&format!(
        "{engine}, seed {seed}: {rounds} kills among {said} commands and {pushed} pushed results"
    ));
    assert!(
        said > 2 * rounds && pushed > 2 * rounds as usize,
        "too few operations: {said} commands and {pushed} results"
    );
}

/// The kernel releases an io_uring instance only after its process has ended.
fn an_immediate_successor_gets_the_addresses(engine: &str) {
    let scratch = Scratch::new();
    let socket = scratch.path("probes.sock");
    let config = format!(
        "version = 1\n[listener.web]\nbind = \"{}\"\n[listener.file]\nbind = \"unix:{}\"\n\
         [route.home]\nlistener = \"web\"\npath = \"/\"\nreply = {{ body = \"hello\" }}\n\
         [route.file]\nlistener = \"file\"\npath = \"/\"\nreply = {{ body = \"hello\" }}\n",
        free_addr(),
        socket.display(),
    );
    let file = scratch.write("doorbell.toml", &config);
    for _ in 0..if is_full() { 100 } else { 10 } {
        let mut doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine])
            .unwrap_or_else(|log| panic!("{engine}: {log}"));
        let _open: Vec<_> = (0..20).map(|_| TcpStream::connect(doorbell.addr).unwrap()).collect();
        UnixStream::connect(&socket).unwrap();
        doorbell.process.signal(Signal::KILL);
        doorbell.process.wait();
    }
}

/// A file system of 64 KiB in its own mount namespace.
struct SmallDisk {
    holder: Process,
    enter: Vec<&'static str>,
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts the file system, or returns `None` if namespaces are not available.
    fn mount(folder: PathBuf) -> Option<Self> {
        let _both = (program("unshare")?, program("nsenter")?);
        fs::create_dir(&folder).unwrap();
        let ways: [(&[&str], &[&str]); 2] = [
            (&["--user", "--map-root-user", "--mount"], &["--user", "--preserve-credentials", "--mount"]),
            (&["--mount"], &["--mount"]),
        ];
        ways.into_iter().find_map(|(unshare, enter)| {
            let script = "mount -t tmpfs -o size=64k tmpfs \"$0\" && echo mounted && exec sleep 1000";
            let mut command = Command::new("unshare");
            let mut holder = Process::spawn(command.args(unshare).args(["sh", "-c", script]).arg(&folder));
            wait_until(LIMIT, || holder.log().contains("mounted") || holder.has_ended())?;
            let enter = enter.to_vec();
            holder.log().contains("mounted").then(|| Self { holder, enter, folder: folder.clone() })
        })
    }

    /// The path of a file, from outside the namespace.
    fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.strip_prefix("/").unwrap();
        Path::new("/proc").join(self.holder.pid()).join("root").join(folder).join(name)
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.path("filler")).unwrap();
        while file.write_all(&[0; 1024]).is_ok() {}
    }

    fn start(&self, scratch: Scratch) -> Controlled {
        let socket = scratch.path("control.sock");
        let state = self.folder.join("state");
        let more = format!("[lifecycle]\ndrain_delay = \"0s\"\nstate_file = {state:?}\n");
        let file = scratch.write("doorbell.toml", &config(&scratch, &more));
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.pid()]).args(&self.enter).arg("--").arg(binary());
        command.args(["serve", "-c", &file, "--driver", "epoll"]);
        let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"));
        Controlled { doorbell, socket, scratch }
    }
}

fn reason_of(control: &Controlled) -> Option<String> {
    control.status()["maintenance"][0]["reason"].as_str().map(str::to_owned)
}

#[test]
fn a_full_disk_is_reported_once_and_keeps_the_old_state() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.path("disk")) else {
        return skipped("mounting is not permitted; a full disk was not tested");
    };
    let control = disk.start(scratch);
    let maintain = |control: &Controlled, reason: &str| control.say(&["maint", "readyz", "--reason", reason]);
    assert!(!maintain(&control, "kept").contains("not kept"));
    disk.fill();
    for reason in ["one", "two"] {
        let said = maintain(&control, reason);
        assert!(said.contains("not kept across restarts: No space left on device"), "{said}");
        assert_eq!(
            (control.probe("/readyz").0, reason_of(&control).as_deref()),
            (503, Some(reason)),
            "it holds"
        );
    }
    let log = control.doorbell.process.log();
    assert_eq!(log.matches("a restart would restore the state before the last change").count(), 1, "{log}");
    assert!(!disk.path("state.new").exists(), "the partial file must be removed");
    // After a kill on a full disk, the old state is intact.
    let control = disk.start(control.kill());
    assert_eq!((control.probe("/readyz").0, reason_of(&control).as_deref()), (503, Some("kept")));
    assert!(maintain(&control, "three").contains("not kept"));
    fs::remove_file(disk.path("filler")).unwrap();
    assert!(!maintain(&control, "four").contains("not kept"));
    let again = || control.doorbell.process.log().contains("succeeded again");
    assert!(wait_until(LIMIT, again).is_some(), "{}", control.doorbell.process.log());
    let control = disk.start(control.kill());
    assert_eq!(reason_of(&control).as_deref(), Some("four"));
}
