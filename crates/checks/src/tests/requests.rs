//! Requests of an `http` check: content, fields after a redirect, and the unsampled trace flag.

use super::*;
use hyper::Method;
use std::sync::Mutex;

/// Runs a check against a server that sends these responses; returns the requests.
fn sent(change: impl FnOnce(&mut HttpCheck), answers: &[&'static str]) -> Vec<String> {
    let answers: Vec<&str> = answers.into();
    let answers = Mutex::new(answers.into_iter());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (answers, kept) = (Arc::new(answers), Arc::clone(&heard));
    let addr = server(move |stream| {
        let mut request = Vec::new();
        let mut some = [0; 1024];
        // Head and content may arrive separately.
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
    let mut check = HttpCheck::new(url(format!("http://{addr}/a?b")));
    change(&mut check);
    let finding = block_on(runner_within(Duration::from_secs(2), check).run());
    assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
    heard.lock().unwrap().iter().map(|request| request.replace(&addr.to_string(), "ADDR")).collect()
}

fn open(fields: &[(&str, &str)]) -> Vec<(String, FieldValue)> {
    let field = |&(name, value): &(&str, &str)| (name.to_owned(), FieldValue::Open(value.to_owned()));
    fields.iter().map(field).collect()
}

/// Fields with secret values, like credentials from the configuration.
fn secret(fields: &[(&str, &str)]) -> Vec<(String, FieldValue)> {
    let field =
        |&(name, value): &(&str, &str)| (name.to_owned(), FieldValue::Secret(Secret::new(value.to_owned())));
    fields.iter().map(field).collect()
}

type Change = fn(&mut HttpCheck);

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Removes the trace identifiers, which differ each time.
fn without_trace(request: &str) -> String {
    let (before, rest) = request.split_once("traceparent: 00-").unwrap_or_else(|| panic!("{request}"));
    let (trace, after) = rest.split_once("\r\n").unwrap();
    assert!(trace.len() == 52 && trace.ends_with("-00"), "not sampled: {trace}");
    format!("{before}{after}")
}

#[test]
fn requests_are_marked_as_not_sampled() {
    let first = sent(|_| {}, &[OK]);
    let fields = format!("user-agent: doorbell/{}\r\naccept: */*\r\n", env!("CARGO_PKG_VERSION"));
    let expected = format!("GET /a?b HTTP/1.1\r\n{fields}connection: close\r\nhost: ADDR\r\n\r\n");
    assert_eq!(without_trace(&first[0]), expected);
    assert!(!sent(|check| check.traceparent = false, &[OK])[0].contains("traceparent"));
    let own = sent(|check| check.headers = open(&[("Traceparent", "own")]), &[OK]);
    assert!(own[0].matches("traceparent").count() == 1 && own[0].contains("traceparent: own\r\n"), "{own:?}");
}

#[test]
fn credentials_are_sent_to_no_other_host() {
    let who = [("Cookie", "id=1"), ("X-Api-Key", "key"), ("Authorization", "Basic eA==")];
    let change = |check: &mut HttpCheck| {
        check.follow_redirects = FollowRedirects::All;
        check.headers = [secret(&who), open(&[("X-Team", "a")])].concat();
    };
    let secrets = ["cookie: id=1\r\n", "x-api-key: key\r\n", "authorization: Basic eA==\r\n"];
    for (answer, is_same) in [
        ("HTTP/1.1 302 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 302 T\r\nLocation: http://localhost:PORT/next\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        let all = sent(change, &[answer, OK]);
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

/// Credentials are sent only to the origin they were configured for: another port of the host may
/// belong to another party, and that party may redirect the request back to the first port.
#[test]
fn credentials_are_sent_to_no_other_port() {
    let read = |stream: &mut std::net::TcpStream| {
        let (mut request, mut some) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") {
            let len = stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..len]);
        }
        String::from_utf8(request).unwrap()
    };
    let changes: [(Change, &str); 3] = [
        (
            |check| check.bearer = Some(Secret::new("0123456789abcdef".to_owned())),
            "authorization: Bearer 0123456789abcdef\r\n",
        ),
        (
            |check| check.basic = Some(("u".to_owned(), Secret::new("p".to_owned()))),
            "authorization: Basic dTpw\r\n",
        ),
        (|check| check.headers = secret(&[("Cookie", "id=1")]), "cookie: id=1\r\n"),
    ];
    for (change, secret) in changes {
        for follows in [FollowRedirects::SameHost, FollowRedirects::All] {
            for back_to in ["/back", "/a"] {
                let heard = Arc::new(Mutex::new(Vec::new()));
                let home = Arc::new(std::sync::OnceLock::<SocketAddr>::new());
                let (kept, leads_to) = (Arc::clone(&heard), Arc::clone(&home));
                let other = server(move |stream| {
                    kept.lock().unwrap().push(read(stream));
                    let back = format!("http://{}{back_to}", leads_to.get().unwrap());
                    let answer = format!("HTTP/1.1 302 F\r\nLocation: {back}\r\nContent-Length: 0\r\n\r\n");
                    stream.write_all(answer.as_bytes()).unwrap();
                });
                let kept = Arc::clone(&heard);
                let first = server(move |stream| {
                    let request = read(stream);
                    let is_back = !kept.lock().unwrap().is_empty();
                    let answer = match is_back {
                        true => OK.to_owned(),
                        false => format!(
                            "HTTP/1.1 302 F\r\nLocation: http://{other}/next\r\nContent-Length: 0\r\n\r\n"
                        ),
                    };
                    kept.lock().unwrap().push(request);
                    stream.write_all(answer.as_bytes()).unwrap();
                });
                home.set(first).unwrap();
                let mut check = HttpCheck::new(url(format!("http://{first}/a")));
                check.follow_redirects = follows;
                change(&mut check);
                let finding = block_on(runner_within(Duration::from_secs(5), check).run());
                assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
                let told: Vec<bool> =
                    heard.lock().unwrap().iter().map(|request| request.contains(secret)).collect();
                assert_eq!(told, [true, false, false], "{secret} {follows:?} {back_to}");
            }
        }
    }
}

/// A redirect with an empty `Location` is not followed, as in Go's client, which the kubelet uses.
#[test]
fn a_redirect_without_a_location_is_the_response() {
    let answer = "HTTP/1.1 302 T\r\nLocation:\r\nContent-Length: 0\r\n\r\n";
    let all = sent(|check| check.expect.status = statuses("302"), &[answer]);
    assert_eq!(all.len(), 1);
    let all = sent(|_| {}, &["HTTP/1.1 302 T\r\nLocation: ./../x/../next\r\nContent-Length: 0\r\n\r\n", OK]);
    assert!(all[1].starts_with("GET /next HTTP/1.1\r\n"), "{all:?}");
}

#[test]
fn bytes_outside_ascii_in_a_location_are_percent_encoded() {
    let redirect = "HTTP/1.1 302 T\r\nLocation: /caf\u{e9}\r\nContent-Length: 0\r\n\r\n";
    let all = sent(|check| check.follow_redirects = FollowRedirects::SameHost, &[redirect, OK]);
    assert_eq!(all.len(), 2);
    assert!(all[1].starts_with("GET /caf%C3%A9 HTTP/1.1\r\n"), "{all:?}");
}

#[test]
fn content_is_sent_and_goes_where_its_method_goes() {
    let post = |check: &mut HttpCheck| {
        check.method = Method::POST;
        check.body = "{\"a\": 1}".to_owned();
        check.headers = open(&[("Content-Type", "application/json")]);
    };
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
        |check| (check.method, check.body) = (Method::PUT, "x".to_owned()),
        &["HTTP/1.1 302 T\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", OK],
    );
    assert!(put[1].starts_with("PUT /next HTTP/1.1\r\n") && put[1].ends_with("\r\n\r\nx"), "{put:?}");
}
