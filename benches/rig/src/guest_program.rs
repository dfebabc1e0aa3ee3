//! Measurements by a program of the workspace that runs once in the guest: the cost of waking a
//! thread, and of echoing a datagram.
//!
//! Does not know about: the programs.

use crate::error::RigError;
use crate::image::{CHRT, Contents, programs};
use crate::plan::{Check, Plan};
use crate::report::Run;
use crate::session::Session;

/// Time limit in seconds. The programs take a few seconds of the guest's time.
const SECONDS_MAX: u32 = 120;

/// An example of a package, and the meaning of its figures.
pub(crate) struct GuestProgram {
    package: &'static str,
    example: &'static str,
    figures: &'static str,
}

pub(crate) const DATAGRAMS: GuestProgram = GuestProgram {
    package: "doorbell-benches",
    example: "datagram_cost",
    figures: "Instructions of the server, and their ratio to those of the loop",
};

pub(crate) const WAKES: GuestProgram =
    GuestProgram { package: "doorbell-ring", example: "wakes", figures: "Instructions of each thread" };

/// Returns the output of the program, and whether it completed.
pub(crate) fn run(program: &GuestProgram, session: &Session) -> Result<(String, bool), RigError> {
    let file = programs::example(program.package, program.example)?;
    let path = format!("/rig/{}", program.example);
    // Under SCHED_BATCH a woken thread does not preempt the other, so each wake-up finds its thread
    // asleep.
    let argv = [CHRT, "--batch", "0", &path].map(str::to_owned).into();
    let check = Check { name: program.example.into(), argv, seconds_max: SECONDS_MAX };
    let plan = Plan { checks: vec![check], ..Plan::default() };
    let contents = Contents { load: None, programs: vec![(file, path)], files: Vec::new() };
    let Run { checks, conditions, .. } = session.run(&plan, &contents)?;
    let Some(Some(checked)) = checks.into_iter().next() else {
        return Ok(("no result was received\n".to_owned(), false));
    };
    let good = checked.status == Some(0);
    Ok((format!("{}\n{}, Linux {}.\n", checked.output, program.figures, conditions.kernel_package), good))
}
