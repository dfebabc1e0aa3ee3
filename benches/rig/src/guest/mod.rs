//! The part of this program that runs inside the guest. It starts each server, applies the load,
//! reads the counters, and writes lines to the console.

mod check;
mod counters;
mod idle;
mod smoke;

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) use check::{capabilities, denied};
pub(crate) use counters::group_run_time;
pub(crate) use smoke::{CONFIG as SMOKE_CONFIG, smoke};

use crate::image::{CHRT, LOAD};
use crate::load::{self, Pace};
use crate::plan::{Event, Load, MARK, PORT, Plan, Row, Sample, Server};
use crate::process::{Process, now_ns, sleep};

/// Pause between loads. It exceeds TIME_WAIT (60 s), so that every load starts without ports of the
/// previous one. Idle time costs no instructions, and QEMU skips it.
const BETWEEN_LOADS: Duration = Duration::from_secs(65);
/// Time for a server to handle the end of the last connection.
const AFTER_LOAD: Duration = Duration::from_millis(300);

/// Listening address of each server.
const ADDR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
const LOG: &str = "/tmp/server.log";

/// Runs the plan in the file `path`. A failed row does not affect other rows.
pub(crate) fn run(path: &Path) -> Result<(), String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    emit(&Event::Up { kernel: kernel.trim().to_owned() });
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    for (at, row) in plan.rows.iter().enumerate() {
        if let Err(detail) = run_row(&plan, at, row) {
            emit(&Event::Failed { row: at, detail });
        }
    }
    for (at, check) in plan.checks.iter().enumerate() {
        emit(&Event::Checked { check: at, report: check::run(check) });
    }
    emit(&Event::Done);
    Ok(())
}

fn run_row(plan: &Plan, at: usize, row: &Row) -> Result<(), String> {
    let server = plan.servers.iter().find(|server| server.name == row.server);
    let server = server.ok_or_else(|| format!("the plan has no server {}", row.server))?;
    let (program, args) = server.argv.split_first().ok_or("a server without a program")?;
    let mut command = scheduled(program, row.load);
    let mut running = Process::start(command.args(args), Path::new(LOG))?;
    running.wait_for_port(ADDR)?;
    let guest = Guest { server, running, load: row.load };
    let measured = guest.samples(plan.repeat, at).map_err(|why| guest.with_log(&why));
    // The server is stopped even after a failure, because the next row needs the port. The first
    // failure is reported.
    let stopped = guest.running.stop(ADDR);
    measured.and(stopped)
}

/// Returns a command that runs under SCHED_BATCH if the load requires that.
fn scheduled(program: &str, load: Load) -> Command {
    if !load.mode.is_batch() {
        return Command::new(program);
    }
    let mut command = Command::new(CHRT);
    command.args(["--batch", "0", program]);
    command
}

/// A running server under a load.
struct Guest<'a> {
    server: &'a Server,
    running: Process,
    load: Load,
}

impl Guest<'_> {
    fn samples(&self, repeat: u32, at: usize) -> Result<(), String> {
        let mut idle = idle::open(ADDR, self.load.mode.idle_conns(), idle::source, sleep)?;
        // This load is not a sample. It fills buffers, caches and routes of the kernel for the
        // first time.
        self.one_load(self.load.requests().0)?;
        for _ in 0..repeat {
            let sample = self.measure()?;
            emit(&Event::Measured { row: at, sample });
        }
        idle::check(&mut idle)
    }

    /// Measures one long load minus one short load.
    fn measure(&self) -> Result<Sample, String> {
        let (requests_short, requests_long) = self.load.requests();
        let short = self.one_load(requests_short)?;
        let long = self.one_load(requests_long)?;
        Ok(Sample { failed: short.failed + long.failed, ..long.less(&short) })
    }

    fn one_load(&self, requests: u64) -> Result<Sample, String> {
        let count = || counters::read(self.running.group(), self.server.thread.as_deref());
        sleep(BETWEEN_LOADS);
        let before = count()?;
        let done = load::run(scheduled(LOAD, self.load), self.load, Pace::Count(requests), PORT)?;
        // The elapsed time ends with the load, before the pause.
        let elapsed = now_ns() - before.elapsed;
        sleep(AFTER_LOAD);
        let requests = done.requests + done.failed;
        Ok(Sample { requests, failed: done.failed, elapsed, ..count()?.less(&before) })
    }

    fn with_log(&self, why: &str) -> String {
        match self.running.log() {
            log if log.is_empty() => why.to_owned(),
            log => format!("{why}; output of {}: {log}", self.server.name),
        }
    }
}

fn emit(event: &Event) {
    let line = serde_json::to_string(event).expect("an event is plain data");
    // The console is the only output; a failure to write to it cannot be reported.
    let _ = writeln!(io::stdout(), "{MARK}{line}");
}
