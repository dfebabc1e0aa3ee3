//! Certificates mounted by Kubernetes: `tls.crt` is a link through `..data` into a directory that
//! is replaced as a whole.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::wait_until;

use crate::https::{Https, ask};
use crate::pki::{Signed, ca, localhost, make_private};
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, on_auto};

on_auto! {
    a_new_secret_is_used_without_a_failed_request
}

/// The volume of a Secret, with the layout that the kubelet writes.
struct Volume {
    dir: PathBuf,
    version: usize,
}

impl Volume {
    fn new(scratch: &Scratch, signed: &Signed) -> Self {
        let mut volume = Self { dir: scratch.path("secret"), version: 0 };
        fs::create_dir(&volume.dir).unwrap();
        volume.update(&signed.certificate, &signed.key);
        for name in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{name}"), volume.dir.join(name)).unwrap();
        }
        volume
    }

    /// Creates a new directory and a link to it, renames the link to `..data`, and removes the old
    /// directory.
    fn update(&mut self, certificate: &str, key: &str) {
        let name = |version: usize| format!("..2026_11_21_09_36_06.{version}");
        let old = self.dir.join(name(self.version));
        self.version += 1;
        let new = self.dir.join(name(self.version));
        fs::create_dir(&new).unwrap();
        for (file, text) in [("tls.crt", certificate), ("tls.key", key)] {
            fs::write(new.join(file), text).unwrap();
            make_private(&new.join(file));
        }
        symlink(name(self.version), self.dir.join("..data_tmp")).unwrap();
        fs::rename(self.dir.join("..data_tmp"), self.dir.join("..data")).unwrap();
        let _ = fs::remove_dir_all(old);
    }
}

fn serve(engine: &str, volume: &Volume) -> Doorbell {
    let (cert, key) = (volume.dir.join("tls.crt"), volume.dir.join("tls.key"));
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn is_presented(https: &Https, signed: &Signed) -> bool {
    let mut stream = https.connect().unwrap();
    assert_eq!(ask(&mut stream, "/hello").unwrap().status, 200);
    stream.conn.peer_certificates().unwrap()[0].as_ref() == signed.der()
}

fn a_new_secret_is_used_without_a_failed_request(engine: &str) {
    let scratch = Scratch::new();
    let mut volume = Volume::new(&scratch, localhost());
    let doorbell = serve(engine, &volume);
    let https = Https::new(doorbell.addr);
    assert!(is_presented(&https, localhost()));
    let log = || doorbell.process.log();
    let complaints = || log().matches("keeping the previous version").count();
    let updating = AtomicBool::new(true);
    let (asked, lost) = thread::scope(|scope| {
        let end = StopAtEnd(&updating);
        let client = scope.spawn(|| ask_until(&https, &updating));
        // Each change is detected without a signal, although the watched directory is removed.
        let mut current = localhost().clone();
        for _ in 0..3 {
            current = ca().server(&["localhost"]);
            volume.update(&current.certificate, &current.key);
            assert!(wait_until(LIMIT, || is_presented(&https, &current)).is_some(), "{}", log());
        }
        assert_eq!(complaints(), 0, "{}", log());
        // The certificate of one pair with the key of another, then an invalid key.
        let next = ca().server(&["localhost"]);
        for (count, key) in [(1, current.key.as_str()), (2, "nonsense\n")] {
            volume.update(&next.certificate, key);
            assert!(wait_until(LIMIT, || complaints() == count).is_some(), "{key:?}: {}", log());
            assert!(log().contains("tls web: keeping the previous version"), "{}", log());
            thread::sleep(Duration::from_millis(300));
            assert!(is_presented(&https, &current));
            assert_eq!(complaints(), count, "the failure must be logged once: {}", log());
        }
        volume.update(&next.certificate, &next.key);
        assert!(wait_until(LIMIT, || is_presented(&https, &next)).is_some(), "{}", log());
        drop(end);
        client.join().unwrap()
    });
    eprintln!("{engine}: {asked} requests, {} lost", lost.len());
    assert!(lost.is_empty() && asked >= 20, "{asked}: {:?}", &lost[..lost.len().min(5)]);
}

/// Sends requests on new connections until the end. Returns the number of good replies, and the
/// failures.
fn ask_until(https: &Https, running: &AtomicBool) -> (usize, Vec<String>) {
    let (mut good, mut lost) = (0, Vec::new());
    while running.load(Ordering::Relaxed) {
        match https.get("/hello") {
            Ok(reply) if reply.status == 200 => good += 1,
            other => lost.push(format!("{other:?}")),
        }
        thread::sleep(Duration::from_millis(2));
    }
    (good, lost)
}
