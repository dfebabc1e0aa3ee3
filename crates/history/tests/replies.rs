//! Tests the store for ClickHouse against replies of servers and proxies.

use doorbell_history::clickhouse::{ClickHouse, Server};
use doorbell_history::{Batch, Buffer, CheckResult, Row, Store as _, StoreError};
use doorbell_testkit::peers::process::rss_anon_bytes;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Starts a server that calls `reply` for each connection, after the request.
fn server(reply: impl Fn(TcpStream) + Send + 'static) -> ClickHouse {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if read_request(&mut stream).is_some() {
                reply(stream);
            }
        }
    });
    let (host, password) = (addr.ip().to_string(), "secret".to_owned());
    let server = Server { host, port: addr.port(), password, ..Server::default() };
    ClickHouse { server, database: "doorbell".into(), instance: "web-1".into(), run: 7 }
}

/// Reads a request with its body.
fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut body_len) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        if let Some(("content-length", len)) = line.to_lowercase().split_once(": ") {
            body_len = len.trim().parse().expect("a number");
        }
    }
    let body = std::io::copy(&mut reader.take(body_len), &mut std::io::sink());
    body.ok().filter(|len| *len == body_len).map(drop)
}

fn says(status: &'static str, headers: &'static str, body: &'static str) -> ClickHouse {
    server(move |mut stream| {
        let len = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n{headers}\r\n{body}");
        let _gone = stream.write_all(head.as_bytes());
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn batch(rows: u64) -> Arc<Batch> {
    let mut buffer = Buffer::new(64 << 20);
    for number in 0..rows {
        let (at_ms, check, reason) = (number, "db".into(), "connection refused".into());
        let (outcome, latency_us, weight) = ("failure", 1, 1);
        buffer.push(Row::Result(CheckResult { at_ms, check, outcome, latency_us, weight, reason }));
    }
    buffer.next(usize::MAX).expect("a batch")
}

fn insert(store: &ClickHouse) -> Result<(), StoreError> {
    // Larger than the buffers of the connection.
    block_on(store.insert(&batch(50_000)))
}

#[test]
fn the_status_decides_what_happens_to_the_rows() {
    assert_eq!(insert(&says("200 OK", "", "")), Ok(()));
    let page = "<html><h1>Body exceeds the limit</h1></html>";
    let text = "Code: 27, e.displayText() = DB::Exception: Cannot parse input";
    let refused = insert(&says("400 Bad Request", "", text));
    assert_eq!(refused, Err(StoreError::Refused(format!("HTTP 400: {text}"))));
    let large = insert(&says("413 Payload Too Large", "", page));
    assert_eq!(large, Err(StoreError::TooLarge(format!("HTTP 413: {page}"))));
    for status in ["404 Not Found", "500 Internal Server Error", "502 Bad Gateway"] {
        let away = insert(&says(status, "", page));
        assert_eq!(away, Err(StoreError::Unavailable(format!("HTTP {}: {page}", &status[..3]))));
    }
}

#[test]
fn an_exception_with_status_200_keeps_the_rows() {
    let text = "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)";
    let exception = "X-ClickHouse-Exception-Code: 252\r\n";
    let kept = Err(StoreError::Unavailable(format!("HTTP 200: {text}")));
    for headers in [exception, ""] {
        assert_eq!(insert(&says("200 OK", headers, text)), kept, "{headers}");
    }
    assert_eq!(insert(&says("200 OK", exception, "")), Err(StoreError::Unavailable("HTTP 200: ".into())));
    assert_eq!(insert(&says("200 OK", "", "\n")), Ok(()));

    let query = |headers, body| block_on(says("200 OK", headers, body).query("SELECT 1"));
    assert_eq!(query("", "1\n"), Ok("1\n".to_owned()));
    assert_eq!(query(exception, text).map(drop), kept);
}

#[test]
fn an_endless_error_is_not_read_to_the_end() {
    let (sent, was_sent) = mpsc::sync_channel(2);
    let store = server(move |mut stream| {
        let mut len = 0_u64;
        let head = stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\n\r\n");
        while head.is_ok() && len < 1 << 30 && stream.write_all(&[b'x'; 65_536]).is_ok() {
            len += 65_536;
        }
        let _gone = sent.send(len);
    });
    let before = rss_anon_bytes("self").expect("a number");
    let error = insert(&store).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(was_sent.recv().expect("a length") < 1 << 30);
    let increments = rss_anon_bytes("self").expect("a number").saturating_sub(before);
    assert!(increments < 256 << 20, "{increments} bytes");
}

#[test]
fn an_abandoned_insert_leaves_no_connection() {
    let (events, has_event) = mpsc::sync_channel(2);
    let store = server(move |mut stream| {
        let _received = events.send(());
        let _gone = stream.read(&mut [0]);
        let _ended = events.send(());
    });
    let batch = batch(10);
    // The runtime runs on, as in the writer.
    let event = async || {
        while has_event.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    block_on(async {
        tokio::select! {
            ended = store.insert(&batch) => panic!("{ended:?}"),
            () = event() => {}
        }
        tokio::time::timeout(Duration::from_secs(60), event()).await.expect("the connection is closed");
    });
}

#[test]
fn a_server_that_never_replies_is_unavailable() {
    let (events, has_event) = mpsc::sync_channel(2);
    let store = server(move |mut stream| {
        let _received = events.send(());
        let _gone = stream.read(&mut [0]);
    });
    // The clock runs only until the request has arrived.
    let passes = async |is_sent: &mut dyn FnMut() -> bool| {
        while !is_sent() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(120)).await;
        tokio::time::resume();
    };
    block_on(async {
        let mut has_event = || has_event.try_recv().is_ok();
        let hung = Err(StoreError::Unavailable("no reply within 60s".to_owned()));
        tokio::select! {
            ended = store.query("SELECT 1") => assert_eq!(ended.map(drop), hung),
            () = passes(&mut has_event) => panic!("the query has no time limit"),
        }
        tokio::time::resume();
        tokio::select! {
            ended = store.init() => assert_eq!(ended.map(drop), hung),
            () = passes(&mut has_event) => panic!("the commands have no time limit"),
        }
    });
}

#[test]
fn errors_name_the_cause_but_not_the_password() {
    let nothing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut store = says("200 OK", "", "");
    store.server.port = nothing.port();
    let refused = insert(&store).unwrap_err().to_string();
    assert!(refused.contains("Connection refused"), "{refused}");
    store.server.password = "secret\n".to_owned();
    let header = insert(&store).unwrap_err().to_string();
    assert!(header.contains("header"), "{header}");
    assert!(!format!("{refused}{header}").contains("secret"));
}
