//! The request of `doorbell probe --as` against that of the imitated program.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};

use doorbell_testkit::peers::wait_until;

use crate::monitors::apache_head;
use crate::plain::get;
use crate::support::{LIMIT, Process, Scratch, binary, free_addr, free_port, program, stdout};

/// A server that records requests.
struct Recorder {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (mut request, mut piece) = (Vec::new(), [0; 1024]);
                // A PROXY header of version 2 starts with the same bytes that end a request head.
                while request.len() <= 16 || !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(len @ 1..) => request.extend_from_slice(&piece[..len]),
                        _ => break,
                    }
                }
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n");
                kept.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
            }
        });
        Self { addr, requests }
    }

    fn last(&self) -> Option<String> {
        self.requests.lock().unwrap().last().cloned()
    }

    /// Asserts that the imitation equals the recorded request of the program.
    fn assert_same(&self, name: &str) {
        self.assert_same_with(name, "/readyz", &[]);
    }

    /// As [`Self::assert_same`], with another path and more options.
    fn assert_same_with(&self, name: &str, path: &str, more: &[&str]) {
        let real = self.last().unwrap();
        let before = self.requests.lock().unwrap().len();
        let target = format!("http://{}{path}", self.addr);
        stdout(&binary(), &[&["probe", &target, "--as", name], more].concat());
        let came = wait_until(LIMIT, || self.requests.lock().unwrap().len() > before);
        assert!(came.is_some(), "no request from --as {name}");
        assert_eq!(comparable(&self.last().unwrap()), comparable(&real), "{name} {more:?}");
    }
}

/// Removes variable parts of a request: the client's port, the server's name and uptime, and the
/// exporter's version.
fn comparable(request: &str) -> String {
    let lines = request.split("\r\n").map(|line| match line.split_once("; name=") {
        Some((before, after)) if before.starts_with("x-haproxy-server-state: UP") => {
            let (_, address) = before.split_once(';').unwrap();
            let (_, node) = after.split_once(';').unwrap();
            format!("x-haproxy-server-state: UP;{address}; name=;{node}")
        }
        _ => match line.strip_prefix("PROXY TCP4 127.0.0.1 127.0.0.1 ").and_then(|rest| rest.split_once(' '))
        {
            Some((_, port)) => format!("PROXY TCP4 127.0.0.1 127.0.0.1 PORT {port}"),
            None => line.to_owned(),
        },
    });
    without_version(&lines.collect::<Vec<_>>().join("\r\n"))
}

/// Removes the version of the exporter.
fn without_version(request: &str) -> String {
    let Some((before, rest)) = request.split_once("Blackbox Exporter/") else { return request.to_owned() };
    format!("{before}Blackbox Exporter/{}", rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

#[test]
fn apache_sends_the_same() {
    let Some(apache) = program("apache2") else { return };
    let (recorder, scratch) = (Recorder::new(), Scratch::new());
    let folder = scratch.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let config = format!(
        "{}<Proxy balancer://back>\n BalancerMember http://{} hcmethod=GET hcuri=/readyz hcinterval=200ms\n</Proxy>\nProxyPass / balancer://back/\n",
        apache_head(&folder, free_port()),
        recorder.addr,
    );
    let file = scratch.write("httpd.conf", &config);
    {
        let process = Process::spawn(Command::new(&apache).args(["-X", "-f", &file]));
        assert!(wait_until(LIMIT, || recorder.last().is_some()).is_some(), "{}", process.log());
    }
    recorder.assert_same("apache");
}

#[test]
fn haproxy_sends_the_same() {
    let Some(haproxy) = program("haproxy") else { return };
    const SEND: &str =
        "option httpchk\n http-check send meth OPTIONS uri /readyz ver HTTP/1.1 hdr host web hdr x-b 1";
    for (checks, server, path, options) in [
        ("option httpchk", "", "/", &[][..]),
        ("option httpchk OPTIONS /readyz\n http-check send-state", "", "/readyz", &["--send-state"]),
        (SEND, "", "/readyz", &["--host", "web", "--header", "x-b: 1"]),
        (
            &format!("{SEND}\n http-check send-state"),
            "send-proxy check-send-proxy",
            "/readyz",
            &["--host", "web", "--header", "x-b: 1", "--send-state", "--send-proxy", "v1"],
        ),
        (
            "option httpchk OPTIONS /readyz",
            "send-proxy-v2 check-send-proxy",
            "/readyz",
            &["--send-proxy", "local"],
        ),
    ] {
        let (recorder, scratch) = (Recorder::new(), Scratch::new());
        let config = format!(
            "defaults\n mode http\n timeout connect 2s\n timeout client 2s\n timeout server 2s\n\
             frontend web\n bind {}\n default_backend b\nbackend b\n {checks}\n server s1 {} check inter 100ms {server}\n",
            free_addr(),
            recorder.addr,
        );
        let file = scratch.write("haproxy.cfg", &config);
        {
            let process = Process::spawn(Command::new(&haproxy).args(["-db", "-f", &file]));
            assert!(wait_until(LIMIT, || recorder.last().is_some()).is_some(), "{}", process.log());
        }
        recorder.assert_same_with("haproxy", path, options);
    }
}

#[test]
fn the_blackbox_exporter_sends_the_same() {
    let Some(exporter) = program("prometheus-blackbox-exporter") else { return };
    let (recorder, scratch) = (Recorder::new(), Scratch::new());
    let modules = scratch.write("blackbox.yml", "modules:\n  http_2xx:\n    prober: http\n    timeout: 5s\n");
    let addr = free_addr();
    let process = Process::spawn(
        Command::new(&exporter)
            .args([&format!("--config.file={modules}"), &format!("--web.listen-address={addr}")]),
    );
    let is_open = || std::net::TcpStream::connect(addr).is_ok();
    assert!(wait_until(LIMIT, is_open).is_some(), "{}", process.log());
    get(addr, &format!("/probe?module=http_2xx&target=http://{}/readyz", recorder.addr), &[]);
    recorder.assert_same("blackbox");
}
