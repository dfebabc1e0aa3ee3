//! What `doorbell probe --as` sends beside what the program itself sends.
//!
//! Does not know about: programs that cannot be had here; their bytes stand in the tests of the imitation.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};

use doorbell_testkit::peers::wait_until;

use crate::monitors::apache_head;
use crate::plain::get;
use crate::support::{LIMIT, Process, Scratch, binary, free_addr, free_port, program, stdout};

/// Answers everybody, and keeps what was asked.
struct Heard {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (mut request, mut piece) = (Vec::new(), [0; 1024]);
                while !request.ends_with(b"\r\n\r\n") {
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

    /// The program was heard, and is gone; now the imitation.
    fn assert_same(&self, name: &str) {
        let real = self.last().unwrap();
        let before = self.requests.lock().unwrap().len();
        stdout(&binary(), &["probe", &format!("http://{}/readyz", self.addr), "--as", name]);
        let came = wait_until(LIMIT, || self.requests.lock().unwrap().len() > before);
        assert!(came.is_some(), "{name} did not ask");
        assert_eq!(without_version(&self.last().unwrap()), without_version(&real), "{name}");
    }
}

/// The exporter tells its version, which is not ours to say.
fn without_version(request: &str) -> String {
    let Some((before, rest)) = request.split_once("Blackbox Exporter/") else { return request.to_owned() };
    format!("{before}Blackbox Exporter/{}", rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

#[test]
fn apache_asks_so() {
    let Some(apache) = program("apache2") else { return };
    let (heard, scratch) = (Heard::new(), Scratch::new());
    let folder = scratch.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let config = format!(
        "{}<Proxy balancer://back>\n BalancerMember http://{} hcmethod=GET hcuri=/readyz hcinterval=200ms\n</Proxy>\nProxyPass / balancer://back/\n",
        apache_head(&folder, free_port()),
        heard.addr,
    );
    let file = scratch.write("httpd.conf", &config);
    {
        let process = Process::spawn(Command::new(&apache).args(["-X", "-f", &file]));
        assert!(wait_until(LIMIT, || heard.last().is_some()).is_some(), "{}", process.log());
    }
    heard.assert_same("apache");
}

#[test]
fn the_blackbox_exporter_asks_so() {
    let Some(exporter) = program("prometheus-blackbox-exporter") else { return };
    let (heard, scratch) = (Heard::new(), Scratch::new());
    let modules = scratch.write("blackbox.yml", "modules:\n  http_2xx:\n    prober: http\n    timeout: 5s\n");
    let addr = free_addr();
    let process = Process::spawn(
        Command::new(&exporter)
            .args([&format!("--config.file={modules}"), &format!("--web.listen-address={addr}")]),
    );
    let is_open = || std::net::TcpStream::connect(addr).is_ok();
    assert!(wait_until(LIMIT, is_open).is_some(), "{}", process.log());
    get(addr, &format!("/probe?module=http_2xx&target=http://{}/readyz", heard.addr), &[]);
    heard.assert_same("blackbox");
}
