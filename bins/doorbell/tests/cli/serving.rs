//! A running instance for the tests of commands.

use super::{PATIENCE, doorbell};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

/// A running instance, killed when the test ends.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) ready: serde_json::Value,
    _lines: BufReader<ChildStdout>,
}

impl Serving {
    pub(super) fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = doorbell(args).envs(env.iter().copied()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let ready = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{args:?} exited before it was ready");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["driver"].is_string() && line["addresses"].is_string() {
                break line;
            }
        };
        Self { child, ready, _lines: lines }
    }

    pub(super) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(super) fn addr(&self) -> &str {
        self.ready["addresses"].as_str().unwrap().split(' ').next().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn ask(addr: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Creates a folder for one test. Its path is short enough for a Unix socket.
pub(super) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("doorbell-cli-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
