//! Options of sockets: what the configuration sets is what connections have, also after a reload.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::Socket;

use crate::generations::Reloaded;
use crate::support::{LIMIT, Scratch, on_auto};

on_auto! {
    a_reload_changes_the_options_of_kept_sockets
}

/// Positions of the addresses in the log.
const PLAIN: usize = 0;
const WEB: usize = 1;
const UDP: usize = 2;

const SET: &str = "receive_buffer = \"32KiB\"\nsend_buffer = \"64KiB\"\nkeepalive = \"90s\"\ndscp = 46\n\
                   nodelay = false\nfast_open = 16\n";

#[derive(Debug, PartialEq)]
struct Options {
    buffers: (usize, usize),
    keepalive: Option<Duration>,
    tos: u32,
    nodelay: bool,
}

fn config(folder: &std::path::Path, tcp: &str, udp: &str) -> String {
    format!(
        "version = 1\n[lifecycle]\nreload = \"SIGHUP\"\n[control]\nsocket = \"{}/control.sock\"\n\
         [listener.plain]\nbind = \"127.0.0.1:0\"\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [listener.web.tcp]\n{tcp}[udp.echo]\nbind = \"127.0.0.1:0\"\nreply = \"echo\"\n{udp}\
         [route.live]\nlistener = [\"plain\", \"web\"]\npath = \"/livez\"\nhealth = \"livez\"\n",
        folder.display()
    )
}

/// Copies of the sockets of the instance that pass this test.
fn sockets(reloaded: &Reloaded, is_wanted: impl Fn(&Socket) -> bool) -> Vec<Socket> {
    let pid = reloaded.doorbell.process.pid();
    let process = pidfd_open(Pid::from_raw(pid.parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let numbers = fds.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap());
    // A descriptor may have been closed since.
    let copies = numbers.filter_map(|fd| pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok());
    copies.map(Socket::from).filter(is_wanted).collect()
}

/// A client that has got a reply, and the options of its connection in the instance.
fn connect(reloaded: &Reloaded, position: usize) -> (TcpStream, Options) {
    let mut client = TcpStream::connect(reloaded.doorbell.addr_of(position)).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(client.read(&mut [0; 512]).unwrap() > 0);
    let options = options(reloaded, client.local_addr().unwrap());
    (client, options)
}

fn options(reloaded: &Reloaded, client: SocketAddr) -> Options {
    let is_wanted = |socket: &Socket| socket.peer_addr().is_ok_and(|peer| peer.as_socket() == Some(client));
    let conn = sockets(reloaded, is_wanted).pop().expect("the connection is open");
    let keepalive = conn.keepalive().unwrap().then(|| conn.tcp_keepalive_time().unwrap());
    Options {
        buffers: (conn.recv_buffer_size().unwrap(), conn.send_buffer_size().unwrap()),
        keepalive,
        tos: conn.tos_v4().unwrap(),
        nodelay: conn.tcp_nodelay().unwrap(),
    }
}

/// The sizes of the queues of datagrams.
fn datagram_buffers(reloaded: &Reloaded) -> BTreeSet<usize> {
    let addr = reloaded.doorbell.addr_of(UDP);
    let is_wanted = |socket: &Socket| {
        socket.r#type().is_ok_and(|kind| kind == socket2::Type::DGRAM)
            && socket.local_addr().is_ok_and(|local| local.as_socket() == Some(addr))
    };
    sockets(reloaded, is_wanted).iter().map(|socket| socket.recv_buffer_size().unwrap()).collect()
}

fn a_reload_changes_the_options_of_kept_sockets(engine: &str) {
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let reloaded = Reloaded::start_in(scratch, engine, &config(&folder, "", ""));
    let reload = |tcp, udp| {
        std::fs::write(&reloaded.file, config(&folder, tcp, udp)).unwrap();
        reloaded.say(&["reload"]);
    };
    let (_plain, default) = connect(&reloaded, PLAIN);
    let default_datagrams = datagram_buffers(&reloaded);
    assert_eq!((default.keepalive, default.tos, default.nodelay), (None, 0, true));
    // The kernel doubles a size (socket(7)).
    let idle = Some(Duration::from_secs(90));
    let set = Options { buffers: (64 << 10, 128 << 10), keepalive: idle, tos: 46 << 2, nodelay: false };
    reload(SET, "receive_buffer = \"32KiB\"\n");
    let (_conn, found) = connect(&reloaded, WEB);
    assert_eq!(found, set);
    assert_eq!(datagram_buffers(&reloaded), BTreeSet::from([64 << 10]));
    reload("", "");
    // Kernels before 5.14 keep the sizes.
    let (_conn, found) = connect(&reloaded, WEB);
    assert_eq!(found, default);
    assert_eq!(datagram_buffers(&reloaded), default_datagrams);
    assert_eq!(connect(&reloaded, PLAIN).1, default);
}
