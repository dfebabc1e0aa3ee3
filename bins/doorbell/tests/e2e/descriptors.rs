//! Descriptors run out while it serves (EMFILE from accept): nobody is reset, little time is used, and it recovers.
//!
//! Does not know about: the other accept errors; those are injected in the engine's own tests.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Shape, misbehave, process, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Doorbell, LIMIT, on_both_engines};

on_both_engines! {
    running_out_of_descriptors_costs_little_and_ends
}

const SPARE: usize = 20;
const CLIENTS: usize = 60;
const CPU_SHARE_MAX: f64 = 0.05;

fn running_out_of_descriptors_costs_little_and_ends(engine: &str) {
    let doorbell = Doorbell::start(engine);
    let pid = doorbell.process.pid();
    let in_use = process::fds(&pid).unwrap();
    let before = limit(&doorbell, in_use + SPARE);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| ask(&doorbell)).collect();
    thread::sleep(Duration::from_millis(200));
    let (start, cpu) = (Instant::now(), process::thread_cpu(&pid, "").unwrap());
    thread::sleep(Duration::from_secs(2));
    let share = (process::thread_cpu(&pid, "").unwrap() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
    let fds = process::fds(&pid).unwrap();
    eprintln!("{engine}: {fds} descriptors of {} in use, {:.2} % of a core", in_use + SPARE, share * 100.0);
    // io_uring takes the limit when accept is armed, so a lower one does not reach an accept that is armed already.
    assert!(fds + 2 >= in_use + SPARE, "the limit was not reached");
    assert!(share <= CPU_SHARE_MAX, "{share}");
    prlimit(pid_of(&doorbell), Resource::Nofile, before).unwrap();
    let answered = Instant::now();
    for (n, client) in clients.iter_mut().enumerate() {
        misbehave::read_replies(client, 1, false).unwrap_or_else(|error| panic!("client {n}: {error}"));
    }
    // The longest pause after an accept error is 1 s.
    assert!(answered.elapsed() <= Duration::from_secs(2), "{:?}", answered.elapsed());
    drop(clients);
    let freed = wait_until(LIMIT, || process::fds(&pid).unwrap() <= in_use);
    assert!(freed.is_some(), "{in_use} descriptors became {}", process::fds(&pid).unwrap());
}

fn ask(doorbell: &Doorbell) -> TcpStream {
    let mut stream = TcpStream::connect(doorbell.addr).unwrap();
    stream.write_all(&Shape::Envoy.request(doorbell.addr, "/livez")).unwrap();
    stream
}

/// Lowers the soft limit of the running process and gives what it was.
fn limit(doorbell: &Doorbell, fds: usize) -> Rlimit {
    let limit =
        Rlimit { current: Some(fds as u64), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
    prlimit(pid_of(doorbell), Resource::Nofile, limit).unwrap()
}

fn pid_of(doorbell: &Doorbell) -> Option<Pid> {
    Pid::from_raw(doorbell.process.pid().parse().unwrap())
}
