//! The kernel's counters: run time of the server and of the machine, and context switches.
//!
//! Under `-icount shift=0` one nanosecond of run time is one instruction.

use std::fs;
use std::path::Path;

use crate::plan::Sample;
use crate::process::now_ns;

/// Reads the counters of the machine, and those of all threads of the process group `group` or only
/// of its threads named `thread`. `elapsed` of the result is the monotonic clock.
pub(super) fn read(group: i32, thread: Option<&str>) -> Result<Sample, String> {
    let elapsed = now_ns();
    let (server, switches) = group_totals(group, thread)?;
    let machine = fs::read_to_string("/proc/schedstat").unwrap_or_default();
    let machine = machine_run_time(&machine).ok_or("this kernel has no /proc/schedstat")?;
    Ok(Sample { server, machine, elapsed, switches, ..Sample::default() })
}

/// Run time of every thread of the process group `group`, in nanoseconds.
pub(crate) fn group_run_time(group: i32) -> Result<i64, String> {
    group_totals(group, None).map(|totals| totals.0)
}

/// Run time and context switches of all threads of the group, or only of its threads named `name`.
fn group_totals(group: i32, name: Option<&str>) -> Result<(i64, i64), String> {
    let mut totals = (0, 0);
    let mut threads = 0;
    for process in folders(Path::new("/proc")) {
        let Ok(stat) = fs::read_to_string(process.join("stat")) else { continue };
        if group_of(&stat) != Some(group) {
            continue;
        }
        for thread in folders(&process.join("task")) {
            let comm = || fs::read_to_string(thread.join("comm")).unwrap_or_default();
            if name.is_some_and(|name| comm().trim_end() != name) {
                continue;
            }
            let run = match fs::read_to_string(thread.join("schedstat")) {
                Ok(run) => run,
                // The thread has exited since it was listed.
                Err(_) if !thread.exists() => continue,
                Err(_) => String::new(),
            };
            let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
            totals.0 += run_time(&run).ok_or("this kernel counts no run time of threads")?;
            totals.1 += switches(&status);
            threads += 1;
        }
    }
    if threads == 0 { Err("the server is gone".into()) } else { Ok(totals) }
}

/// Entries whose names are numbers, which are processes or threads.
fn folders(above: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(above) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .map(|entry| entry.path())
        .collect()
}

/// Field 5 of `/proc/PID/stat` (proc(5)). Field 2, the name, may contain spaces and brackets.
fn group_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Field 1 of `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU.
fn run_time(schedstat: &str) -> Option<i64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// Sum of field 7 of each `cpu` line of `/proc/schedstat` (version 15 and later): nanoseconds in
/// which tasks ran, except the idle task.
fn machine_run_time(schedstat: &str) -> Option<i64> {
    let lines = schedstat.lines().filter(|line| line.starts_with("cpu"));
    let times: Option<Vec<i64>> =
        lines.map(|line| line.split_ascii_whitespace().nth(7)?.parse().ok()).collect();
    times.filter(|times| !times.is_empty()).map(|times| times.iter().sum())
}

/// Sum of both `ctxt_switches` lines of `/proc/PID/task/TID/status`.
fn switches(status: &str) -> i64 {
    status
        .lines()
        .filter_map(|line| line.split_once("ctxt_switches:"))
        .filter_map(|(_, count)| count.trim().parse::<i64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_with_an_odd_name() {
        assert_eq!(group_of("7 (a) b (c)) S 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of("7 (nginx) R 1 7"), Some(7));
        assert_eq!(group_of("7 (cut"), None);
    }

    #[test]
    fn run_times() {
        assert_eq!(run_time("123456789 22 3\n"), Some(123_456_789));
        assert_eq!(run_time(""), None);
        let text = "version 15\ntimestamp 4294\ncpu0 0 0 0 0 10 5 1000 200 30\ndomain0 01 0 0 0\n";
        assert_eq!(machine_run_time(text), Some(1000));
        assert_eq!(machine_run_time(&text.replace("domain0 01", "cpu1 0 0 0 0 0 0 234")), Some(1234));
        assert_eq!(machine_run_time("version 15\n"), None);
        assert_eq!(machine_run_time("cpu0 1 2\n"), None);
    }

    #[test]
    fn both_kinds_of_switches() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches(status), 12);
        assert_eq!(switches("Name:\tx\n"), 0);
    }

    #[test]
    fn a_real_group_has_run() {
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let run_ns = group_run_time(group).unwrap();
        assert!(run_ns > 0);
    }

    #[test]
    fn threads_are_counted_by_name() {
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(group_totals(group, Some("no such name")).is_err());
        let counted = std::thread::Builder::new().name("counted".into()).spawn(move || {
            // If another thread exits meanwhile, the list of threads in `/proc` may end early,
            // without this thread. The run time of a new thread is 0 at first.
            let one = loop {
                match group_totals(group, Some("counted")) {
                    Ok(one) if one.0 > 0 => break one,
                    _ => std::thread::yield_now(),
                }
            };
            (group_totals(group, None).unwrap(), one)
        });
        let (all, one) = counted.unwrap().join().unwrap();
        assert!(one.0 < all.0, "{one:?} of {all:?}");
    }

    #[test]
    fn a_group_without_processes_is_a_server_that_is_gone() {
        assert_eq!(group_totals(i32::MAX, None).unwrap_err(), "the server is gone");
    }
}
