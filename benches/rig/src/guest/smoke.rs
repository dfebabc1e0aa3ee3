//! A smoke test of doorbell with a typical configuration: probes, redirects, many concurrent
//! clients, and a clean exit. It expects no particular driver and reports the chosen one.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::plan::PORT;
use crate::process::Process;

const LOG: &str = "/tmp/smoke.log";
const CLIENTS: usize = 64;

/// The configuration: two probes and a redirect.
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

/// Starts `argv` and tests it. Returns JSON with the driver, the reason for its choice and the
/// failures, and whether the test passed.
pub(crate) fn smoke(argv: &[String]) -> (Value, bool) {
    let mut failures = Vec::new();
    let ready = start(argv).map(|(mut process, ready)| {
        failures.extend(ask_everything());
        match process.terminate() {
            Ok(status) if status.success() => {}
            Ok(status) => failures.push(format!("it exited with {status} after SIGTERM")),
            Err(why) => failures.push(why),
        }
        ready
    });
    let ready = ready.unwrap_or_else(|why| {
        failures.push(why);
        Value::Null
    });
    let good = failures.is_empty();
    (json!({ "driver": ready["driver"], "why": ready["why"], "failures": failures }), good)
}

/// Starts the program and returns its log line with the addresses.
fn start(argv: &[String]) -> Result<(Process, Value), String> {
    let (program, args) = argv.split_first().ok_or("no command")?;
    let mut process = Process::start(Command::new(program).args(args), Path::new(LOG))?;
    let line = process.wait_for("the server is ready", || {
        let log = fs::read_to_string(LOG).unwrap_or_default();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["addresses"].is_string())
    })?;
    Ok((process, line))
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

/// Sends two requests in one write on one connection, and expects two replies.
fn two_at_once() -> Result<(), String> {
    let first = get("/livez", "a").replace("Connection: close\r\n", "");
    let answer = talk(&(first + &get("/readyz", "a")))?;
    match answer.matches("HTTP/1.1 200").count() {
        2 => Ok(()),
        _ => Err(format!("two requests in one write: {answer:?}")),
    }
}

/// Connects all clients before the first request.
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
