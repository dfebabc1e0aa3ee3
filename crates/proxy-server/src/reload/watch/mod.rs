//! Watches directories on one thread, and lets readers read their files again after a change.
//!
//! Symbolic links are resolved at every scan, so that the `..data` swap with which Kubernetes
//! updates a mounted ConfigMap or Secret is detected.

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Delay from a change to the scan of the files. A certificate and its key are two files, which are
/// written one after the other.
const SETTLE: Duration = Duration::from_millis(100);

/// Interval of scans without notifications: network file systems do not send any (inotify(7)).
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of pending notifications; one is enough for a scan.
const SIGNALS_MAX: usize = 16;

/// Interval at which a full queue is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum time that dropping a [`Watch`] waits for a scan in progress. A scan that hangs in its
/// file system is then abandoned.
const END_MAX: Duration = Duration::from_secs(1);

/// A reader of watched files.
pub(crate) trait Watched: Send {
    /// The name of the reader in log lines, such as `tls public`.
    fn name(&self) -> String;

    /// The directories of the files.
    fn directories(&self) -> Vec<PathBuf>;

    /// Reads changed files, and applies them if they are valid; otherwise the previous version
    /// stays in use.
    fn scan(&mut self) -> Scan;
}

/// The result of [`Watched::scan`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// A new version, described by this text, is in use.
    Changed(String),
    /// Not finished: scan again soon.
    Later,
    /// The change cannot be used, for this reason.
    Refused(String),
    /// Nothing changed.
    Same,
}

/// The watcher thread.
#[derive(Debug)]
pub(crate) struct Watch {
    signals: SyncSender<Signal>,
    is_over: Arc<AtomicBool>,
    /// The thread, and a channel that closes when it ends.
    thread: Option<(JoinHandle<()>, Receiver<()>)>,
}

enum Signal {
    Changed,
    Scan(SyncSender<()>),
    Stop,
}

struct Item {
    watched: Box<dyn Watched>,
    /// The last logged refusal, which is not repeated.
    logged: Option<String>,
    rescan: Rescan,
}

/// Reason for another scan without a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rescan {
    /// The last scan was not complete.
    Incomplete,
    /// The last scan finished late and may have missed changes.
    Again,
    No,
}

impl Watch {
    /// Starts watching `items`; without items, starts no thread. Also detects changes between the
    /// first read of their files and this call.
    pub(crate) fn start(items: Vec<Box<dyn Watched>>) -> io::Result<Self> {
        let (signals, received) = sync_channel(SIGNALS_MAX);
        let is_over = Arc::<AtomicBool>::default();
        if items.is_empty() {
            return Ok(Self { signals, is_over, thread: None });
        }
        let items: Vec<Item> =
            items.into_iter().map(|watched| Item { watched, logged: None, rescan: Rescan::No }).collect();
        let mut directories = Directories::new(signals.clone());
        directories.watch(&items);
        let (alive, ended) = sync_channel(0);
        let is_over_there = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("doorbell-watch".to_owned()).spawn(move || {
            let _alive: SyncSender<()> = alive;
            run(items, directories, &received, &is_over_there);
        })?;
        Ok(Self { signals, is_over, thread: Some((thread, ended)) })
    }

    /// Scans all files now. Returns when the scan has finished, or after `timeout`.
    #[expect(clippy::disallowed_methods, reason = "waits at most for a timeout in real time")]
    pub(crate) fn scan(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let (done, is_done) = sync_channel(1);
        let mut signal = Signal::Scan(done);
        // The queue fills up while a scan hangs.
        while let Err(TrySendError::Full(unsent)) = self.signals.try_send(signal) {
            if Instant::now() >= until {
                return;
            }
            signal = unsent;
            std::thread::sleep(PAUSE);
        }
        let _late = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some((thread, ended)) = self.thread.take() else { return };
        self.is_over.store(true, Ordering::Release);
        // If the queue is full, the thread wakes up anyway.
        let _full = self.signals.try_send(Signal::Stop);
        if ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("reading watched files hangs: abandoned; check for an unreachable file system");
            return;
        }
        let _panicked = thread.join();
    }
}

/// The watched directories. Without a watcher (inotify limits, an unusual file system) regular
/// scans still detect every change.
struct Directories {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Directories that cannot be watched; each is logged once.
    unwatchable: BTreeSet<PathBuf>,
}

impl Directories {
    fn new(signal: SyncSender<Signal>) -> Self {
        let on_event = move |event: notify::Result<notify::Event>| {
            // An error may mean that changes were missed.
            if event.map_or(true, |event| is_change(event.kind)) {
                // If the queue is full, a scan is due anyway.
                let _due = signal.try_send(Signal::Changed);
            }
        };
        let watcher = notify::recommended_watcher(on_event).inspect_err(|error| {
            tracing::warn!(
                "cannot watch files: checking them every {} s instead: {error}",
                SCAN_INTERVAL.as_secs()
            );
        });
        Self { watcher: watcher.ok(), watched: BTreeSet::new(), unwatchable: BTreeSet::new() }
    }

    /// Updates the watched directories, which may have been created, removed or relinked.
    fn watch(&mut self, items: &[Item]) {
        let Some(watcher) = &mut self.watcher else { return };
        let directories = items.iter().flat_map(|item| item.watched.directories());
        let directories: BTreeSet<PathBuf> = directories.filter_map(|path| existing(&path)).collect();
        for gone in self.watched.difference(&directories) {
            // Fails if the directory no longer exists.
            let _gone = watcher.unwatch(gone);
        }
        self.watched.clear();
        // Forgets old paths: each swap of a mounted directory creates a new path.
        self.unwatchable.retain(|directory| directories.contains(directory));
        for directory in directories {
            // Watched again, because the path may belong to a new directory.
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(directory)),
                Err(error) => {
                    let (place, secs) = (directory.display(), SCAN_INTERVAL.as_secs());
                    if !self.unwatchable.contains(&directory) {
                        tracing::warn!("cannot watch {place}: checking it every {secs} s instead: {error}");
                        self.unwatchable.insert(directory);
                    }
                }
            }
        }
    }
}

/// Whether an event is a change. A scan opens and reads files, which must not cause another scan.
const fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}

/// Returns the directory, or its nearest existing ancestor.
fn existing(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|directory| directory.is_dir()).map(Path::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "changes settle in real time, on a thread of their own")]
fn run(mut items: Vec<Item>, mut directories: Directories, signals: &Receiver<Signal>, is_over: &AtomicBool) {
    // Files may have changed between reading and watching.
    let mut changed_at = Some(Instant::now());
    let mut scanned_at = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        let regular = SCAN_INTERVAL.saturating_sub(scanned_at.elapsed());
        let wait = changed_at.map_or(regular, |at| SETTLE.saturating_sub(at.elapsed()));
        let is_rescan = SETTLE < wait && items.iter().any(|item| item.rescan != Rescan::No);
        match signals.recv_timeout(if is_rescan { SETTLE } else { wait }) {
            // Continuous changes must not delay the scan indefinitely.
            Ok(Signal::Changed) if !wait.is_zero() => {
                changed_at.get_or_insert_with(Instant::now);
            }
            Ok(Signal::Scan(done)) => {
                directories.watch(&items);
                scan_items(&mut items, |_| true);
                let _impatient = done.send(());
            }
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if is_rescan => {
                scan_items(&mut items, |item| item.rescan != Rescan::No);
            }
            Ok(Signal::Changed) | Err(RecvTimeoutError::Timeout) => {
                changed_at = None;
                scanned_at = Instant::now();
                directories.watch(&items);
                scan_items(&mut items, |_| true);
            }
        }
    }
}

fn scan_items(items: &mut [Item], which: impl Fn(&Item) -> bool) {
    for item in items.iter_mut().filter(|item| which(item)) {
        let Item { watched, logged, rescan } = item;
        let scan = watched.scan();
        *rescan = match (&scan, *rescan) {
            (Scan::Later, _) => Rescan::Incomplete,
            (_, Rescan::Incomplete) => Rescan::Again,
            (_, Rescan::Again | Rescan::No) => Rescan::No,
        };
        match scan {
            Scan::Later | Scan::Same => {}
            Scan::Changed(what) => {
                *logged = None;
                tracing::info!("{}: {what}", watched.name());
            }
            Scan::Refused(why) => {
                if logged.as_ref() != Some(&why) {
                    tracing::error!("{}: keeping the previous version: {why}", watched.name());
                    *logged = Some(why);
                }
            }
        }
    }
}

/// File attributes that detect changes without reading the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<Option<Stamp>>);

/// The attributes of one file that change with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    changed_ns: (i64, i64),
}

impl Stamps {
    /// The stamps of files, including missing ones.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(
            paths.into_iter().map(|path| std::fs::metadata(path).ok().map(|meta| Stamp::of(&meta))).collect(),
        )
    }
}

impl Stamp {
    /// The stamp of a file. Uses the inode's change time, which programs cannot set.
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            changed_ns: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The directory of a file and, for a symbolic link, of its target.
pub(crate) fn directories_of(file: &Path) -> Vec<PathBuf> {
    let parent =
        |path: &Path| path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned);
    let own_dir = parent(file).unwrap_or_else(|| PathBuf::from("."));
    let target_dir = std::fs::canonicalize(file).ok().and_then(|real| parent(&real));
    std::iter::once(own_dir).chain(target_dir).collect()
}

#[cfg(test)]
mod tests;
