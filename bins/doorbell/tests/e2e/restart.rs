//! Overlapping restarts: the new process gets the listening socket of the old process, without
//! effect on clients. The test owns the socket, as systemd does in production.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doorbell_testkit::peers::{End, Reply, exchange, wait_until};
use rustix::process::Signal;

use crate::support::{CONFIG, Doorbell, LIMIT, Process, Scratch, binary, on_both_engines};

on_both_engines! {
    overlapping_restarts_lose_no_request
}

/// Passes a socket as a service manager does (sd_listen_fds(3)): as descriptor 3, with environment
/// variables that describe it.
const HAND_OVER: &str = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
const RESTARTS: usize = 10;
const REQUESTS_PER_RESTART: usize = 400;

fn overlapping_restarts_lose_no_request(engine: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let scratch = Scratch::new();
    let file = scratch.write("doorbell.toml", &CONFIG.replace("127.0.0.1:0", "fd:3"));
    let start = || {
        let mut command = Command::new("sh");
        command.args(["-c", HAND_OVER]).arg(binary()).args(["serve", "-c", &file, "--driver", engine]);
        let process =
            Process::spawn_with_stdin(&mut command, OwnedFd::from(listener.try_clone().unwrap()).into());
        let ready = wait_until(LIMIT, || process.log().contains("is ready"));
        assert!(ready.is_some(), "{}", process.log());
        process
    };
    let mut running = start();
    let restarting = AtomicBool::new(true);
    let counts = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| ask_until(addr, &restarting))).collect();
        for _ in 0..RESTARTS {
            let next = start();
            running.signal(Signal::TERM);
            let (status, _) = running.wait();
            assert_eq!(status.code(), Some(0), "{}", running.log());
            running = next;
        }
        restarting.store(false, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let asked: usize = counts.iter().map(|(asked, _)| asked).sum();
    let lost: Vec<String> = counts.into_iter().flat_map(|(_, lost)| lost).collect();
    eprintln!("{engine}: {RESTARTS} overlapping restarts, {asked} requests, {} lost", lost.len());
    assert!(lost.is_empty(), "{} of {asked}: {:?}", lost.len(), &lost[..lost.len().min(5)]);
    drop(Doorbell { process: running, addr });
}

/// Sends at least its share of the requests, and continues until the restarts are over.
fn ask_until(addr: std::net::SocketAddr, restarting: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    while asked < RESTARTS * REQUESTS_PER_RESTART / 4 || restarting.load(Ordering::Relaxed) {
        asked += 1;
        match exchange(addr, b"GET /hello HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n") {
            Ok(got)
                if got.end == End::Fin
                    && Reply::parse(&got.bytes, false).is_some_and(|reply| reply.status == 200) => {}
            other => lost.push(format!("{other:?}")),
        }
    }
    (asked, lost)
}
