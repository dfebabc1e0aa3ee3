//! curl against the binary: HTTP/1.1, 1.0, HEAD, OPTIONS, keep-alive, redirects. Pipelining uses a
//! plain socket.

use doorbell_testkit::peers::{Reply, Shape, misbehave};

use crate::support::{Doorbell, on_both_engines, program, stdout};

on_both_engines! {
    curl_http11
    curl_http10
    curl_head_says_what_get_says
    curl_keeps_the_connection
    curl_options
    curl_redirect
    curl_unknown_path_and_method
    pipelined_by_hand
    every_prober_shape
}

fn curl_http11(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    for path in ["/livez", "/readyz", "/healthz"] {
        let out = stdout(&curl, &["-sS", "-w", "|%{http_code} %{http_version}", &doorbell.url(path)]);
        assert!(out.ends_with("|200 1.1"), "{path}: {out}");
    }
    let out = stdout(&curl, &["-sS", "-w", "|%{http_code}|%{content_type}", &doorbell.url("/hello")]);
    assert_eq!(out, "hello\n|200|text/plain");
}

fn curl_http10(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    let out = stdout(&curl, &["-sS", "--http1.0", "-w", "|%{http_code}", &doorbell.url("/hello")]);
    assert_eq!(out, "hello\n|200");
    let kept = stdout(
        &curl,
        &["-sS", "--http1.0", "-H", "Connection: keep-alive", "-w", "|%{http_code}", &doorbell.url("/hello")],
    );
    assert_eq!(kept, "hello\n|200");
}

fn curl_head_says_what_get_says(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    let without_date = |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| !line.to_ascii_lowercase().starts_with("date:"))
            .map(str::to_owned)
            .collect()
    };
    for path in ["/livez", "/hello", "/missing"] {
        let head = without_date(stdout(&curl, &["-sS", "-I", &doorbell.url(path)]));
        let get = without_date(stdout(&curl, &["-sS", "-D", "-", "-o", "/dev/null", &doorbell.url(path)]));
        assert_eq!(head, get, "{path}");
        assert!(head.iter().any(|line| line.to_ascii_lowercase().starts_with("content-length:")), "{head:?}");
    }
}

fn curl_keeps_the_connection(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    let url = doorbell.url("/hello");
    let out =
        stdout(&curl, &["-sS", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ", &url, &url]);
    assert_eq!(out, "1 0 ");
}

fn curl_options(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    let health = stdout(
        &curl,
        &["-sS", "-X", "OPTIONS", "-o", "/dev/null", "-w", "%{http_code}", &doorbell.url("/livez")],
    );
    assert!(health == "200" || health == "204", "{health}");
    let star = stdout(
        &curl,
        &["-sS", "-X", "OPTIONS", "--request-target", "*", "-D", "-", "-o", "/dev/null", &doorbell.url("/")],
    );
    assert!(
        star.to_ascii_lowercase().contains("\nallow:") && (star.contains(" 200 ") || star.contains(" 204 ")),
        "{star}"
    );
}

fn curl_redirect(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    let ask = |host: &str, path: &str| {
        let host = format!("Host: {host}");
        stdout(
            &curl,
            &[
                "-sS",
                "-o",
                "/dev/null",
                "--path-as-is",
                "-w",
                "%{http_code} %{redirect_url}",
                "-H",
                &host,
                &doorbell.url(path),
            ],
        )
    };
    assert_eq!(ask("example.com", "/old/a/b?c=d&e"), "308 https://example.com/old/a/b?c=d&e");
    let evil = ask("evil.example", "/old/a");
    assert!(
        !evil.contains("evil.example") && !evil.starts_with('2'),
        "an unlisted Host must not be reflected: {evil}"
    );
}

fn curl_unknown_path_and_method(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let doorbell = Doorbell::start(engine);
    assert_eq!(
        stdout(&curl, &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &doorbell.url("/missing")]),
        "404"
    );
    let refused =
        stdout(&curl, &["-sS", "-X", "DELETE", "-D", "-", "-o", "/dev/null", &doorbell.url("/hello")]);
    assert!(refused.contains(" 405 ") && refused.to_ascii_lowercase().contains("\nallow:"), "{refused}");
}

fn pipelined_by_hand(engine: &str) {
    let doorbell = Doorbell::start(engine);
    let request = Shape::Curl.request(doorbell.addr, "/hello");
    let bytes = misbehave::pipelined(doorbell.addr, &request, 50).unwrap();
    let (replies, left) = Reply::parse_all(&bytes);
    assert_eq!((replies.len(), left), (50, 0));
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == b"hello\n"));
    // Replies keep the order of the requests, also with a missing path between two existing ones.
    let mixed = [request.clone(), Shape::Curl.request(doorbell.addr, "/missing"), request].concat();
    let (replies, _) = Reply::parse_all(&misbehave::pipelined(doorbell.addr, &mixed, 1).unwrap());
    assert!(!replies.is_empty());
    let mut stream = std::net::TcpStream::connect(doorbell.addr).unwrap();
    std::io::Write::write_all(&mut stream, &mixed).unwrap();
    let (replies, _) = Reply::parse_all(&misbehave::read_replies(&mut stream, 3, false).unwrap());
    assert_eq!(replies.iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 404, 200]);
}

fn every_prober_shape(engine: &str) {
    let doorbell = Doorbell::start(engine);
    for &shape in Shape::ALL {
        for path in ["/livez", "/readyz"] {
            let exchange = shape.probe(doorbell.addr, path).unwrap();
            assert_eq!(exchange.end, doorbell_testkit::peers::End::Fin, "{shape:?}");
            if shape.expects_reply() {
                let reply = Reply::parse(&exchange.bytes, shape == Shape::CurlHead).unwrap();
                assert_eq!(reply.status, 200, "{shape:?}");
            }
        }
    }
    assert!(
        !doorbell.process.log().contains("ERROR") && !doorbell.process.log().contains("WARN"),
        "{}",
        doorbell.process.log()
    );
}
