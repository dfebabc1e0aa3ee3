//! Requests that wait for a job because their token is expensive to verify: concurrent probes, log
//! lines and limits, a drain, and a full queue.
//!
//! `DOORBELL_FULL=1` is for an idle machine, and checks the slowest probes instead of the median.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{PATIENCE, Reply, Shape, finish, misbehave, percentile, process, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::counts::expect;
use crate::jwt::{Signer, but, claims, hs256};
use crate::plain::{get, request};
use crate::support::{Doorbell, Scratch, StopAtEnd, at_most, on_both_engines, program, stdout};

on_both_engines! {
    probes_during_signatures_at_full_speed
    only_signatures_with_a_public_key_are_jobs
    replies_are_logged_with_the_bearer
    by_http2_too
    a_drain_finishes_waiting_requests
    a_full_queue
    a_job_that_comes_too_late
    waiting_requests_count_as_concurrent
    no_threads_without_work
    details_need_a_token
    junk_tokens_keep_no_files_waiting
}

/// A server that accepts tokens of `signer` on `/api`.
struct Server {
    doorbell: Doorbell,
    signer: Signer,
    scratch: Scratch,
}

fn serve(engine: &str, algorithm: &str, compute: &str, listener: &str) -> Server {
    let (scratch, signer) = (Scratch::new(), Signer::new("a", algorithm));
    let key = scratch.write("key.pem", &signer.pair.public_key_pem());
    let log = scratch.path("access.log");
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [log]\naccess = \"all\"\naccess_format = \"json\"\naccess_file = {log:?}\n[compute]\n{compute}\n\
             [auth.api.jwt]\nalgorithm = {algorithm:?}\nkey_file = {key:?}\naudience = \"doorbell\"\n\
             require = {{ scope = \"status:read\" }}\n[listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n{listener}\n[admin]\nbind = \"127.0.0.1:0\"\n\
             [route.live]\npath = \"/livez\"\nhealth = \"livez\"\n\
             [route.api]\npath = \"/api/{{*rest}}\"\nauth = \"api\"\nredirect = {{ host = \"new.test\", path = \"/{{rest}}\" }}\n"
        ),
    );
    Server { doorbell, signer, scratch }
}

impl Server {
    fn addr(&self) -> SocketAddr {
        self.doorbell.addr
    }

    fn token(&self) -> String {
        self.signer.sign(&claims())
    }

    fn ask(&self, path: &str, token: &str) -> Reply {
        get(self.addr(), path, &[&format!("Authorization: Bearer {token}")])
    }

    /// Waits until the metrics have this number of requests for `/api` with this status.
    fn expect_counted(&self, status: u16, count: usize) {
        let labels = format!("listener=\"web\",route=\"api\",method=\"GET\",code=\"{status}\"");
        let count = f64::from(u32::try_from(count).unwrap());
        let series = format!("doorbell_http_requests_total{{{labels}}}");
        expect(self.doorbell.addr_of(1), &[(&series, count)]);
    }

    /// Stops the server. Returns its last line of output, and the lines of its access log for
    /// `/api`.
    fn end(self) -> (Value, Vec<Value>) {
        let totals = self.doorbell.totals();
        let log = fs::read_to_string(self.scratch.path("access.log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_api = |line: &Value| line["target"].as_str().is_some_and(|target| target.starts_with("/api/"));
        (totals, lines.filter(is_api).collect())
    }

    /// Opens connections and sends a request for `/api` on each. Their replies are not read yet.
    fn begun(&self, count: usize) -> Vec<TcpStream> {
        let bytes = request("/api/x", &[&format!("Authorization: Bearer {}", self.token())]);
        let begin = |_| {
            let mut stream = TcpStream::connect(self.addr()).unwrap();
            stream.write_all(&bytes).unwrap();
            stream
        };
        (0..count).map(begin).collect()
    }
}

/// Reads the whole reply of each connection.
fn replies(streams: Vec<TcpStream>) -> Vec<Reply> {
    let read = |mut stream: TcpStream| {
        let got = finish(&mut stream, PATIENCE);
        let reply = Reply::parse(&got.bytes, false);
        reply.unwrap_or_else(|| panic!("{:?} after {:?}", got.end, String::from_utf8_lossy(&got.bytes)))
    };
    streams.into_iter().map(read).collect()
}

fn probes_during_signatures_at_full_speed(engine: &str) {
    let server = serve(engine, "RS256", "threads = 1", "");
    let probe = |_| {
        let begun = Instant::now();
        let got = Shape::Kubelet.probe(server.addr(), "/livez").unwrap();
        assert!(got.bytes.starts_with(b"HTTP/1.1 200 ") && got.bytes.ends_with(b"up\n"), "{got:?}");
        let took = begun.elapsed();
        thread::sleep(Duration::from_micros(500));
        took
    };
    let measure = || percentile(&mut (0..300).map(probe).collect::<Vec<_>>(), 99.0);
    let idle = measure();
    let (runs, verified) = (AtomicBool::new(true), AtomicU64::new(0));
    let busy = thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        for _ in 0..2 {
            scope.spawn(|| verify(&server, &runs, &verified));
        }
        let busy = measure();
        assert!(
            wait_until(PATIENCE, || verified.load(Ordering::Relaxed) > 100).is_some(),
            "signatures are verified"
        );
        busy
    });
    at_most(format_args!("{engine}: p99 during {} signatures", verified.into_inner()), busy, idle * 2);
    let (totals, lines) = server.end();
    assert!(lines.len() > 1000 && totals["jobs"] == lines.len(), "{} lines, {totals}", lines.len());
    assert_eq!(totals["refused"], "", "{totals}");
}

/// Sends requests that need verification on kept connections, several of them pipelined.
fn verify(server: &Server, runs: &AtomicBool, verified: &AtomicU64) {
    const AT_ONCE: usize = 8;
    let one = format!("GET /api/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n", server.token());
    while runs.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..100 {
            stream.write_all(one.repeat(AT_ONCE).as_bytes()).unwrap();
            let bytes = misbehave::read_replies(&mut stream, AT_ONCE, false).unwrap();
            assert!(Reply::parse_all(&bytes).0.iter().all(|reply| reply.status == 308));
            verified.fetch_add(AT_ONCE as u64, Ordering::Relaxed);
        }
    }
}

fn only_signatures_with_a_public_key_are_jobs(engine: &str) {
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let server = serve(engine, algorithm, "", "");
        let good = server.token();
        let (head, signature) = good.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { 'B' } else { 'A' };
        let swapped = format!("{head}.{first}{}", &signature[1..]);
        let other = Signer::new("a", algorithm).sign(&claims());
        // Each of these tokens needs a job to verify its signature.
        let jobs = [
            (good.clone(), 308),
            (swapped, 401),
            (other, 401),
            (server.signer.sign(&but("exp", json!(1))), 401),
            (server.signer.sign(&but("aud", json!("other"))), 401),
            (server.signer.sign(&but("scope", json!("x"))), 403),
        ];
        for (token, status) in &jobs {
            let reply = server.ask("/api/a?b=c", token);
            assert_eq!(reply.status, *status, "{token}");
            let location = (*status == 308).then_some("https://new.test/a?b=c");
            assert_eq!(reply.field("location"), location, "the route must redirect as without a token");
            assert_eq!(reply.field("www-authenticate").is_some(), *status != 308);
        }
        // These tokens are refused without a job.
        let secret = hs256(&claims(), b"0123456789abcdef0123456789abcdef");
        for token in [&secret, "x", "a.b.c", head, &format!("{good}.x"), "...."] {
            assert_eq!(server.ask("/api/a", token).status, 401, "{token}");
        }
        assert_eq!(get(server.addr(), "/api/a", &[]).status, 401);
        let (totals, lines) = server.end();
        assert_eq!((&totals["jobs"], lines.len()), (&json!(jobs.len()), jobs.len() + 7), "{totals}");
    }
}

fn replies_are_logged_with_the_bearer(engine: &str) {
    let server = serve(engine, "ES256", "", "");
    let nobody = server.signer.sign(&but("sub", Value::Null));
    for (path, token, status) in [
        ("/api/1", server.token(), 308),
        ("/api/2", server.signer.sign(&but("scope", Value::Null)), 403),
        ("/api/3", nobody, 308),
        ("/api/4", Signer::new("a", "ES256").sign(&claims()), 401),
    ] {
        assert_eq!(server.ask(path, &token).status, status);
    }
    let (_, lines) = server.end();
    let summary = |line: &Value| {
        let subject = line["subject"].as_str().unwrap_or_default().to_owned();
        (line["target"].as_str().unwrap().to_owned(), line["status"].as_u64().unwrap(), subject)
    };
    let mut found: Vec<_> = lines.iter().map(summary).collect();
    found.sort();
    let expected = [("/api/1", 308, "alice"), ("/api/2", 403, ""), ("/api/3", 308, ""), ("/api/4", 401, "")];
    assert_eq!(
        found,
        expected.map(|(target, status, subject)| (target.to_owned(), status, subject.to_owned()))
    );
    assert!(lines.iter().all(|line| line["route"] == "api" && line["client"] == "127.0.0.1"), "{lines:?}");
}

fn by_http2_too(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let server = serve(engine, "EdDSA", "", "");
    let ask = |token: &str| {
        let (field, url) = (format!("Authorization: Bearer {token}"), server.doorbell.url("/api/a"));
        let format = "%{http_code} %{http_version} %{redirect_url}";
        stdout(
            &curl,
            &["-sS", "--http2-prior-knowledge", "-H", &field, "-o", "/dev/null", "-w", format, &url],
        )
    };
    assert_eq!(ask(&server.token()), "308 2 https://new.test/a");
    assert_eq!(ask(&server.signer.sign(&but("scope", Value::Null))), "403 2 ");
    assert_eq!(ask(&Signer::new("a", "EdDSA").sign(&claims())), "401 2 ");
    assert_eq!(ask("x"), "401 2 ");
    let (totals, lines) = server.end();
    assert_eq!((&totals["jobs"], &totals["http2_requests"]), (&json!(3), &json!(4)), "{totals}");
    let mut statuses: Vec<_> = lines.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [308, 401, 401, 403]);
    assert!(lines.iter().any(|line| line["subject"] == "alice"), "{lines:?}");
}

fn a_drain_finishes_waiting_requests(engine: &str) {
    const CLIENTS: usize = 400;
    let server = serve(engine, "ES256", "threads = 1", "");
    let streams = server.begun(CLIENTS);
    server.doorbell.process.signal(Signal::TERM);
    let replies = replies(streams);
    assert!(
        replies.iter().all(|reply| reply.status == 308),
        "{:?}",
        replies.iter().find(|r| r.status != 308)
    );
    let (totals, lines) = server.end();
    assert_eq!((&totals["jobs"], lines.len()), (&json!(CLIENTS), CLIENTS), "{totals}");
}

fn a_full_queue(engine: &str) {
    let server = serve(engine, "ES256", "threads = 1\nqueue_normal = 1", "");
    let (mut refused, mut asked) = (0, 0);
    for _ in 0..20 {
        for reply in replies(server.begun(100)) {
            asked += 1;
            if reply.status == 503 {
                refused += 1;
                assert_eq!(reply.field("retry-after"), Some("1"), "{}", reply.head);
            } else {
                assert_eq!(reply.status, 308);
            }
        }
        assert_eq!(get(server.addr(), "/livez", &[]).status, 200);
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0 && refused < asked, "{refused} of {asked}");
    // Sequential requests are accepted.
    (0..20).for_each(|n| assert_eq!(server.ask("/api/x", &server.token()).status, 308, "{n}"));
    server.expect_counted(503, refused);
    server.expect_counted(308, asked + 20 - refused);
    let (totals, lines) = server.end();
    assert_eq!(totals["refused"], format!("jobs_refused={refused}"), "{totals}");
    assert_eq!(lines.iter().filter(|line| line["status"] == 503).count(), refused);
    assert_eq!((&totals["jobs"], lines.len()), (&json!(asked + 20 - refused), asked + 20), "{totals}");
}

/// With one thread and a queue full of junk, new files and links still appear without delay.
fn junk_tokens_keep_no_files_waiting(engine: &str) {
    let outside = Scratch::new();
    fs::create_dir_all(outside.path("files")).unwrap();
    let (dir, map) = (outside.path("files"), outside.write("links.map", "/l/a https://v0.test/\n"));
    // Without `http2` there are no other threads that could run the job.
    let stores = format!(
        "[route.files]\npath = \"/f/{{name}}\"\nfiles = {{ dir = {dir:?} }}\n\
         [route.links]\npath = \"/l/{{name}}\"\nredirect = {{ map = {map:?} }}\n"
    );
    let server = serve(engine, "ES256", "threads = 1\nqueue_normal = 1", &stores);
    let good = server.token();
    let junk = format!("{}{}", &good[..good.len() - 4], if good.ends_with("AAAA") { "BBBB" } else { "AAAA" });
    let (runs, refused) = (AtomicBool::new(true), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stop = StopAtEnd(&runs);
        for _ in 0..16 {
            scope.spawn(|| send_junk(server.addr(), &junk, &runs, &refused));
        }
        assert!(
            wait_until(PATIENCE, || refused.load(Ordering::Relaxed) > 100).is_some(),
            "the queue must become full"
        );
        for version in 1..=3 {
            let seen = |what: &str| server.doorbell.process.log().matches(what).count();
            let (files, links) = (seen(" files"), seen(" links"));
            outside.write(&format!("files/{version}"), "content");
            // Renamed, because a watcher may read a file that is being written.
            let next = outside.write("links.new", &format!("/l/a https://v{version}.test/\n"));
            fs::rename(next, &map).unwrap();
            // The queue is always full of junk. If the polls of the files needed room in the queue,
            // none of them would run.
            let took = wait_until(PATIENCE, || seen(" files") > files && seen(" links") > links);
            assert!(took.is_some(), "{}", server.doorbell.process.log());
            let location = format!("https://v{version}.test/");
            assert_eq!(get(server.addr(), "/l/a", &[]).field("location"), Some(&*location));
            assert_eq!(get(server.addr(), &format!("/f/{version}"), &[]).status, 200);
        }
    });
    let (totals, _) = server.end();
    assert!(totals["refused"].as_str().unwrap().contains("jobs_refused="), "{totals}");
}

/// Sends tokens with a wrong signature as fast as the server refuses them.
fn send_junk(server: SocketAddr, token: &str, runs: &AtomicBool, refused: &AtomicU64) {
    let one = format!("GET /api/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    while runs.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..100 {
            stream.write_all(one.as_bytes()).unwrap();
            let bytes = misbehave::read_replies(&mut stream, 1, false).unwrap();
            match Reply::parse(&bytes, false).unwrap().status {
                503 => drop(refused.fetch_add(1, Ordering::Relaxed)),
                status => assert_eq!(status, 401),
            }
            if !runs.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

fn a_job_that_comes_too_late(engine: &str) {
    let server = serve(engine, "ES256", "threads = 1\ntimeout = \"20ms\"", "");
    let (mut refused, mut asked) = (0, 0);
    // Each verification takes about 55 us. They run one after the other, so the last of 1,000
    // exceeds the timeout.
    while refused == 0 && asked < 20_000 {
        for reply in replies(server.begun(1000)) {
            asked += 1;
            if reply.status == 503 {
                refused += 1;
                assert_eq!(reply.field("retry-after"), Some("1"), "{}", reply.head);
                assert_eq!(reply.field("connection"), Some("close"), "{}", reply.head);
            } else {
                assert_eq!(reply.status, 308);
            }
        }
    }
    assert!(refused > 0 && refused < asked, "{refused} of {asked}");
    // On a busy machine a single job may also exceed the timeout.
    let is_served = wait_until(PATIENCE, || {
        let status = server.ask("/api/x", &server.token()).status;
        asked += 1;
        refused += usize::from(status == 503);
        status == 308
    });
    assert!(is_served.is_some(), "{refused} of {asked}");
    server.expect_counted(503, refused);
    let (totals, lines) = server.end();
    assert_eq!(lines.iter().filter(|line| line["status"] == 503).count(), refused);
    assert_eq!(lines.len(), asked, "{totals}");
}

fn waiting_requests_count_as_concurrent(engine: &str) {
    let server = serve(engine, "ES256", "threads = 1", "limits = { requests_in_flight = 1 }");
    let mut busy = 0;
    for _ in 0..20 {
        let refused = replies(server.begun(100)).iter().filter(|reply| reply.body == b"busy\n").count();
        assert!(refused < 100, "some requests must be accepted");
        busy += refused;
        if busy > 0 {
            break;
        }
    }
    assert!(busy > 0, "a request that waits for its job must count as concurrent");
    (0..20).for_each(|n| {
        assert_eq!(server.ask("/api/x", &server.token()).status, 308, "permits must be released: {n}")
    });
    let (totals, lines) = server.end();
    assert_eq!(totals["refused"], format!("busy={busy}"), "{totals}");
    assert_eq!(lines.iter().filter(|line| line["status"] == 503).count(), busy);
}

fn no_threads_without_work(engine: &str) {
    let threads = |doorbell: &Doorbell| process::threads(&doorbell.process.pid()).unwrap();
    let is_job = |name: &String| name.starts_with("doorbell-job");
    assert!(!threads(&Doorbell::start(engine)).iter().any(is_job));
    let server = serve(engine, "ES256", "threads = 3\nname = \"verify\"", "");
    // A thread sets its name when it first runs.
    let named = || threads(&server.doorbell).iter().filter(|name| name.starts_with("verify-")).count();
    assert!(wait_until(PATIENCE, || named() == 3).is_some(), "{:?}", threads(&server.doorbell));
}

/// A health endpoint that shows details only to clients with a valid token. Other clients still get
/// the verdict.
fn details_need_a_token(engine: &str) {
    let details = "[check.disk]\ntype = \"ttl\"\nttl = \"1h\"\n[health.readyz]\nrequire = [\"disk\"]\n\
        [route.push]\npath = \"/-/checks/{check}/{result}\"\npush = true\n\
        [route.seen]\npath = [\"/seen\", \"/seen/{check}\"]\nhealth = \"readyz\"\ndetails_auth = \"api\"\n";
    let server = serve(engine, "RS256", "threads = 1", details);
    let bad = Signer::new("a", "RS256").sign(&claims());
    let ask = |path: &str, token: &str| {
        let reply = server.ask(path, token);
        (reply.status, String::from_utf8(reply.body).unwrap())
    };
    let shown = ask("/seen?verbose", &server.token());
    let hidden = get(server.addr(), "/seen?verbose", &[]);
    assert_ne!(shown.1.as_bytes(), hidden.body, "{shown:?}");
    for token in [&bad, "x"] {
        let (status, body) = ask("/seen?verbose", token);
        assert_eq!((status, body.as_bytes()), (hidden.status, &*hidden.body), "{token}");
    }
    // Without a valid token, existing and unknown checks get identical replies.
    assert_eq!((ask("/seen/disk", &server.token()).0, ask("/seen/disk", &bad).0), (shown.0, 404));
    assert_eq!(ask("/seen/other", &server.token()).0, 404);
    let (totals, _) = server.end();
    assert_eq!((&totals["jobs"], &totals["refused"]), (&json!(5), &json!("")), "{totals}");
}
