//! The agent inside the guest: starts each server, loads it, reads the counters, writes lines to the console.
//!
//! Does not know about: QEMU, how the image was made, how figures are shown.

mod counters;
mod load;
mod server;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use counters::Counters;
use server::Running;

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
    emit(&Event::Done);
    Ok(())
}

fn run_row(plan: &Plan, at: usize, row: &Row) -> Result<(), String> {
    let server = plan.servers.iter().find(|server| server.name == row.server);
    let server = server.ok_or_else(|| format!("the plan has no server {}", row.server))?;
    let running = Running::start(&server.argv, row.mode.is_batch())?;
    for _ in 0..plan.repeat {
        let sample = measure(&running, row).map_err(|why| with_log(&why, &running, server))?;
        emit(&Event::Measured { row: at, sample });
    }
    running.stop()
}

/// One long load, less one short load.
fn measure(running: &Running, row: &Row) -> Result<Sample, String> {
    let (requests_short, requests_long) = row.requests();
    let short = one_load(running, row, requests_short)?;
    let long = one_load(running, row, requests_long)?;
    Ok(Sample {
        requests: long.requests - short.requests,
        failed: short.failed + long.failed,
        server: long.server - short.server,
        machine: long.machine - short.machine,
        elapsed: long.elapsed - short.elapsed,
        switches: long.switches - short.switches,
    })
}

fn one_load(running: &Running, row: &Row, requests: u64) -> Result<Sample, String> {
    sleep(BETWEEN_LOADS);
    let before = Counters::read(running.group())?;
    let done = load::run(row, requests)?;
    // Not part of the elapsed time, which ends with the load.
    let elapsed = counters::now_ns() - before.at_ns;
    sleep(AFTER_LOAD);
    let after = Counters::read(running.group())?;
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
