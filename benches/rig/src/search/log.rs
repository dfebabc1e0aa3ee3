//! The log of a search: its conditions in the first line, then one line for each try, enough to make every one of them again.
//!
//! Does not know about: walks, guests.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::space::Space;
use super::walk::Role;
use crate::error::RigError;
use crate::plan::Load;
use crate::variant::{Engine, Settings};

/// What a search depends on. Tries of another one cannot be continued.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    /// `server` or `machine`.
    pub(super) score: String,
    /// Loads with their weights.
    pub(super) loads: Vec<(Load, f64)>,
    pub(super) engine: Engine,
    /// Samples of each row.
    pub(super) repeat: u32,
    /// Model of QEMU's `-cpu`.
    pub(super) cpu: String,
    /// QEMU and its version.
    pub(super) qemu: String,
    /// Kernel as it was asked for.
    pub(super) kernel: String,
    /// FNV-1a of the program's bytes.
    pub(super) doorbell_fnv1a: String,
    /// FNV-1a of the load generator's bytes.
    pub(super) load_fnv1a: String,
    /// Every parameter with its values, the default first.
    pub(super) space: Space,
}

/// One try.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// From 0.
    pub(super) number: usize,
    pub(super) role: Role,
    /// All keys with their values.
    pub(super) settings: Settings,
    /// Higher is better.
    pub(super) score: Option<f64>,
    /// Why there is no score.
    pub(super) rejected: Option<String>,
    /// What the score is made of.
    pub(super) rows: Vec<Measured>,
    /// The whole configuration.
    pub(super) config: String,
}

/// One load of a try: medians of instructions a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    pub(super) load: Load,
    pub(super) server: f64,
    pub(super) machine: f64,
    pub(super) server_spread_percent: f64,
    pub(super) machine_spread_percent: f64,
    pub(super) failed: u64,
}

/// A log that is written.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// A new one. A file that is there already stays as it is.
    pub(super) fn create(path: &Path, conditions: &Conditions) -> Result<Self, RigError> {
        let file =
            OpenOptions::new().append(true).create_new(true).open(path).map_err(|error| {
                match error.kind() {
                    std::io::ErrorKind::AlreadyExists => RigError::Log {
                        path: path.to_owned(),
                        detail: "exists; `--resume` goes on with it".into(),
                    },
                    _ => RigError::io(path)(error),
                }
            })?;
        let mut log = Self { path: path.to_owned(), file };
        log.write(conditions)?;
        Ok(log)
    }

    /// The tries of a log, and the log to go on with. A last line that was cut off is dropped.
    pub(super) fn resume(path: &Path, conditions: &Conditions) -> Result<(Vec<Line>, Self), RigError> {
        let bad = |detail: String| RigError::Log { path: path.to_owned(), detail };
        let text = fs::read_to_string(path).map_err(RigError::io(path))?;
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        let mut lines = whole.lines();
        let first = lines.next().ok_or_else(|| bad("is empty".into()))?;
        let found: Conditions =
            serde_json::from_str(first).map_err(|error| bad(format!("line 1: {error}")))?;
        if found != *conditions {
            return Err(bad(format!("is of another search: {}", difference(&found, conditions))));
        }
        let tries: Result<Vec<Line>, RigError> = lines
            .enumerate()
            .map(|(at, line)| {
                serde_json::from_str(line).map_err(|error| bad(format!("line {}: {error}", at + 2)))
            })
            .collect();
        let file = OpenOptions::new().append(true).open(path).map_err(RigError::io(path))?;
        file.set_len(u64::try_from(whole.len()).expect("a length is a u64")).map_err(RigError::io(path))?;
        Ok((tries?, Self { path: path.to_owned(), file }))
    }

    /// One more line, on the disk when this returns.
    pub(super) fn write(&mut self, line: &impl Serialize) -> Result<(), RigError> {
        let mut text = serde_json::to_string(line).expect("lines are plain data");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data())
            .map_err(RigError::io(&self.path))
    }
}

/// The first field that is not the same.
fn difference(one: &Conditions, two: &Conditions) -> String {
    let [one, two] = [one, two].map(|conditions| serde_json::to_value(conditions).expect("plain data"));
    let fields = one.as_object().into_iter().flatten();
    let differs = fields.filter(|(key, value)| two[key.as_str()] != **value);
    let shown = differs.map(|(key, value)| format!("{key} is {value} there and {} now", two[key.as_str()]));
    shown.collect::<Vec<_>>().join("; ")
}

/// 64 bits of FNV-1a, to tell one build from another.
pub(super) fn fingerprint(path: &Path) -> Result<String, RigError> {
    let bytes = fs::read(path).map_err(RigError::io(path))?;
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(seed: u64) -> Conditions {
        Conditions {
            seed,
            score: "server".into(),
            loads: vec![("close/64".parse().unwrap(), 1.0)],
            engine: Engine::Epoll,
            repeat: 3,
            cpu: "max".into(),
            qemu: "QEMU 7".into(),
            kernel: "6.12".into(),
            doorbell_fnv1a: "0".into(),
            load_fnv1a: "0".into(),
            space: Space(Vec::new()),
        }
    }

    fn line(number: usize) -> Line {
        let settings = Settings::of(&[("tcp.quickack", "false")]);
        Line {
            number,
            role: Role::Candidate,
            settings,
            score: Some(1.5),
            rejected: None,
            rows: Vec::new(),
            config: "a\n\"b\"".into(),
        }
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("doorbell-rig-log-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_written_is_read_and_a_cut_line_is_dropped() {
        let path = scratch("cut");
        let mut log = Log::create(&path, &conditions(1)).unwrap();
        for number in 0..3 {
            log.write(&line(number)).unwrap();
        }
        drop(log);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (tries, mut log) = Log::resume(&path, &conditions(1)).unwrap();
        log.write(&line(2)).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(tries, [line(0), line(1)]);
        assert_eq!(after, text);
    }

    #[test]
    fn another_search_is_refused_and_nothing_is_overwritten() {
        let path = scratch("other");
        drop(Log::create(&path, &conditions(1)).unwrap());
        let again = Log::create(&path, &conditions(1)).unwrap_err().to_string();
        let other = Log::resume(&path, &conditions(2)).unwrap_err().to_string();
        fs::write(&path, "{}\n").unwrap();
        let broken = Log::resume(&path, &conditions(1)).unwrap_err().to_string();
        fs::write(&path, "").unwrap();
        let empty = Log::resume(&path, &conditions(1)).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(again.contains("--resume"), "{again}");
        assert!(other.contains("seed is 1 there and 2 now"), "{other}");
        assert!(broken.contains("line 1"), "{broken}");
        assert!(empty.contains("is empty"), "{empty}");
    }

    #[test]
    fn builds_are_told_apart() {
        let path = scratch("hash");
        fs::write(&path, "a").unwrap();
        let hash = fingerprint(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // The published value of FNV-1a for "a".
        assert_eq!(hash, "af63dc4c8601ec8c");
    }
}
