//! The agent inside the guest: starts each server, loads it, reads the counters, writes lines to the console.
//!
//! Does not know about: QEMU, how the image was made, how figures are shown.

mod check;
mod counters;
mod idle;
mod load;
mod server;
mod smoke;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

pub(crate) use check::{capabilities, denied};
use counters::Counters;
pub(crate) use counters::group_run_time;
use idle::Idle;
use server::Running;
pub(crate) use smoke::{CONFIG as SMOKE_CONFIG, smoke};

use crate::plan::{Event, MARK, Plan, Row, Sample, Server};

/// Longer than a TIME_WAIT of the kernel (60 s), so that every load starts without the ports of the last one. Idle time costs no
/// instruction and QEMU skips it.
const BETWEEN_LOADS: Duration = Duration::from_secs(65);
/// Until a server has seen the last connection end.
const AFTER_LOAD: Duration = Duration::from_millis(300);

/// Runs the plan in the file `path`. A row that fails does not keep the others from being tried.
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
    let running = Running::start(&server.argv, row.mode.is_batch())?;
    let measured = samples(&running, plan.repeat, at, row, server.thread.as_deref())
        .map_err(|why| with_log(&why, &running, server));
    // Whatever happened, the next row finds the port free. The first failure is the one to report.
    let stopped = running.stop();
    measured.and(stopped)
}

fn samples(running: &Running, repeat: u32, at: usize, row: &Row, thread: Option<&str>) -> Result<(), String> {
    let mut idle = Idle::open(server::ADDR, row.mode.idle_conns(), idle::source, sleep)?;
    // Not a sample: buffers, caches of the kernel and its routes are filled for the first time.
    one_load(running, row, row.requests().0, thread)?;
    for _ in 0..repeat {
        let sample = measure(running, row, thread)?;
        emit(&Event::Measured { row: at, sample });
    }
    idle.check()
}

/// One long load, less one short load.
fn measure(running: &Running, row: &Row, thread: Option<&str>) -> Result<Sample, String> {
    let (requests_short, requests_long) = row.requests();
    let short = one_load(running, row, requests_short, thread)?;
    let long = one_load(running, row, requests_long, thread)?;
    Ok(Sample {
        requests: long.requests - short.requests,
        failed: short.failed + long.failed,
        server: long.server - short.server,
        machine: long.machine - short.machine,
        elapsed: long.elapsed - short.elapsed,
        switches: long.switches - short.switches,
    })
}

fn one_load(running: &Running, row: &Row, requests: u64, thread: Option<&str>) -> Result<Sample, String> {
    sleep(BETWEEN_LOADS);
    let before = Counters::read(running.group(), thread)?;
    let done = load::run(row, requests)?;
    // Not part of the elapsed time, which ends with the load.
    let elapsed = counters::now_ns() - before.at_ns;
    sleep(AFTER_LOAD);
    let after = Counters::read(running.group(), thread)?;
    Ok(Sample {
        requests: done.requests + done.failed,
        failed: done.failed,
        server: after.server_ns - before.server_ns,
        machine: after.machine_ns - before.machine_ns,
        elapsed,
        switches: after.switches - before.switches,
    })
}

fn with_log(why: &str, running: &Running, server: &Server) -> String {
    match running.log() {
        log if log.is_empty() => why.to_owned(),
        log => format!("{why}; {} said: {log}", server.name),
    }
}

fn emit(event: &Event) {
    let line = serde_json::to_string(event).expect("an event is plain data");
    // The console is the only way out; when it is gone, nobody is left to tell.
    let _ = writeln!(io::stdout(), "{MARK}{line}");
}

fn sleep(time: Duration) {
    let wait = rustix::thread::Timespec::try_from(time).expect("constants are short");
    // Nothing sends us signals.
    let _ = rustix::thread::nanosleep(&wait);
}
