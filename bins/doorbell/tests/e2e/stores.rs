//! The cost of a probe while the servers of `[shared]` and `[history.clickhouse]` fail: system
//! calls and allocations of the worker thread, compared with the same configuration without these
//! tables. Instructions are printed.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use doorbell_testkit::peers::{connect_from, misbehave, wait_until};
use rustix::process::Signal;

use crate::plain::{get, try_get};
use crate::support::{
    LIMIT, Process, Scratch, binary, free_addr, is_full, is_long_version, on_auto, on_both_engines,
    print_line, program,
};
use crate::upstream::{Does, Upstream};

on_both_engines! { failing_stores_add_no_system_call }
on_auto! { failing_stores_add_no_allocation }

/// What both servers do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Store {
    Hangs,
    Died,
    DiskIsFull,
    RepliesNonsense,
}

const STORES: [Store; 4] = [Store::Hangs, Store::Died, Store::DiskIsFull, Store::RepliesNonsense];

impl Store {
    /// Behaviour of Redis and of ClickHouse.
    fn does(self) -> [Does; 2] {
        match self {
            Self::Hangs | Self::Died => [Does::Hang, Does::Hang],
            Self::DiskIsFull => [
                Does::Says(b"-MISCONF unable to persist to disk\r\n".to_vec()),
                Does::reply(500, "Code: 243. DB::Exception: not enough space. (NOT_ENOUGH_SPACE)"),
            ],
            Self::RepliesNonsense => [Does::Says(vec![0xff; 999]), Does::Says(vec![0xff; 999])],
        }
    }
}

/// A running instance with one worker, and the directory of its traces.
struct Traced {
    process: Process,
    addr: SocketAddr,
    scratch: Scratch,
    stores: Option<[Upstream; 2]>,
}

impl Traced {
    /// Starts an instance under a program that traces it, whose arguments follow from the directory
    /// and end with the path of doorbell. Without a store, the tables are missing.
    fn start(
        engine: &str,
        store: Option<Store>,
        tracer: &Path,
        args: impl Fn(&Scratch) -> Vec<String>,
    ) -> Self {
        let (scratch, addr) = (Scratch::new(), free_addr());
        let stores = store.map(|store| store.does().map(Upstream::start));
        let [mut tables, mut share, mut shared] = [const { String::new() }; 3];
        if let Some([redis, clickhouse]) = &stores {
            tables = format!(
                "[shared]\nredis = \"redis://{}\"\ninstance = \"web-1\"\nannounce = true\ntimeout = \"100ms\"\n\
                 [history.clickhouse]\nurl = \"http://{}\"\ninstance = \"web-1\"\ninterval = \"100ms\"\n",
                redis.addr, clickhouse.addr
            );
            share = "share = true\n".to_owned();
            shared = "shared = { secret = \"0123456789abcdef0123456789abcdef\" }\n".to_owned();
        }
        let config = format!(
            "version = 1\n[runtime]\nworkers = 1\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [listener.probes]\nbind = \"{addr}\"\nkeep_alive = {{ max_requests = 100000 }}\n\
             [limit.probes]\nrate = \"1000000/s\"\nexempt_probes = false\n{shared}\
             [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n\
             [route.limited]\npath = \"/limited\"\nhealth = \"readyz\"\nlimit = \"probes\"\n\
             [check.db]\ntype = \"file\"\npath = \"/\"\ninterval = \"100ms\"\nmax_age = \"1h\"\nfall = 100\n{share}{tables}"
        );
        let file = scratch.write("doorbell.toml", &config);
        let mut command = Command::new(tracer);
        command.args(args(&scratch)).args(["serve", "-c", &file, "--driver", engine]);
        let process = Process::spawn(&mut command);
        let mut traced = Self { process, addr, scratch, stores };
        traced.await_that(|_| try_get(addr, "/readyz", &[]).is_ok_and(|reply| reply.status == 200));
        traced.await_that(|traced| traced.stores.iter().flatten().all(|store| store.conns() > 0));
        if store == Some(Store::Died) {
            traced.stores = None;
        }
        traced
    }

    /// Waits longer than other tests: a traced instance is many times slower.
    #[track_caller]
    fn await_that(&mut self, done: impl Fn(&mut Self) -> bool) {
        assert!(wait_until(10 * LIMIT, || done(self)).is_some(), "{}", self.process.log());
    }

    fn probe(&self, path: &str, conns: Conns, count: usize) {
        match conns {
            Conns::Closed => (0..count).for_each(|_| assert_eq!(get(self.addr, path, &[]).status, 200)),
            Conns::Kept => {
                let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let mut stream = connect_from(Ipv4Addr::LOCALHOST, self.addr).unwrap();
                for _ in 0..count {
                    stream.write_all(request.as_bytes()).unwrap();
                    misbehave::read_replies(&mut stream, 1, false).unwrap();
                }
            }
        }
    }

    /// ID of the worker thread.
    fn worker(&self) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.pid())).unwrap();
        let mut tasks = tasks.map(|task| task.unwrap());
        let is_worker = |task: &fs::DirEntry| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "doorbell-0\n")
        };
        tasks.find(is_worker).expect("a worker").file_name().into_string().unwrap()
    }
}

/// Whether each probe has a connection of its own.
#[derive(Clone, Copy, Debug)]
enum Conns {
    Closed,
    Kept,
}

const CONNS: [Conns; 2] = [Conns::Closed, Conns::Kept];

fn probes() -> usize {
    if is_full() { 2_000 } else { 200 }
}

/// An additional system call or allocation for each probe would be as many as there are probes. The
/// worker also wakes up at times for its timers.
#[track_caller]
fn adds_none(what: &str, with: usize, without: usize) {
    print_line(&format!("{what}: {with}, without the tables {without}, {} probes", probes()));
    assert!(with.saturating_sub(without) < probes() / 10, "{what}: {with}, without the tables {without}");
}

fn failing_stores_add_no_system_call(engine: &str) {
    let Some(strace) = program("strace") else { return };
    let without = system_calls(engine, None, &strace);
    for store in STORES {
        let with = system_calls(engine, Some(store), &strace);
        for (conns, (with, without)) in CONNS.into_iter().zip(with.into_iter().zip(without)) {
            adds_none(&format!("{engine}, {store:?}, {conns:?}: system calls"), with, without);
        }
    }
}

/// System calls of the worker thread for probes on new and on kept connections. Those that wait for
/// input are not counted, as their number depends on when a request arrives.
fn system_calls(engine: &str, store: Option<Store>, strace: &Path) -> [usize; 2] {
    const WAITS: [&str; 3] = ["epoll_", "io_uring_enter(", "restart_syscall("];
    // The tracer is another process than the one that was started, which becomes the instance.
    let args = |scratch: &Scratch| {
        let (trace, binary) = (scratch.path("trace"), binary());
        ["-D", "-ff", "-o", trace.to_str().unwrap(), binary.to_str().unwrap()].map(str::to_owned).to_vec()
    };
    let traced = Traced::start(engine, store, strace, args);
    let file = traced.scratch.path(&format!("trace.{}", traced.worker()));
    let waits = |line: &str| line.contains("EAGAIN") || WAITS.iter().any(|name| line.starts_with(name));
    let count = || fs::read_to_string(&file).unwrap().lines().filter(|line| !waits(line)).count();
    CONNS.map(|conns| {
        let before = count();
        traced.probe("/limited", conns, probes());
        thread::sleep(Duration::from_millis(20));
        count() - before
    })
}

fn failing_stores_add_no_allocation(_engine: &str) {
    if !is_long_version("allocations and instructions of a probe") {
        return;
    }
    let Some(valgrind) = program("valgrind") else { return };
    let without = costs(None, &valgrind);
    for store in STORES {
        let with = costs(Some(store), &valgrind);
        adds_none(&format!("{store:?}: allocations"), with.allocations, without.allocations);
        let [with, without] = [&with, &without].map(|costs| costs.instructions);
        // The number of turns depends on when requests arrive, and changes this figure by 2 %.
        print_line(&format!("{store:?}: {with} instructions, without the tables {without}"));
    }
}

/// Costs of the worker thread.
#[derive(Debug, Default)]
struct Costs {
    allocations: usize,
    instructions: usize,
}

/// Costs of probes on a kept connection, with the start of the worker: on a new connection, the
/// turns of the worker depend on when the request arrives. The driver is epoll, as valgrind lacks
/// io_uring.
fn costs(store: Option<Store>, valgrind: &Path) -> Costs {
    let args = |scratch: &Scratch| {
        let out = format!("--callgrind-out-file={}", scratch.path("costs").display());
        // A packaged binary has no symbols, by which the worker is found.
        vec![
            "--tool=callgrind".into(),
            "--separate-threads=yes".into(),
            out,
            env!("CARGO_BIN_EXE_doorbell").into(),
        ]
    };
    let mut traced = Traced::start("epoll", store, valgrind, args);
    traced.probe("/readyz", Conns::Kept, probes());
    traced.process.signal(Signal::TERM);
    traced.await_that(|traced| traced.process.has_ended());
    let files = fs::read_dir(traced.scratch.path("")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let mut workers = texts.filter(|text| text.contains("epoll_wait") && text.contains("doorbell::worker"));
    read_costs(&workers.next().unwrap_or_else(|| panic!("no costs of a worker in {files:?}")))
}

/// Reads a file of callgrind.
fn read_costs(text: &str) -> Costs {
    const ALLOCATING: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];
    let mut costs = Costs::default();
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut called = "";
    for line in text.lines() {
        if let Some((id, name)) = line.split_once("fn=").and_then(|(_, name)| name.split_once(' ')) {
            names.insert(id, name);
        }
        if let Some(name) = line.strip_prefix("cfn=") {
            let id = name.split(' ').next().unwrap_or_default();
            called = names.get(id).copied().unwrap_or_default();
        } else if let Some(calls) = line.strip_prefix("calls=") {
            let count: usize = calls.split(' ').next().unwrap_or_default().parse().unwrap();
            costs.allocations += if ALLOCATING.contains(&called) { count } else { 0 };
        } else if let Some(total) = line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")) {
            costs.instructions = total.trim().parse().unwrap();
        }
    }
    costs
}
