//! `[udp.NAME]`: replies by the state of an endpoint, closed ports, reloads and counters.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::agents::{CONFIG, tell};
use crate::plain::get;
use crate::support::{Doorbell, LIMIT, Scratch, free_port, on_both_engines};

on_both_engines! {
    datagrams_get_their_replies
    a_port_is_closed_while_the_endpoint_is_down
    a_reload_keeps_the_port_and_the_datagrams
}

/// Positions of the addresses in the log: the listener, then the datagram listeners.
const FIRST: usize = 1;

fn client(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.connect(server).unwrap();
    client
}

fn ask(client: &UdpSocket, payload: &[u8]) -> Result<Vec<u8>, ErrorKind> {
    let mut reply = vec![0; 2_048];
    client.send(payload).map_err(|error| error.kind())?;
    let len = client.recv(&mut reply).map_err(|error| error.kind())?;
    reply.truncate(len);
    Ok(reply)
}

fn datagrams_get_their_replies(engine: &str) {
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let more = r#"
[udp.echo]
bind = "127.0.0.1:0"
reply = "echo"

[udp.fixed]
bind = "127.0.0.1:0"
reply = "fixed"
hex = "ff00"
amplification = 2

[udp.ready]
bind = "127.0.0.1:0"
text = "up"
"#;
    let doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}[admin]\nbind = \"{admin}\"\n"));
    let [echo, fixed, ready] = [0, 1, 2].map(|at| client(doorbell.addr_of(FIRST + at)));
    assert_eq!(ask(&echo, b"hello"), Ok(b"hello".to_vec()));
    assert_eq!(ask(&fixed, b"x"), Ok(vec![0xff, 0]));
    // Gets no reply: the first reply must be the one to a later datagram.
    ready.send(b"down").unwrap();
    tell(&doorbell, "db/pass");
    let is_up = || {
        ready.set_read_timeout(Some(LIMIT / 100)).unwrap();
        ask(&ready, b"up?") == Ok(b"up".to_vec())
    };
    assert!(wait_until(LIMIT, is_up).is_some(), "{}", doorbell.process.log());
    let text = || String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
    for line in [
        "doorbell_datagrams_total{listener=\"echo\",result=\"replied\"} 1",
        "doorbell_datagrams_total{listener=\"fixed\",result=\"received\"} 1",
    ] {
        // A batch is counted after its replies have left.
        assert!(wait_until(LIMIT, || text().contains(line)).is_some(), "{line}: {}", text());
    }
}

fn a_port_is_closed_while_the_endpoint_is_down(engine: &str) {
    let more = "[udp.ready]\nbind = \"127.0.0.1:0\"\nwhen_down = \"unreachable\"\n";
    let mut doorbell = Doorbell::start_with(engine, &format!("{CONFIG}{more}"));
    let client = client(doorbell.addr_of(FIRST));
    let is_refused = || {
        let answer = ask(&client, b"?");
        answer == Err(ErrorKind::ConnectionRefused)
    };
    let is_open = || ask(&client, b"?") == Ok(b"?".to_vec());
    client.set_read_timeout(Some(LIMIT / 100)).unwrap();
    assert!(wait_until(LIMIT, is_refused).is_some());
    for (result, is_up) in [("db/pass", true), ("db/fail", false), ("db/pass", true)] {
        tell(&doorbell, result);
        let changed = if is_up { wait_until(LIMIT, is_open) } else { wait_until(LIMIT, is_refused) };
        assert!(changed.is_some(), "{result}: {}", doorbell.process.log());
    }
    // A drain closes the port before the process ends.
    doorbell.process.signal(Signal::TERM);
    assert!(wait_until(LIMIT, is_refused).is_some());
    assert!(!doorbell.process.has_ended());
    doorbell.process.signal(Signal::INT);
    assert_eq!(doorbell.process.wait().0.code(), Some(0));
}

fn a_reload_keeps_the_port_and_the_datagrams(engine: &str) {
    let scratch = Scratch::new();
    let config = |reply: &str| format!("{CONFIG}[udp.a]\nbind = \"127.0.0.1:0\"\n{reply}\n");
    let file = scratch.write("doorbell.toml", &config("reply = \"echo\""));
    let doorbell = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]).unwrap();
    let client = client(doorbell.addr_of(FIRST));
    assert_eq!(ask(&client, b"ping"), Ok(b"ping".to_vec()));
    scratch.write("doorbell.toml", &config("reply = \"fixed\"\ntext = \"pong\""));
    doorbell.process.signal(Signal::HUP);
    let has_changed = || ask(&client, b"ping").expect("no datagram is lost") == b"pong";
    assert!(wait_until(LIMIT, has_changed).is_some(), "{}", doorbell.process.log());
}
