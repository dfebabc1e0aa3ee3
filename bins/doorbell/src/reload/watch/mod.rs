//! Files that are read again when they change: one thread watches their directories and asks whoever uses them.
//!
//! Does not know about: what is in the files. Names are followed through symbolic links at every look, so the `..data` swap by
//! which Kubernetes updates a mounted ConfigMap or Secret is a change like any other.

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

/// How long changes may go on before they are looked at: a certificate and its key are two files.
const SETTLE: Duration = Duration::from_millis(100);

/// How often everything is looked at without a sign: network file systems give none (inotify(7)).
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Signs of change that wait; one is enough for a look.
const SIGNALS_MAX: usize = 16;

/// How often a place for a sign is tried for.
const PAUSE: Duration = Duration::from_millis(5);

/// How long an end waits for a look that is under way: on a file system that hangs it may never be over, and is left behind.
const END_MAX: Duration = Duration::from_secs(1);

/// Something that lives in files.
pub(crate) trait Watched: Send {
    /// What it is, for log lines: `tls public`.
    fn name(&self) -> String;

    /// The directories in which a change may concern it.
    fn directories(&self) -> Vec<PathBuf>;

    /// Looks whether something changed, and takes it in if it can be used. What is there stays otherwise.
    fn look(&mut self) -> Look;
}

/// What became of a look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The new state is in use; a word on it.
    Changed(String),
    /// It is not known yet: to be asked again soon.
    Later,
    /// Something changed and cannot be used; this is why.
    Refused(String),
    /// Nothing changed.
    Same,
}

/// The thread that watches.
#[derive(Debug)]
pub(crate) struct Watch {
    signals: SyncSender<Signal>,
    is_over: Arc<AtomicBool>,
    /// With what closes when it ends.
    thread: Option<(JoinHandle<()>, Receiver<()>)>,
}

enum Signal {
    Changed,
    Look(SyncSender<()>),
    Stop,
}

struct Item {
    watched: Box<dyn Watched>,
    /// The last refusal that was told: each is told once.
    told: Option<String>,
    soon: Soon,
}

/// Whether something is looked at again without a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Soon {
    /// The last look was not done.
    Asked,
    /// It was done late: what changed meanwhile was not seen.
    Again,
    No,
}

impl Watch {
    /// Watches `items`; without any there is no thread. What changes after the return is heard of, and what changed since the
    /// items were read is found.
    pub(crate) fn start(items: Vec<Box<dyn Watched>>) -> io::Result<Self> {
        let (signals, heard) = sync_channel(SIGNALS_MAX);
        let is_over = Arc::<AtomicBool>::default();
        if items.is_empty() {
            return Ok(Self { signals, is_over, thread: None });
        }
        let items: Vec<Item> =
            items.into_iter().map(|watched| Item { watched, told: None, soon: Soon::No }).collect();
        let mut ears = Ears::new(signals.clone());
        ears.listen(&items);
        let (lives, ended) = sync_channel(0);
        let is_over_there = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("doorbell-watch".to_owned()).spawn(move || {
            let _lives: SyncSender<()> = lives;
            run(items, ears, &heard, &is_over_there);
        })?;
        Ok(Self { signals, is_over, thread: Some((thread, ended)) })
    }

    /// Looks at everything now and returns when that is done, or after `timeout`.
    #[expect(clippy::disallowed_methods, reason = "a look that hangs is not waited for")]
    pub(crate) fn look(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let (done, is_done) = sync_channel(1);
        let mut signal = Signal::Look(done);
        // Where one look hangs, signs pile up until there is no place.
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
        // Where there is no place for it, the thread has something to take that wakes it.
        let _full = self.signals.try_send(Signal::Stop);
        if ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("a look at files hangs and is left behind; is a file system out of reach?");
            return;
        }
        let _panicked = thread.join();
    }
}

/// Where changes are heard. Without a watcher (inotify limits, an exotic file system) the regular look still finds every change.
struct Ears {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Directories that cannot be watched, each told once.
    deaf: BTreeSet<PathBuf>,
}

impl Ears {
    fn new(signal: SyncSender<Signal>) -> Self {
        let hear = move |event: notify::Result<notify::Event>| {
            // An error may mean that some changes were not heard.
            if event.map_or(true, |event| is_change(event.kind)) {
                // A full queue means that a look is due anyway.
                let _due = signal.try_send(Signal::Changed);
            }
        };
        let watcher = notify::recommended_watcher(hear).inspect_err(|error| {
            tracing::warn!("files are looked at every {} s only: {error}", LOOK_EVERY.as_secs());
        });
        Self { watcher: watcher.ok(), watched: BTreeSet::new(), deaf: BTreeSet::new() }
    }

    /// Watches what is to be watched now: directories come and go, and links lead elsewhere.
    fn listen(&mut self, items: &[Item]) {
        let Some(watcher) = &mut self.watcher else { return };
        let directories = items.iter().flat_map(|item| item.watched.directories());
        let directories: BTreeSet<PathBuf> = directories.filter_map(|path| existing(&path)).collect();
        for gone in self.watched.difference(&directories) {
            // One that does not exist any more is not watched any more.
            let _gone = watcher.unwatch(gone);
        }
        self.watched.clear();
        // Each swap of a mounted directory is another one.
        self.deaf.retain(|deaf| directories.contains(deaf));
        for directory in directories {
            // Once more if it is watched already: it may be another one of the same name.
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(directory)),
                Err(error) => {
                    let (place, secs) = (directory.display(), LOOK_EVERY.as_secs());
                    if !self.deaf.contains(&directory) {
                        tracing::warn!("{place} is looked at every {secs} s only: {error}");
                        self.deaf.insert(directory);
                    }
                }
            }
        }
    }
}

/// Looking opens and reads, which must not be taken for a change, or one look would bring about the next.
const fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}

/// The directory, or the nearest one above it that is there.
fn existing(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|directory| directory.is_dir()).map(Path::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "changes settle in real time, on a thread of their own")]
fn run(mut items: Vec<Item>, mut ears: Ears, signals: &Receiver<Signal>, is_over: &AtomicBool) {
    // Something may have changed between the reading and the listening.
    let mut changed_at = Some(Instant::now());
    let mut looked_at = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        let regular = LOOK_EVERY.saturating_sub(looked_at.elapsed());
        let wait = changed_at.map_or(regular, |at| SETTLE.saturating_sub(at.elapsed()));
        let is_soon = SETTLE < wait && items.iter().any(|item| item.soon != Soon::No);
        match signals.recv_timeout(if is_soon { SETTLE } else { wait }) {
            // Changes without an end must not put the look off without an end.
            Ok(Signal::Changed) if !wait.is_zero() => {
                changed_at.get_or_insert_with(Instant::now);
            }
            Ok(Signal::Look(done)) => {
                ears.listen(&items);
                look_at(&mut items, |_| true);
                let _impatient = done.send(());
            }
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if is_soon => {
                look_at(&mut items, |item| item.soon != Soon::No);
            }
            Ok(Signal::Changed) | Err(RecvTimeoutError::Timeout) => {
                changed_at = None;
                looked_at = Instant::now();
                ears.listen(&items);
                look_at(&mut items, |_| true);
            }
        }
    }
}

fn look_at(items: &mut [Item], which: impl Fn(&Item) -> bool) {
    for item in items.iter_mut().filter(|item| which(item)) {
        let Item { watched, told, soon } = item;
        let look = watched.look();
        *soon = match (&look, *soon) {
            (Look::Later, _) => Soon::Asked,
            (_, Soon::Asked) => Soon::Again,
            (_, Soon::Again | Soon::No) => Soon::No,
        };
        match look {
            Look::Later | Look::Same => {}
            Look::Changed(what) => {
                *told = None;
                tracing::info!("{}: {what}", watched.name());
            }
            Look::Refused(why) => {
                if told.as_ref() != Some(&why) {
                    tracing::error!("{}: what was there before stays in use: {why}", watched.name());
                    *told = Some(why);
                }
            }
        }
    }
}

/// What tells one state of some files from another without reading them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<Option<Stamp>>);

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    changed_ns: (i64, i64),
}

impl Stamps {
    /// The files as they are now; one that is not there counts as such.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(
            paths.into_iter().map(|path| std::fs::metadata(path).ok().map(|meta| Stamp::of(&meta))).collect(),
        )
    }
}

impl Stamp {
    /// Of a file with these attributes. The time is that of the inode's change, which no program can set back.
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            changed_ns: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The directory of a file and, where that is a symbolic link, of what it points to.
pub(crate) fn directories_of(file: &Path) -> Vec<PathBuf> {
    let parent =
        |path: &Path| path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned);
    let here = parent(file).unwrap_or_else(|| PathBuf::from("."));
    let there = std::fs::canonicalize(file).ok().and_then(|real| parent(&real));
    std::iter::once(here).chain(there).collect()
}

#[cfg(test)]
mod tests;
