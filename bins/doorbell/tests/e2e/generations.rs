//! Reloads: no client is refused, cut off or reset, unchanged parts stay, and invalid
//! configurations change nothing.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doorbell_testkit::peers::{End, Reply, exchange, finish, misbehave, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::frames::{self, Peer};
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, binary, on_both_engines};

on_both_engines! {
    no_request_is_lost_during_reloads
    the_next_probe_sees_the_new_configuration
    a_mounted_configuration_is_reloaded_when_it_is_swapped
    an_error_is_reported_with_its_position_and_changes_nothing
    unchanged_parts_keep_their_state
    changed_thresholds_keep_results_and_changed_verdicts_are_reported
    a_kept_connection_uses_the_new_configuration
    listeners_come_and_go
    a_kept_connection_is_not_served_with_the_address_of_a_proxy
    fast_reloads_drain_the_oldest_generation
}

/// An instance whose configuration file is rewritten by tests.
pub(crate) struct Reloaded {
    pub(crate) doorbell: Doorbell,
    pub(crate) file: PathBuf,
    pub(crate) scratch: Scratch,
}

/// A configuration with this body for `/hello`, and with `more`.
pub(crate) fn config(folder: &Path, hello: &str, more: &str) -> String {
    format!(
        "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"300ms\"\nreload = \"SIGHUP\"\n\
         [control]\nsocket = \"{}/control.sock\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [route.hello]\npath = \"/hello\"\nreply = {{ body = \"{hello}\" }}\n{more}",
        folder.display()
    )
}

impl Reloaded {
    pub(crate) fn start(engine: &str, more: &str) -> Self {
        let scratch = Scratch::new();
        let text = config(&scratch.path(""), "0", more);
        Self::start_in(scratch, engine, &text)
    }

    pub(crate) fn start_in(scratch: Scratch, engine: &str, text: &str) -> Self {
        let file = PathBuf::from(scratch.write("doorbell.toml", text));
        let doorbell = Self::serve(engine, &file);
        Self { doorbell, file, scratch }
    }

    pub(crate) fn serve(engine: &str, file: &Path) -> Doorbell {
        Doorbell::try_start(&["serve", "-c", file.to_str().unwrap(), "--driver", engine])
            .unwrap_or_else(|log| panic!("{log}"))
    }

    pub(crate) fn write(&self, hello: &str, more: &str) {
        fs::write(&self.file, config(&self.scratch.path(""), hello, more)).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(binary())
            .args(args)
            .arg("--socket")
            .arg(self.scratch.path("control.sock"))
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn say(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}\n{}", self.doorbell.process.log());
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.say(&["status", "-o", "json"])).unwrap()
    }

    pub(crate) fn hello(&self) -> String {
        let (status, body) = ask(self.doorbell.addr, "/hello");
        assert_eq!(status, 200);
        body
    }
}

pub(crate) fn ask(server: SocketAddr, path: &str) -> (u16, String) {
    let got = exchange(server, format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let reply = Reply::parse(&got.bytes, false).unwrap();
    (reply.status, String::from_utf8(reply.body).unwrap())
}

const KEPT: &[u8] = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
const CLOSE: &[u8] = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

pub(crate) fn kept(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(KEPT).unwrap();
    misbehave::read_replies(&mut stream, 1, false).unwrap();
    stream
}

fn no_request_is_lost_during_reloads(engine: &str) {
    let reloads = if std::env::var_os("DOORBELL_FULL").is_some() { 300 } else { 25 };
    let mut reloaded = Reloaded::start(engine, "");
    let place = reloaded.doorbell.addr;
    let (going, ending) = (AtomicBool::new(true), AtomicBool::new(false));
    let clients = thread::scope(|scope| {
        let end = StopAtEnd(&going);
        let mut clients: Vec<_> =
            (0..3).map(|_| scope.spawn(|| close_until(place, &going, &ending))).collect();
        clients.extend((0..3).map(|_| scope.spawn(|| keep_until(place, &going, &ending))));
        let mut requests = 0;
        for number in 1..=reloads {
            reloaded.write(&number.to_string(), "");
            if number % 2 == 0 {
                reloaded.say(&["reload"]);
                assert_eq!(reloaded.hello(), number.to_string());
            } else {
                reloaded.doorbell.process.signal(Signal::HUP);
                let seen = wait_until(LIMIT, || reloaded.hello() == number.to_string());
                assert!(seen.is_some(), "{}", reloaded.doorbell.process.log());
            }
            let counted = reloaded.status()["counters"]["requests"].as_u64().unwrap();
            assert!(counted >= requests, "totals decrease from {requests} to {counted}");
            requests = counted;
        }
        assert_eq!(reloaded.status()["counters"]["reloads"], reloads);
        // Clients that connect after the signal, but before listeners close, are served.
        ending.store(true, Ordering::Relaxed);
        reloaded.doorbell.process.signal(Signal::TERM);
        let (status, _) = reloaded.doorbell.process.wait();
        assert_eq!(status.code(), Some(0), "{}", reloaded.doorbell.process.log());
        drop(end);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let asked: usize = clients.iter().map(|(asked, _)| asked).sum();
    let lost: Vec<&String> = clients.iter().flat_map(|(_, lost)| lost).collect();
    eprintln!("{engine}: {reloads} reloads and a drain, {asked} requests, {} lost", lost.len());
    assert!(asked > 10 * reloads && lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
}

/// A refused connection is expected only after the stop.
fn is_the_end(error: &std::io::Error, ending: &AtomicBool) -> bool {
    error.kind() == ErrorKind::ConnectionRefused && ending.load(Ordering::Relaxed)
}

fn close_until(server: SocketAddr, going: &AtomicBool, ending: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    while going.load(Ordering::Relaxed) {
        asked += 1;
        match exchange(server, CLOSE) {
            Ok(got) if got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200") => {}
            Err(error) if is_the_end(&error, ending) => break,
            other => lost.push(format!("{other:?}")),
        }
    }
    (asked, lost)
}

fn keep_until(server: SocketAddr, going: &AtomicBool, ending: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    'connections: while going.load(Ordering::Relaxed) {
        let mut stream = match TcpStream::connect(server) {
            Ok(stream) => stream,
            Err(error) if is_the_end(&error, ending) => break,
            Err(error) => {
                lost.push(format!("connect: {error}"));
                continue;
            }
        };
        stream.set_nodelay(true).unwrap();
        let mut is_first = true;
        while going.load(Ordering::Relaxed) {
            asked += 1;
            let was_first = std::mem::take(&mut is_first);
            let sent = stream.write_all(KEPT);
            let replied = sent.and_then(|()| misbehave::read_replies(&mut stream, 1, false));
            match replied.map(|bytes| Reply::parse(&bytes, false)) {
                Ok(Some(reply)) if reply.status == 200 && reply.field("connection") == Some("close") => {
                    continue 'connections;
                }
                Ok(Some(reply)) if reply.status == 200 => {}
                // Idle connections close with the listeners. A client repeats a request that it
                // sent just before the close.
                Err(_) if !was_first && ending.load(Ordering::Relaxed) => continue 'connections,
                other => {
                    lost.push(format!("kept: {other:?}"));
                    continue 'connections;
                }
            }
        }
    }
    (asked, lost)
}

fn the_next_probe_sees_the_new_configuration(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    for number in 1..=20 {
        reloaded.write(&number.to_string(), "");
        reloaded.say(&["reload"]);
        assert_eq!(reloaded.hello(), number.to_string(), "the first probe must get the new configuration");
    }
    let same = reloaded.say(&["reload"]);
    let already =
        format!("the configuration of {} is already in use (generation 21, loaded ", reloaded.file.display());
    assert!(same.starts_with(&already), "{same}");
    assert_eq!(reloaded.status()["generation"], 21);
}

fn a_mounted_configuration_is_reloaded_when_it_is_swapped(engine: &str) {
    let scratch = Scratch::new();
    let volume = scratch.path("config");
    fs::create_dir(&volume).unwrap();
    let text = |hello: &str| {
        let text = config(
            &scratch.path(""),
            hello,
            "[auth.token]\ntokens = { a = \"${file:SECRET}\" }\n\
            [route.secret]\npath = \"/secret\"\nauth = \"token\"\nreply = { body = \"known\" }\n",
        );
        text.replace("reload = \"SIGHUP\"", "reload = \"file\"")
            .replace("SECRET", scratch.path("secret").to_str().unwrap())
    };
    scratch.write("secret", "first-token-0123456789");
    let swap = |version: usize, content: &str| {
        let folder = format!("..2026_11_21.{version}");
        fs::create_dir(volume.join(&folder)).unwrap();
        fs::write(volume.join(&folder).join("doorbell.toml"), content).unwrap();
        symlink(&folder, volume.join("..data_tmp")).unwrap();
        fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
        let _none = fs::remove_dir_all(volume.join(format!("..2026_11_21.{}", version.wrapping_sub(1))));
    };
    swap(1, &text("one"));
    symlink("..data/doorbell.toml", volume.join("doorbell.toml")).unwrap();
    let file = volume.join("doorbell.toml");
    let reloaded = Reloaded { doorbell: Reloaded::serve(engine, &file), file, scratch: Scratch::new() };
    let log = || reloaded.doorbell.process.log();
    assert_eq!(reloaded.hello(), "one");
    swap(2, &text("two"));
    assert!(wait_until(LIMIT, || reloaded.hello() == "two").is_some(), "{}", log());
    // The same content in another directory does not count as a change.
    swap(3, &text("two"));
    swap(4, "version = 1\n[listener.web]\nbind = 8080\n");
    assert!(wait_until(LIMIT, || log().contains("reload failed")).is_some(), "{}", log());
    assert_eq!(reloaded.hello(), "two", "an invalid file must change nothing");
    // The same invalid file is not reported again.
    swap(5, "version = 1\n[listener.web]\nbind = 8080\n");
    swap(6, &text("five"));
    assert!(wait_until(LIMIT, || reloaded.hello() == "five").is_some(), "{}", log());
    assert!(wait_until(LIMIT, || log().matches("\"reloaded: ").count() == 2).is_some(), "{}", log());
    assert_eq!(log().matches("reload failed").count(), 1, "{}", log());
    // A changed secret also causes a reload.
    let known = |token: &str| {
        let request = format!("GET /secret HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
        let got = exchange(reloaded.doorbell.addr, request.as_bytes()).unwrap();
        Reply::parse(&got.bytes, false).unwrap().status == 200
    };
    assert!(known("first-token-0123456789") && !known("second-token-0123456789"));
    scratch.write("secret", "second-token-0123456789");
    assert!(wait_until(LIMIT, || known("second-token-0123456789")).is_some(), "{}", log());
    // No command reports the end of this reload, so wait until the old generation has stopped
    // accepting.
    assert!(wait_until(LIMIT, || !known("first-token-0123456789")).is_some());
}

fn an_error_is_reported_with_its_position_and_changes_nothing(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let port = reloaded.doorbell.addr.port();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!(
        "[listener.more]\nbind = \"{}\"\n[route.more]\nlistener = \"more\"\npath = \"/\"\nreply = {{ body = \"\" }}\n",
        stranger.local_addr().unwrap()
    );
    for (more, expected) in [
        ("[check.a]\ntype = \"tpc\"\n", "doorbell.toml:16:8"),
        ("[listener.web]\n", "duplicate key"),
        ("[tls.x]\ncert = \"/nonexistent\"\nkey = \"/nonexistent\"\n", "doorbell.toml:16:8"),
        (taken.as_str(), "address in use; stop the process that listens there"),
    ] {
        reloaded.write("bad", more);
        let text = fs::read_to_string(&reloaded.file).unwrap();
        fs::write(&reloaded.file, text.replace("path = \"/hello\"", "listener = \"web\"\npath = \"/hello\""))
            .unwrap();
        let output = reloaded.run(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.contains(expected), "{more}: {said}");
        let logged = wait_until(LIMIT, || reloaded.doorbell.process.log().contains("reload failed"));
        assert!(logged.is_some(), "{}", reloaded.doorbell.process.log());
        for _ in 0..8 {
            assert_eq!(reloaded.hello(), "0");
        }
    }
    let status = reloaded.status();
    assert_eq!((&status["generation"], &status["counters"]["reloads_failed"]), (&1.into(), &4.into()));
    reloaded.write("good", "[compute]\nthreads = 2\n");
    reloaded.say(&["reload"]);
    assert_eq!((reloaded.hello().as_str(), reloaded.doorbell.addr.port()), ("good", port));
    // Fixed keys keep their values, and the change is reported.
    let text = config(&reloaded.scratch.path(""), "better", "").replace("workers = 2", "workers = 1");
    fs::write(&reloaded.file, text.replace("control.sock", "other.sock")).unwrap();
    let said = reloaded.say(&["reload"]);
    for what in ["runtime.workers cannot change", "control.socket cannot change"] {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(reloaded.hello(), "better");
    assert_eq!(reloaded.status()["workers"].as_array().unwrap().len(), 2);
}

const CHECKS: &str = "[check.self]\ntype = \"file\"\npath = \"/proc/self/status\"\ninterval = \"1h\"\nrise = 1\n\
    [check.beat]\ntype = \"ttl\"\nttl = \"1h\"\n[check.gone]\ntype = \"file\"\npath = \"SCRATCH/there\"\ninterval = \"100ms\"\nfast_interval = \"100ms\"\nfall = 1\nrise = 1\n\
    [health.readyz]\nrequire = [\"self\", \"beat\"]\n[health.started]\nrequire = [\"gone\"]\nlatch = true\n[health.both]\nrequire = [\"gone\"]\n\
    [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n[route.started]\npath = \"/started\"\nhealth = \"started\"\n[route.both]\npath = \"/both\"\nhealth = \"both\"\n\
    [route.push]\npath = \"/push/{check}/{result}\"\nmethods = [\"POST\"]\npush = true\n";

fn unchanged_parts_keep_their_state(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let there = reloaded.scratch.path("there");
    fs::write(&there, "").unwrap();
    let checks = CHECKS.replace("SCRATCH", reloaded.scratch.path("").to_str().unwrap().trim_end_matches('/'));
    let write = |hello: &str, more: &str| reloaded.write(hello, &format!("{checks}{more}"));
    write("1", "");
    let said = reloaded.run(&["reload"]);
    assert!(said.status.success(), "{said:?}");
    let place = reloaded.doorbell.addr;
    assert!(wait_until(LIMIT, || ask(place, "/started").0 == 200).is_some());
    // A kept connection still uses the old configuration after the next reload.
    let mut old = kept(place);
    let push = |stream: &mut TcpStream| {
        stream.write_all(b"POST /push/beat/pass HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
        let reply = Reply::parse(&misbehave::read_replies(stream, 1, false).unwrap(), false).unwrap();
        assert!(reply.status < 300, "{} {}", reply.status, String::from_utf8_lossy(&reply.body));
    };
    push(&mut kept(place));
    assert!(wait_until(LIMIT, || ask(place, "/readyz").0 == 200).is_some(), "{}", reloaded.say(&["checks"]));
    fs::remove_file(&there).unwrap();
    assert!(wait_until(LIMIT, || ask(place, "/both").0 == 503).is_some());
    assert_eq!(ask(place, "/started").0, 200, "latched");
    reloaded.say(&["maint", "both", "--reason", "disks"]);
    let runs = |name: &str| {
        let checks: Value =
            serde_json::from_str(&reloaded.say(&["checks", name, "--history", "-o", "json"])).unwrap();
        checks[0]["history"].as_array().unwrap().len()
    };
    let before = runs("self");
    for number in 2..6 {
        write(&number.to_string(), "");
        reloaded.say(&["reload"]);
        assert_eq!((ask(place, "/readyz").0, ask(place, "/started").0), (200, 200), "known and latched");
        let (status, body) = ask(place, "/both");
        assert!(status == 503 && body.contains("maintenance"), "{status} {body}");
    }
    assert_eq!(runs("self"), before, "unchanged checks must not run again");
    // Connections of an earlier configuration get the current state, and their pushed results take
    // effect.
    reloaded.say(&["ready", "both"]);
    fs::write(&there, "").unwrap();
    assert!(wait_until(LIMIT, || ask(place, "/both").0 == 200).is_some());
    push(&mut old);
    // Changed and new checks have no result until they have run.
    let changed = checks.replace("/proc/self/status", "/proc/self/stat");
    reloaded.write("6", &changed);
    reloaded.say(&["reload"]);
    assert_eq!(ask(place, "/readyz").0, 200, "the verdict must stay until the changed check has run");
    assert!(wait_until(LIMIT, || runs("self") > 0).is_some());
    assert_eq!((ask(place, "/readyz").0, runs("self")), (200, 1), "a changed check must have a new history");
    assert_eq!(reloaded.status()["maintenance"], Value::Array(Vec::new()));
}

fn changed_thresholds_keep_results_and_changed_verdicts_are_reported(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let place = reloaded.doorbell.addr;
    let here = reloaded.scratch.path("here");
    fs::write(&here, "").unwrap();
    let write = |defaults: &str, ttl: &str, path: &Path| {
        let fall = if defaults.contains("fall = 1") { 1 } else { 3 };
        let text = format!(
            "[check_defaults]\n{defaults}\n[check.beat]\ntype = \"ttl\"\nttl = \"{ttl}\"\nfall = {fall}\n\
             [check.here]\ntype = \"file\"\npath = \"{}\"\ninterval = \"1h\"\n\
             [health.readyz]\nrequire = [\"beat\", \"here\"]\n\
             [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\ndetails = \"always\"\n\
             [route.push]\npath = \"/push/{{check}}/{{result}}\"\nmethods = [\"POST\"]\npush = true\n",
            path.display()
        );
        reloaded.write("x", &text);
        reloaded.say(&["reload"]);
        ask(place, "/readyz")
    };
    let push = |result: &str| {
        let request = format!("POST /push/beat/{result} HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
        let reply = exchange(place, request.as_bytes()).unwrap();
        assert!(Reply::parse(&reply.bytes, false).unwrap().status < 300, "{reply:?}");
    };
    write("rise = 1\nfall = 3", "1h", &here);
    push("pass");
    assert!(wait_until(LIMIT, || ask(place, "/readyz").0 == 200).is_some(), "{}", reloaded.say(&["checks"]));
    // The result stays valid under changed thresholds.
    for (defaults, ttl) in [
        ("rise = 5\nfall = 3", "1h"),
        ("rise = 1\nfall = 3\nmax_age = \"9h\"", "2h"),
        ("fall = 3\nhistory = 7\nflap = {}", "1h"),
        ("rise = 1\nfall = 3\ninterval = \"3h\"\ntimeout = \"3s\"", "1h"),
    ] {
        let (status, body) = write(defaults, ttl, &here);
        assert_eq!(status, 200, "{defaults}: {body}");
    }
    // A check with a changed target keeps its state until its first result; a resulting change of
    // the state is logged.
    let (status, body) = write("rise = 1\nfall = 3\ntimeout = \"10m\"", "1h", &reloaded.scratch.path("gone"));
    assert!(status == 200 || body.contains("here: down"), "{status} {body}");
    assert!(wait_until(LIMIT, || ask(place, "/readyz").0 == 503).is_some());
    let is_logged = |what: &str| {
        assert!(
            wait_until(LIMIT, || reloaded.doorbell.process.log().contains(what)).is_some(),
            "{what}: {}",
            reloaded.doorbell.process.log()
        );
    };
    is_logged("health readyz: down");
    write("rise = 1\nfall = 3\ntimeout = \"10m\"", "1h", &here);
    assert!(wait_until(LIMIT, || ask(place, "/readyz").0 == 200).is_some());
    // If a lower `fall` makes a check count as down, its state changes at once and is logged.
    let lines = |log: &str| log.matches("health readyz: down").count();
    let before = lines(&reloaded.doorbell.process.log());
    let checks = |name: &str| -> Value {
        serde_json::from_str(&reloaded.say(&["checks", name, "-o", "json"])).unwrap()
    };
    push("fail");
    assert!(wait_until(LIMIT, || checks("beat")[0]["failures"] == 1).is_some(), "{}", checks("beat"));
    let (status, body) = ask(place, "/readyz");
    let was_up = status == 200;
    let (status, _) = write("rise = 1\nfall = 1\ntimeout = \"10m\"", "1h", &here);
    assert_eq!((was_up, status), (true, 503), "{body}");
    assert!(wait_until(LIMIT, || lines(&reloaded.doorbell.process.log()) > before).is_some());
}

/// A removed token is invalid immediately, with and without logging and counting.
fn a_kept_connection_uses_the_new_configuration(engine: &str) {
    const OLD: &str = "0123456789abcdef0123456789abcdef";
    const NEW: &str = "fedcba9876543210fedcba9876543210";
    for more in ["", "[log]\naccess = \"all\"\n", "[admin]\nbind = \"127.0.0.1:0\"\n"] {
        let guarded = |token: &str| {
            format!(
                "{more}[auth.ops]\ntokens = {{ alice = \"{token}\" }}\n\
                 [route.secret]\npath = \"/secret\"\nauth = \"ops\"\nreply = {{ body = \"secret\" }}\n"
            )
        };
        let reloaded = Reloaded::start(engine, &guarded(OLD));
        let ask = |stream: &mut TcpStream, path: &str, token: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let reply = Reply::parse(&misbehave::read_replies(stream, 1, false).unwrap(), false).unwrap();
            (
                reply.status,
                reply.field("connection").map(str::to_owned),
                String::from_utf8(reply.body).unwrap(),
            )
        };
        let mut kept: Vec<TcpStream> = (0..3).map(|_| kept(reloaded.doorbell.addr)).collect();
        for stream in &mut kept {
            assert_eq!(ask(stream, "/secret", OLD), (200, None, "secret".to_owned()));
        }
        reloaded.write("1", &guarded(NEW));
        reloaded.say(&["reload"]);
        let close = || Some("close".to_owned());
        let (status, connection, _) = ask(&mut kept[0], "/secret", OLD);
        assert_eq!((status, connection), (401, close()), "{more}");
        assert_eq!(ask(&mut kept[1], "/secret", NEW), (200, close(), "secret".to_owned()), "{more}");
        assert_eq!(ask(&mut kept[2], "/hello", OLD), (200, close(), "1".to_owned()), "{more}");
    }
}

fn listeners_come_and_go(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let path = reloaded.scratch.path("web.sock");
    let more = format!(
        "[listener.unix]\nbind = \"unix:{}\"\n[listener.more]\nbind = \"127.0.0.1:0\"\n",
        path.display()
    );
    let write = |hello: &str| {
        let text = config(&reloaded.scratch.path(""), hello, &more);
        let everywhere = "listener = [\"web\", \"unix\", \"more\"]\npath = \"/hello\"";
        fs::write(&reloaded.file, text.replace("path = \"/hello\"", everywhere)).unwrap();
    };
    write("1");
    let said = reloaded.say(&["reload"]);
    assert!(said.contains("unix:"), "{said}");
    let addresses = reloaded.status()["addresses"].clone();
    let more_addr: SocketAddr = addresses[2].as_str().unwrap().parse().unwrap();
    assert_eq!(addresses[0], reloaded.doorbell.addr.to_string());
    assert_eq!((ask(more_addr, "/hello").1, path.exists()), ("1".to_owned(), true));
    write("2");
    reloaded.say(&["reload"]);
    assert_eq!(ask(more_addr, "/hello").1, "2", "port 0 must keep the port that it got");
    let mut old = kept(more_addr);
    reloaded.write("3", "");
    reloaded.say(&["reload"]);
    assert_eq!(reloaded.hello(), "3");
    old.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    old.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "a removed listener must not reply");
    let gone = wait_until(LIMIT, || TcpStream::connect(more_addr).is_err() && !path.exists());
    assert!(gone.is_some(), "the address is closed");
}

/// The old connection has no PROXY header, so its client is not known to the new configuration.
fn a_kept_connection_is_not_served_with_the_address_of_a_proxy(engine: &str) {
    let client = "[route.client]\npath = \"/client\"\nreply = { body = \"{client}\" }\n";
    let reloaded = Reloaded::start(engine, client);
    let write = |lines: &str| {
        let text = config(&reloaded.scratch.path(""), "1", client);
        let listener = format!("[listener.web]\nhttp2 = true\n{lines}");
        fs::write(&reloaded.file, text.replace("[listener.web]\n", &listener)).unwrap();
        reloaded.say(&["reload"]);
    };
    write("");
    let addr = reloaded.doorbell.addr;
    let mut old = kept(addr);
    // HTTP/2 connections stay open after GOAWAY while a PING is not acknowledged.
    let mut old_http2 = Peer::connect(addr, &[]).unwrap();
    old_http2.write(&frames::get(1, "/client")).unwrap();
    assert_eq!(old_http2.reply(1).unwrap(), (true, b"127.0.0.1".to_vec()));
    write("proxy_protocol = \"require\"\ntrusted_proxies = \"127.0.0.1\"\n");
    old.write_all(b"GET /client HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    old.read_to_end(&mut rest).unwrap();
    assert_eq!(String::from_utf8_lossy(&rest), "", "the address is that of the proxy");
    // REFUSED_STREAM: the client may repeat the request.
    old_http2.write(&frames::get(3, "/client")).unwrap();
    let refused = loop {
        let frame = old_http2.read().unwrap();
        if frame.stream == 3 {
            break frame;
        }
    };
    assert_eq!((refused.kind, &*refused.content), (frames::RST_STREAM, &[0, 0, 0, 7][..]));
    let mut behind = Peer::connect_behind(b"PROXY TCP4 192.0.2.7 192.0.2.1 51000 80\r\n", addr, &[]).unwrap();
    let mut ask = |stream: u32| {
        behind.write(&frames::get(stream, "/client")).unwrap();
        behind.reply(stream).unwrap().1
    };
    assert_eq!(ask(1), b"192.0.2.7");
}

fn fast_reloads_drain_the_oldest_generation(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let mut idle = Vec::new();
    for number in 1..=5 {
        idle.push(kept(reloaded.doorbell.addr));
        reloaded.write(&number.to_string(), "");
        reloaded.say(&["reload"]);
    }
    // Five generations have retired; at most two may wait for their idle connections.
    for stream in &mut idle[..3] {
        let got = finish(stream, LIMIT);
        assert_eq!(
            (got.bytes.len(), got.end),
            (0, End::Fin),
            "the connection must end with a FIN and no data"
        );
    }
    for stream in &mut idle[3..] {
        stream.write_all(KEPT).unwrap();
        let reply = Reply::parse(&finish(stream, LIMIT).bytes, false).unwrap();
        assert_eq!((reply.status, reply.field("connection")), (200, Some("close")));
    }
    assert_eq!(reloaded.status()["counters"]["reloads_hurried"], 3);
}
