//! Tests of the state file: damage, other versions, clock jumps and full disks.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("doorbell-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn state_file(&self) -> StateFile {
        StateFile::new(&self.0.join("deep/state"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("deep").join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn saved() -> SavedState {
    let hold = |target: &str, left_ms| SavedHold { target: target.into(), reason: "why".into(), left_ms };
    SavedState {
        moment: Moment { boot: "b".into(), since_boot_ms: 1, unix_ms: 2 },
        drains: vec![hold("all", None), hold("second", Some(60_000))],
        maintenance: vec![hold("readyz", Some(1_800_000)), hold("check:db", None)],
        ended_windows: vec![SavedWindow {
            schedule: "0 3 * * SUN UTC".into(),
            length_ms: 1_800_000,
            since_unix_ms: 3,
            target: "readyz".into(),
        }],
    }
}

#[test]
fn saved_state_is_loaded() {
    let folder = Folder::new();
    let mut state_file = folder.state_file();
    assert_eq!(state_file.load(), None);
    state_file.save(&saved()).unwrap();
    assert_eq!(state_file.load(), Some(saved()));
    state_file.save(&SavedState::default()).unwrap();
    assert_eq!(folder.state_file().load(), Some(SavedState::default()));
    assert!(!folder.path("state.new").exists());
}

#[test]
fn the_previous_versions_are_read() {
    let SavedState { moment, drains, maintenance, .. } = saved();
    let of = |drains: &[SavedHold]| SavedState { drains: drains.to_vec(), ended_windows: vec![], ..saved() };
    let first = |drain| content::SavedV1 { moment: moment.clone(), drain, maintenance: maintenance.clone() };
    let second =
        content::SavedV2 { moment: moment.clone(), drains: drains.clone(), maintenance: maintenance.clone() };
    for (version, rest, expected) in [
        (1, bitcode::encode(&first(None)), of(&[])),
        (1, bitcode::encode(&first(Some("why".to_owned()))), of(&drains[..1])),
        (2, bitcode::encode(&second), of(&drains)),
    ] {
        let mut bytes = content::with_head(version, &rest);
        assert_eq!(SavedState::decode(&bytes), Ok(expected));
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(SavedState::decode(&bytes), Err(DecodeError::Damaged));
    }
}

#[test]
fn a_symbolic_link_is_kept_and_its_target_written() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("disk")).unwrap();
    std::os::unix::fs::symlink("disk/link", folder.path("state")).unwrap();
    std::os::unix::fs::symlink("target", folder.path("disk/link")).unwrap();
    for saved in [saved(), SavedState::default()] {
        folder.state_file().save(&saved).unwrap();
        assert_eq!(folder.state_file().load(), Some(saved));
        assert!(["state", "disk/link"].iter().all(|link| folder.path(link).is_symlink()));
        assert!(folder.path("disk/target").is_file());
    }
    let mut other_name = StateFile::new(&folder.path("disk/target"));
    let mut owner = folder.state_file();
    assert_eq!((owner.claim(), other_name.claim()), (Ok(()), Err(InUse)), "one file, one owner");
    fs::write(folder.path("disk/target"), b"damaged").unwrap();
    assert_eq!(owner.load(), None);
    assert!(folder.path("disk/target.damaged").is_file() && folder.path("state").is_symlink());
    // A loop is an error, not an endless search.
    std::os::unix::fs::symlink("loop", folder.path("loop")).unwrap();
    assert!(StateFile::new(&folder.path("loop")).load().is_none());
}

#[test]
fn a_kill_while_writing_leaves_the_old_one() {
    let folder = Folder::new();
    let mut state_file = folder.state_file();
    state_file.save(&saved()).unwrap();
    let bytes = saved().encode();
    for len in 0..bytes.len() {
        fs::write(folder.path("state.new"), &bytes[..len]).unwrap();
        assert_eq!(folder.state_file().load(), Some(saved()));
    }
    state_file.save(&SavedState::default()).unwrap();
    assert_eq!(state_file.load(), Some(SavedState::default()));
}

#[test]
fn every_damaged_byte_and_every_cut_is_noticed_and_set_aside() {
    let folder = Folder::new();
    folder.state_file().save(&saved()).unwrap();
    let bytes = saved().encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(SavedState::decode(&damaged).is_err(), "byte {at}");
        assert_eq!(SavedState::decode(&bytes[..at]), Err(DecodeError::Damaged), "cut at {at}");
    }
    fs::write(folder.path("state"), &bytes[..20]).unwrap();
    assert_eq!(folder.state_file().load(), None);
    assert_eq!(fs::read(folder.path("state.damaged")).unwrap(), &bytes[..20]);
    assert!(!folder.path("state").exists());
    assert_eq!(folder.state_file().load(), None, "set aside once");
    let mut foreign = bytes;
    foreign[8] = 4;
    assert_eq!(SavedState::decode(&foreign), Err(DecodeError::Foreign(4)));
    fs::write(folder.path("state"), &foreign).unwrap();
    assert_eq!(folder.state_file().load(), None);
    assert!(folder.path("state.foreign").exists());
}

proptest! {
    #[test]
    fn random_bytes_do_not_decode(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(SavedState::decode(&bytes).is_err());
        // The header is valid, so that the decoder is reached.
        let mut whole = saved().encode()[..10].to_vec();
        whole.extend_from_slice(&content::digest_of(&bytes).to_le_bytes());
        whole.extend_from_slice(&bytes);
        let _either = SavedState::decode(&whole);
    }
}

#[test]
fn a_disk_that_is_full_stops_nothing() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let folder = Folder::new();
    let mut state_file = folder.state_file();
    state_file.save(&saved()).unwrap();
    std::os::unix::fs::symlink(full, folder.path("state.new")).unwrap();
    let why = state_file.save(&SavedState::default()).unwrap_err();
    assert!(why.contains("No space left"), "{why}");
    assert_eq!(state_file.failed.as_deref(), Some(why.as_str()));
    assert_eq!(state_file.load(), Some(saved()), "the old one stays");
    state_file.save(&SavedState::default()).unwrap();
    assert_eq!((state_file.load(), state_file.failed), (Some(SavedState::default()), None));
}

#[test]
fn two_instances_do_not_share_a_file() {
    let folder = Folder::new();
    let (mut first, mut second) = (folder.state_file(), folder.state_file());
    assert_eq!((first.claim(), second.claim()), (Ok(()), Err(InUse)));
    first.save(&saved()).unwrap();
    let why = second.save(&SavedState::default()).unwrap_err();
    assert_eq!(why, "the state file is in use by another instance");
    assert_eq!(first.load(), Some(saved()));
    drop(first);
    assert_eq!(folder.state_file().claim(), Ok(()), "the lock is released with its owner");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the predecessor exits during the wait")]
fn a_starting_instance_waits_for_its_predecessor() {
    let folder = Folder::new();
    let (mut first, mut second) = (folder.state_file(), folder.state_file());
    first.claim().unwrap();
    let exits = std::thread::spawn(move || {
        std::thread::sleep(CLAIM_EVERY * 2);
        drop(first);
    });
    assert_eq!(second.claim_after_predecessor(), Ok(()));
    exits.join().unwrap();
    assert_eq!(folder.state_file().claim_after_predecessor(), Err(InUse), "the wait is limited");
}

#[test]
fn an_unwritable_path_is_reported_before_the_first_save() {
    let folder = Folder::new();
    fs::write(folder.0.join("deep"), b"").unwrap();
    let mut state_file = folder.state_file();
    assert_eq!(state_file.claim(), Ok(()));
    assert!(
        state_file.failed.as_deref().is_some_and(|why| why.contains("File exists")),
        "{:?}",
        state_file.failed
    );
    fs::remove_file(folder.0.join("deep")).unwrap();
    fs::create_dir_all(folder.path("state")).unwrap();
    assert_eq!(state_file.claim(), Ok(()));
    assert!(
        state_file.failed.as_deref().is_some_and(|why| why.contains("directory")),
        "{:?}",
        state_file.failed
    );
    fs::remove_dir(folder.path("state")).unwrap();
    assert_eq!((state_file.claim(), state_file.failed.as_deref()), (Ok(()), None));
    assert!(!folder.path("state.new").exists());
    state_file.save(&saved()).unwrap();
}

#[test]
fn no_jump_of_the_clock_makes_anything_last_longer() {
    const HOUR: u64 = 3_600_000;
    let at = |boot: &str, since_boot_ms, unix_ms| Moment { boot: boot.into(), since_boot_ms, unix_ms };
    let saved = at("a", 10_000, 100 * HOUR);
    let passed = |now: &Moment| saved.until(now);
    let ms = Duration::from_millis;
    for jumped in [99 * HOUR, 100 * HOUR, 101 * HOUR] {
        assert_eq!(passed(&at("a", 15_000, jumped)), ms(5_000), "the boot clock counts");
    }
    assert_eq!(passed(&at("b", 1_000, 100 * HOUR + 7_000)), ms(7_000));
    assert_eq!(passed(&at("b", 1_000, 99 * HOUR)), ms(0), "set back: no time counts as passed");
    let unknown = at("", 10_000, 100 * HOUR);
    assert_eq!(unknown.until(&at("", 99_000, 100 * HOUR + 1)), ms(1), "no boot is known");
    let now = Moment::now();
    assert!(!now.boot.is_empty() && now.since_boot_ms > 0 && now.unix_ms > 1_700_000_000_000, "{now:?}");
}
