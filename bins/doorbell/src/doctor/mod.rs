//! Examines the system that doorbell runs on and recommends settings, but changes nothing.
//!
//! Entry: [`examine`].

mod links;
mod network;
mod process;
#[cfg(test)]
mod tests;

pub(crate) use links::{Link, Measured};
pub(crate) use network::{Change, Path, sysctl_file};

use doorbell::io_uring::Cause;
use serde::Serialize;
use std::fmt;

/// Reads a file of the system, without trailing whitespace.
pub(crate) type Read<'a> = doorbell_proxy_server::workers::Read<'a>;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// Could be improved; everything works.
    Hint,
    /// Something works worse than it should.
    Degraded,
    /// doorbell cannot work.
    Fatal,
}

/// The result of one examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) topic: &'static str,
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) value: String,
    /// Explanation; may be empty at [`Level::Ok`].
    pub(crate) why: String,
    /// Recommended action.
    pub(crate) fix: Option<String>,
}

/// The findings and the recommended settings.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Finding>,
    pub(crate) changes: Vec<Change>,
}

/// Examines the system. `path` is the bandwidth and round-trip time of the network; `links` are the
/// links of a running instance, or the reason why they are unknown.
pub(crate) fn examine(path: Option<Path>, links: &Result<Vec<Link>, String>) -> Diagnosis {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let mut findings = driver();
    findings.extend(process::findings(&read));
    let (network, mut changes) = network::findings(&read, path);
    findings.extend(network);
    findings.extend(links::findings(&read, links, &mut changes));
    Diagnosis { findings, changes }
}

impl Diagnosis {
    /// The highest severity of the findings.
    pub(crate) fn level(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }
}

fn driver() -> Vec<Finding> {
    let found = doorbell::io_uring::examine();
    let works = found.cause == Cause::Ok;
    let mut all = vec![Finding {
        topic: "driver",
        name: "io_uring".into(),
        level: if works { Level::Ok } else { Level::Degraded },
        value: if works { "works".into() } else { format!("does not work: {}", found.cause.word()) },
        why: found.report.why,
        fix: (!works).then(|| fix_of(found.cause).to_owned()),
    }];
    if let Some(ring) = found.ring {
        all.push(Finding::ok("driver", "ring", ring));
    }
    for (name, works, seen) in found.tried {
        let level = if works || name != "multishot accept" { Level::Ok } else { Level::Degraded };
        let value = if works { "yes" } else { "no" };
        all.push(Finding { why: seen, level, ..Finding::ok("driver", name, value) });
    }
    all
}

const fn fix_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Files => "raise the limit of open files: LimitNOFILE=, ulimit -n",
        Cause::Kernel => "use Linux 6.1 or later, built with io_uring",
        Cause::Memlock => "raise the limit of locked memory: LimitMEMLOCK=, ulimit -l",
        Cause::Memory => "allow the cgroup more memory, or use fewer workers",
        Cause::Forced | Cause::Ok => "",
        Cause::Sandbox => "ask the administrator of this system to allow io_uring; epoll is used instead",
        Cause::Seccomp => {
            "run the container with a profile that allows io_uring_setup, io_uring_enter and io_uring_register, as deploy/seccomp/doorbell.json does"
        }
        Cause::Sysctl => "set kernel.io_uring_disabled=0, or 1 and join the group in kernel.io_uring_group",
    }
}

impl Finding {
    fn ok(topic: &'static str, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        Self { topic, name, level: Level::Ok, value, why: String::new(), fix: None }
    }

    fn because(self, level: Level, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level, why: why.into(), fix: Some(fix.into()), ..self }
    }
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Hint => "hint",
            Self::Degraded => "degraded",
            Self::Fatal => "fatal",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {:<8} {:<32} {}", self.level.word(), self.topic, self.name, self.value)?;
        if !self.why.is_empty() {
            write!(f, "\n{:19}{}", "", self.why)?;
        }
        match &self.fix {
            Some(fix) => write!(f, "\n{:19}fix: {fix}", ""),
            None => Ok(()),
        }
    }
}
