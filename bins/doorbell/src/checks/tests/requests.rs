//! What an `http` check sends: its content, what is left of it behind a redirect, and that nobody is to record it.
//!
//! Does not know about: answers.

use super::*;
use std::sync::Mutex;

/// What each of these answers was an answer to.
fn sent(lines: &str, answers: &[&'static str]) -> Vec<String> {
    let answers: Vec<&str> = answers.into();
    let answers = Mutex::new(answers.into_iter());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (answers, kept) = (Arc::new(answers), Arc::clone(&heard));
    let addr = server(move |stream| {
        let mut request = Vec::new();
        let mut some = [0; 1024];
        // The head and the content may come one by one.
        let is_whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request).to_lowercase();
            let Some((head, content)) = text.split_once("\r\n\r\n") else { return false };
            let len = head
                .split_once("content-length: ")
                .map_or(0, |(_, rest)| rest.lines().next().unwrap_or_default().parse::<usize>().unwrap());
            content.len() >= len
        };
        while !is_whole(&request) {
            let len = stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..len]);
        }
        kept.lock().unwrap().push(String::from_utf8(request).unwrap());
        let answer = answers.lock().unwrap().next().unwrap();
        let port = stream.local_addr().unwrap().port().to_string();
        stream.write_all(answer.replace("PORT", &port).as_bytes()).unwrap();
    });
    let lines = format!("\ntimeout = \"2s\"\ntype = \"http\"\nurl = \"http://{addr}/a?b\"\n{lines}");
    let finding = block_on(runner(&lines).run());
    assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
    heard.lock().unwrap().iter().map(|request| request.replace(&addr.to_string(), "ADDR")).collect()
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Cut where the numbers of a trace are, which are others each time.
fn without_trace(request: &str) -> String {
    let (before, rest) = request.split_once("traceparent: 00-").unwrap_or_else(|| panic!("{request}"));
    let (trace, after) = rest.split_once("\r\n").unwrap();
    assert!(trace.len() == 52 && trace.ends_with("-00"), "not sampled: {trace}");
    format!("{before}{after}")
}

#[test]
fn requests_say_that_nobody_is_to_record_them() {
    let first = sent("", &[OK]);
    let fields = format!("user-agent: doorbell/{}\r\naccept: */*\r\n", env!("CARGO_PKG_VERSION"));
    let expected = format!("GET /a?b HTTP/1.1\r\n{fields}connection: close\r\nhost: ADDR\r\n\r\n");
    assert_eq!(without_trace(&first[0]), expected);
    assert!(!sent("traceparent = false", &[OK])[0].contains("traceparent"));
    let own = sent("headers = { Traceparent = \"own\" }", &[OK]);
    assert!(own[0].matches("traceparent").count() == 1 && own[0].contains("traceparent: own\r\n"), "{own:?}");
}

#[test]
fn who_we_are_is_told_to_no_other_host() {
    let lines = "follow_redirects = \"all\"\nheaders = { Cookie = \"id=1\", X-Api-Key = \"key\", Authorization = \"Basic eA==\", X-Team = \"a\" }";
    let secrets = ["cookie: id=1\r\n", "x-api-key: key\r\n", "authorization: Basic eA==\r\n"];
    for (answer, is_same) in [
        ("HTTP/1.1 302 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 302 T\r\nLocation: http://localhost:PORT/next\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        let all = sent(lines, &[answer, OK]);
        assert!(all[1].starts_with("GET /next") && all[1].contains("x-team: a\r\n"), "{all:?}");
        for secret in secrets {
            assert_eq!(
                (all[0].contains(secret), all[1].contains(secret)),
                (true, is_same),
                "{secret} {all:?}"
            );
        }
    }
}

/// What is said of us stays with the origin that it was written for: another port of the host may be anybody's, and what leads back from there may
/// be its choice.
#[test]
fn who_we_are_is_told_to_no_other_port() {
    let read = |stream: &mut std::net::TcpStream| {
        let (mut request, mut some) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") {
            let len = stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..len]);
        }
        String::from_utf8(request).unwrap()
    };
    for (lines, secret) in [
        ("bearer = \"0123456789abcdef\"", "authorization: Bearer 0123456789abcdef\r\n"),
        ("basic = { username = \"u\", password = \"p\" }", "authorization: Basic dTpw\r\n"),
        ("headers = { Cookie = \"id=1\" }", "cookie: id=1\r\n"),
    ] {
        for follows in ["same-host", "all"] {
            let heard = Arc::new(Mutex::new(Vec::new()));
            let home = Arc::new(std::sync::OnceLock::<SocketAddr>::new());
            let (kept, leads_to) = (Arc::clone(&heard), Arc::clone(&home));
            let other = server(move |stream| {
                kept.lock().unwrap().push(read(stream));
                let back = format!("http://{}/back", leads_to.get().unwrap());
                let answer = format!("HTTP/1.1 302 F\r\nLocation: {back}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let kept = Arc::clone(&heard);
            let first = server(move |stream| {
                let request = read(stream);
                let answer = match request.starts_with("GET /back") {
                    true => OK.to_owned(),
                    false => format!(
                        "HTTP/1.1 302 F\r\nLocation: http://{other}/next\r\nContent-Length: 0\r\n\r\n"
                    ),
                };
                kept.lock().unwrap().push(request);
                stream.write_all(answer.as_bytes()).unwrap();
            });
            home.set(first).unwrap();
            let lines = format!(
                "\ntimeout = \"5s\"\ntype = \"http\"\nurl = \"http://{first}/a\"\nfollow_redirects = \"{follows}\"\n{lines}"
            );
            let finding = block_on(runner(&lines).run());
            assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
            let told: Vec<bool> =
                heard.lock().unwrap().iter().map(|request| request.contains(secret)).collect();
            assert_eq!(told, [true, false, false], "{secret} {follows}");
        }
    }
}

/// As Go's client has it, and so the kubelet.
#[test]
fn a_redirect_to_nowhere_is_the_answer() {
    let all =
        sent("expect = { status = \"302\" }", &["HTTP/1.1 302 T\r\nLocation:\r\nContent-Length: 0\r\n\r\n"]);
    assert_eq!(all.len(), 1);
    let all = sent("", &["HTTP/1.1 302 T\r\nLocation: ./../x/../next\r\nContent-Length: 0\r\n\r\n", OK]);
    assert!(all[1].starts_with("GET /next HTTP/1.1\r\n"), "{all:?}");
}

#[test]
fn content_is_sent_and_goes_where_its_method_goes() {
    let post = "method = \"POST\"\nbody = '{\"a\": 1}'\nheaders = { Content-Type = \"application/json\" }";
    let content = "\r\n\r\n{\"a\": 1}";
    let is_post = |request: &str, target: &str| {
        request.starts_with(&format!("POST {target} HTTP/1.1\r\n"))
            && request.contains("content-length: 8\r\n")
            && request.contains("content-type: application/json\r\n")
            && request.ends_with(content)
    };
    let is_get = |request: &str| {
        request.starts_with("GET /next HTTP/1.1\r\n")
            && !request.contains("content-")
            && request.ends_with("\r\n\r\n")
    };
    let all = sent(post, &[OK]);
    assert!(is_post(&all[0], "/a?b"), "{all:?}");
    for (answer, stays) in [
        ("HTTP/1.1 307 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 308 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 301 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 302 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 303 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        let all = sent(post, &[answer, OK]);
        assert!(all.len() == 2 && is_post(&all[0], "/a?b"), "{all:?}");
        let behind = if stays { is_post(&all[1], "/next") } else { is_get(&all[1]) };
        assert!(behind, "{answer} {all:?}");
    }
    let put = sent(
        "method = \"PUT\"\nbody = \"x\"",
        &["HTTP/1.1 302 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", OK],
    );
    assert!(put[1].starts_with("PUT /next HTTP/1.1\r\n") && put[1].ends_with("\r\n\r\nx"), "{put:?}");
}
