//! Files from a directory: an ACME challenge that appears while doorbell runs, next to a redirect
//! for all other paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use doorbell_testkit::peers::wait_until;

use crate::plain::{get, request, send};
use crate::support::{Doorbell, LIMIT, Scratch, at_most, on_auto};

on_auto! {
    a_challenge_is_answered_at_once
    a_challenge_is_answered_from_memory_within_a_second
    a_challenge_wins_over_redirects
    a_challenge_wins_for_every_host
    nothing_else_is_given_away
}

const TOKEN: &str = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJyPCt92wr-oA";
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Serves challenges from the directory `acme`, and redirects everything else.
fn serve(engine: &str, scratch: &Scratch) -> Doorbell {
    let dir = scratch.path("acme");
    fs::create_dir_all(&dir).unwrap();
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
             [route.everything]\npath = \"/{{*rest}}\"\nhosts = [\"localhost\", \"127.0.0.1\"]\nredirect = {{ scheme = \"https\" }}\n\
             [route.acme]\npath = \"{CHALLENGES}/{{token}}\"\n\
             files = {{ dir = {dir:?}, content_type = \"text/plain\", max_bytes = \"1KiB\" }}\n"
        ),
    )
}

/// The CA requests the file as soon as it exists.
fn a_challenge_is_answered_at_once(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    for round in 0..20 {
        let (path, text) = (format!("{CHALLENGES}/{TOKEN}-{round}"), format!("{TOKEN}.thumbprint-{round}"));
        assert_eq!(get(doorbell.addr, &path, &[]).status, 404);
        scratch.write(&format!("acme/{TOKEN}-{round}"), &text);
        let reply = get(doorbell.addr, &path, &[]);
        assert_eq!((reply.status, reply.body.as_slice()), (200, text.as_bytes()), "{round}");
        assert_eq!(reply.field("content-type"), Some("text/plain"));
    }
    // At least one job for each file that did not exist when requested; the watcher may have found
    // some files first.
    let jobs = doorbell.totals()["jobs"].as_u64().unwrap();
    assert!((20..=40).contains(&jobs), "{jobs}");
}

fn a_challenge_is_answered_from_memory_within_a_second(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch);
    let path = format!("{CHALLENGES}/{TOKEN}");
    assert_eq!(get(doorbell.addr, &path, &[]).status, 404);
    let file = format!("acme/{TOKEN}");
    let mut took = Vec::new();
    for round in 0..5 {
        let text = format!("{TOKEN}.thumbprint-{round}");
        scratch.write(&file, &text);
        let changes = || doorbell.process.log().matches(" files").count();
        let before = changes();
        let seen = wait_until(LIMIT, || changes() > before);
        took.push(seen.unwrap_or_else(|| panic!("{}", doorbell.process.log())));
        let reply = get(doorbell.addr, &path, &[]);
        assert_eq!((reply.status, reply.body.as_slice()), (200, text.as_bytes()));
        fs::remove_file(scratch.path(&file)).unwrap();
        let gone = wait_until(LIMIT, || get(doorbell.addr, &path, &[]).status == 404);
        assert!(gone.is_some(), "{}", doorbell.process.log());
    }
    let slowest = took.into_iter().max().unwrap();
    at_most(format_args!("{engine}: a new file is in memory"), slowest, Duration::from_secs(1));
}

fn a_challenge_wins_over_redirects(engine: &str) {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("acme")).unwrap();
    scratch.write("acme/token", "content");
    let doorbell = serve(engine, &scratch);
    let reply = get(doorbell.addr, &format!("{CHALLENGES}/token"), &[]);
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b"content"[..]));
    assert_eq!(get(doorbell.addr, &format!("{CHALLENGES}/missing"), &[]).status, 404);
    for elsewhere in
        ["/", "/.well-known/other", "/.well-known/acme-challenge", "/.well-known/acme-challenge/a/b"]
    {
        let reply = get(doorbell.addr, elsewhere, &[]);
        assert_eq!(reply.status, 308, "{elsewhere}: {}", reply.head);
        assert_eq!(reply.field("location"), Some(format!("https://localhost{elsewhere}").as_str()));
    }
}

/// Challenges take precedence over a wildcard redirect, a link map, and the routes of one host.
fn a_challenge_wins_for_every_host(engine: &str) {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("acme")).unwrap();
    scratch.write("acme/token", "content");
    let (dir, map) = (scratch.path("acme"), scratch.write("links.map", "/x https://x.test/\n"));
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
             [route.wildcard]\npath = \"/{{*rest}}\"\nhosts = \"*.example.com\"\nredirect = {{ host = \"example.com\" }}\n\
             [route.links]\npath = \"/{{*rest}}\"\nhosts = \"links.test\"\nredirect = {{ map = {map:?}, default = \"https://home.test/\" }}\n\
             [route.app]\npath = [\"/{{*rest}}\", \"/.well-known/{{*rest}}\"]\nhosts = \"app.test\"\nreply = {{ body = \"app\" }}\n\
             [route.acme]\npath = \"{CHALLENGES}/{{token}}\"\nfiles = {{ dir = {dir:?} }}\n"
        ),
    );
    let ask = |host: &str, path: &str| {
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        send(doorbell.addr, bytes.as_bytes()).unwrap()
    };
    for (host, elsewhere) in [
        ("a.example.com", 308),
        ("b.a.example.com", 308),
        ("links.test", 302),
        ("app.test", 200),
        ("nobody.test", 421),
        ("127.0.0.1", 421),
    ] {
        let reply = ask(host, &format!("{CHALLENGES}/token"));
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"content"[..]), "{host}");
        assert_eq!(ask(host, &format!("{CHALLENGES}/missing")).status, 404, "{host}");
        assert_eq!(ask(host, "/elsewhere").status, elsewhere, "{host}");
    }
}

fn nothing_else_is_given_away(engine: &str) {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("acme/folder")).unwrap();
    for (name, text) in [
        ("secret", "secret"),
        ("acme/.hidden", "secret"),
        ("acme/folder/deep", "secret"),
        ("acme/a b", "good"),
    ] {
        scratch.write(name, text);
    }
    scratch.write("acme/long", &"s".repeat(1025));
    symlink(scratch.path("missing"), scratch.path("acme/nowhere")).unwrap();
    let doorbell = serve(engine, &scratch);
    for target in [
        "/../secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/%2e%2e/secret",
        "/..%5csecret",
        "/./../secret",
        "/..",
        "/%2e%2e",
        "/.",
        "/",
        "/.hidden",
        "/%2ehidden",
        "/folder",
        "/folder/deep",
        "/folder%2fdeep",
        "/long",
        "/nowhere",
        "/secret%00",
        "/%00",
        "/a%20b%00",
        "//secret",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/../../../../../../etc/passwd",
    ] {
        let reply = send(doorbell.addr, &request(&format!("{CHALLENGES}{target}"), &[])).unwrap();
        let is_refused = matches!(reply.status, 400 | 404);
        // Other paths are redirected, which discloses nothing either.
        assert!(is_refused || reply.status == 308, "{target}: {}", reply.head);
        let body = String::from_utf8_lossy(&reply.body);
        assert!(
            !body.contains("secret") && !body.contains("root:") && !body.contains("ss"),
            "{target}: {body}"
        );
    }
}
