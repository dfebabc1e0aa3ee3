//! Tests the detection of file changes; scans must not cause further scans.

use super::*;
use parking_lot::Mutex;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Accepts any text except `bad`.
struct Text {
    path: PathBuf,
    stamps: Stamps,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Watched for Text {
    fn name(&self) -> String {
        "text".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        directories_of(&self.path)
    }

    fn scan(&mut self) -> Scan {
        let stamps = Stamps::of([self.path.as_path()]);
        if stamps == self.stamps {
            return Scan::Same;
        }
        self.stamps = stamps;
        match fs::read_to_string(&self.path) {
            Ok(text) if text != "bad" => {
                self.heard.lock().push(text.clone());
                Scan::Changed(text)
            }
            Ok(_) => Scan::Refused("it is bad".to_owned()),
            Err(error) => Scan::Refused(error.to_string()),
        }
    }
}

/// Reads its whole directory in every scan.
struct Folder {
    path: PathBuf,
    looks: Arc<AtomicUsize>,
    files: Arc<AtomicUsize>,
}

impl Watched for Folder {
    fn name(&self) -> String {
        "folder".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn scan(&mut self) -> Scan {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let files = fs::read_dir(&self.path)
            .map(|files| files.filter(|file| fs::read(file.as_ref().unwrap().path()).is_ok()).count());
        self.files.store(files.unwrap_or_default(), Ordering::SeqCst);
        Scan::Same
    }
}

/// Finishes a scan at the third call.
struct Slow {
    asked: Arc<AtomicUsize>,
}

impl Watched for Slow {
    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn scan(&mut self) -> Scan {
        match self.asked.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Scan::Later,
            _ => Scan::Changed("it is done".to_owned()),
        }
    }
}

/// Hangs until released, like a read from an unreachable file system.
struct Hung {
    begun: SyncSender<()>,
    goes_on: Receiver<()>,
}

impl Watched for Hung {
    fn name(&self) -> String {
        "hung".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn scan(&mut self) -> Scan {
        let _told = self.begun.try_send(());
        let _gone = self.goes_on.recv();
        Scan::Same
    }
}

#[test]
fn a_hung_look_blocks_neither_looks_nor_the_end() {
    let (begun, has_begun) = sync_channel(1);
    let (go_on, goes_on) = sync_channel::<()>(0);
    let watch = Watch::start(vec![Box::new(Hung { begun, goes_on })]).unwrap();
    has_begun.recv().unwrap();
    // Fills the queue, as many changes in a directory do.
    while watch.signals.try_send(Signal::Changed).is_ok() {}
    // The scan hangs until after both calls, so a call that waited for it would never return.
    watch.scan(Duration::from_millis(50));
    drop(watch);
    drop(go_on);
}

/// Much longer than a scan takes on a busy machine, and shorter than [`SCAN_INTERVAL`], after which
/// any change would be detected.
const SOON: Duration = Duration::from_millis(3500);

#[expect(clippy::disallowed_methods, reason = "a test waits for another thread")]
fn within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let from = Instant::now();
    while !is_so() {
        assert!(from.elapsed() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("doorbell-watch-{name}-{}", std::process::id()));
    let _old = fs::remove_dir_all(&dir);
    dir
}

fn watch_folder(path: PathBuf) -> (Watch, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (looks, files) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let folder = Folder { path, looks: Arc::clone(&looks), files: Arc::clone(&files) };
    (Watch::start(vec![Box::new(folder)]).unwrap(), looks, files)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "nothing happens for a while")]
fn looking_is_no_change() {
    let dir = scratch("looks");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("file"), "text").unwrap();
    let (watch, looks, _) = watch_folder(dir.clone());
    within(SOON, "the first look", || looks.load(Ordering::SeqCst) == 1);
    std::thread::sleep(8 * SETTLE);
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    drop(watch);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn changes_are_detected_from_the_start_and_in_new_directories() {
    let dir = scratch("come-and-go");
    fs::create_dir_all(&dir).unwrap();
    let deep = dir.join("not/yet");
    let (watch, looks, files) = watch_folder(deep.clone());
    for round in 0..3 {
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("one"), "text").unwrap();
        within(SOON, "a new directory", || files.load(Ordering::SeqCst) == 1);
        let before = looks.load(Ordering::SeqCst);
        fs::write(deep.join("two"), "text").unwrap();
        within(SOON, "a file in it", || files.load(Ordering::SeqCst) == 2);
        assert!(looks.load(Ordering::SeqCst) > before, "round {round}");
        fs::remove_dir_all(dir.join("not")).unwrap();
        within(SOON, "it is gone", || files.load(Ordering::SeqCst) == 0);
    }
    drop(watch);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn continuous_changes_do_not_delay_looks() {
    let dir = scratch("busy");
    fs::create_dir_all(&dir).unwrap();
    let (watch, looks, _) = watch_folder(dir.clone());
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(Ordering::SeqCst) {
                fs::write(dir.join("file"), "text").unwrap();
            }
        });
        within(SOON, "three looks meanwhile", || looks.load(Ordering::SeqCst) >= 3);
        busy.store(false, Ordering::SeqCst);
    });
    drop(watch);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_change_and_a_swapped_link_are_detected() {
    let dir = scratch("link");
    // The layout of a ConfigMap mounted by Kubernetes.
    for version in ["v1", "v2"] {
        fs::create_dir_all(dir.join(version)).unwrap();
        fs::write(dir.join(version).join("text"), version).unwrap();
    }
    std::os::unix::fs::symlink("v1", dir.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/text", dir.join("text")).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let path = dir.join("text");
    let stamps = Stamps::of([path.as_path()]);
    let watch = Watch::start(vec![Box::new(Text { path, stamps, heard: Arc::clone(&heard) })]).unwrap();
    let last = || heard.lock().last().cloned();
    std::os::unix::fs::symlink("v2", dir.join("..tmp")).unwrap();
    fs::rename(dir.join("..tmp"), dir.join("..data")).unwrap();
    within(SOON, "the link was swapped", || last().as_deref() == Some("v2"));
    fs::write(dir.join("v2/text"), "bad").unwrap();
    watch.scan(Duration::from_secs(10));
    assert_eq!(last().as_deref(), Some("v2"), "an invalid version is not used");
    fs::write(dir.join("v2/text"), "v3").unwrap();
    watch.scan(Duration::from_secs(10));
    assert_eq!(last().as_deref(), Some("v3"));
    drop(watch);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "nothing happens for a while")]
fn what_is_not_done_is_asked_for_again_and_once_more_for_what_changed_meanwhile() {
    let dir = scratch("slow");
    fs::create_dir_all(&dir).unwrap();
    let (looks, files) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::new(AtomicUsize::new(0));
    let folder = Folder { path: dir.clone(), looks: Arc::clone(&looks), files };
    let watch = Watch::start(vec![Box::new(Slow { asked: Arc::clone(&asked) }), Box::new(folder)]).unwrap();
    within(SOON, "four questions", || asked.load(Ordering::SeqCst) == 4);
    std::thread::sleep(4 * SETTLE);
    assert_eq!(
        (asked.load(Ordering::SeqCst), looks.load(Ordering::SeqCst)),
        (4, 1),
        "no further scan, and none of another item"
    );
    drop(watch);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn nothing_to_watch_needs_no_thread() {
    let watch = Watch::start(Vec::new()).unwrap();
    assert!(watch.thread.is_none());
}
