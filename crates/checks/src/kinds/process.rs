//! Processes, by name or by pid file.
//!
//! Does not know about: processes that the `hidepid` option of /proc or a PID namespace hides.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::blocking::BlockingCall;
use crate::kinds::lines::shown;
use crate::kinds::{BoxedRun, KindRunner};
use crate::options::ProcessCheck;
use crate::progress::Progress;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use tokio::time::Instant;

/// Significant length of a name (`TASK_COMM_LEN` without the terminating zero).
const NAME_LEN: usize = 15;

/// Maximum number of processes to examine.
const PROCESSES_MAX: usize = 1 << 16;

/// Maximum number of bytes to read from /proc/PID/status; the fields of [`Status`] are near its
/// start.
const STATUS_LEN_MAX: u64 = 1024;

/// Maximum number of bytes to read from a pid file.
const PID_FILE_LEN_MAX: u64 = 64;

/// Examines processes.
#[derive(Debug)]
pub(crate) struct ProcessRunner {
    check: Arc<ProcessCheck>,
    blocking: BlockingCall,
}

/// Fields of /proc/PID/status.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    name: Vec<u8>,
    /// Neither a zombie nor dead.
    is_alive: bool,
    /// False for a thread other than the first of its process. /proc does not list the folder of
    /// such a thread, but the folder can be opened.
    is_process: bool,
}

impl ProcessRunner {
    pub(crate) fn new(check: ProcessCheck) -> Self {
        Self { check: Arc::new(check), blocking: BlockingCall::default() }
    }
}

impl KindRunner for ProcessRunner {
    fn dialer(&self) -> Option<&Dialer> {
        None
    }

    fn blocks(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _progress: &'a Progress, _start: Instant) -> BoxedRun<'a> {
        let check = Arc::clone(&self.check);
        Box::pin(self.blocking.run(move || look(&check, Path::new("/proc"))))
    }
}

fn look(check: &ProcessCheck, proc: &Path) -> Verdict {
    match (&check.pid_file, &check.name) {
        (Some(file), name) => look_at_one(file, name.as_deref(), proc),
        (None, Some(name)) => count(check, name, proc),
        (None, None) => Err(Issue::error("neither a name nor a pid file")),
    }
}

fn look_at_one(file: &Path, name: Option<&str>, proc: &Path) -> Verdict {
    let pid = pid_of(file)?;
    let status = match Status::read(proc, &pid.to_string()) {
        Ok(status) => status.filter(|status| status.is_process),
        Err(error) => return Err(Issue::error(format!("process {pid}: {}", cause_of(&error)))),
    };
    let Some(status) = status else {
        return Err(Issue::failure(format!("process {pid} does not exist: the pid file is stale")));
    };
    match name {
        _ if !status.is_alive => Err(Issue::failure(format!("process {pid} is a zombie: it has exited"))),
        Some(name) if status.name != significant(name) => {
            let found = shown(&status.name);
            Err(Issue::failure(format!("process {pid} is {found}, not {name:?}: the pid file is stale")))
        }
        _ => Ok(()),
    }
}

fn pid_of(file: &Path) -> Result<u32, Issue> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Issue::failure("the pid file does not exist"),
        _ => Issue::error(format!("the pid file: {}", cause_of(&error))),
    };
    // Opening a pipe would block.
    if !std::fs::metadata(file).map_err(failed)?.is_file() {
        return Err(Issue::failure("the pid file is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(file)
        .and_then(|file| file.take(PID_FILE_LEN_MAX).read_to_end(&mut content))
        .map_err(failed)?;
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let pid = str::from_utf8(line).ok().and_then(|line| line.parse().ok()).filter(|pid| *pid > 0);
    pid.ok_or_else(|| {
        Issue::failure(format!("the pid file contains {} instead of a process ID", shown(line)))
    })
}

fn count(check: &ProcessCheck, name: &str, proc: &Path) -> Verdict {
    let failed = |error: io::Error| Issue::error(format!("{}: {}", proc.display(), cause_of(&error)));
    let (mut seen, mut found) = (0, 0);
    for entry in std::fs::read_dir(proc).map_err(failed)? {
        let folder = entry.map_err(failed)?.file_name();
        let Some(pid) = folder.to_str().filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        seen += 1;
        if seen > PROCESSES_MAX {
            return Err(Issue::error(format!("more than {PROCESSES_MAX} processes")));
        }
        // A process that has exited meanwhile, or that is hidden, does not count.
        let status = Status::read(proc, pid).ok().flatten();
        found += u32::from(status.is_some_and(|status| status.is_alive && status.name == significant(name)));
    }
    let expected = match check.max_processes {
        _ if found < check.min_processes => format!("at least {}", check.min_processes),
        Some(max) if found > max => format!("at most {max}"),
        _ => return Ok(()),
    };
    Err(Issue::failure(format!("{found} processes have the name {name:?}, expected {expected}")))
}

fn significant(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(NAME_LEN)]
}

impl Status {
    /// Reads the status of a process; `None` if there is no such process.
    fn read(proc: &Path, pid: &str) -> io::Result<Option<Self>> {
        let mut text = Vec::new();
        let read = File::open(proc.join(pid).join("status"))
            .and_then(|file| file.take(STATUS_LEN_MAX).read_to_end(&mut text));
        match read {
            Ok(_len) => Self::parse(&text, pid).map(Some),
            // `ESRCH`: the process has exited since the file was opened.
            Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(3) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(text: &[u8], pid: &str) -> io::Result<Self> {
        let field = |name: &str| {
            let mut lines = text.split(|byte| *byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name.as_bytes())).map(<[u8]>::trim_ascii)
        };
        match (field("Name:"), field("State:"), field("Tgid:")) {
            (Some(name), Some(state), Some(group)) => Ok(Self {
                name: name.to_owned(),
                is_alive: !state.starts_with(b"Z") && !state.starts_with(b"X"),
                is_process: group == pid.as_bytes(),
            }),
            _ => Err(io::Error::other("unexpected format of /proc/PID/status")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in a folder that imitates /proc.
    fn add(proc: &Path, pid: &str, name: &str, state: &str, group: &str) {
        std::fs::create_dir_all(proc.join(pid)).unwrap();
        let text = format!("Name:\t{name}\nUmask:\t0022\nState:\t{state}\nTgid:\t{group}\nNgid:\t0\n");
        std::fs::write(proc.join(pid).join("status"), text).unwrap();
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("doorbell-{name}-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn reason(check: &ProcessCheck, proc: &Path) -> String {
        match look(check, proc) {
            Ok(()) => String::new(),
            Err(issue) => format!("{}: {}", issue.outcome.as_str(), issue.reason),
        }
    }

    #[test]
    fn processes_are_counted_by_name() {
        let proc = folder("processes");
        add(&proc, "1", "init", "S (sleeping)", "1");
        add(&proc, "20", "web", "R (running)", "20");
        add(&proc, "21", "web", "D (disk sleep)", "21");
        add(&proc, "22", "web", "Z (zombie)", "22");
        add(&proc, "23", "a-name-of-fifte", "S (sleeping)", "23");
        add(&proc, "self", "web", "R (running)", "20");
        std::fs::create_dir_all(proc.join("24")).unwrap();
        let check = |name: &str, min_processes, max_processes| ProcessCheck {
            min_processes,
            max_processes,
            ..ProcessCheck::named(name)
        };
        for (check, expected) in [
            (check("web", 1, None), ""),
            (check("web", 2, Some(2)), ""),
            (check("web", 3, None), "failure: 2 processes have the name \"web\", expected at least 3"),
            (check("web", 1, Some(1)), "failure: 2 processes have the name \"web\", expected at most 1"),
            (check("we", 1, None), "failure: 0 processes have the name \"we\", expected at least 1"),
            (check("we", 0, Some(0)), ""),
            (check("a-name-of-fifteen-bytes", 1, None), ""),
            (ProcessCheck::default(), "error: neither a name nor a pid file"),
        ] {
            assert_eq!(reason(&check, &proc), expected, "{check:?}");
        }
        let none = proc.join("none");
        let expected = format!("error: {}: no such file or directory", none.display());
        assert_eq!(reason(&check("web", 1, None), &none), expected);
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn the_process_of_a_pid_file_is_examined() {
        let proc = folder("pid-file");
        add(&proc, "20", "web", "S (sleeping)", "20");
        add(&proc, "22", "web", "Z (zombie)", "22");
        add(&proc, "30", "web", "S (sleeping)", "20");
        std::fs::create_dir_all(proc.join("40/status")).unwrap();
        let file = proc.join("pid");
        let named = ProcessCheck { pid_file: Some(file.clone()), ..ProcessCheck::named("web") };
        assert_eq!(reason(&named, &proc), "failure: the pid file does not exist");
        for (content, expected) in [
            ("20\n", ""),
            (" 20", ""),
            ("20\n/var/lib/data\n", ""),
            ("21\n", "failure: process 21 does not exist: the pid file is stale"),
            ("22\n", "failure: process 22 is a zombie: it has exited"),
            ("30\n", "failure: process 30 does not exist: the pid file is stale"),
            ("40\n", "error: process 40: is a directory"),
            ("", "failure: the pid file contains nothing instead of a process ID"),
            ("0\n", "failure: the pid file contains \"0\" instead of a process ID"),
            ("-1", "failure: the pid file contains \"-1\" instead of a process ID"),
            ("web\n", "failure: the pid file contains \"web\" instead of a process ID"),
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(reason(&named, &proc), expected, "{content:?}");
        }
        std::fs::write(&file, "20\n").unwrap();
        let other = ProcessCheck { name: Some("db".to_owned()), ..named };
        let expected = "failure: process 20 is \"web\", not \"db\": the pid file is stale";
        assert_eq!(reason(&other, &proc), expected);
        let folder = ProcessCheck::of_pid_file(proc.clone());
        assert_eq!(reason(&folder, &proc), "failure: the pid file is not a regular file");
        std::fs::remove_dir_all(&proc).unwrap();
    }
}
