//! Listeners whose workers pass connections to each other: each worker gets its share, and a reload
//! may change the balance.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use doorbell_testkit::peers::{misbehave, wait_until};

use crate::generations::Reloaded;
use crate::plain::get;
use crate::support::{LIMIT, Scratch, on_both_engines};

on_both_engines! {
    each_worker_gets_its_share
    a_reload_changes_the_balance
}

const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn config(folder: &std::path::Path, balance: &str) -> String {
    let folder = folder.display();
    format!(
        "version = 1\n[runtime]\nworkers = 3\n[lifecycle]\nreload = \"SIGHUP\"\n\
         [control]\nsocket = \"{folder}/control.sock\"\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\nbalance = \"{balance}\"\n\
         [listener.local]\nbind = \"unix:{folder}/local.sock\"\nbalance = \"least-connections\"\n\
         [route.live]\nlistener = [\"web\", \"local\"]\npath = \"/livez\"\nhealth = \"livez\"\n"
    )
}

fn ask(mut stream: impl Read + Write) {
    stream.write_all(REQUEST).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
}

/// A connection that stays open after a reply.
fn kept(mut stream: UnixStream) -> UnixStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut byte = [0; 512];
    assert!(stream.read(&mut byte).unwrap() > 0);
    stream
}

/// The values of a family with the label `worker`, by worker.
fn by_worker(admin: SocketAddr, family: &str) -> Vec<f64> {
    let text = String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
    let values = text.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix("{worker="));
    values.map(|value| value.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

fn each_worker_gets_its_share(engine: &str) {
    let scratch = Scratch::new();
    let text = config(&scratch.path(""), "round-robin");
    let reloaded = Reloaded::start_in(scratch, engine, &text);
    let (web, admin) = (reloaded.doorbell.addr_of(0), reloaded.doorbell.addr_of(1));
    let accepted = || by_worker(admin, "doorbell_worker_connections_accepted_total");
    (0..30).for_each(|_| ask(TcpStream::connect(web).unwrap()));
    wait_until(LIMIT, || accepted() == [10.0; 3]).unwrap_or_else(|| panic!("{:?}", accepted()));
    let path = reloaded.scratch.path("local.sock");
    let held: Vec<_> = (0..9).map(|_| kept(UnixStream::connect(&path).unwrap())).collect();
    let live = || by_worker(admin, "doorbell_worker_connections_active");
    wait_until(LIMIT, || live() == [3.0; 3]).unwrap_or_else(|| panic!("{:?}", live()));
    drop(held);
    wait_until(LIMIT, || live() == [0.0; 3]).unwrap_or_else(|| panic!("{:?}", live()));
}

/// A change from one socket for all workers to one socket for each worker needs a restart.
fn a_reload_changes_the_balance(engine: &str) {
    let scratch = Scratch::new();
    let folder = scratch.path("");
    let reloaded = Reloaded::start_in(scratch, engine, &config(&folder, "round-robin"));
    let write = |balance| std::fs::write(&reloaded.file, config(&folder, balance)).unwrap();
    let web = reloaded.doorbell.addr_of(0);
    for balance in ["least-connections", "kernel", "round-robin"] {
        write(balance);
        reloaded.say(&["reload"]);
        (0..10).for_each(|_| ask(TcpStream::connect(web).unwrap()));
    }
    write("source-hash");
    let refused = reloaded.run(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("restart with a TCP address"), "{said}");
    let mut stream = TcpStream::connect(web).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    misbehave::read_replies(&mut stream, 1, false).unwrap();
}
