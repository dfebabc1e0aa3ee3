//! Programs that run once, with a time limit, in their own process group, and with captured output.
//! Also reports the io_uring capabilities of the kernel, and runs a program with io_uring refused.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use doorbell_ring::sandbox::{Denial, deny};
use doorbell_ring::selftest::{Verdict, capabilities as found};
use doorbell_ring::{Errno, Ring, Setup};
use serde_json::{Value, json};

use crate::plan::{Check, Checked};
use crate::process::{Process, now_ns, poll};

const LOG: &str = "/tmp/check.log";
/// Maximum length of the captured output, which the guest sends in one line of the console. The end
/// is kept.
const OUTPUT_MAX: usize = 64 << 10;

/// Runs a program until it exits or reaches its time limit.
pub(super) fn run(check: &Check) -> Checked {
    let began_ns = now_ns();
    let done = execute(check);
    let nanos = u64::try_from(now_ns() - began_ns).unwrap_or_default();
    let log = fs::read(LOG).unwrap_or_default();
    let mut output = String::from_utf8_lossy(&log[log.len().saturating_sub(OUTPUT_MAX)..]).into_owned();
    let status = match done {
        Ok(status) => {
            if let Some(signal) = status.signal() {
                output.push_str(&format!("\nended by signal {signal}\n"));
            }
            status.code()
        }
        Err(why) => {
            output.push_str(&format!("\n{why}\n"));
            None
        }
    };
    Checked { status, seconds: Duration::from_nanos(nanos).as_secs_f64(), output }
}

fn execute(check: &Check) -> Result<ExitStatus, String> {
    let (program, args) = check.argv.split_first().ok_or("a check without a program")?;
    let mut process = Process::start(Command::new(program).args(args), Path::new(LOG))?;
    let ended = poll(check.seconds_max, || process.status())?;
    ended.ok_or_else(|| format!("not finished after {} s", check.seconds_max))
}

/// Replaces this process with `argv`, with io_uring refused with `errno`. Returns only on failure,
/// with the reason.
pub(crate) fn denied(errno: i32, argv: &[String]) -> String {
    if let Err(error) = deny(&Denial::at_setup(Errno(errno))) {
        return format!("seccomp failed: {error}");
    }
    match argv.split_first() {
        Some((program, args)) => format!("{program}: {}", Command::new(program).args(args).exec()),
        None => "no command".to_owned(),
    }
}

/// Returns the io_uring capabilities of this kernel as JSON: tests, verdicts and observations.
pub(crate) fn capabilities() -> Value {
    let setup = Setup::default();
    let opened = Ring::open(&setup).map(|ring| ring.report().clone());
    let verdict = |verdict: Verdict| json!({ "ok": verdict.ok, "why": verdict.why });
    match opened {
        Err(error) => json!({ "ring": { "ok": false, "why": error.to_string() } }),
        Ok(report) => {
            let found = found(&setup);
            json!({
                "ring": { "ok": true, "why": format!("{report}") },
                "multishot accept": verdict(found.multishot_accept),
                "direct descriptors": verdict(found.direct_descriptors),
                "reply and FIN": verdict(found.reply_and_fin),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, seconds_max: u32) -> Checked {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
        run(&Check { name: "x".into(), argv, seconds_max })
    }

    #[test]
    fn status_output_and_end() {
        // The checks run one after another, because they share a file.
        let good = check("echo one; echo two >&2; exit 3", 60);
        assert_eq!((good.status, good.output.as_str()), (Some(3), "one\ntwo\n"));
        let slow = check("echo before; sleep 1000", 1);
        assert_eq!(slow.status, None);
        assert!(
            slow.output.starts_with("before") && slow.output.contains("not finished after 1 s"),
            "{}",
            slow.output
        );
        let killed = check("kill -9 $$", 60);
        assert_eq!(killed.status, None);
        assert!(killed.output.contains("ended by signal 9"), "{}", killed.output);
        let missing = run(&Check { argv: vec!["/no/such".into()], ..Check::default() });
        assert!(missing.output.contains("does not start"), "{}", missing.output);
        let long = check("head -c 100000 /dev/zero | tr '\\0' x; echo end", 60);
        assert_eq!((long.output.len(), long.output.ends_with("end\n")), (OUTPUT_MAX, true));
    }

    #[test]
    fn capabilities_are_json() {
        let value = capabilities();
        assert!(value["ring"]["ok"].is_boolean() && value["ring"]["why"].is_string(), "{value}");
    }
}
