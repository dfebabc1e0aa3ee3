//! `doorbell await`: waits until targets are healthy, then executes another program.

use super::options::Global;
use super::output::{print, print_error};
use super::signals;
use super::trust::TrustArgs;
use clap::Args;
use doorbell_checks::cause_of;
use doorbell_checks::options::ClientTls;
use doorbell_prober::{Probe, Prober, Target, Verdict};
use doorbell_proxy_config::format_duration;
use doorbell_proxy_server::exit::{Exit, Failure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) const HELP: &str = "\
Examples:
  doorbell await http://127.0.0.1:8080/readyz -- /app/server --port 3000
  doorbell await tcp://db:5432 redis://cache:6379 --timeout 2m -- ./migrate
  doorbell await http://a/healthz http://b/healthz --any
  doorbell await grpcs://orders:50051 https://auth/readyz --tls-ca-cert ca.pem -- /app/server

The command replaces doorbell (exec): same process, same signals. Until then, TERM, INT, HUP and QUIT end doorbell, also as process 1.

Exit codes: 0 ready, 69 not ready in time, 71 the command cannot be started, 2 invalid command line, else that of the command";

/// Options of `await`.
#[derive(Debug, Args)]
pub struct AwaitArgs {
    /// Target to wait for, written as for `doorbell probe`
    #[arg(value_name = "TARGET", required = true, value_parser = super::probe::parse_target)]
    targets: Vec<Target>,

    /// Maximum time to wait for all targets
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::options::parse_timeout)]
    timeout: Duration,

    /// Delay after a failed probe
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::options::parse_timeout)]
    backoff: Duration,

    /// Wait until one of the targets is healthy instead of all
    #[arg(long)]
    any: bool,

    #[command(flatten)]
    trust: TrustArgs,

    /// Command to run when the targets are ready
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Exit code if the targets are not ready in time, the same as that of linkerd-await
/// (`EX_UNAVAILABLE` of sysexits).
const NOT_READY: Exit = Exit::Code(69);

/// Exit code if the command cannot be started (`EX_OSERR` of sysexits).
const NOT_STARTED: Exit = Exit::Code(71);

/// Last failure of each target that is not ready.
type Reasons = Arc<Mutex<Vec<Option<String>>>>;

#[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
pub(super) fn run(mut args: AwaitArgs, global: &Global) -> Result<Exit, Failure> {
    end_on_signals()
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot handle signals: {error}")))?;
    args.targets = args.targets.into_iter().map(|target| args.trust.with_tls(target)).collect();
    if let Some(why) = args.trust.unused_option(&args.targets, Prober::Doorbell) {
        return Err(Failure::new(Exit::Usage, why));
    }
    let tls = args.trust.client(Prober::Doorbell.verifies());
    let ends_at = Instant::now() + args.timeout;
    let reasons: Reasons = Arc::new(Mutex::new(vec![None; args.targets.len()]));
    let (sender, ready) = sync_channel(args.targets.len());
    for (position, target) in args.targets.iter().enumerate() {
        let (target, tls) = (target.clone(), tls.clone());
        let poller = Poller { target, tls, position, ends_at, backoff: args.backoff };
        let (sender, reasons) = (sender.clone(), Arc::clone(&reasons));
        // Probes that are running at the deadline end with the process.
        std::thread::Builder::new().spawn(move || poller.poll(&sender, &reasons)).map_err(|error| {
            Failure::new(NOT_STARTED, format!("cannot start a thread: {}", cause_of(&error)))
        })?;
    }
    let mut missing = if args.any { 1 } else { args.targets.len() };
    while missing > 0 {
        match ready.recv_timeout(ends_at.saturating_duration_since(Instant::now())) {
            Ok(position) => {
                missing -= 1;
                reasons.lock().unwrap_or_else(PoisonError::into_inner)[position] = None;
                if !global.quiet {
                    let line = format!("{} is ready\n", args.targets[position]);
                    if args.command.is_empty() {
                        // The exit code reports the result, so a failure to print is ignored.
                        let _lost = print(&line);
                    } else {
                        // Standard output belongs to the command.
                        print_error(&line);
                    }
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                not_ready(&args, &reasons);
                return Ok(NOT_READY);
            }
        }
    }
    let Some((program, rest)) = args.command.split_first() else { return Ok(Exit::Success) };
    let error = Command::new(program).args(rest).exec();
    Err(Failure::new(NOT_STARTED, format!("cannot start {}: {error}", program.display())))
}

/// If this is process 1, makes signals end it with exit code 128 plus the signal, as in a shell:
/// the kernel drops signals to process 1 that have no handler. Executing the command removes the
/// handlers.
fn end_on_signals() -> io::Result<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    if std::process::id() != 1 {
        return Ok(());
    }
    for signal in signals::not_ignored([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) {
        register_conditional_shutdown(signal, 128 + signal, &ALWAYS)?;
    }
    Ok(())
}

fn not_ready(args: &AwaitArgs, reasons: &Reasons) {
    let reasons = reasons.lock().unwrap_or_else(PoisonError::into_inner);
    for (target, reason) in args.targets.iter().zip(reasons.iter()) {
        if let Some(reason) = reason {
            print_error(&format!("doorbell: {target} is not ready: {reason}\n"));
        }
    }
    print_error(&format!("doorbell: not ready within {}\n", format_duration(args.timeout)));
}

/// Probes one target until it is healthy, or until `ends_at`.
struct Poller {
    target: Target,
    tls: ClientTls,
    position: usize,
    ends_at: Instant,
    backoff: Duration,
}

impl Poller {
    #[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
    fn poll(self, ready: &SyncSender<usize>, reasons: &Reasons) {
        let mut probe = Probe { tls: self.tls, ..Probe::of(self.target, Prober::Doorbell) };
        let longest = probe.timeout;
        loop {
            let left = self.ends_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            probe.timeout = longest.min(left);
            let report = probe.run();
            if report.verdict == Verdict::Healthy {
                let _ = ready.send(self.position);
                return;
            }
            reasons.lock().unwrap_or_else(PoisonError::into_inner)[self.position] = Some(report.reason);
            std::thread::sleep(self.backoff.min(self.ends_at.saturating_duration_since(Instant::now())));
        }
    }
}
