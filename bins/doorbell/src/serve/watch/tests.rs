//! Changes of files that are heard of, and looks that are not taken for changes.
//!
//! Does not know about: what is watched in earnest.

use super::*;
use std::sync::{Arc, Mutex};

/// Takes in any text but `bad`.
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

    fn look(&mut self) -> Look {
        let stamps = Stamps::of([self.path.as_path()]);
        if stamps == self.stamps {
            return Look::Same;
        }
        self.stamps = stamps;
        match std::fs::read_to_string(&self.path) {
            Ok(text) if text != "bad" => {
                self.heard.lock().unwrap().push(text.clone());
                Look::Changed(text)
            }
            Ok(_) => Look::Refused("it is bad".to_owned()),
            Err(error) => Look::Refused(error.to_string()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test waits for another thread")]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let from = Instant::now();
    while !is_so() {
        assert!(from.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_change_is_heard_of_and_so_is_a_swapped_link() {
    let dir = std::env::temp_dir().join(format!("doorbell-watch-{}", std::process::id()));
    let _old = std::fs::remove_dir_all(&dir);
    // As Kubernetes lays out a mounted ConfigMap.
    for version in ["v1", "v2"] {
        std::fs::create_dir_all(dir.join(version)).unwrap();
        std::fs::write(dir.join(version).join("text"), version).unwrap();
    }
    std::os::unix::fs::symlink("v1", dir.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/text", dir.join("text")).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let path = dir.join("text");
    let stamps = Stamps::of([path.as_path()]);
    let watch = Watch::start(vec![Box::new(Text { path, stamps, heard: Arc::clone(&heard) })]).unwrap();
    let last = || heard.lock().unwrap().last().cloned();
    // The thread may not have begun to watch: then its regular look finds the change.
    std::os::unix::fs::symlink("v2", dir.join("..tmp")).unwrap();
    std::fs::rename(dir.join("..tmp"), dir.join("..data")).unwrap();
    until("the link was swapped", || last().as_deref() == Some("v2"));
    std::fs::write(dir.join("v2/text"), "bad").unwrap();
    watch.look(Duration::from_secs(10));
    assert_eq!(last().as_deref(), Some("v2"), "what cannot be used is not taken");
    std::fs::write(dir.join("v2/text"), "v3").unwrap();
    watch.look(Duration::from_secs(10));
    assert_eq!(last().as_deref(), Some("v3"));
    drop(watch);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn nothing_to_watch_needs_no_thread() {
    let watch = Watch::start(Vec::new()).unwrap();
    assert!(watch.thread.is_none());
}
