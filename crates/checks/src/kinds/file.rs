//! Checks a file: existence, age and content.

use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::blocking::BlockingCall;
use crate::kinds::expectations::contains;
use crate::options::FileCheck;
use doorbell_config::format_duration;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of bytes to search.
const READ_MAX: u64 = 1 << 20;

/// Minimum difference between the clocks that counts as a step of the wall clock; gradual
/// adjustment stays below it.
const CLOCK_STEP_MIN: Duration = Duration::from_secs(1);

/// Checks one file.
#[derive(Debug)]
pub(crate) struct FileRunner {
    check: Arc<FileCheck>,
    seen: Arc<Mutex<Option<Seen>>>,
    blocking: BlockingCall,
}

/// First observation of a file's current modification time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    modified: SystemTime,
    /// Age of the file at `at`, by the wall clock.
    age: Duration,
    at: Instant,
    /// Time of the latest run.
    looked: Now,
}

/// A moment on the wall clock and on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Now {
    time_of_day: SystemTime,
    /// On the monotonic clock.
    instant: Instant,
}

impl FileRunner {
    pub(crate) fn new(check: FileCheck) -> Self {
        Self { check: Arc::new(check), seen: Arc::default(), blocking: BlockingCall::default() }
    }

    pub(crate) fn is_of(&self, check: &FileCheck) -> bool {
        *self.check == *check
    }

    pub(crate) async fn run(&self) -> Verdict {
        let (check, seen) = (Arc::clone(&self.check), Arc::clone(&self.seen));
        let look =
            move || look(&check, &mut seen.lock().unwrap_or_else(PoisonError::into_inner), Now::read());
        self.blocking.run(look).await
    }
}

impl Now {
    #[expect(clippy::disallowed_methods, reason = "modification times are compared with the wall clock")]
    fn read() -> Self {
        Self { time_of_day: SystemTime::now(), instant: Instant::now() }
    }

    /// Time since an earlier moment, on the monotonic clock.
    fn since(self, before: Self) -> Duration {
        self.instant.saturating_duration_since(before.instant)
    }

    /// Whether the wall clock was set since `before`.
    fn is_set_since(self, before: Self) -> bool {
        let expected = before.time_of_day + self.since(before);
        let off = self.time_of_day.duration_since(expected).unwrap_or_else(|early| early.duration());
        off > CLOCK_STEP_MIN
    }
}

/// Time since the file's last change. Once a modification time was observed, the wall clock is no
/// longer used, so that a step of the clock makes neither a fresh file old nor a stale file fresh.
fn age(modified: SystemTime, seen: &mut Option<Seen>, now: Now) -> Duration {
    let known = match *seen {
        Some(known) if known.modified == modified => Seen { looked: now, ..known },
        before => {
            // A modification time in the future counts as now.
            let by_day = now.time_of_day.duration_since(modified).unwrap_or_default();
            // Unless this is the first run, the file changed since the last run. If the clock was
            // also set since then, the order of these two events is unknown: the age is at most the
            // time since the last run.
            let looked = before.map(|before| before.looked).filter(|before| now.is_set_since(*before));
            let age = looked.map_or(by_day, |before| by_day.min(now.since(before)));
            Seen { modified, age, at: now.instant, looked: now }
        }
    };
    *seen = Some(known);
    known.age.saturating_add(now.instant.saturating_duration_since(known.at))
}

fn look(check: &FileCheck, seen: &mut Option<Seen>, now: Now) -> Verdict {
    let meta = match std::fs::metadata(&check.path) {
        Ok(_) if !check.exists => return Err(Issue::failure("the file exists")),
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound && !check.exists => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Issue::failure("the file does not exist"));
        }
        Err(error) => return Err(Issue::error(cause_of(&error))),
    };
    if let Some(max) = check.max_age {
        let age = meta.modified().map(|modified| age(modified, seen, now)).unwrap_or_default();
        if age > max {
            let age = format_duration(Duration::from_secs(age.as_secs()));
            let reason = format!("last changed {age} ago, above the maximum of {}", format_duration(max));
            return Err(Issue::failure(reason));
        }
    }
    let Some(part) = &check.contains else { return Ok(()) };
    // Reading a pipe would block, and a device may be endless.
    if !meta.is_file() {
        return Err(Issue::failure("not a regular file"));
    }
    let mut content = Vec::new();
    let read = File::open(&check.path).and_then(|file| file.take(READ_MAX).read_to_end(&mut content));
    read.map_err(|error| Issue::error(cause_of(&error)))?;
    match contains(&content, part.as_bytes()) {
        true => Ok(()),
        false => Err(Issue::failure(format!("the file lacks {part:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_health::Outcome;

    #[test]
    fn an_age_does_not_depend_on_steps_of_the_clock() {
        const HOUR: Duration = Duration::from_secs(3600);
        let (secs, begin) = (Duration::from_secs, Now::read());
        let at =
            |passed: Duration, time_of_day: SystemTime| Now { time_of_day, instant: begin.instant + passed };
        let wall = begin.time_of_day;
        let written = wall - secs(4);
        let mut seen = None;
        assert_eq!(age(written, &mut seen, begin), secs(4));
        for jumped in [wall + HOUR, wall - HOUR, wall + secs(10)] {
            assert_eq!(age(written, &mut seen, at(secs(10), jumped)), secs(14), "the same content");
        }
        // The file is written while the clock is an hour ahead; then the clock is set back.
        assert_eq!(age(wall + HOUR, &mut seen, at(secs(20), wall + HOUR + secs(1))), secs(1));
        assert_eq!(
            age(wall + HOUR, &mut seen, at(secs(120), wall + secs(101))),
            secs(101),
            "no further writes"
        );
        assert_eq!(age(wall + secs(110), &mut seen, at(secs(121), wall + secs(110))), Duration::ZERO);
        let mut future = None;
        assert_eq!(age(wall + HOUR, &mut future, begin), Duration::ZERO);
        assert_eq!(
            age(wall + HOUR, &mut future, at(secs(61), wall + secs(61))),
            secs(61),
            "the age grows at once"
        );
    }

    #[test]
    fn a_file_changed_since_the_last_run_is_fresh_after_a_clock_step() {
        const HOUR: Duration = Duration::from_secs(3600);
        let (secs, begin) = (Duration::from_secs, Now::read());
        let wall = begin.time_of_day;
        let at =
            |passed: Duration, time_of_day: SystemTime| Now { time_of_day, instant: begin.instant + passed };
        let age_of = |written: SystemTime, passed: Duration, time_of_day: SystemTime| {
            let mut seen = None;
            assert_eq!(age(wall - secs(4), &mut seen, begin), secs(4));
            // A second run observes the same modification time. If the file changes after that run,
            // its age is at most the time since that run, not the time since the first run.
            assert_eq!(age(wall - secs(4), &mut seen, at(secs(5), wall + secs(5))), secs(9));
            age(written, &mut seen, at(passed, time_of_day))
        };
        assert_eq!(age_of(wall + secs(7), secs(10), wall + HOUR + secs(10)), secs(5), "written, then set");
        assert_eq!(
            age_of(wall + HOUR + secs(9), secs(10), wall + HOUR + secs(10)),
            secs(1),
            "set, then written"
        );
        assert_eq!(age_of(wall + secs(7), secs(10), wall - HOUR), Duration::ZERO, "set back");
        assert_eq!(
            age_of(wall - HOUR, secs(10), wall + secs(10)),
            HOUR + secs(10),
            "an older file replaces it"
        );
        assert_eq!(age_of(wall + secs(6), secs(10), wall + secs(11)), secs(5), "adjusted, not set");
    }

    #[test]
    fn a_file_is_looked_at() {
        let dir = std::env::temp_dir().join(format!("doorbell-file-check-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("state");
        let there = FileCheck::new(path.clone());
        let absent = FileCheck { exists: false, ..there.clone() };
        let filled = FileCheck { contains: Some("ready".to_owned()), ..there.clone() };
        let fresh = FileCheck { max_age: Some(Duration::from_secs(60)), ..there.clone() };
        let look = |check: &FileCheck| look(check, &mut None, Now::read());
        let reason = |check: &FileCheck| look(check).err().map(|issue| issue.reason);
        assert_eq!(reason(&there).as_deref(), Some("the file does not exist"));
        assert_eq!((reason(&absent), reason(&fresh).is_some()), (None, true));
        std::fs::write(&path, "not yet").unwrap();
        assert_eq!((reason(&there), reason(&fresh)), (None, None));
        assert_eq!(reason(&absent).as_deref(), Some("the file exists"));
        assert_eq!(reason(&filled).as_deref(), Some("the file lacks \"ready\""));
        std::fs::write(&path, "ready\n").unwrap();
        assert_eq!(reason(&filled), None);
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(reason(&fresh).unwrap().ends_with(" ago, above the maximum of 1m"));
        let folder = FileCheck { path: dir.clone(), ..filled };
        assert_eq!(reason(&folder).as_deref(), Some("not a regular file"));
        let below = FileCheck { path: path.join("below"), ..there };
        assert_eq!(look(&below).unwrap_err().outcome, Outcome::Error);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
