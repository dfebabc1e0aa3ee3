//! The access log: which requests are logged, one line for each, whatever they contain; and log
//! rotation.

use std::fs;
use std::path::Path;

use doorbell_testkit::peers::{Shape, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::plain::{get, request, send};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto};

on_auto! {
    only_errors
    everything
    everything_as_json
    a_sample
    a_sample_beside_errors
    nothing
    lines_that_a_full_disk_does_not_take_are_counted
    unread_lines_are_dropped_and_counted
    a_request_cannot_make_a_second_line
    a_file_that_is_moved_away
    the_bearer_of_the_token_is_logged
    a_trace_is_refused_by_the_routes_like_any_method
}

/// A server that logs to `access.log`.
fn serve(engine: &str, scratch: &Scratch, lines: &str) -> Doorbell {
    let file = scratch.path("access.log");
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[lifecycle]\ndrain_delay = \"0s\"\n[log]\naccess_file = {file:?}\n{lines}\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\n\
             [route.live]\npath = \"/livez\"\nhealth = \"livez\"\n[health.never]\ninitial = \"down\"\n\
             [route.never]\npath = \"/never\"\nhealth = \"never\"\n\
             [route.rest]\npath = \"/hello/{{*rest}}\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Stops the server, which flushes the log, and returns all lines.
fn all_lines(mut doorbell: Doorbell, scratch: &Scratch) -> Vec<String> {
    doorbell.process.signal(Signal::TERM);
    let (status, _) = doorbell.process.wait();
    assert!(status.success(), "{}", doorbell.process.log());
    lines(&scratch.path("access.log"))
}

/// Two successful requests, a successful probe, and four failures: 404, 405, 503 and invalid HTTP.
fn ask_for_everything(doorbell: &Doorbell) {
    for (path, status) in
        [("/hello/1", 200), ("/livez", 200), ("/missing", 404), ("/never", 503), ("/hello/2", 200)]
    {
        assert_eq!(get(doorbell.addr, path, &["User-Agent: test"]).status, status, "{path}");
    }
    let kubelet = Shape::Kubelet.request(doorbell.addr, "/livez");
    assert_eq!(send(doorbell.addr, &kubelet).unwrap().status, 200);
    let delete = b"DELETE /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(send(doorbell.addr, delete).unwrap().status, 405);
    assert_eq!(send(doorbell.addr, b"nonsense\r\n\r\n").unwrap().status, 400);
}

/// Status and target of each line. The lines are sorted, because their order depends on the
/// workers.
fn summary(lines: &[String]) -> Vec<String> {
    let part = |line: &String| {
        let (_, rest) = line.split_once("] \"").unwrap();
        let (request, rest) = rest.split_once("\" ").unwrap();
        format!("{} {request}", &rest[..3])
    };
    let mut parts: Vec<String> = lines.iter().map(part).collect();
    parts.sort();
    parts
}

const FAILED: [&str; 4] =
    ["400 -", "404 GET /missing HTTP/1.1", "405 DELETE /livez HTTP/1.1", "503 GET /never HTTP/1.1"];

fn only_errors(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "access = \"errors\"");
    ask_for_everything(&doorbell);
    assert_eq!(summary(&all_lines(doorbell, &scratch)), FAILED);
}

fn everything(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "access = \"all\"");
    ask_for_everything(&doorbell);
    let lines = all_lines(doorbell, &scratch);
    let good = [
        "200 GET /hello/1 HTTP/1.1",
        "200 GET /hello/2 HTTP/1.1",
        "200 GET /livez HTTP/1.1",
        "200 GET /livez HTTP/1.1",
    ];
    assert_eq!(summary(&lines), [&good[..], &FAILED].concat());
    let with = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(with("127.0.0.1 - - ["), 8, "{lines:?}");
    assert_eq!((with(" route=\"rest\""), with(" probe=yes"), with(" probe=kubelet")), (2, 2, 1), "{lines:?}");
}

fn everything_as_json(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "access = \"all\"\naccess_format = \"json\"");
    ask_for_everything(&doorbell);
    let lines = all_lines(doorbell, &scratch);
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 8, "{lines:?}");
    assert!(objects.iter().all(|object| object["client"] == "127.0.0.1"), "{lines:?}");
    let hello = objects.iter().find(|object| object["target"] == "/hello/1").unwrap();
    assert_eq!(
        (&hello["method"], &hello["status"], &hello["bytes"], &hello["route"], &hello["user_agent"]),
        (&"GET".into(), &200.into(), &6.into(), &"rest".into(), &"test".into())
    );
    assert_eq!(objects.iter().filter(|object| object["prober"] == "kubelet").count(), 1);
    assert_eq!(
        objects.iter().filter(|object| object["status"] == 400 && object["error"].is_string()).count(),
        1
    );
}

fn a_trace_is_refused_by_the_routes_like_any_method(engine: &str) {
    let scratch = Scratch::new();
    let file = scratch.path("access.log");
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[log]\naccess = \"all\"\naccess_file = {file:?}\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\n[route.live]\npath = \"/livez\"\nhealth = \"livez\"\n\
             [route.hook]\npath = \"/hook\"\nmethods = [\"POST\"]\nreply = {{}}\n"
        ),
    );
    let table = [
        ("/livez", 405, Some("GET, HEAD, OPTIONS")),
        ("/hook", 405, Some("OPTIONS, POST")),
        ("/missing", 404, None),
    ];
    for (path, status, allow) in table {
        let trace =
            format!("TRACE {path} HTTP/1.1\r\nHost: a\r\nX-Secret: s3cret\r\nConnection: close\r\n\r\n");
        let reply = send(doorbell.addr, trace.as_bytes()).unwrap();
        assert_eq!((reply.status, reply.field("allow")), (status, allow), "{path}: {}", reply.head);
        assert!(!reply.head.contains("s3cret") && !reply.body.escape_ascii().to_string().contains("s3cret"));
    }
    let expected = ["404 TRACE /missing HTTP/1.1", "405 TRACE /hook HTTP/1.1", "405 TRACE /livez HTTP/1.1"];
    assert_eq!(summary(&all_lines(doorbell, &scratch)), expected);
}

fn a_sample(engine: &str) {
    sampled(engine, "all");
}

/// Logs all failures, and a sample of the other requests.
fn a_sample_beside_errors(engine: &str) {
    sampled(engine, "errors");
}

fn sampled(engine: &str, which: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, &format!("access = {which:?}\naccess_sample = 10"));
    // One connection is served by one worker, which has one counter.
    let requests: Vec<u8> =
        (0..100).flat_map(|n| format!("GET /hello/{n} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()).collect();
    let last = request("/missing", &[]);
    let got = doorbell_testkit::peers::exchange(doorbell.addr, &[requests, last].concat()).unwrap();
    assert_eq!(doorbell_testkit::peers::Reply::parse_all(&got.bytes).0.len(), 101);
    let lines = all_lines(doorbell, &scratch);
    assert_eq!(
        (lines.len(), lines.iter().filter(|line| line.contains("\" 404 ")).count()),
        (11, 1),
        "{lines:?}"
    );
}

fn nothing(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "access = \"off\"");
    ask_for_everything(&doorbell);
    assert!(all_lines(doorbell, &scratch).is_empty());
    assert!(!scratch.path("access.log").exists(), "the file must not be created");
}

fn log_to(engine: &str, file: &Path) -> Doorbell {
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[log]\naccess = \"all\"\naccess_file = {file:?}\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\n[route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn lines_that_a_full_disk_does_not_take_are_counted(engine: &str) {
    let doorbell = log_to(engine, Path::new("/dev/full"));
    for _ in 0..3 {
        assert_eq!(get(doorbell.addr, "/hello", &[]).status, 200);
    }
    let totals = doorbell.totals();
    assert_eq!((&totals["access_dropped"], &totals["access_failed"]), (&0.into(), &3.into()), "{totals}");
}

fn unread_lines_are_dropped_and_counted(engine: &str) {
    const CONNS: usize = 9;
    const REQUESTS: usize = 1000;
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // The reader keeps the pipe open, but never reads.
    let _reader = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let doorbell = log_to(engine, &pipe);
    for _ in 0..CONNS {
        let requests = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS);
        let got = doorbell_testkit::peers::exchange(doorbell.addr, &requests).unwrap();
        assert_eq!(
            doorbell_testkit::peers::Reply::parse_all(&got.bytes).0.len(),
            REQUESTS,
            "a full pipe must not delay replies"
        );
    }
    let totals = doorbell.totals();
    assert!(totals["access_dropped"].as_u64().unwrap() > 0, "{totals}");
}

fn a_request_cannot_make_a_second_line(engine: &str) {
    const FORGED: &str = "127.0.0.1 - root [21/Nov/2026:09:36:06 +0000] \\\"GET /admin HTTP/1.1\\\" 200";
    for format in ["text", "json"] {
        let scratch = Scratch::new();
        let doorbell = serve(engine, &scratch, &format!("access = \"all\"\naccess_format = {format:?}"));
        let mut sent = 0;
        for newline in [
            "\n",
            "\r",
            "\r\n",
            "\n\r",
            "%0A",
            "%0d%0a",
            "\\n",
            "\u{85}",
            "\u{2028}",
            "\0",
            "\x0b",
            "\x1b[2J\n",
        ] {
            let evil = format!("x{newline}{FORGED}");
            for bytes in [
                format!("GET /hello/{evil} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
                format!("GET /hello/x HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n"),
                format!(
                    "GET /hello/x HTTP/1.1\r\nHost: a\r\nUser-Agent: {evil}\r\nConnection: close\r\n\r\n"
                ),
                format!("{evil} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            ] {
                send(doorbell.addr, bytes.as_bytes()).unwrap_or_else(|what| panic!("{bytes:?}: {what}"));
                sent += 1;
            }
        }
        let lines = all_lines(doorbell, &scratch);
        assert_eq!(lines.len(), sent, "{format}");
        for line in &lines {
            assert!(line.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{line:?}");
            let is_whole = if format == "text" {
                line.starts_with("127.0.0.1 - - [")
            } else {
                serde_json::from_str::<Value>(line).is_ok()
            };
            assert!(is_whole, "{line:?}");
        }
    }
}

fn a_file_that_is_moved_away(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "access = \"all\"");
    let (file, old) = (scratch.path("access.log"), scratch.path("access.log.1"));
    let ask =
        |from: usize| (from..from + 20).for_each(|n| drop(get(doorbell.addr, &format!("/hello/{n}"), &[])));
    ask(0);
    assert!(wait_until(LIMIT, || lines(&file).len() == 20).is_some(), "{:?}", lines(&file));
    fs::rename(&file, &old).unwrap();
    ask(20);
    assert!(wait_until(LIMIT, || lines(&old).len() == 40).is_some(), "the old file is used until the signal");
    doorbell.process.signal(Signal::USR2);
    // The signal may be handled after the first of these requests.
    ask(40);
    assert!(wait_until(LIMIT, || file.exists()).is_some(), "{}", doorbell.process.log());
    ask(60);
    let all = all_lines(doorbell, &scratch);
    let mut found: Vec<String> = lines(&old).into_iter().chain(all.clone()).collect();
    assert!(all.len() >= 20, "{all:?}");
    found.retain(|line| line.contains("\"GET /hello/"));
    found.sort_by_key(|line| {
        line.split("/hello/").nth(1).unwrap().split(' ').next().unwrap().parse::<u32>().unwrap()
    });
    found.dedup();
    assert_eq!(found.len(), 80, "each request must be in one of the files");
}

fn the_bearer_of_the_token_is_logged(engine: &str) {
    const ALICE: &str = "alice-0123456789abcdef0123456789";
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let long = "b".repeat(100);
    let signed = |subject: &str| {
        let exp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 300;
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        let claims = serde_json::json!({ "sub": subject, "exp": exp });
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
    };
    let tokens = [
        ALICE.to_owned(),
        signed("bob@example.com"),
        signed(&long),
        signed("eve\" \\ x"),
        signed(""),
        format!("{ALICE}x"),
    ];
    for format in ["text", "json"] {
        let scratch = Scratch::new();
        let (token, secret) = (scratch.write("token", ALICE), scratch.write("secret", SECRET));
        let rules = format!(
            "[auth.list]\ntokens = {{ alice = \"${{file:{token}}}\" }}\n\
             [auth.signed]\njwt = {{ algorithm = \"HS256\", secret = \"${{file:{secret}}}\" }}\n\
             [route.api]\npath = \"/api/{{*rest}}\"\nauth = [\"list\", \"signed\"]\nreply = {{}}"
        );
        let doorbell =
            serve(engine, &scratch, &format!("access = \"all\"\naccess_format = {format:?}\n{rules}"));
        for (n, token) in tokens.iter().enumerate() {
            let status =
                get(doorbell.addr, &format!("/api/{n}"), &[&format!("Authorization: Bearer {token}")]).status;
            assert_eq!(status, if n == 5 { 401 } else { 200 }, "{token}");
        }
        assert_eq!(get(doorbell.addr, "/hello/6", &[&format!("Authorization: Bearer {ALICE}")]).status, 200);
        let mut lines = all_lines(doorbell, &scratch);
        lines.sort_by_key(|line| line.split("/api/").nth(1).map_or('6', |rest| rest.chars().next().unwrap()));
        let whole = lines.join("\n");
        assert!(tokens.iter().all(|token| !whole.contains(token.as_str())), "a token is in the log: {whole}");
        let cut = &long[..32];
        // A token without a subject, a refused request, and a route without auth have no subject.
        let expected = if format == "text" {
            let cut = format!("{cut}\\...");
            ["alice", "bob@example.com", &cut, "eve\\x22\\x20\\x5C\\x20x", "-", "-", "-"].map(str::to_owned)
        } else {
            ["alice", "bob@example.com", cut, "eve\" \\ x", "", "", ""].map(str::to_owned)
        };
        let found: Vec<String> = lines.iter().map(|line| subject(line)).collect();
        assert_eq!(found, expected, "{whole}");
    }
}

/// The subject in a line of either format, or an empty string.
fn subject(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(object) => object["subject"].as_str().unwrap_or_default().to_owned(),
        Err(_) => line.split(' ').nth(2).unwrap().to_owned(),
    }
}
