//! Cost of waking a thread by each mechanism of the kernel. Runs a program of the ring crate once
//! in the guest.
//!
//! Does not know about: the mechanisms.

use crate::error::RigError;
use crate::image::{CHRT, Contents, programs};
use crate::plan::{Check, Plan};
use crate::report::Run;
use crate::session::Session;

const PROGRAM: &str = "/rig/wakes";
/// Time limit in seconds. The program takes about 2 s of the guest's time.
const SECONDS_MAX: u32 = 120;

/// Returns the output of the program, and whether it completed.
pub(crate) fn run(session: &Session) -> Result<(String, bool), RigError> {
    let wakes = programs::example("doorbell-ring", "wakes")?;
    // Under SCHED_BATCH a woken thread does not preempt the other, so each wake-up finds its thread
    // asleep.
    let argv = [CHRT, "--batch", "0", PROGRAM].map(str::to_owned).into();
    let check = Check { name: "wakes".into(), argv, seconds_max: SECONDS_MAX };
    let plan = Plan { checks: vec![check], ..Plan::default() };
    let contents = Contents { load: None, programs: vec![(wakes, PROGRAM.to_owned())], files: Vec::new() };
    let Run { checks, conditions, .. } = session.run(&plan, &contents)?;
    let Some(Some(checked)) = checks.into_iter().next() else {
        return Ok(("no result was received\n".to_owned(), false));
    };
    let good = checked.status == Some(0);
    Ok((
        format!("{}\nInstructions of each thread, Linux {}.\n", checked.output, conditions.kernel_package),
        good,
    ))
}
