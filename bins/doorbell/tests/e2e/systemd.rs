//! Messages to a service manager, received by a socket of the test; and inherited sockets.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::plain::get;
use crate::support::{CONFIG, Doorbell, LIMIT, Process, Scratch, binary, free_addr, program, skipped};
use doorbell_testkit::peers::wait_until;

/// The manager's end of `NOTIFY_SOCKET`.
struct Manager {
    socket: UnixDatagram,
    said: Vec<String>,
    scratch: Scratch,
}

impl Manager {
    fn new() -> Self {
        let scratch = Scratch::new();
        let socket = UnixDatagram::bind(scratch.path("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { socket, said: Vec::new(), scratch }
    }

    fn start(&self, config: &str, watchdog_us: Option<u32>) -> Doorbell {
        let file = self.scratch.write("doorbell.toml", config);
        let mut command = Command::new(binary());
        command.args(["serve", "-c", &file]).env("NOTIFY_SOCKET", self.scratch.path("notify"));
        if let Some(watchdog_us) = watchdog_us {
            command.env("WATCHDOG_USEC", watchdog_us.to_string());
        }
        Doorbell::try_start_command(&mut command).unwrap()
    }

    fn next(&mut self) -> &str {
        let mut bytes = [0; 1 << 16];
        let len =
            self.socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{error} after {:?}", self.said));
        self.said.push(String::from_utf8(bytes[..len].to_vec()).unwrap());
        self.said.last().unwrap()
    }

    /// Receives messages until one contains this text, and returns it.
    fn until(&mut self, wanted: &str) -> String {
        loop {
            let message = self.next();
            if message.lines().any(|line| line.starts_with(wanted)) {
                return message.to_owned();
            }
        }
    }
}

#[test]
fn a_manager_that_does_not_read_does_not_prevent_a_shutdown() {
    let mut manager = Manager::new();
    let mut doorbell = manager.start(CONFIG, None);
    manager.until("READY=1");
    let other = UnixDatagram::unbound().unwrap();
    other.set_nonblocking(true).unwrap();
    while other.send_to(b"A=1\n", manager.scratch.path("notify")).is_ok() {}
    doorbell.process.signal(Signal::TERM);
    let (status, _) = doorbell.process.wait();
    let log = doorbell.process.log();
    assert!(status.success(), "{log}");
    assert_eq!(log.matches("cannot notify the service manager").count(), 1, "{log}");
}

#[test]
fn the_lifecycle_is_reported() {
    let mut manager = Manager::new();
    let mut doorbell = manager.start(&CONFIG.replace("drain_delay = \"0s\"", "drain_delay = \"1s\""), None);
    let first = manager.next().to_owned();
    assert!(first.starts_with("READY=1\n"), "{first:?}");
    assert!(first.contains("STATUS=serving, livez up"), "{first:?}");
    doorbell.process.signal(Signal::HUP);
    let reloading = manager.until("RELOADING=1");
    assert!(reloading.contains("\nMONOTONIC_USEC="), "{reloading:?}");
    manager.until("READY=1");
    doorbell.process.signal(Signal::TERM);
    let draining = manager.until("EXTEND_TIMEOUT_USEC=");
    assert!(draining.contains("STATUS=draining, then stopping (SIGTERM)"), "{draining:?}");
    manager.until("STOPPING=1");
    let (status, _) = doorbell.process.wait();
    assert!(status.success());
    assert!(!manager.said.iter().any(|text| text.contains("WATCHDOG")), "{:?}", manager.said);
}

#[test]
fn a_stop_is_reported_while_connections_are_served() {
    use std::io::Write as _;
    let mut manager = Manager::new();
    let mut doorbell = manager
        .start(&CONFIG.replace("drain_delay = \"0s\"", "drain_delay = \"0s\"\ndrain_timeout = \"3s\""), None);
    manager.until("READY=1");
    // An unfinished request prevents the end of the drain.
    let mut held = std::net::TcpStream::connect(doorbell.addr).unwrap();
    held.write_all(b"GET /hello HTTP/1.1\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    doorbell.process.signal(Signal::TERM);
    manager.until("STOPPING=1");
    manager.until("EXTEND_TIMEOUT_USEC=");
    drop(held);
    assert!(doorbell.process.wait().0.success());
}

#[test]
fn ready_may_wait_for_the_first_round_of_checks() {
    // This server accepts connections and never replies, so the first result is a timeout.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = |ready_on: &str| {
        format!(
            "version = 1\n[systemd]\nready_on = \"{ready_on}\"\n[listener.probes]\nbind = \"127.0.0.1:0\"\n\
             [check.app]\ntype = \"http\"\nurl = \"http://{}/\"\ntimeout = \"700ms\"\ninterval = \"1s\"\n",
            silent.local_addr().unwrap()
        )
    };
    let mut manager = Manager::new();
    let doorbell = manager.start(&config("checks"), None);
    let ready = manager.until("READY=1");
    let before: String = manager.said.concat();
    assert!(before.contains("checks: 1 unknown"), "{before:?}");
    assert!(!ready.contains("1 unknown"), "{ready:?}");
    drop(doorbell);
    let mut manager = Manager::new();
    let _doorbell = manager.start(&config("listeners"), None);
    let ready = manager.next();
    assert!(ready.starts_with("READY=1") && ready.contains("1 unknown"), "{ready:?}");
}

/// A reload ends with READY=1, which must not be sent before the checks have results.
#[test]
fn an_early_reload_does_not_report_ready() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "version = 1\n[systemd]\nready_on = \"checks\"\n[listener.probes]\nbind = \"127.0.0.1:0\"\n\
         [check.app]\ntype = \"http\"\nurl = \"http://{}/\"\ntimeout = \"2s\"\ninterval = \"3s\"\n",
        silent.local_addr().unwrap()
    );
    let mut manager = Manager::new();
    let doorbell = manager.start(&config, None);
    doorbell.process.signal(Signal::HUP);
    let ready = manager.until("READY=1");
    let before: String = manager.said.concat();
    assert!(before.contains("checks: 1 unknown") && !before.contains("RELOADING"), "{before:?}");
    assert!(!ready.contains("1 unknown"), "{ready:?}");
    let is_looked_at = doorbell.process.log().contains("is already in use (generation 1, loaded ");
    assert!(is_looked_at, "{}", doorbell.process.log());
}

/// systemd drops messages of more than 4,096 bytes.
#[test]
fn many_endpoints_are_summarized_by_state() {
    use std::fmt::Write as _;
    let mut config = CONFIG.to_owned();
    for number in 0..300 {
        writeln!(config, "[health.an_endpoint_of_{number:04}]").unwrap();
    }
    let mut manager = Manager::new();
    let _doorbell = manager.start(&config, None);
    let first = manager.next();
    assert!(first.starts_with("READY=1\n") && first.len() < 2500, "{} bytes: {first:?}", first.len());
    assert!(first.contains("STATUS=serving; endpoints: ") && first.contains(" up"), "{first:?}");
}

#[test]
fn watchdog_messages_are_sent_while_workers_idle() {
    let mut manager = Manager::new();
    let doorbell = manager.start(CONFIG, Some(200_000));
    for _ in 0..5 {
        assert_eq!(manager.until("WATCHDOG=1"), "WATCHDOG=1\n");
    }
    drop(doorbell);
    let mut manager = Manager::new();
    let _doorbell = manager.start(&format!("{CONFIG}\n[systemd]\nwatchdog = false\n"), Some(100_000));
    manager.until("READY=1");
    manager.socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    assert!(manager.socket.recv(&mut [0; 512]).is_err());
}

/// Stops one thread with ptrace(2), as a debugger does, until this process ends.
const HOLD: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT, ALL = 0x4206, 0x4207, 0x40000000
thread = int(sys.argv[1])
for request in (SEIZE, INTERRUPT):
    if libc.ptrace(request, thread, None, None):
        print(os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(1)
os.waitpid(thread, ALL)
print('held', flush=True)
sys.stdin.read()";

/// Stops a thread until the returned process is dropped. Returns `None` if ptrace is not permitted.
fn hold(python: &Path, thread: &str) -> Option<Process> {
    let mut command = Command::new(python);
    let holder = Process::spawn_with_stdin(command.args(["-c", HOLD, thread]), Stdio::piped());
    assert!(wait_until(LIMIT, || !holder.log().is_empty()).is_some(), "no output from the ptrace process");
    if holder.log() != "held" {
        skipped(&format!("ptrace is not permitted ({}); a stopped thread was not tested", holder.log()));
        return None;
    }
    Some(holder)
}

#[test]
fn a_hung_thread_stops_the_watchdog_messages() {
    const PERIOD: Duration = Duration::from_millis(200);
    let Some(python) = program("python3") else { return };
    let mut manager = Manager::new();
    let config = format!("{CONFIG}\n[check.app]\ntype = \"file\"\npath = \"/\"\ninterval = \"1h\"\n");
    let doorbell = manager.start(&config, Some(u32::try_from(PERIOD.as_micros()).unwrap()));
    let tasks = Path::new("/proc").join(doorbell.process.pid()).join("task");
    let names = std::fs::read_dir(&tasks).unwrap().map(|task| {
        let task = task.unwrap();
        (std::fs::read_to_string(task.path().join("comm")).unwrap(), task.file_name().into_string().unwrap())
    });
    let threads: BTreeMap<String, String> = names.collect();
    for name in ["doorbell-0\n", "doorbell-1\n", "checks\n"] {
        manager.until("WATCHDOG=1");
        let thread = threads.get(name).unwrap_or_else(|| panic!("{name}: {threads:?}"));
        let Some(holder) = hold(&python, thread) else { return };
        manager.socket.set_nonblocking(true).unwrap();
        let mut buf = [0; 4096];
        while manager.socket.recv(&mut buf).is_ok() {}
        std::thread::sleep(4 * PERIOD);
        let messages =
            std::iter::from_fn(|| manager.socket.recv(&mut buf).ok().map(|len| buf[..len].to_vec()));
        let pets = messages.filter(|message| message.starts_with(b"WATCHDOG=1")).count();
        // A message may have been under way, and the thread may have made progress just before it
        // was stopped. A running process sends four messages per period.
        assert!(pets <= 2, "{name}: {pets} watchdog messages");
        manager.socket.set_nonblocking(false).unwrap();
        drop(holder);
        manager.until("WATCHDOG=1");
    }
}

#[test]
fn nothing_is_sent_unless_configured() {
    let manager = Manager::new();
    let doorbell = manager.start(&format!("{CONFIG}\n[systemd]\nnotify = false\n"), Some(50_000));
    assert_eq!(get(doorbell.addr, "/livez", &[]).status, 200);
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 512]).is_err());
}

/// systemd's own activation program, with the file that `config init` prints.
#[test]
fn sockets_of_systemd_are_used() {
    let Some(activate) = program("systemd-socket-activate") else { return };
    let scratch = Scratch::new();
    let first = Command::new(binary()).args(["config", "init", "systemd"]).output().unwrap();
    let file = scratch.write("doorbell.toml", &String::from_utf8(first.stdout).unwrap());
    let addr = free_addr();
    let mut command = Command::new(activate);
    command.args([
        "-l",
        &addr.to_string(),
        "--fdname=probes",
        binary().to_str().unwrap(),
        "serve",
        "-c",
        &file,
    ]);
    let process = Process::spawn(&mut command);
    // The activation program starts doorbell on the first connection.
    let answered = wait_until(LIMIT, || std::net::TcpStream::connect(addr).is_ok());
    assert!(answered.is_some(), "{}", process.log());
    assert_eq!(get(addr, "/livez", &[]).status, 200, "{}", process.log());
}

/// `doorbell.socket` is active, and the configuration binds its address directly.
#[test]
fn an_unused_socket_of_systemd_is_reported() {
    let Some(activate) = program("systemd-socket-activate") else { return };
    let scratch = Scratch::new();
    let held = free_addr();
    let start = |bind: &str| {
        let file =
            scratch.write("doorbell.toml", &format!("version = 1\n[listener.probes]\nbind = \"{bind}\"\n"));
        let mut command = Command::new(&activate);
        command.args(["-l", &held.to_string(), "--fdname=probes", binary().to_str().unwrap(), "serve"]);
        let process = Process::spawn(command.args(["-c", &file, "--driver", "epoll"]));
        assert!(
            wait_until(LIMIT, || std::net::TcpStream::connect(held).is_ok()).is_some(),
            "{}",
            process.log()
        );
        process
    };
    let process = start("127.0.0.1:0");
    let expected = format!("unused socket \\\"probes\\\" at {held} from systemd");
    assert!(wait_until(LIMIT, || process.log().contains(&expected)).is_some(), "{}", process.log());
    drop(process);
    let process = start(&held.to_string());
    let expected =
        "systemd holds it for a .socket unit and passed it as \"probes\"; use `bind = \"systemd:probes\"`";
    assert!(wait_until(LIMIT, || process.log().contains(expected)).is_some(), "{}", process.log());
}

/// The shipped unit and socket use the same name as the configuration.
#[test]
fn the_shipped_socket_has_the_name_of_the_first_file() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/doorbell.socket");
    let socket = std::fs::read_to_string(deploy).unwrap();
    let first = Command::new(binary()).args(["config", "init", "systemd"]).output().unwrap();
    let first = String::from_utf8(first.stdout).unwrap();
    let name = socket.lines().find_map(|line| line.strip_prefix("FileDescriptorName=")).unwrap();
    assert!(first.contains(&format!("bind = \"systemd:{name}\"")), "{first}");
    // The socket is enabled with the service, but not started by it. It would otherwise hold the
    // port of `bind = "0.0.0.0:8080"`.
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/doorbell.service");
    let service = std::fs::read_to_string(deploy).unwrap();
    assert!(service.contains("\nAlso=doorbell.socket\n"), "{service}");
    let starts = ["Requires=", "Wants=", "BindsTo=", "Sockets="];
    let starts =
        |line: &str| starts.iter().any(|key| line.starts_with(key)) && line.contains("doorbell.socket");
    assert!(!service.lines().any(starts), "{service}");
}
