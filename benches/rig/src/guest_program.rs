//! Measurements by a program of the workspace that runs once in the guest: the cost of waking a
//! thread, of echoing a datagram, and of a probe during a flood of datagrams.

use crate::error::RigError;
use crate::image::{CHRT, Contents, programs};
use crate::plan::{Check, Plan};
use crate::report::Run;
use crate::session::Session;

/// Time limit in seconds. The programs take a few seconds of the guest's time.
const SECONDS_MAX: u32 = 120;

/// An example program (`--example`) of a package, and the meaning of its figures.
pub(crate) struct GuestProgram {
    package: &'static str,
    example: &'static str,
    args: &'static [&'static str],
    figures: &'static str,
}

/// Fails if a datagram costs over 10 % more than in the loop, or a flood adds over 5 % to a probe.
pub(crate) const DATAGRAMS: GuestProgram = GuestProgram {
    package: "doorbell-benches",
    example: "datagram_cost",
    args: &["10", "5"],
    figures: "Instructions of the server: for a datagram and their ratio to those of the loop; for a probe \
              alone and beside a flood, their ratio, those for a datagram of the flood, and the bytes \
              sent for each byte received",
};

pub(crate) const WAKES: GuestProgram = GuestProgram {
    package: "doorbell-ring",
    example: "wakes",
    args: &[],
    figures: "Instructions of each thread",
};

/// Runs the program in a guest. Returns its output, and whether it succeeded.
pub(crate) fn run(program: &GuestProgram, session: &Session) -> Result<(String, bool), RigError> {
    let file = programs::target_of(program.package, "example", program.example)?;
    let path = format!("/rig/{}", program.example);
    // Under SCHED_BATCH a woken thread does not preempt the running one, so each wake-up finds its
    // thread asleep.
    let argv =
        [CHRT, "--batch", "0", &path].iter().chain(program.args).map(|&word| word.to_owned()).collect();
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
