//! A server that runs as users run it: probes, redirects, many clients at once, and an orderly end.
//!
//! Does not know about: which driver it should choose; it only tells which one it did.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::plan::PORT;

const LOG: &str = "/tmp/smoke.log";
/// Looks at what it wrote, 20 ms apart, until it says that it is ready, and until it has ended.
const LOOKS_MAX: u32 = 500;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const CLIENTS: usize = 64;

/// The configuration: probes and redirects, as the examples have them.
pub(crate) const CONFIG: &str = r#"version = 1

[log]
format = "json"

[lifecycle]
drain_delay = "0s"
drain_timeout = "2s"

[listener.main]
bind = "127.0.0.1:8080"

[route.livez]
listener = "main"
path = "/livez"
health = "livez"

[route.readyz]
listener = "main"
path = "/readyz"
health = "readyz"

[route.old]
listener = "main"
hosts = ["example.com"]
path = "/old/{*rest}"
redirect = { host = "www.example.com", path = "/new/{rest}" }
"#;

/// Starts `argv` and asks it. JSON on one line: its driver and why, and what was not as it should be.
pub(crate) fn smoke(argv: &[String]) -> (Value, bool) {
    let mut failures = Vec::new();
    let mut ready = Value::Null;
    match start(argv) {
        Err(why) => failures.push(why),
        Ok(mut child) => {
            match wait_until_ready(&mut child) {
                Err(why) => failures.push(why),
                Ok(line) => {
                    ready = line;
                    failures.extend(ask_everything());
                    failures.extend(end(&mut child));
                }
            }
            // It has ended, or must.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    let good = failures.is_empty();
    (json!({ "driver": ready["driver"], "why": ready["why"], "failures": failures }), good)
}

fn start(argv: &[String]) -> Result<Child, String> {
    let (program, args) = argv.split_first().ok_or("no command")?;
    let log = File::create(LOG).map_err(|error| format!("{LOG}: {error}"))?;
    let same = log.try_clone().map_err(|error| format!("{LOG}: {error}"))?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(log).stderr(same);
    command.spawn().map_err(|error| format!("{program} does not start: {error}"))
}

/// Its line that names addresses.
fn wait_until_ready(child: &mut Child) -> Result<Value, String> {
    for _ in 0..LOOKS_MAX {
        let log = fs::read_to_string(LOG).unwrap_or_default();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(line) = lines.find(|line| line["addresses"].is_string()) {
            return Ok(line);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended with {status}: {}", log.trim()));
        }
        super::sleep(LOOK_AGAIN);
    }
    Err("it is never ready".into())
}

fn ask_everything() -> Vec<String> {
    let mut failures = Vec::new();
    for (request, status, holds) in [
        (get("/livez", "a"), "200", "\r\n\r\nup\n"),
        (get("/readyz", "a"), "200", "\r\n\r\nup\n"),
        (get("/nothing", "a"), "404", "not found\n"),
        (get("/old/a/b?c=d", "example.com"), "308", "ocation: https://www.example.com/new/a/b?c=d\r\n"),
        (get("/livez", "a").replace("GET", "POST"), "405", "llow: "),
        ("nonsense\r\n\r\n".to_owned(), "400", ""),
    ] {
        let asked = request.lines().next().unwrap_or_default().to_owned();
        match talk(&request) {
            Ok(answer) if answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(holds) => {}
            Ok(answer) => failures.push(format!("{asked}: {answer:?}")),
            Err(why) => failures.push(format!("{asked}: {why}")),
        }
    }
    failures.extend(two_at_once().err());
    failures.extend(many_at_once().err());
    failures
}

/// Two requests in one write, answered in order on one connection.
fn two_at_once() -> Result<(), String> {
    let first = get("/livez", "a").replace("Connection: close\r\n", "");
    let answer = talk(&(first + &get("/readyz", "a")))?;
    match answer.matches("HTTP/1.1 200").count() {
        2 => Ok(()),
        _ => Err(format!("two requests in one write: {answer:?}")),
    }
}

/// Clients that are all connected before the first one asks.
fn many_at_once() -> Result<(), String> {
    let clients: Result<Vec<TcpStream>, String> = (0..CLIENTS).map(|_| connect()).collect();
    for (number, mut client) in clients?.into_iter().enumerate() {
        let request = get(&format!("/old/{number}"), "example.com");
        let answer = exchange(&mut client, &request)?;
        if !answer.contains(&format!("https://www.example.com/new/{number}\r\n")) {
            return Err(format!("client {number} of {CLIENTS} got {answer:?}"));
        }
    }
    Ok(())
}

/// SIGTERM, and status 0.
fn end(child: &mut Child) -> Option<String> {
    if let Err(error) = kill_process(Pid::from_child(child), Signal::TERM) {
        return Some(format!("SIGTERM: {error}"));
    }
    for _ in 0..LOOKS_MAX {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return None,
            Ok(Some(status)) => return Some(format!("after SIGTERM it ended with {status}")),
            Ok(None) => super::sleep(LOOK_AGAIN),
            Err(error) => return Some(error.to_string()),
        }
    }
    Some("it does not end after SIGTERM".into())
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn talk(request: &str) -> Result<String, String> {
    exchange(&mut connect()?, request)
}

fn connect() -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", PORT)).map_err(|error| format!("connect: {error}"))?;
    let limit = Some(Duration::from_secs(5));
    stream
        .set_read_timeout(limit)
        .and_then(|()| stream.set_write_timeout(limit))
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream, request: &str) -> Result<String, String> {
    stream.write_all(request.as_bytes()).map_err(|error| format!("write: {error}"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|error| format!("read: {error}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
