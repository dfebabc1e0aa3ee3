//! Results for one kernel.

use serde::Serialize;
use serde_json::Value;

use crate::image::Kernel;
use crate::plan::{Checked, name_of};
use crate::report::Conditions;

/// How io_uring is available to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Setting {
    /// A seccomp filter refuses io_uring, as in container runtimes.
    Denied,
    /// The kernel refuses io_uring, because `kernel.io_uring_disabled` is 2.
    Disabled,
    /// Nothing restricts io_uring.
    #[default]
    Plain,
}

/// All results for one kernel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// The requested version.
    pub(super) kernel: String,
    /// The conditions of the boot.
    pub(super) conditions: Conditions,
    /// Results for each setting. Empty if the kernel could not be booted.
    pub(super) found: Vec<Found>,
    /// Reason why the kernel could not be booted.
    pub(super) failure: Option<String>,
}

/// Results for one setting.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Found {
    /// The setting.
    pub(super) setting: Setting,
    /// Whether the kernel supports the setting.
    pub(super) is_there: bool,
    /// Capabilities of io_uring: the name, whether it works, and the observation.
    pub(super) capabilities: Vec<(String, bool, String)>,
    /// Configurations, by name, each with the driver that the program chose and its reason. The
    /// first one has the default settings.
    pub(super) ways: Vec<(String, String)>,
    /// Failures of the smoke tests.
    pub(super) smoke_failures: Vec<String>,
    /// Results of the test programs.
    pub(super) tests: Vec<Tests>,
}

/// Results of one test program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tests {
    pub(super) name: String,
    /// Number of passed tests, excluding skipped tests.
    pub(super) passed: usize,
    /// Names of failed tests.
    pub(super) failed: Vec<String>,
    pub(super) skipped: usize,
    /// Reasons for skipped tests, each listed once.
    pub(super) skip_reasons: Vec<String>,
    /// Messages of failed tests, or the end of the output of a program that gave no counts.
    pub(super) detail: String,
}

impl Setting {
    /// All settings in the order of testing. The last setting persists for the rest of the boot.
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Denied, Self::Disabled];

    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Denied => "refused with EPERM",
            Self::Disabled => "io_uring_disabled=2",
            Self::Plain => "unrestricted",
        }
    }
}

impl Answer {
    pub(super) fn of(kernel: Kernel, conditions: Conditions, found: Vec<Found>) -> Self {
        Self { kernel: name_of(&kernel), conditions, found, failure: None }
    }

    pub(super) fn failed(kernel: Kernel, failure: String) -> Self {
        Self { failure: Some(failure), ..Self::of(kernel, Conditions::default(), Vec::new()) }
    }

    /// Whether nothing failed.
    pub(crate) fn is_good(&self) -> bool {
        self.failure.is_none() && self.found.iter().filter(|found| found.is_there).all(Found::is_good)
    }
}

impl Found {
    pub(super) fn new(setting: Setting) -> Self {
        Self { setting, is_there: true, ..Self::default() }
    }

    pub(super) fn is_good(&self) -> bool {
        self.smoke_failures.is_empty() && self.tests.iter().all(Tests::is_good)
    }

    /// Parses the JSON output of `guest-capabilities`.
    pub(super) fn capabilities(&mut self, checked: &Checked) {
        let Some(Value::Object(all)) = last_json(&checked.output) else {
            self.capabilities.push(("ring".into(), false, checked.output.trim().to_owned()));
            return;
        };
        let why = |verdict: &Value| verdict["why"].as_str().unwrap_or_default().to_owned();
        let read = all.into_iter().map(|(name, verdict)| (name, verdict["ok"] == true, why(&verdict)));
        self.capabilities = read.collect();
    }

    /// Parses the JSON of a smoke test of the configuration `way`.
    pub(super) fn smoke(&mut self, way: &str, checked: &Checked) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let Some(said) = last_json(&checked.output) else {
            self.smoke_failures.push(format!("{way}: no result: {}", checked.output.trim()));
            return;
        };
        self.ways.push((way.to_owned(), format!("{}: {}", text(&said["driver"]), text(&said["why"]))));
        let failures = said["failures"].as_array().into_iter().flatten();
        self.smoke_failures.extend(failures.map(|failure| format!("{way}: {}", text(failure))));
    }
}

impl Tests {
    /// Parses the output of a test program that ran with `--nocapture`.
    pub(super) fn read(name: &str, checked: &Checked) -> Self {
        let output = &checked.output;
        let mut tests = Self { name: name.to_owned(), ..Self::default() };
        for (_, reason) in output.lines().filter_map(|line| line.split_once("SKIPPED")) {
            tests.skipped += 1;
            let reason = reason.trim_start_matches([',', ' ']).to_owned();
            if !tests.skip_reasons.contains(&reason) {
                tests.skip_reasons.push(reason);
            }
        }
        let result = output.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let count = |word: &str| -> Option<usize> {
            let (before, _) = result?.split_once(&format!(" {word}"))?;
            before.rsplit([' ', '.']).next()?.parse().ok()
        };
        match (count("passed"), count("failed")) {
            (Some(passed), Some(0)) if checked.status == Some(0) => {
                tests.passed = passed.saturating_sub(tests.skipped)
            }
            (Some(passed), Some(1..)) => {
                tests.passed = passed.saturating_sub(tests.skipped);
                tests.failed = failed_names(output);
                tests.detail = panics(output);
            }
            _ => {
                tests.failed = vec!["the program itself".into()];
                tests.detail = crate::tool::tail(output);
            }
        }
        tests
    }

    fn is_good(&self) -> bool {
        self.failed.is_empty()
    }
}

/// The indented names after the last `failures:`.
fn failed_names(output: &str) -> Vec<String> {
    let list = output.rsplit("\nfailures:\n").next().unwrap_or_default();
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

/// The messages of panicked tests, with their locations.
fn panics(output: &str) -> String {
    let mut lines = Vec::new();
    let mut rest = 0;
    for line in output.lines() {
        if line.contains(" panicked at ") {
            rest = 4;
        }
        if rest > 0 && !line.starts_with("note: ") {
            lines.push(line);
            rest -= 1;
        }
    }
    lines.join("\n")
}

/// The last line that is a JSON object.
fn last_json(output: &str) -> Option<Value> {
    output.lines().rev().find_map(|line| serde_json::from_str(line).ok().filter(Value::is_object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(status: i32, output: &str) -> Checked {
        Checked { status: Some(status), seconds: 1.0, output: output.into() }
    }

    #[test]
    fn skips_do_not_count_as_passed() {
        let output = "\nrunning 3 tests\ntest a ... SKIPPED io_uring: too old\nok\ntest b ... SKIPPED io_uring: too old\n\
                      ok\ntest c ... ok\n\ntest result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.1s\n";
        let tests = Tests::read("x", &checked(0, output));
        assert_eq!((tests.passed, tests.skipped, tests.failed.len()), (1, 2, 0));
        assert_eq!(tests.skip_reasons, ["io_uring: too old"]);
        assert!(tests.is_good());
    }

    #[test]
    fn failures_are_named_and_shown() {
        let output = "test a ... ok\ntest m::b ... \nthread 'm::b' (7) panicked at src/x.rs:5:9:\nassertion failed: no\n\
                      note: run with\nFAILED\n\nfailures:\n\nfailures:\n    m::b\n    m::c\n\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        let tests = Tests::read("x", &checked(101, output));
        assert_eq!((tests.passed, tests.failed.clone()), (1, vec!["m::b".to_owned(), "m::c".into()]));
        assert!(tests.detail.contains("src/x.rs:5:9:\nassertion failed: no"), "{}", tests.detail);
        assert!(!tests.is_good());
    }

    #[test]
    fn a_program_that_does_not_finish_is_a_failure() {
        for bad in
            [checked(0, ""), checked(139, "test a ... "), checked(1, "test result: ok. 3 passed; 0 failed;")]
        {
            assert!(!Tests::read("x", &bad).is_good(), "{bad:?}");
        }
    }

    #[test]
    fn what_the_agent_says_is_read() {
        let mut found = Found::new(Setting::Plain);
        found.capabilities(&checked(0, "{\"ring\": {\"ok\": true, \"why\": \"opened\"}}\n"));
        assert_eq!(found.capabilities, [("ring".to_owned(), true, "opened".to_owned())]);
        let served = "noise\n{\"driver\": \"epoll\", \"why\": \"asked\", \"failures\": []}\n";
        found.smoke("default settings", &checked(0, served));
        assert_eq!(found.ways, [("default settings".to_owned(), "epoll: asked".to_owned())]);
        assert!(found.is_good());
        let ended = "{\"driver\": null, \"why\": null, \"failures\": [\"it ended\"]}";
        found.smoke("polled accept", &checked(1, ended));
        assert!(!found.is_good());
        assert_eq!(found.smoke_failures, ["polled accept: it ended"]);
        found.smoke("default settings", &checked(1, "Killed"));
        assert_eq!(found.smoke_failures.last().unwrap(), "default settings: no result: Killed");
    }
}
