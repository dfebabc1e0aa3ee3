//! HAProxy in front, with the PROXY protocol: its checks do not count as clients, and clients are
//! identified by their own address.

use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use doorbell_testkit::peers::wait_until;

use crate::haproxy::state;
use crate::plain::{request, send_from};
use crate::support::{Doorbell, LIMIT, Process, Scratch, free_port, on_both_engines, program};

on_both_engines! {
    version_1
    version_2
    version_2_with_tlvs
    checks_send_a_local_header
}

/// Addresses of clients.
const CLIENTS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 5), Ipv4Addr::new(127, 0, 0, 6)];

fn version_1(engine: &str) {
    behind_haproxy(engine, "accept", "send-proxy");
    behind_haproxy(engine, "require", "send-proxy check-send-proxy");
}

fn version_2(engine: &str) {
    behind_haproxy(engine, "accept", "send-proxy-v2");
}

fn version_2_with_tlvs(engine: &str) {
    behind_haproxy(engine, "require", "send-proxy-v2 proxy-v2-options crc32c,unique-id check-send-proxy");
}

fn checks_send_a_local_header(engine: &str) {
    behind_haproxy(engine, "require", "send-proxy-v2 check-send-proxy");
}

/// Runs HAProxy on the trusted address 127.0.0.1, with these `server` options, in front of a
/// listener with this PROXY setting.
fn behind_haproxy(engine: &str, demand: &str, server: &str) {
    let Some(haproxy) = program("haproxy") else { return };
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[log]\naccess = \"all\"\n[limit.three]\nrate = \"1/h\"\nburst = 3\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\nproxy_protocol = {demand:?}\ntrusted_proxies = \"127.0.0.1\"\n\
             [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n\
             [route.hello]\npath = \"/hello\"\nlimit = \"three\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    );
    let scratch = Scratch::new();
    let (socket, port) = (scratch.path("stats.sock"), free_port());
    let config = format!(
        "global\n  stats socket {socket} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n\
         frontend front\n  bind 127.0.0.1:{port}\n  unique-id-format %ci-%ts\n  default_backend back\n\
         backend back\n  option httpchk GET /readyz\n  server web {addr} check inter 50ms fall 2 rise 2 {server}\n",
        socket = socket.display(),
        addr = doorbell.addr,
    );
    let file = scratch.write("haproxy.cfg", &config);
    let process = Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file]));
    let front = ([127, 0, 0, 1], port).into();
    let up = wait_until(LIMIT, || {
        TcpStream::connect(front).is_ok() && state(&socket).is_some_and(|state| state == "UP/L7OK")
    });
    assert!(up.is_some(), "{:?}\n{}\n{}", state(&socket), process.log(), doorbell.process.log());
    for client in CLIENTS {
        let statuses: Vec<u16> =
            (0..4).map(|_| send_from(client, front, &request("/hello", &[])).unwrap().status).collect();
        assert_eq!(statuses, [200, 200, 200, 429], "{client} must have its own quota");
    }
    let lines = |client: Ipv4Addr, path: &str| {
        let (start, request) = (format!("{client} - "), format!("\"GET {path} "));
        let log = doorbell.process.log();
        log.lines().filter(|line| line.starts_with(&start) && line.contains(&request)).count()
    };
    let logged = wait_until(LIMIT, || CLIENTS.iter().all(|client| lines(*client, "/hello") == 4));
    assert!(logged.is_some(), "{}", doorbell.process.log());
    assert_eq!(CLIENTS.map(|client| lines(client, "/readyz")), [0, 0]);
    let checked = wait_until(LIMIT, || lines(Ipv4Addr::LOCALHOST, "/readyz") >= 3);
    assert!(checked.is_some(), "checks must count as HAProxy's own: {}", doorbell.process.log());
    assert_eq!(state(&socket).as_deref(), Some("UP/L7OK"), "{}", doorbell.process.log());
}
