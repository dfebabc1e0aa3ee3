//! HAProxy checks the binary in both ways it has, and forwards to it.
//!
//! Does not know about: HAProxy's statistics beyond the state of a server.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use doorbell_testkit::peers::{Reply, exchange, wait_until};
use serde_json::Value;

use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame};
use crate::support::{CONFIG, Doorbell, LIMIT, Process, Scratch, free_port, on_both_engines, program};

on_both_engines! {
    httpchk_plain
    httpchk_http11
    httpchk_http2
    grpc_check
}

fn httpchk_plain(engine: &str) {
    checked_by_haproxy(engine, "option httpchk GET /readyz");
    // The bare form asks `OPTIONS /` by HTTP/1.0 with no Host; a health route answers it.
    checked_by_haproxy(engine, "option httpchk\n  option httpchk OPTIONS /livez");
}

fn httpchk_http11(engine: &str) {
    checked_by_haproxy(
        engine,
        "option httpchk\n  http-check send meth GET uri /readyz ver HTTP/1.1 hdr host web\n  http-check send-state",
    );
}

/// Checks and requests both by HTTP/2 with prior knowledge.
fn httpchk_http2(engine: &str) {
    let check = "option httpchk\n  http-check send meth GET uri /readyz ver HTTP/2 hdr host web";
    let config = CONFIG.replace("bind = ", "http2 = true\nbind = ");
    let doorbell = Doorbell::start_with(engine, &config);
    let totals = checked(doorbell, check, "proto h2");
    if totals.is_null() {
        return;
    }
    assert!(totals["http2_requests"].as_u64().unwrap() > 200 && totals["requests"] == 0, "{totals}");
}

/// A Check of `grpc.health.v1`, as far as HAProxy knows of it: the bytes that a client sends, and those of a reply that says SERVING.
fn grpc_check(engine: &str) {
    let field = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    };
    let fields = [
        block("POST", "/grpc.health.v1.Health/Check"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let asks = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &fields.concat()),
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ];
    let hex: String = asks.concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let check = format!(
        "option tcp-check\n  tcp-check connect\n  tcp-check send-binary {hex}\n  tcp-check expect binary 00000000020801"
    );
    let config = CONFIG.replace("bind = ", "http2 = true\nbind = ");
    let totals = checked(Doorbell::start_with(engine, &config), &check, "");
    if totals.is_null() {
        return;
    }
    assert!(totals["http2_requests"].as_u64().unwrap() > 5 && totals["requests"] == 200, "{totals}");
}

fn checked_by_haproxy(engine: &str, check: &str) {
    checked(Doorbell::start(engine), check, "");
}

/// Gives the last line of the log.
fn checked(doorbell: Doorbell, check: &str, server: &str) -> Value {
    let Some(haproxy) = program("haproxy") else { return Value::Null };
    let scratch = Scratch::new();
    let socket = scratch.path("stats.sock");
    let port = free_port();
    let config = format!(
        "global\n  stats socket {socket} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n\
         frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
         backend back\n  {check}\n  server web {addr} {server} check inter 50ms fall 2 rise 2\n",
        socket = socket.display(),
        addr = doorbell.addr,
    );
    let file = scratch.write("haproxy.cfg", &config);
    let process = Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file]));
    let up = wait_until(LIMIT, || {
        state(&socket).is_some_and(|state| state.starts_with("UP") && state.contains("/L7OK"))
    });
    assert!(up.is_some(), "{:?}\n{}", state(&socket), process.log());
    // Many more checks, each of which HAProxy ends with a reset: it must stay up and we must not complain.
    std::thread::sleep(Duration::from_millis(600));
    assert!(state(&socket).unwrap().starts_with("UP"), "{:?}", state(&socket));
    for n in 0..200 {
        let got = exchange(
            ([127, 0, 0, 1], port).into(),
            b"GET /hello HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
        let reply = Reply::parse(&got.bytes, false).unwrap_or_else(|| panic!("request {n}: {got:?}"));
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"hello\n"[..]), "request {n}");
    }
    let log = doorbell.process.log();
    assert!(
        !log.contains("ERROR") && !log.contains("WARN"),
        "a reset by a checker is not worth a line: {log}"
    );
    let totals = doorbell.totals();
    let down = wait_until(LIMIT, || state(&socket).is_some_and(|state| state.starts_with("DOWN")));
    assert!(down.is_some(), "{:?}", state(&socket));
    totals
}

/// State and last check of the one server, as `UP/L7OK`.
pub(crate) fn state(socket: &Path) -> Option<String> {
    // Behind an asterisk while the next check is under way.
    row(socket, ["status", "check_status"]).map(|fields| fields.join("/").replace("* ", ""))
}

/// These fields of what is known of the one server.
pub(crate) fn row(socket: &Path, fields: [&str; 2]) -> Option<[String; 2]> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"show stat\n").ok()?;
    let mut table = String::new();
    stream.read_to_string(&mut table).ok()?;
    let names: Vec<&str> = table.lines().next()?.trim_start_matches("# ").split(',').collect();
    let row: Vec<&str> = table.lines().find(|line| line.starts_with("back,web,"))?.split(',').collect();
    let field = |name: &str| {
        let at = names.iter().position(|&field| field == name)?;
        row.get(at).map(|field| (*field).to_owned())
    };
    let [first, second] = fields.map(field);
    Some([first?, second?])
}
