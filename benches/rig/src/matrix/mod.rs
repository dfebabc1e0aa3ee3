//! For every supported kernel: which driver doorbell chooses and why, whether its drivers keep
//! their contract, and whether the program serves. Tested with and without io_uring.

mod answer;
mod report;

pub(crate) use answer::Answer;
use answer::{Setting, Tests};
pub(crate) use report::page;

use crate::error::RigError;
use crate::guest;
use crate::image::{AGENT, Contents, DOORBELL, Kernel, OurPrograms, programs};
use crate::plan::{Check, Checked, Plan, name_of};
use crate::session::{Session, say};

/// Time limit of a test program in seconds of the guest. Tests take a few seconds, and a hanging
/// test must not delay the others for long.
const SECONDS_MAX: u32 = 240;
/// The errno with which container runtimes refuse io_uring.
const EPERM: &str = "1";

/// The package and the test target, and whether it tests anything while io_uring is refused.
const TESTS: [(&str, &str, bool); 4] = [
    ("doorbell", "conformance", true),
    ("doorbell", "shared_listeners", true),
    ("doorbell-ring", "operations", false),
    ("doorbell-ring", "selftest", true),
];

/// Configurations of the same driver, each with its lines of `[tuning]`. The first is the default.
const WAYS: [(&str, &str); 6] = [
    ("default settings", ""),
    ("polled accept", "accept = \"poll\"\nwait_min = \"200us\""),
    ("single shots", "accept = \"single-shot\"\nreceive = \"single-shot\""),
    ("direct descriptors", "descriptors = \"direct\"\n[connections]\nper_ip_max = \"off\""),
    ("no direct calls", "direct_calls = false\nsend_more = false"),
    (
        "no set-up flags",
        "coop_taskrun = false\ndefer_taskrun = false\nsingle_issuer = false\nno_sqarray = false\nregistered_ring = false",
    ),
];
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// One program to run in one setting.
struct Step {
    setting: Setting,
    what: What,
    check: Check,
}

enum What {
    Capabilities,
    /// Enables the setting for the rest of the boot.
    Prepare,
    Smoke(&'static str),
    Tests(&'static str),
}

/// Boots each kernel and returns one result for each. A kernel that is not available counts as a
/// failure.
pub(crate) fn run(kernels: &[Kernel], cpu: &str, ours: &OurPrograms) -> Result<Vec<Answer>, RigError> {
    let contents = contents(ours)?;
    let mut answers = Vec::new();
    for &kernel in kernels {
        let steps = steps(kernel);
        let checks = steps.iter().map(|step| step.check.clone()).collect();
        let session = Session { kernel, cpu: cpu.to_owned() };
        answers.push(match session.run(&Plan { checks, ..Plan::default() }, &contents) {
            Ok(run) => Answer::of(kernel, run.conditions, read(&steps, &run.checks)),
            Err(error) => {
                say(&format!("Linux {}: {error}", name_of(&kernel)));
                Answer::failed(kernel, error.to_string())
            }
        });
    }
    Ok(answers)
}

/// Builds the test programs with debug assertions, so that a broken invariant is found at its
/// origin.
fn contents(ours: &OurPrograms) -> Result<Contents, RigError> {
    let mut programs = vec![(ours.doorbell.clone(), DOORBELL.to_owned())];
    for (package, name, _) in TESTS {
        programs.push((programs::test(package, name)?, test_path(name)));
    }
    let file = |(way, (_, tuning)): (usize, &(&str, &str))| {
        (config_path(way), format!("{}\n[tuning]\n{tuning}\n", guest::SMOKE_CONFIG))
    };
    let files = WAYS.iter().enumerate().map(file).collect();
    Ok(Contents { load: Some(ours.load.clone()), programs, files })
}

/// All steps with io_uring unrestricted; then those that test anything without io_uring, first with
/// io_uring refused by seccomp, then with io_uring disabled in the kernel for the rest of the boot.
fn steps(kernel: Kernel) -> Vec<Step> {
    let agent = |words: &[&str]| [AGENT].iter().chain(words).map(|&word| word.to_owned()).collect();
    let mut steps = Vec::new();
    for setting in Setting::ALL {
        if setting == Setting::Disabled {
            let script = format!("echo 2 > {SYSCTL}");
            steps.push(step(
                setting,
                What::Prepare,
                ["/bin/busybox", "sh", "-c", &script].map(str::to_owned).into(),
            ));
        }
        steps.push(step(setting, What::Capabilities, agent(&["guest-capabilities"])));
        // Without io_uring there is only one configuration.
        let ways = if setting == Setting::Plain { WAYS.len() } else { 1 };
        for (way, (name, _)) in WAYS.iter().enumerate().take(ways) {
            let argv = agent(&["guest-smoke", DOORBELL, "serve", "--config", &config_path(way)]);
            steps.push(step(setting, What::Smoke(name), argv));
        }
        for (_, name, _) in TESTS.into_iter().filter(|(.., denied)| setting == Setting::Plain || *denied) {
            let program = [&test_path(name), "--nocapture", "--test-threads=1"].map(ToString::to_string);
            // On 5.10 no ring opens (EINVAL), which the tests would otherwise report as a defect.
            let known: &[&str] = match (setting, kernel) {
                (Setting::Plain, Kernel::V5_10) => &["/bin/busybox", "env", "DOORBELL_URING_DENIED=EINVAL"],
                _ => &[],
            };
            let argv = known.iter().map(|&word| word.to_owned()).chain(program).collect();
            steps.push(step(setting, What::Tests(name), argv));
        }
    }
    steps
}

fn step(setting: Setting, what: What, argv: Vec<String>) -> Step {
    let script = format!("test -e {SYSCTL} || exit 9; exec \"$@\"");
    let before: &[&str] = match setting {
        Setting::Denied => &[AGENT, "guest-deny", EPERM],
        Setting::Disabled => &["/bin/busybox", "sh", "-c", &script, "sh"],
        Setting::Plain => &[],
    };
    let name = match what {
        What::Capabilities => "capabilities",
        What::Prepare => "preparation",
        What::Smoke(name) | What::Tests(name) => name,
    };
    let argv = before.iter().map(|&word| word.to_owned()).chain(argv).collect();
    let check = Check { name: format!("{name}, {}", setting.name()), argv, seconds_max: SECONDS_MAX };
    Step { setting, what, check }
}

fn test_path(name: &str) -> String {
    format!("/rig/test-{name}")
}

fn config_path(way: usize) -> String {
    format!("/rig/smoke-{way}.toml")
}

/// Collects the results of each setting. If the preparation of a setting fails, the kernel does not
/// support that setting.
fn read(steps: &[Step], checked: &[Option<Checked>]) -> Vec<answer::Found> {
    let mut all = Vec::new();
    for setting in Setting::ALL {
        let mut found = answer::Found::new(setting);
        for (step, checked) in steps.iter().zip(checked).filter(|(step, _)| step.setting == setting) {
            let lost = Checked { output: "no result was received".into(), ..Checked::default() };
            let checked = checked.as_ref().unwrap_or(&lost);
            match step.what {
                What::Capabilities => found.capabilities(checked),
                What::Prepare => found.is_there = checked.status == Some(0),
                What::Smoke(way) => found.smoke(way, checked),
                What::Tests(name) => found.tests.push(Tests::read(name, checked)),
            }
        }
        all.push(found);
    }
    all
}
