//! TLS listeners before their first certificate (`wait_for_certificate`): closed until the
//! certificate is usable, then open.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use doorbell_testkit::peers::wait_until;
use serde_json::Value;

use crate::generations::{self, Reloaded, ask, kept};
use crate::https::Https;
use crate::pki::{ca, localhost, make_private};
use crate::support::{LIMIT, Scratch, binary, free_port, on_auto};

on_auto! {
    a_listener_opens_when_its_pair_is_whole
    an_acme_client_gets_the_first_certificate
    a_reload_opens_at_once_and_keeps_waiting_for_others
    an_open_listener_does_not_wait_again
    a_listener_whose_address_is_taken_opens_when_it_is_free
    without_the_key_nothing_starts
}

/// Configuration of a TLS listener on `port`. Its certificate is `NAME.crt` and its key `NAME.key`,
/// both in `folder`.
fn tls(folder: &Path, name: &str, port: u16) -> String {
    let path = |end: &str| folder.join(format!("{name}.{end}"));
    format!(
        "[tls.{name}]\ncert = {:?}\nkey = {:?}\nhandshakes_per_ip = \"off\"\nwait_for_certificate = true\n\
         [listener.{name}]\nbind = \"127.0.0.1:{port}\"\ntls = \"{name}\"\n",
        path("crt"),
        path("key")
    )
}

/// Configuration of a plain listener and several waiting ones. `hello` is the body of `/hello`.
fn config(folder: &Path, hello: &str, waiting: &[(&str, u16)], more: &str) -> String {
    let tables: String = waiting.iter().map(|(name, port)| tls(folder, name, *port)).collect();
    let names: Vec<&str> = std::iter::once("web").chain(waiting.iter().map(|(name, _)| *name)).collect();
    let ready = "[route.ready]\nlistener = \"web\"\npath = \"/readyz\"\nhealth = \"readyz\"\n";
    generations::config(folder, hello, &[&*tables, ready, more].concat())
        .replace("path = \"/hello\"", &format!("listener = {names:?}\npath = \"/hello\""))
}

/// Starts an instance with a listener that waits for `tls.crt` and `tls.key`.
fn start(engine: &str, more: impl Fn(&Path) -> String) -> (Reloaded, SocketAddr) {
    let (scratch, port) = (Scratch::new(), free_port());
    let folder = scratch.path("");
    let text = config(&folder, "0", &[("tls", port)], &more(&folder));
    (Reloaded::start_in(scratch, engine, &text), SocketAddr::from(([127, 0, 0, 1], port)))
}

fn write(reloaded: &Reloaded, hello: &str, waiting: &[(&str, u16)]) {
    fs::write(&reloaded.file, config(&reloaded.scratch.path(""), hello, waiting, "")).unwrap();
}

fn is_closed(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The waiting listeners and their reasons.
fn waiting(reloaded: &Reloaded) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let status = reloaded.status();
    let list = status["waiting"].as_array().unwrap();
    list.iter().map(|one| (text(&one["listener"]), text(&one["reason"]))).collect()
}

fn waits_because(reloaded: &Reloaded, why: &str) {
    let is_said = || waiting(reloaded).first().is_some_and(|(_, reason)| reason.contains(why));
    assert!(wait_until(LIMIT, is_said).is_some(), "{why}: {:?}", waiting(reloaded));
}

fn opens(reloaded: &Reloaded, addr: SocketAddr) {
    let is_open = || Https::new(addr).get("/hello").is_ok_and(|reply| reply.status == 200);
    assert!(wait_until(LIMIT, is_open).is_some(), "{}", reloaded.doorbell.process.log());
}

fn write_private(reloaded: &Reloaded, name: &str, text: &str) {
    make_private(Path::new(&reloaded.scratch.write(name, text)));
}

/// The files arrive as if written by independent programs: the certificate, half of the key, a
/// wrong key, the right key.
fn a_listener_opens_when_its_pair_is_whole(engine: &str) {
    let (reloaded, addr) = start(engine, |_| String::new());
    let doorbell = &reloaded.doorbell;
    // The plain listener serves, and the instance is ready.
    assert_eq!(reloaded.hello(), "0");
    assert_eq!(ask(doorbell.addr, "/readyz").0, 200);
    assert!(is_closed(addr));
    waits_because(&reloaded, "tls.crt: cannot be read: No such file");
    let said = reloaded.say(&["status"]);
    assert!(said.contains("waiting") && said.contains("tls for its certificate: "), "{said}");
    assert!(doorbell.process.log().contains("listener not open: waiting for its certificate"));
    let mut client = kept(doorbell.addr);
    let (first, other) = (localhost(), ca().server(&["localhost"]));
    reloaded.scratch.write("tls.crt", &first.certificate);
    waits_because(&reloaded, "tls.key: cannot be read: No such file");
    write_private(&reloaded, "tls.key", &first.key[..first.key.len() / 2]);
    waits_because(&reloaded, "tls.key: ");
    write_private(&reloaded, "tls.key", &other.key);
    waits_because(&reloaded, "the key does not belong to the certificate");
    assert!(is_closed(addr));
    assert_eq!(reloaded.status()["generation"], 1);
    first.replace(&reloaded.scratch, "tls");
    opens(&reloaded, addr);
    assert_eq!(waiting(&reloaded), Vec::new());
    let status = reloaded.status();
    assert_eq!((&status["generation"], &status["addresses"][1]), (&2.into(), &addr.to_string().into()));
    assert_eq!(status["counters"]["reloads"], 0);
    assert!(!reloaded.say(&["status"]).contains("waiting"));
    // A connection opened earlier is still served.
    std::io::Write::write_all(&mut client, b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    std::io::Read::read_to_string(&mut client, &mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

/// HTTP-01 with a web root: the ACME server requests the token over plain HTTP before a certificate
/// exists.
fn an_acme_client_gets_the_first_certificate(engine: &str) {
    let (reloaded, addr) = start(engine, |folder| {
        let webroot = folder.join("challenges");
        fs::create_dir(&webroot).unwrap();
        fs::write(webroot.join("token"), "token.thumbprint").unwrap();
        format!(
            "[route.acme]\nlistener = \"web\"\npath = \"/.well-known/acme-challenge/{{*token}}\"\nfiles = {{ dir = {webroot:?} }}\n"
        )
    });
    let challenge = ask(reloaded.doorbell.addr, "/.well-known/acme-challenge/token");
    assert_eq!(challenge, (200, "token.thumbprint".to_owned()));
    localhost().write(&reloaded.scratch, "tls");
    opens(&reloaded, addr);
}

fn a_reload_opens_at_once_and_keeps_waiting_for_others(engine: &str) {
    let (reloaded, addr) = start(engine, |_| String::new());
    let other = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (port, late) = (("tls", addr.port()), ("late", other.port()));
    // A reload adds another waiting listener.
    write(&reloaded, "1", &[port, late]);
    reloaded.say(&["reload"]);
    let names = |reloaded: &Reloaded| waiting(reloaded).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        (names(&reloaded), reloaded.hello()),
        (vec!["tls".to_owned(), "late".to_owned()], "1".to_owned())
    );
    assert!(is_closed(addr) && is_closed(other));
    localhost().write(&reloaded.scratch, "tls");
    let said = reloaded.say(&["reload"]);
    assert_eq!(Https::new(addr).get("/hello").unwrap().status, 200, "{said}");
    assert!(is_closed(other));
    assert_eq!(names(&reloaded), ["late"]);
    // A listener removed by a reload no longer waits.
    write(&reloaded, "2", &[port]);
    reloaded.say(&["reload"]);
    assert_eq!(names(&reloaded), [""; 0]);
    assert_eq!(Https::new(addr).get("/hello").unwrap().body, b"2");
}

/// A failed renewal does not close an open listener.
fn an_open_listener_does_not_wait_again(engine: &str) {
    let (reloaded, addr) = start(engine, |_| String::new());
    localhost().write(&reloaded.scratch, "tls");
    opens(&reloaded, addr);
    fs::remove_file(reloaded.scratch.path("tls.key")).unwrap();
    write(&reloaded, "1", &[("tls", addr.port())]);
    let refused = reloaded.run(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("tls.key: cannot be read"), "{said}");
    assert_eq!(Https::new(addr).get("/hello").unwrap().body, b"0");
    assert_eq!(waiting(&reloaded), Vec::new());
}

fn a_listener_whose_address_is_taken_opens_when_it_is_free(engine: &str) {
    let (reloaded, addr) = start(engine, |_| String::new());
    let stranger = std::net::TcpListener::bind(addr).unwrap();
    localhost().write(&reloaded.scratch, "tls");
    let is_reported = || reloaded.doorbell.process.log().contains("address in use");
    assert!(wait_until(LIMIT, is_reported).is_some(), "{}", reloaded.doorbell.process.log());
    assert_eq!((reloaded.hello().as_str(), &reloaded.status()["generation"]), ("0", &1.into()));
    waits_because(&reloaded, "address in use");
    // The same configuration fails at a reload, and is in use as soon as the address is free.
    assert!(!reloaded.run(&["reload"]).status.success());
    assert!(!reloaded.status()["refused_reload"].is_null());
    drop(stranger);
    opens(&reloaded, addr);
    assert_eq!(waiting(&reloaded), Vec::new());
    let is_forgotten = || reloaded.status()["refused_reload"].is_null();
    assert!(wait_until(LIMIT, is_forgotten).is_some(), "{}", reloaded.status());
}

fn without_the_key_nothing_starts(_: &str) {
    let scratch = Scratch::new();
    let waits = config(&scratch.path(""), "0", &[("tls", free_port())], "");
    for (text, code, said) in [
        (&waits, 0, "warning[missing-file]"),
        (&waits.replace("wait_for_certificate = true", ""), 1, "error[missing-file]"),
    ] {
        let file = scratch.write("doorbell.toml", text);
        let output = Command::new(binary()).args(["validate", "-c", &file]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && errors.contains(said), "{output:?}");
    }
}
