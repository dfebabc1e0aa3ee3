//! Health without HTTP: HAProxy's agent-check while up, draining and in maintenance; ports that are
//! open only while an endpoint is up.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use doorbell_testkit::peers::{exchange, wait_until};
use rustix::process::Signal;

use crate::checks::ask_with;
use crate::haproxy::row;
use crate::support::{Doorbell, LIMIT, Process, Scratch, free_port, on_auto, program};

on_auto! {
    agents_report_every_state
    haproxy_follows_an_agent
    haproxy_need_not_select_an_endpoint
    gates_are_open_while_the_endpoint_is_up
    on_demand_checks_run_for_agents_and_gates
}

pub(crate) const CONFIG: &str = r#"
version = 1

[runtime]
workers = 1

[lifecycle]
drain_delay = "10s"

[listener.probes]
bind = "127.0.0.1:0"

[check.db]
type = "ttl"
ttl = "1m"

[check.cache]
type = "ttl"
ttl = "1m"

[health.readyz]
require = ["db"]
degrading = ["cache"]
weight = { db = 60, cache = 40 }

[route.readyz]
path = "/readyz"
health = "readyz"

[route.push]
path = "/-/checks/{check}/{result}"
push = true
"#;

pub(crate) fn tell(doorbell: &Doorbell, what: &str) {
    let head = format!("PUT /-/checks/{what} HTTP/1.1\r\nHost: a");
    assert_eq!(ask_with(doorbell, &head).status, 204, "{what}");
}

/// Sends these bytes and returns the reply of the agent.
pub(crate) fn line(addr: SocketAddr, sent: &[u8]) -> String {
    let got = exchange(addr, sent).unwrap();
    String::from_utf8(got.bytes).unwrap()
}

/// Waits until an agent replies with this line, because pushed results take effect a moment later.
pub(crate) fn await_line(addr: SocketAddr, sent: &[u8], expected: &str) {
    let mut last = String::new();
    let came = wait_until(LIMIT, || {
        last = line(addr, sent);
        last == expected
    });
    assert!(came.is_some(), "expected {expected:?}, got {last:?}");
}

fn agents_report_every_state(engine: &str) {
    let more = "[agent.plain]\nbind = \"127.0.0.1:0\"\n[agent.named]\nbind = \"127.0.0.1:0\"\nhealth = \"livez\"\nselect_by_send = true\n";
    let mut doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}"));
    let (plain, named) = (doorbell.addr_of(1), doorbell.addr_of(2));
    await_line(plain, b"", "down ready # db\n");
    tell(&doorbell, "db/pass");
    await_line(plain, b"", "up ready 60% # degraded cache\n");
    tell(&doorbell, "cache/pass");
    // An agent without selection ignores the bytes that it receives.
    await_line(plain, b"livez\n", "up ready 100%\n");
    for (sent, expected) in [
        (&b"readyz\n"[..], "up ready 100%\n"),
        (b"readyz\r\n", "up ready 100%\n"),
        (b"livez\n", "up ready 100%\n"),
        (b"\n", "up ready 100%\n"),
        (b"ready\n", "down # there is no such health endpoint\n"),
    ] {
        await_line(named, sent, expected);
    }
    tell(&doorbell, "db/fail");
    await_line(named, b"readyz\n", "down ready # db\n");
    await_line(named, b"\n", "up ready 100%\n");
    // An unterminated line is refused. A silent client gets the agent's own endpoint after a
    // timeout.
    assert_eq!(line(named, &[b'x'; 4000]), "");
    let began = std::time::Instant::now();
    let mut silent = TcpStream::connect(named).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    let mut text = String::new();
    silent.read_to_string(&mut text).unwrap();
    assert_eq!(text, "up ready 100%\n");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(250), "{took:?}");
    doorbell.process.signal(Signal::TERM);
    await_line(plain, b"", "down drain 40% # draining\n");
    doorbell.process.signal(Signal::INT);
    assert_eq!(doorbell.process.wait().0.code(), Some(0));
}

fn await_row(socket: &Path, expected: [&str; 2]) {
    let mut last = None;
    let came = wait_until(LIMIT, || {
        last = row(socket, ["status", "weight"]);
        last.as_ref().is_some_and(|row| row.iter().map(String::as_str).eq(expected))
    });
    assert!(came.is_some(), "expected {expected:?}, got {last:?}");
}

fn haproxy_follows_an_agent(engine: &str) {
    let Some(haproxy) = program("haproxy") else { return };
    let more = "[agent.lb]\nbind = \"127.0.0.1:0\"\nhealth = \"livez\"\nselect_by_send = true\n";
    let mut doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}"));
    tell(&doorbell, "db/pass");
    tell(&doorbell, "cache/pass");
    let scratch = Scratch::new();
    let socket = scratch.path("stats.sock");
    let config = format!(
        "global\n  stats socket {socket} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n\
         frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
         backend back\n  server web {web} weight 100 check inter 50ms agent-check agent-port {agent} agent-inter 50ms agent-send \"readyz\\n\"\n",
        socket = socket.display(),
        port = free_port(),
        web = doorbell.addr,
        agent = doorbell.addr_of(1).port(),
    );
    let file = scratch.write("haproxy.cfg", &config);
    let process = Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file]));
    await_row(&socket, ["UP", "100"]);
    tell(&doorbell, "cache/fail");
    await_row(&socket, ["UP", "60"]);
    tell(&doorbell, "db/fail");
    await_row(&socket, ["DOWN (agent)", "60"]);
    tell(&doorbell, "db/pass");
    tell(&doorbell, "cache/pass");
    await_row(&socket, ["UP", "100"]);
    // After maintenance, the agent re-enables the server that it disabled.
    tell(&doorbell, "db/maintenance");
    await_row(&socket, ["MAINT", "100"]);
    tell(&doorbell, "db/pass");
    await_row(&socket, ["UP", "100"]);
    tell(&doorbell, "db/maintenance");
    await_row(&socket, ["MAINT", "100"]);
    tell(&doorbell, "db/fail");
    await_row(&socket, ["DOWN (agent)", "100"]);
    tell(&doorbell, "db/pass");
    await_row(&socket, ["UP", "100"]);
    doorbell.process.signal(Signal::TERM);
    await_row(&socket, ["DRAIN (agent)", "100"]);
    let log = doorbell.process.log();
    assert!(!log.contains("ERROR") && !log.contains("reset"), "{log}\n{}", process.log());
    doorbell.process.signal(Signal::INT);
    assert_eq!(doorbell.process.wait().0.code(), Some(0));
}

/// Without `agent-send`, an agent with selection reports its own endpoint.
fn haproxy_need_not_select_an_endpoint(engine: &str) {
    let Some(haproxy) = program("haproxy") else { return };
    let more = "[agent.lb]\nbind = \"127.0.0.1:0\"\nhealth = \"readyz\"\nselect_by_send = true\n";
    let doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}"));
    tell(&doorbell, "db/pass");
    let scratch = Scratch::new();
    let socket = scratch.path("stats.sock");
    let config = format!(
        "global\n  stats socket {socket} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout check 2s\n  timeout client 5s\n  timeout server 5s\n\
         frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
         backend back\n  server web {web} weight 100 check inter 50ms agent-check agent-port {agent} agent-inter 1s\n",
        socket = socket.display(),
        port = free_port(),
        web = doorbell.addr,
        agent = doorbell.addr_of(1).port(),
    );
    let file = scratch.write("haproxy.cfg", &config);
    let _process = Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file]));
    await_row(&socket, ["UP", "60"]);
    tell(&doorbell, "cache/pass");
    await_row(&socket, ["UP", "100"]);
    assert_eq!(row(&socket, ["agent_status", "status"]), Some(["L7OK".to_owned(), "UP".to_owned()]));
    tell(&doorbell, "db/fail");
    await_row(&socket, ["DOWN (agent)", "100"]);
}

/// More bytes than a gate reads at once, and about the length of a long ClientHello.
const HELLO: [u8; 1500] = [0x16; 1500];

/// The state of a new connection: refused, reset, ended, or open.
fn knock(addr: SocketAddr) -> &'static str {
    // The kernel reports a reset once, on the first call.
    let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    let mut stream = match TcpStream::connect_timeout(&addr, Duration::from_secs(2)) {
        Ok(stream) => stream,
        Err(error) if is_reset(&error) => return "reset",
        Err(_) => return "refused",
    };
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    match stream.write_all(&HELLO).and_then(|()| stream.read(&mut [0])) {
        Ok(_) => "ended",
        Err(error) if is_reset(&error) => "reset",
        Err(_) => "open",
    }
}

fn gates_are_open_while_the_endpoint_is_up(engine: &str) {
    let gates = [("close", "refused"), ("reset", "reset"), ("accept-and-fin", "ended")];
    let ports = gates.map(|_| free_port());
    let mut more = String::new();
    for ((when_down, _), port) in gates.iter().zip(ports) {
        more.push_str(&format!(
            "[tcp_gate.{when_down}]\nbind = \"127.0.0.1:{port}\"\nwhen_down = \"{when_down}\"\n"
        ));
    }
    let mut doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}"));
    let addrs = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let all_are = |open: bool| {
        for ((_, when_down), addr) in gates.iter().zip(addrs) {
            let expected = if open { "open" } else { when_down };
            let came = wait_until(LIMIT, || knock(addr) == expected);
            assert!(came.is_some(), "{when_down}: {} is not {expected}", knock(addr));
        }
    };
    all_are(false);
    tell(&doorbell, "db/pass");
    all_are(true);
    tell(&doorbell, "db/fail");
    all_are(false);
    // Each of many connections ends in the same way: with a FIN, or with a reset.
    assert_eq!([(); 50].map(|()| knock(addrs[2])), ["ended"; 50]);
    assert_eq!([(); 50].map(|()| knock(addrs[1])), ["reset"; 50]);
    tell(&doorbell, "db/pass");
    all_are(true);
    // Many silent connections do not block others.
    let crowd: Vec<_> = (0..300).map(|_| TcpStream::connect(addrs[0]).unwrap()).collect();
    // More connections than the limits for open and for closing connections.
    assert_eq!([(); 20].map(|()| knock(addrs[0])), ["ended"; 20]);
    all_are(true);
    drop(crowd);
    doorbell.process.signal(Signal::TERM);
    all_are(false);
    doorbell.process.signal(Signal::INT);
    assert_eq!(doorbell.process.wait().0.code(), Some(0));
}

/// The files of these checks appear after the first run. Only the agent and the gate request
/// further runs.
fn on_demand_checks_run_for_agents_and_gates(engine: &str) {
    let scratch = Scratch::new();
    let (one, other) = (scratch.path("one"), scratch.path("other"));
    let port = free_port();
    let config = format!(
        "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n\
         [listener.probes]\nbind = \"127.0.0.1:0\"\n\
         [check_defaults]\nrise = 1\ninitial = \"down\"\n\
         [check.one]\ntype = \"file\"\npath = {one:?}\ncache = \"100ms\"\n\
         [check.other]\ntype = \"file\"\npath = {other:?}\ncache = \"100ms\"\n\
         [health.readyz]\nrequire = [\"one\"]\n[health.gate]\nrequire = [\"other\"]\n\
         [route.livez]\npath = \"/livez\"\nhealth = \"livez\"\n\
         [agent.lb]\nbind = \"127.0.0.1:0\"\nmaxconn = 40\n\
         [tcp_gate.lb]\nbind = \"127.0.0.1:{port}\"\nhealth = \"gate\"\n"
    );
    let doorbell = Doorbell::start_with(engine, &config);
    let (agent, gate) = (doorbell.addr_of(1), SocketAddr::from(([127, 0, 0, 1], port)));
    await_line(agent, b"", "down ready maxconn:40 # one\n");
    assert_eq!(knock(gate), "refused");
    std::fs::write(&one, "").unwrap();
    std::fs::write(&other, "").unwrap();
    await_line(agent, b"", "up ready 100% maxconn:40\n");
    assert!(wait_until(LIMIT, || knock(gate) == "open").is_some(), "the gate stays closed");
}
