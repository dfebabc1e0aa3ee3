//! `doorbell run -- CMD`: runs doorbell and a program together and stops them in the right order.
//!
//! This process starts both, forwards signals and reaps children. The server is a child process, so
//! that its crash does not end this process.

use super::load;
use super::options::{Global, ServeArgs};
use super::signals;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args};
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::parent::{CommandEnd, PARENT, ServerReport, code_of};
use doorbell_proxy_server::sockets::inherit;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};

pub(super) const HELP: &str = "\
Examples:
  doorbell run -c doorbell.toml -- /app/server --port 3000
  doorbell run --check tcp://127.0.0.1:3000 --listen :8080 -- /app/server
  doorbell run --stay -- /app/server         keep serving 503 at /readyz after it exits
  ENTRYPOINT [\"doorbell\", \"run\", \"-c\", \"/etc/doorbell/doorbell.toml\", \"--\", \"/app/server\"]

When the command exits, doorbell logs its exit code, stops immediately and exits with the same code.

TERM: doorbell starts to drain, sends TERM to the command after drain_delay, and exits after the command; until then `doorbell undrain` \
cancels the stop. A second TERM or an INT is sent to both immediately. HUP and USR2 are sent to both, QUIT, USR1 and WINCH to the command. \
A signal of the terminal reaches the command once. Signals that are ignored at the start, as with nohup, stay ignored. \
Orphaned processes are reaped, also as process 1.

Exit codes: that of the command, or 128 plus the signal that ended it; 71 if it cannot be started; that of doorbell if doorbell failed \
while both ran, as 73 for an address in use; 1 if doorbell was stopped while the command ran; 2 invalid command line; 78 invalid configuration";

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Keep serving after the command exits, with failing readiness endpoints, until doorbell is
    /// stopped
    #[arg(long)]
    stay: bool,

    /// Options of the server; [`serve_args`] passes them on as they were given.
    #[command(flatten)]
    serve: ServeArgs,

    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Exit code if the command cannot be started (`EX_OSERR` of sysexits).
const NOT_STARTED: Exit = Exit::Code(71);

/// `si_code` of signals that the kernel sends, such as those of the terminal (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

/// Phase of the server and the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was received: the command gets it when the server closes its listeners.
    Delaying,
    /// The server and the command have been requested to stop.
    Ending,
}

/// An event to handle.
#[derive(Debug)]
enum Event {
    Signal {
        signal: i32,
        /// Whether the kernel sent the signal, not a process.
        is_from_kernel: bool,
    },
    /// A message of the server.
    Server(ServerReport),
}

#[derive(Debug)]
struct Processes {
    server: Option<Pid>,
    child: Option<Pid>,
    child_code: Option<u8>,
    /// Exit code of a server that exited on its own; not 0 if the command was still running.
    server_code: Option<u8>,
    phase: Phase,
    stays: bool,
    /// Connection for reporting the exit of the command to the server.
    reports: UnixStream,
}

/// `given` are the arguments of the command as clap has parsed them.
pub(super) fn run(args: &RunArgs, global: &Global, given: &ArgMatches) -> Result<Exit, Failure> {
    if global.config.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::new(
            Exit::Usage,
            "cannot read the configuration from standard input, which belongs to the command; give a file with -c",
        ));
    }
    drop(load::for_command(global, load::NOT_STARTED)?);
    let (sender, events) = sync_channel(64);
    watch(sender.clone())?;
    // Orphans are reparented to this process even if it is not process 1.
    set_child_subreaper(Some(getpid()))
        .map_err(|errno| Failure::new(Exit::Failure, format!("cannot become child subreaper: {errno}")))?;
    let mut processes = Processes::start(args, given, sender)?;
    processes.supervise(&events)
}

/// Sends received signals to the channel, except those that were ignored at the start.
fn watch(sender: SyncSender<Event>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Failure, format!("cannot handle signals: {error}"));
    let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    let handled = std::iter::once(SIGCHLD).chain(signals::not_ignored(forwarded));
    let mut received = SignalsInfo::<WithRawSiginfo>::new(handled).map_err(failed)?;
    let forward = move || {
        received.forever().all(|info| {
            let is_from_kernel = info.si_code == SI_KERNEL;
            sender.send(Event::Signal { signal: info.si_signo, is_from_kernel }).is_ok()
        })
    };
    std::thread::Builder::new().name("signals".into()).spawn(forward).map_err(failed)?;
    Ok(())
}

/// Sends the messages of the server to the channel until the server exits.
fn listen(mut stream: UnixStream, sender: SyncSender<Event>) -> io::Result<()> {
    let forward = move || {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            let report = ServerReport::of(byte[0]).map(Event::Server);
            if report.is_some_and(|report| sender.send(report).is_err()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("doorbell".into()).spawn(forward).map(drop)
}

impl Processes {
    fn start(args: &RunArgs, given: &ArgMatches, events: SyncSender<Event>) -> Result<Self, Failure> {
        let failed = |error| Failure::new(Exit::Failure, format!("cannot start the server process: {error}"));
        let exe = std::env::current_exe().map_err(failed)?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let reports = ours.try_clone().map_err(failed)?;
        listen(ours, events).map_err(failed)?;
        let mut server = Command::new(exe);
        server.args(serve_args(given)).env(PARENT, own_pid()).stdin(OwnedFd::from(theirs));
        // In a process group of its own, the server gets no signals of the terminal.
        server.process_group(0);
        let server = Pid::from_child(&server.spawn().map_err(failed)?);
        // The server may listen on passed sockets (`fd:NUMBER`); the command must not inherit them.
        inherit::set_close_on_exec(&|name| std::env::var(name).ok());
        let program = &args.command[0];
        let child = match Command::new(program).args(&args.command[1..]).spawn() {
            Ok(child) => Pid::from_child(&child),
            Err(error) => {
                let _ = kill_process(server, Signal::INT);
                let message = format!("cannot start {}: {error}", program.display());
                return Err(Failure::new(NOT_STARTED, message));
            }
        };
        Ok(Self {
            server: Some(server),
            child: Some(child),
            child_code: None,
            server_code: None,
            phase: Phase::Running,
            stays: args.stay,
            reports,
        })
    }

    /// Handles events until the server and the command have exited.
    fn supervise(&mut self, events: &Receiver<Event>) -> Result<Exit, Failure> {
        loop {
            self.reap();
            if self.server.is_none() && self.child.is_none() {
                return Ok(Exit::Code(self.code()));
            }
            match events.recv() {
                Ok(Event::Signal { signal: SIGCHLD, .. }) => {}
                Ok(Event::Signal { signal, is_from_kernel }) => self.handle_signal(signal, is_from_kernel),
                Ok(Event::Server(report)) => self.handle_report(report),
                Err(RecvError) => {
                    return Err(Failure::new(Exit::Failure, "signal thread ended: cannot receive signals"));
                }
            }
        }
    }

    /// Exit code of `doorbell run`: that of the server if it failed, because the command was
    /// stopped for that reason; otherwise that of the command.
    fn code(&self) -> u8 {
        self.server_code.filter(|code| *code != 0).or(self.child_code).unwrap_or(1)
    }

    /// Handles a message of the server about the end or the cancellation of its drain.
    fn handle_report(&mut self, report: ServerReport) {
        match (report, self.phase) {
            (ServerReport::Closing, Phase::Delaying) => {
                self.phase = Phase::Ending;
                send_signal(self.child, Signal::TERM);
            }
            (ServerReport::StopCancelled, Phase::Delaying) => self.phase = Phase::Running,
            (ServerReport::Closing | ServerReport::StopCancelled, Phase::Running | Phase::Ending) => {}
        }
    }

    fn handle_signal(&mut self, signal: i32, is_from_kernel: bool) {
        let Some(named) = Signal::from_named_raw(signal) else { return };
        let child = self.child.filter(|child| !(is_from_kernel && signals::reaches_group_of(*child, signal)));
        match (signal, self.phase) {
            (SIGTERM, Phase::Running) => {
                self.phase = Phase::Delaying;
                send_signal(self.server, Signal::TERM);
            }
            (SIGINT | SIGTERM, _) => {
                self.phase = Phase::Ending;
                send_signal(child, named);
                send_signal(self.server, Signal::INT);
            }
            (SIGHUP | SIGUSR2, _) => {
                send_signal(child, named);
                // The signal would kill a server that has not installed its handler. Such a server
                // does not need the signal, because it has not read the configuration yet.
                send_signal(self.server.filter(|server| signals::has_handler(*server, signal)), named);
            }
            _ => send_signal(child, named),
        }
    }

    /// Reports the exit of the command to the server. The server logs the exit; then it stops, or
    /// fails its readiness endpoints if it stays.
    fn command_ended(&mut self, status: ExitStatus) {
        self.child_code = Some(code_of(status));
        let stays = self.stays && self.phase == Phase::Running;
        let report = CommandEnd { status, stays }.report(&self.reports);
        if stays {
            return;
        }
        // A drain would be pointless without the command.
        self.phase = Phase::Ending;
        if report.is_err() {
            send_signal(self.server, Signal::INT);
        }
    }

    /// Reaps every exited child, including orphans.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let status = ExitStatus::from_raw(status.as_raw());
            if Some(pid) == self.child {
                self.child = None;
                self.command_ended(status);
            } else if Some(pid) == self.server {
                self.server = None;
                if self.phase == Phase::Running {
                    self.server_code = Some(code_of(status).max(u8::from(self.child.is_some())));
                }
                if self.phase != Phase::Ending {
                    // The command must not run without its health endpoint.
                    self.phase = Phase::Ending;
                    send_signal(self.child, Signal::TERM);
                }
            }
        }
    }
}

/// Sends a signal unless the process has exited.
fn send_signal(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The command line of the server process: the options of `serve` as they were given to `run`.
fn serve_args(given: &ArgMatches) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["serve".into()];
    for arg in Global::augment_args(ServeArgs::augment_args(clap::Command::new("serve"))).get_arguments() {
        let (id, name) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
        match arg.get_action() {
            _ if given.value_source(id).is_none_or(|source| source == ValueSource::DefaultValue) => {}
            ArgAction::SetTrue => words.push(format!("--{name}").into()),
            _ => {
                let values = given.get_raw(id).into_iter().flatten();
                words.extend(values.flat_map(|value| [format!("--{name}").into(), value.to_owned()]));
            }
        }
    }
    words
}

fn own_pid() -> String {
    getpid().as_raw_nonzero().to_string()
}
