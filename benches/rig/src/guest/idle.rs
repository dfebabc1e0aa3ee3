//! Idle connections during a load. Each connection sends one request, is silent while the load
//! runs, and is checked afterwards.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::plan::PATH;

/// Connections per source address. The number is below the limit per address of every server.
const PER_ADDR: u32 = 500;
/// First source port of idle connections. It is above the guest's `ip_local_port_range`, so that
/// idle connections never collide with clients of the load.
const PORT_FIRST: u16 = 65_001;
/// One in this many connections sends another request after the load, because a server may have
/// lost a connection without closing it.
const ASKED_AGAIN_EVERY: usize = 97;
/// Number of groups in which the connections are opened, with a pause between groups. Periodic work
/// of a server for each connection is then spread over time, as with independent clients.
const GROUPS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(650);
/// Time limit for a reply, which usually takes microseconds.
const REPLY_WAIT: Duration = Duration::from_secs(10);
const REPLY_LEN_MAX: usize = 4096;
/// Maximum number of lost connections to list individually.
const TOLD_MAX: usize = 3;

/// The source address of connection number `at`.
pub(super) fn source(at: u32) -> SocketAddrV4 {
    let addr = u32::from(Ipv4Addr::new(127, 0, 1, 1)) + at / PER_ADDR;
    let port = u32::from(PORT_FIRST) + at % PER_ADDR;
    SocketAddrV4::new(addr.into(), u16::try_from(port).expect("they end below 65,536"))
}

/// Opens `count` connections to `server`, spread over a minute, and sends a request on each.
pub(super) fn open(
    server: SocketAddrV4,
    count: u32,
    source: impl Fn(u32) -> SocketAddrV4,
    sleep: impl Fn(Duration),
) -> Result<Vec<TcpStream>, String> {
    let group = count.div_ceil(GROUPS).max(1);
    let mut conns = Vec::new();
    for at in 0..count {
        if at.is_multiple_of(group) {
            sleep(PAUSE);
        }
        let opened = open_one(server, source(at)).and_then(|mut conn| ask(&mut conn).map(|()| conn));
        conns.push(opened.map_err(|error| format!("idle connection {at}: {error}"))?);
    }
    Ok(conns)
}

/// Checks that each connection is open and has no unexpected bytes, and that one in
/// [`ASKED_AGAIN_EVERY`] still gets a reply.
pub(super) fn check(conns: &mut [TcpStream]) -> Result<(), String> {
    let told = |at: usize, seen: io::Result<()>| seen.err().map(|error| format!("{at}: {error}"));
    let mut lost: Vec<String> =
        conns.iter().enumerate().filter_map(|(at, conn)| told(at, quiet(conn))).collect();
    if lost.is_empty() {
        let again = conns.iter_mut().enumerate().step_by(ASKED_AGAIN_EVERY);
        lost.extend(again.filter_map(|(at, conn)| told(at, ask(conn))));
    }
    if lost.is_empty() {
        return Ok(());
    }
    let (count, all) = (lost.len(), conns.len());
    lost.truncate(TOLD_MAX);
    Err(format!("{count} of {all} idle connections were lost: {}", lost.join(", ")))
}

fn open_one(server: SocketAddrV4, source: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The connection ends with a reset, so that no TIME_WAIT blocks its address for the next
    // server.
    set_socket_linger(&socket, Some(Duration::ZERO))?;
    bind(&socket, &source)?;
    connect(&socket, &server)?;
    let conn = TcpStream::from(socket);
    conn.set_read_timeout(Some(REPLY_WAIT))?;
    Ok(conn)
}

/// Sends one request and reads the complete reply, whose body is the same for every server.
fn ask(conn: &mut TcpStream) -> io::Result<()> {
    conn.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: idle\r\n\r\n").as_bytes())?;
    let mut reply = [0; REPLY_LEN_MAX];
    let mut len = 0;
    while !reply[..len].ends_with(b"\r\n\r\nok\n") {
        match conn.read(&mut reply[len..])? {
            0 => return Err(io::Error::other("the reply is incomplete or too long")),
            count => len += count,
        }
    }
    if reply.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err(io::Error::other("the status is not 200")) }
}

/// Returns an error unless the connection is open and has no readable bytes.
fn quiet(conn: &TcpStream) -> io::Result<()> {
    conn.set_nonblocking(true)?;
    let seen = conn.peek(&mut [0]);
    conn.set_nonblocking(false)?;
    match seen {
        Ok(0) => Err(io::Error::other("closed by the server")),
        Ok(_) => Err(io::Error::other("an unexpected byte")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};
    use std::collections::BTreeSet;
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    const GOOD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";

    fn any_port(_: u32) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)
    }

    /// A server that replies once on each of `count` connections and returns the connections.
    fn server(count: usize, reply: &'static str) -> (SocketAddrV4, JoinHandle<Vec<TcpStream>>) {
        let listener = TcpListener::bind(any_port(0)).unwrap();
        let std::net::SocketAddr::V4(addr) = listener.local_addr().unwrap() else { panic!("not IPv4") };
        let serve = move || {
            let answered = listener.incoming().take(count).map(|conn| {
                let mut conn = conn.unwrap();
                answer(&mut conn, reply);
                conn
            });
            answered.collect()
        };
        (addr, thread::spawn(serve))
    }

    fn answer(conn: &mut TcpStream, reply: &str) {
        assert!(conn.read(&mut [0; 1024]).unwrap() > 0);
        // The reply is sent in two pieces, because real replies may be split.
        let (head, rest) = reply.split_at(reply.len() / 2);
        conn.write_all(head.as_bytes()).unwrap();
        conn.write_all(rest.as_bytes()).unwrap();
    }

    #[test]
    fn sources_are_unique_and_out_of_the_way() {
        let all: BTreeSet<SocketAddrV4> = (0..50_000).map(source).collect();
        assert_eq!(all.len(), 50_000);
        assert!(all.iter().all(|source| source.ip().is_loopback() && *source.ip() != Ipv4Addr::LOCALHOST));
        assert!(all.iter().all(|source| source.port() >= PORT_FIRST));
        let hosts: BTreeSet<Ipv4Addr> = all.iter().map(|source| *source.ip()).collect();
        assert_eq!(hosts.len(), 100);
    }

    #[test]
    fn open_idle_connections_are_checked() {
        let (addr, served) = server(3, GOOD);
        let mut idle = open(addr, 3, any_port, drop).unwrap();
        let mut conns = served.join().unwrap();
        let first = thread::spawn(move || {
            answer(&mut conns[0], GOOD);
            conns
        });
        assert_eq!(check(&mut idle), Ok(()));
        drop(first.join().unwrap());
    }

    #[test]
    fn a_changed_idle_connection_is_lost() {
        type Change = fn(&mut Vec<TcpStream>);
        let changes: [(Change, &str); 3] = [
            (|conns| drop(conns.remove(1)), "1: closed by the server"),
            (|conns| conns[1].write_all(b"x").unwrap(), "1: an unexpected byte"),
            (
                |conns| {
                    set_socket_linger(&conns[1], Some(Duration::ZERO)).unwrap();
                    drop(conns.remove(1));
                },
                "1: Connection reset",
            ),
        ];
        for (change, what) in changes {
            let (addr, served) = server(3, GOOD);
            let mut idle = open(addr, 3, any_port, drop).unwrap();
            let mut conns = served.join().unwrap();
            change(&mut conns);
            // A busy kernel delivers later. `poll(2)` does not take an error away, as a read would.
            poll(&mut [PollFd::new(&idle[1], PollFlags::IN)], None).unwrap();
            let why = check(&mut idle).unwrap_err();
            assert!(why.starts_with("1 of 3 idle connections were lost: ") && why.contains(what), "{why}");
        }
    }

    #[test]
    fn another_reply_is_a_failure() {
        for reply in ["HTTP/1.1 503 No\r\n\r\nok\n", "x"] {
            let (addr, served) = server(1, reply);
            let end = thread::spawn(move || drop(served.join().unwrap()));
            let why = open(addr, 1, any_port, drop).unwrap_err();
            assert!(why.starts_with("idle connection 0: "), "{why}");
            end.join().unwrap();
        }
    }
}
