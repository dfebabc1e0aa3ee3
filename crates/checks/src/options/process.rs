//! Options of a check of processes.

use super::target::Target;
use doorbell_config::{Problem, Section, Table};
use std::path::PathBuf;

/// Processes of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct ProcessCheck {
    /// Name of the program, as in /proc/PID/comm and `ps -e`. The kernel keeps the first 15 bytes
    /// of a name, so only these are compared. Required without `pid_file`.
    pub name: Option<String>,
    /// File whose first line is the process ID. With `name`, another program with this process ID
    /// is a failure; without `name`, a reused process ID is not detected. Required without `name`.
    pub pid_file: Option<PathBuf>,
    /// Maximum number of processes with this name. Default: no limit.
    #[key(table = "expect", range = 0..=65_536)]
    pub max_processes: Option<u32>,
    /// Minimum number of processes with this name. Default: 1, or 0 if `max_processes` is 0.
    #[key(table = "expect", range = 0..=65_536, default_with = Self::default_min)]
    pub min_processes: u32,
}

impl Target for ProcessCheck {}

impl ProcessCheck {
    /// A check that at least one process has this name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), min_processes: 1, ..Self::default() }
    }

    /// A check that the process of a pid file exists.
    #[must_use]
    pub fn of_pid_file(path: PathBuf) -> Self {
        Self { pid_file: Some(path), ..Self::default() }
    }

    fn default_min(&self) -> u32 {
        self.max_processes.unwrap_or(1).min(1)
    }

    fn check(&self, at: &Section<'_>) {
        let places = ["expect.max_processes", "expect.min_processes"].map(|key| at.right_place(key));
        let [max_place, min_place] = places.clone();
        if at.place("name").is_none() && at.place("pid_file").is_none() {
            let message = format!("check `{}` has neither `name` nor `pid_file`", at.name);
            let problem = Problem::error("missing-key", at.span.clone(), message);
            at.problem(problem.help("add `name = \"nginx\"` or `pid_file = \"/run/nginx.pid\"`"));
        }
        if let Some(file) = at.right_place("pid_file") {
            let is_one = [self.max_processes.is_none_or(|max| max == 1), self.min_processes == 1];
            for place in
                places.into_iter().zip(is_one).filter(|(_, is_one)| !is_one).filter_map(|(place, _)| place)
            {
                let problem = Problem::error("contradiction", place, "a pid file names one process");
                at.problem(problem.also(file.clone(), "the pid file").help("remove one of them"));
            }
        } else if let (Some(max), Some(max_place), Some(min_place)) =
            (self.max_processes, max_place, min_place)
            && max < self.min_processes
        {
            let problem = Problem::error("contradiction", max_place, "the maximum is below the minimum");
            at.problem(
                problem.also(min_place, "the minimum").help("raise the maximum, or lower the minimum"),
            );
        }
    }
}
