//! Descriptors run out while serving (EMFILE from accept): no connection is reset, CPU use stays
//! low, and serving recovers. The engine's own tests inject the other accept errors.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Shape, misbehave, process, wait_until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Doorbell, LIMIT, Scratch, at_most, binary, on_both_engines};
use crate::upstream::{Does, Upstream};

on_both_engines! {
    running_out_of_descriptors_costs_little_and_ends
    clients_leave_checks_their_descriptors
    clients_leave_sockets_that_are_kept_their_descriptors
}

const SPARE: usize = 20;
const CLIENTS: usize = 60;
const CPU_SHARE_MAX: f64 = 0.05;

/// Number of hanging checks: more than the descriptors reserved for uses other than clients.
const HUNG: usize = 120;

fn running_out_of_descriptors_costs_little_and_ends(engine: &str) {
    let doorbell = Doorbell::start(engine);
    let pid = doorbell.process.pid();
    let in_use = doorbell.fds_at_rest();
    let before = limit(&doorbell, in_use + SPARE);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| ask(&doorbell)).collect();
    thread::sleep(Duration::from_millis(200));
    let (start, cpu) = (Instant::now(), process::thread_cpu(&pid, "").unwrap());
    thread::sleep(Duration::from_secs(2));
    let share = (process::thread_cpu(&pid, "").unwrap() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
    let fds = process::fds(&pid).unwrap();
    eprintln!("{engine}: {fds} descriptors of {} in use, {:.2} % of a core", in_use + SPARE, share * 100.0);
    // io_uring reads the limit when an accept is armed, so a lower limit does not affect an accept
    // that is already armed.
    assert!(fds + 2 >= in_use + SPARE, "the limit was not reached");
    at_most(format_args!("{engine}: share of a core without descriptors"), share, CPU_SHARE_MAX);
    prlimit(pid_of(&doorbell), Resource::Nofile, before).unwrap();
    let answered = Instant::now();
    for (n, client) in clients.iter_mut().enumerate() {
        misbehave::read_replies(client, 1, false).unwrap_or_else(|error| panic!("client {n}: {error}"));
    }
    // The longest pause after an accept error is 1 s.
    at_most(format_args!("{engine}: until all are answered"), answered.elapsed(), Duration::from_secs(2));
    drop(clients);
    let freed = wait_until(LIMIT, || process::fds(&pid).unwrap() <= in_use);
    assert!(freed.is_some(), "{in_use} descriptors became {}", process::fds(&pid).unwrap());
}

/// Silent clients up to the limit, hanging checks with one connection each, and one working check.
fn clients_leave_checks_their_descriptors(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let hung = Upstream::start(Does::Hang);
    let mut config = format!(
        "version = 1\n[runtime]\nworkers = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\ntimeouts = {{ header = \"60s\" }}\n\
         [check_defaults]\ntimeout = \"2s\"\nrise = 1\nfall = 1\n\
         [check.app]\ntype = \"http\"\nurl = \"{}\"\ninterval = \"100ms\"\ntimeout = \"100ms\"\nmax_age = \"10s\"\n",
        upstream.url("/")
    );
    for at in 0..HUNG {
        let url = hung.url("/");
        config
            .push_str(&format!("[check.hung{at}]\ntype = \"http\"\nurl = \"{url}\"\nseverity = \"info\"\n"));
    }
    let scratch = Scratch::new();
    let file = scratch.write("doorbell.toml", &config);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 400 && exec \"$0\" serve -c \"$1\" --driver \"$2\""]);
    command.arg(binary()).args([&file, engine]);
    let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"));
    let clients: Vec<TcpStream> = (0..420).map(|_| TcpStream::connect(doorbell.addr).unwrap()).collect();
    let all_hung = wait_until(LIMIT, || hung.conns() >= HUNG);
    assert!(all_hung.is_some(), "{}", doorbell.process.log());
    let log_says = |what: &str| wait_until(LIMIT, || doorbell.process.log().contains(what));
    assert!(log_says("check app: up").is_some(), "{}", doorbell.process.log());
    upstream.now(Does::reply(500, ""));
    assert!(log_says("check app: down").is_some(), "{}", doorbell.process.log());
    upstream.now(Does::reply(200, ""));
    let is_up_again = || doorbell.process.log().matches("check app: up").count() == 2;
    assert!(wait_until(LIMIT, is_up_again).is_some(), "{}", doorbell.process.log());
    let log = doorbell.process.log();
    assert!(!log.contains("too many open files"), "{log}");
    drop(clients);
}

/// If a service manager keeps sockets, fewer connections are allowed: descriptors are reserved for
/// a copy of each kept socket, a temporary copy of every socket, and the message to the manager.
fn clients_leave_sockets_that_are_kept_their_descriptors(engine: &str) {
    let scratch = Scratch::new();
    let file = scratch.write(
        "doorbell.toml",
        "version = 1\n[runtime]\nworkers = 2\n[listener.a]\nbind = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n",
    );
    let conns = |room: Option<&str>| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 400 && exec \"$0\" serve -c \"$1\" --driver \"$2\""]);
        command.arg(binary()).args([&file, engine]);
        match room {
            Some(room) => command.env("FDSTORE", room),
            None => command.env_remove("FDSTORE"),
        };
        let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"));
        let log = doorbell.process.log();
        let (before, _) = log.split_once(" connections: RLIMIT_NOFILE allows 400").expect(&log);
        before.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let most = conns(None);
    assert_eq!((most - conns(Some("64")), most - conns(Some("3")), conns(Some("0"))), (9, 8, most));
}

fn ask(doorbell: &Doorbell) -> TcpStream {
    let mut stream = TcpStream::connect(doorbell.addr).unwrap();
    stream.write_all(&Shape::Envoy.request(doorbell.addr, "/livez")).unwrap();
    stream
}

/// Lowers the soft limit of the running process and returns the previous one.
fn limit(doorbell: &Doorbell, fds: usize) -> Rlimit {
    let limit =
        Rlimit { current: Some(fds as u64), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
    prlimit(pid_of(doorbell), Resource::Nofile, limit).unwrap()
}

fn pid_of(doorbell: &Doorbell) -> Option<Pid> {
    Pid::from_raw(doorbell.process.pid().parse().unwrap())
}
