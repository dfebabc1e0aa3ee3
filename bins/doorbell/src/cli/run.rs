//! `doorbell run -- CMD`: doorbell and a program side by side, ended in the right order.
//!
//! Does not know about: what either of them does. This process only starts both, hands signals on and takes in whoever has died; doorbell
//! itself serves in a process of its own, so that neither can bring down the other.

use super::load;
use super::options::{ColorWhen, DriverArg, Global};
use crate::exit::{Exit, Failure};
use crate::parent::{CommandEnd, PARENT, Word, code_of};
use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};

pub(super) const HELP: &str = "\
Examples:
  doorbell run -c doorbell.toml -- /app/server --port 3000
  doorbell run --check tcp://127.0.0.1:3000 --listen :8080 -- /app/server
  doorbell run --stay -- /app/server         when it has ended, /readyz answers 503
  ENTRYPOINT [\"doorbell\", \"run\", \"-c\", \"/etc/doorbell/doorbell.toml\", \"--\", \"/app/server\"]

When the command ends, doorbell logs its exit code, stops at once and ends with the same code.

TERM: doorbell says that it drains, the command is told after drain_delay, and doorbell ends behind it; `doorbell undrain` calls that \
off until the command is told. A second TERM or an INT reaches both at once. HUP and USR2 reach both; QUIT, USR1 and WINCH the command. As process 1 it also takes in orphans.

Exit codes: that of the command, 128 and the signal when one ended it; 71 when it cannot be started; that of doorbell when it failed \
while the pair ran, as 73 for an address in use; 1 when doorbell was ended under a command that still ran; 2 wrong command line; \
78 the configuration cannot be used";

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Go on when the command has ended: readiness endpoints fail until doorbell is stopped
    #[arg(long)]
    stay: bool,

    /// Where metrics are and operators ask, as in serve
    #[arg(long, value_name = "ADDR", value_parser = parse_admin)]
    admin: Option<String>,

    /// Address to listen on, as in serve; may be given several times
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Vec<String>,

    /// Let checks of type exec run their programs, as in serve
    #[arg(long)]
    allow_exec: bool,

    /// What /readyz depends on, as in serve; may be given several times
    #[arg(long, value_name = "TARGET", value_parser = parse_check)]
    check: Vec<String>,

    /// Driver, as in serve
    #[arg(long, value_name = "DRIVER")]
    driver: Option<DriverArg>,

    /// Threads that serve, as in serve
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The command cannot be started (sysexits: system error).
const NOT_STARTED: Exit = Exit::Code(71);

/// What happens to the two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// TERM came: the command is told when doorbell closes its listeners.
    Delaying,
    /// Everybody was told.
    Ending,
}

/// What there is to heed.
#[derive(Debug)]
enum Note {
    Signal(i32),
    /// Doorbell said so.
    Said(Word),
}

#[derive(Debug)]
struct Pair {
    door: Option<Pid>,
    child: Option<Pid>,
    child_code: Option<u8>,
    /// Of a doorbell that nobody here had told to end; never 0 where the command still ran.
    door_code: Option<u8>,
    phase: Phase,
    stays: bool,
    /// Where the server reads of the end of the command.
    reports: UnixStream,
}

pub(super) fn run(args: &RunArgs, global: &Global) -> Result<Exit, Failure> {
    if global.config.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::new(Exit::Usage, "standard input belongs to the command; name a file with -c"));
    }
    match load::source(global)? {
        Some(source) => drop(load::config(&source, global)?),
        None => drop(load::without_file(global)?),
    }
    let (sender, notes) = sync_channel(64);
    watch(sender.clone())?;
    // Orphans come to this process whether it is process 1 or not.
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| Failure::new(Exit::Failure, format!("orphans cannot be taken in: {errno}")))?;
    let mut pair = Pair::start(args, global, sender)?;
    pair.attend(&notes)
}

/// Signals, as notes.
fn watch(sender: SyncSender<Note>) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(Exit::Failure, format!("signals cannot be watched: {error}"));
    let all = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    let mut signals = Signals::new(all).map_err(failed)?;
    let forward = move || signals.forever().all(|signal| sender.send(Note::Signal(signal)).is_ok());
    std::thread::Builder::new().name("signals".into()).spawn(forward).map_err(failed)?;
    Ok(())
}

/// What doorbell says, as notes, until it is gone.
fn listen(mut stream: UnixStream, sender: SyncSender<Note>) -> io::Result<()> {
    let hear = move || {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            let word = Word::of(byte[0]).map(Note::Said);
            if word.is_some_and(|word| sender.send(word).is_err()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("doorbell".into()).spawn(hear).map(drop)
}

impl Pair {
    fn start(args: &RunArgs, global: &Global, notes: SyncSender<Note>) -> Result<Self, Failure> {
        let failed = |error| Failure::new(Exit::Failure, format!("doorbell cannot start itself: {error}"));
        let exe = std::env::current_exe().map_err(failed)?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let reports = ours.try_clone().map_err(failed)?;
        listen(ours, notes).map_err(failed)?;
        let mut door = Command::new(exe);
        door.args(serve_args(args, global)).env(PARENT, parent_word()).stdin(OwnedFd::from(theirs));
        let door = Pid::from_child(&door.spawn().map_err(failed)?);
        let program = &args.command[0];
        let child = match Command::new(program).args(&args.command[1..]).spawn() {
            Ok(child) => Pid::from_child(&child),
            Err(error) => {
                let _ = kill_process(door, Signal::INT);
                let message = format!("{} cannot be started: {error}", program.display());
                return Err(Failure::new(NOT_STARTED, message));
            }
        };
        Ok(Self {
            door: Some(door),
            child: Some(child),
            child_code: None,
            door_code: None,
            phase: Phase::Running,
            stays: args.stay,
            reports,
        })
    }

    /// Until both are gone.
    fn attend(&mut self, notes: &Receiver<Note>) -> Result<Exit, Failure> {
        loop {
            self.reap();
            if self.door.is_none() && self.child.is_none() {
                return Ok(Exit::Code(self.code()));
            }
            match notes.recv() {
                Ok(Note::Signal(SIGCHLD)) => {}
                Ok(Note::Signal(signal)) => self.heed(signal),
                Ok(Note::Said(word)) => self.hear(word),
                Err(RecvError) => {
                    return Err(Failure::new(Exit::Failure, "signals cannot be watched any more"));
                }
            }
        }
    }

    /// What the end of both means: a doorbell that failed is not made well by a command that then ended as it was told.
    fn code(&self) -> u8 {
        self.door_code.filter(|code| *code != 0).or(self.child_code).unwrap_or(1)
    }

    /// Only the doorbell that serves knows when its drain is over, and whether somebody called it off.
    fn hear(&mut self, word: Word) {
        match (word, self.phase) {
            (Word::Closes, Phase::Delaying) => {
                self.phase = Phase::Ending;
                tell(self.child, Signal::TERM);
            }
            (Word::GoesOn, Phase::Delaying) => self.phase = Phase::Running,
            (Word::Closes | Word::GoesOn, Phase::Running | Phase::Ending) => {}
        }
    }

    fn heed(&mut self, signal: i32) {
        let Some(named) = Signal::from_named_raw(signal) else { return };
        match (signal, self.phase) {
            (SIGTERM, Phase::Running) => {
                self.phase = Phase::Delaying;
                tell(self.door, Signal::TERM);
            }
            (SIGINT | SIGTERM, _) => {
                self.phase = Phase::Ending;
                tell(self.child, named);
                tell(self.door, Signal::INT);
            }
            (SIGHUP | SIGUSR2, _) => {
                tell(self.child, named);
                // One that does not listen yet would be ended by it, and reads everything anew in a moment anyway.
                tell(self.door.filter(|door| catches(*door, signal)), named);
            }
            _ => tell(self.child, named),
        }
    }

    /// The server logs it, and stops or fails its readiness.
    fn command_ended(&mut self, status: ExitStatus) {
        self.child_code = Some(code_of(status));
        let stays = self.stays && self.phase == Phase::Running;
        let report = CommandEnd { status, stays }.report(&self.reports);
        if stays {
            return;
        }
        // Nothing is left to drain for.
        self.phase = Phase::Ending;
        if report.is_err() {
            tell(self.door, Signal::INT);
        }
    }

    /// Whoever has died, ours or an orphan.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let status = ExitStatus::from_raw(status.as_raw());
            if Some(pid) == self.child {
                self.child = None;
                self.command_ended(status);
            } else if Some(pid) == self.door {
                self.door = None;
                if self.phase == Phase::Running {
                    self.door_code = Some(code_of(status).max(u8::from(self.child.is_some())));
                }
                if self.phase != Phase::Ending {
                    // Without its health endpoint a program is not left running.
                    self.phase = Phase::Ending;
                    tell(self.child, Signal::TERM);
                }
            }
        }
    }
}

/// Whether a process has a handler for a signal (`SigCgt` in proc_pid_status(5)).
fn catches(pid: Pid, signal: i32) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// One that is gone needs no signal.
fn tell(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The command line of the doorbell that serves.
fn serve_args(args: &RunArgs, global: &Global) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["serve".into()];
    let mut add = |name: &str, value: OsString| words.extend([name.into(), value]);
    if let Some(path) = &global.config {
        add("--config", path.into());
    }
    if let Some(admin) = &args.admin {
        add("--admin", admin.into());
    }
    for listen in &args.listen {
        add("--listen", listen.into());
    }
    for check in &args.check {
        add("--check", check.into());
    }
    if let Some(workers) = args.workers {
        add("--workers", workers.to_string().into());
    }
    let word = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
    if let Some(driver) = args.driver.and_then(|driver| word(driver.to_possible_value())) {
        add("--driver", driver.into());
    }
    if let Some(level) = global.log_level.and_then(|level| word(level.to_possible_value())) {
        add("--log-level", level.into());
    }
    if let Some(format) = global.log_format.and_then(|format| word(format.to_possible_value())) {
        add("--log-format", format.into());
    }
    if global.color != ColorWhen::Auto
        && let Some(when) = word(global.color.to_possible_value())
    {
        add("--color", when.into());
    }
    let flags = [("--allow-exec", args.allow_exec), ("--quiet", global.quiet)];
    words.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.into()));
    words
}

fn parent_word() -> String {
    rustix::process::getpid().as_raw_nonzero().to_string()
}

fn parse_listen(text: &str) -> Result<String, String> {
    super::options::parse_bind(text).map(|_| text.to_owned())
}

fn parse_check(text: &str) -> Result<String, String> {
    super::options::parse_target(text).map(|_| text.to_owned())
}

fn parse_admin(text: &str) -> Result<String, String> {
    super::options::parse_admin(text).map(|_| text.to_owned())
}
