//! nginx as a load balancer in front of two binaries, with and without upstream keep-alive.
//!
//! Does not know about: nginx beyond `proxy_pass`.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;

use doorbell_testkit::peers::{Load, Mode, Reply, exchange, wait_until};

use crate::admin::get;
use crate::support::{Doorbell, LIMIT, Process, Scratch, free_port, on_both_engines, program, stdout};

on_both_engines! {
    in_front_closing
    in_front_keeping_alive
    the_status_page_has_the_same_format
}

fn in_front_closing(engine: &str) {
    behind_nginx(engine, "");
}

fn in_front_keeping_alive(engine: &str) {
    behind_nginx(engine, "proxy_http_version 1.1; proxy_set_header Connection \"\";");
}

/// The page has the text of nginx's `stub_status`, except for the numbers.
fn the_status_page_has_the_same_format(engine: &str) {
    let Some(nginx) = program("nginx") else { return };
    let doorbell = Doorbell::start_with(
        engine,
        "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n[admin]\nbind = \"127.0.0.1:0\"\n",
    );
    let (scratch, port) = (Scratch::new(), free_port());
    let folder = scratch.path("");
    let folder = folder.display();
    let config = format!(
        "{} daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
         uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
         server {{ listen 127.0.0.1:{port}; location / {{ stub_status; }} }} }}\n",
        user(),
    );
    let file = scratch.write("nginx.conf", &config);
    let process =
        Process::spawn(Command::new(&nginx).args(["-c", &file, "-e", &format!("{folder}/start.log")]));
    let up = wait_until(LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(up.is_some(), "{}", process.log());
    let form = |text: &str| {
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty();
        let words = text.split(' ').map(|word| if is_number(word) { "N" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let (_, theirs) = get(([127, 0, 0, 1], port).into(), "/");
    for _ in 0..3 {
        assert_eq!(get(doorbell.addr, "/livez").0, 200);
    }
    let kept = TcpStream::connect(doorbell.addr).unwrap();
    (&kept).write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let expected = "Active connections: 1 \nserver accepts handled requests\n 4 4 4 \nReading: 0 Writing: 0 Waiting: 1 \n";
    let mut ours = String::new();
    let is_so = wait_until(LIMIT, || {
        ours = get(doorbell.addr_of(1), "/-/stub_status").1;
        ours == expected
    });
    assert!(is_so.is_some(), "{ours}");
    assert_eq!(form(&ours), form(&theirs), "{ours}{theirs}");
}

fn user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user root;" } else { "" }
}

fn behind_nginx(engine: &str, proxy: &str) {
    let Some(nginx) = program("nginx") else { return };
    let (one, two) = (Doorbell::start(engine), Doorbell::start(engine));
    let scratch = Scratch::new();
    let port = free_port();
    let folder = scratch.path("");
    let folder = folder.display();
    let user = user();
    let config = format!(
        "{user} daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
         uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
         upstream back {{ server {}; server {}; keepalive 16; }}\n\
         server {{ listen 127.0.0.1:{port}; keepalive_requests 100000; location / {{ proxy_pass http://back; {proxy} }} }} }}\n",
        one.addr, two.addr,
    );
    let file = scratch.write("nginx.conf", &config);
    let process =
        Process::spawn(Command::new(&nginx).args(["-c", &file, "-e", &format!("{folder}/start.log")]));
    let up = wait_until(LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(up.is_some(), "{}", process.log());
    for path in ["/livez", "/hello", "/missing"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n");
        let got = exchange(([127, 0, 0, 1], port).into(), request.as_bytes()).unwrap();
        let status = Reply::parse(&got.bytes, false).unwrap().status;
        assert_eq!(status, if path == "/missing" { 404 } else { 200 });
    }
    if let Some(ab) = program("ab") {
        let out =
            stdout(&ab, &["-q", "-k", "-n", "3000", "-c", "16", &format!("http://127.0.0.1:{port}/hello")]);
        assert!(!out.contains("Non-2xx") && out.contains("Failed requests:        0"), "{out}");
    }
    // The load program requests /unique, which has no route: every reply must be doorbell's 404,
    // never a 502 of nginx.
    let load = Load {
        server: ([127, 0, 0, 1], port).into(),
        sources: Vec::new(),
        requests: 1_000,
        in_flight: 16,
        mode: Mode::Close,
        first_id: 0,
        patience: LIMIT,
    };
    let report = load.run().unwrap();
    assert_eq!((report.replies, report.refusals, report.resets, report.cut_short), (1_000, 1_000, 0, 0));
    let errors = std::fs::read_to_string(scratch.path("error.log")).unwrap_or_default();
    assert!(errors.is_empty(), "nginx reports upstream errors: {errors}");
}
