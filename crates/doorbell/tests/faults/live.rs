//! A worker with a faulty driver in its own thread, and clients on real sockets.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use doorbell::control::{Command, WorkerShared};
use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{Driver, DriverKind, Fault, Waker};
use doorbell::protocol::ListenerProtocol;
use doorbell::time::OsClock;
use doorbell::worker::{ServerShared, Worker};
use doorbell::{Limits, Raw, RawNext, Snapshot};
use doorbell_testkit::sim::splitmix;
use doorbell_testkit::skip;
use rustix::time::{ClockId, clock_gettime};

use super::faulty::{Faulty, Lies};

/// A worker that replies to `ID LEN\n` with LEN bytes of ID.
pub(super) struct Live {
    pub(super) addr: SocketAddr,
    shared: Arc<WorkerShared>,
    thread: JoinHandle<Ended>,
}

/// The end of a worker's thread.
pub(super) struct Ended {
    pub(super) result: Result<(), Fault>,
    /// The processor time of the whole run.
    pub(super) cpu: Duration,
    /// The counters at the end.
    pub(super) snapshot: Snapshot,
}

/// The bytes that a client received, and the end of its connection.
pub(super) struct JobReply {
    pub(super) bytes: Vec<u8>,
    pub(super) reset: bool,
}

/// Starts a worker on this kind of driver; `None` if io_uring is not available.
pub(super) fn start(kind: DriverKind, limits: Limits, lies: Lies) -> Option<Live> {
    start_with(raw(), kind, limits, lies)
}

/// Starts a worker with this protocol, instead of the protocol for [`Live::ask`].
pub(super) fn start_with(
    protocol: impl Into<ListenerProtocol>,
    kind: DriverKind,
    limits: Limits,
    lies: Lies,
) -> Option<Live> {
    if kind == DriverKind::IoUring && !skip::io_uring() {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.set_nonblocking(true).expect("a flag of a descriptor");
    let addr = listener.local_addr().expect("it is bound");
    let (waker, source) = Waker::pair().expect("an eventfd");
    let shared = Arc::new(WorkerShared::new(waker));
    let of_thread = Arc::clone(&shared);
    let (report, reported) = sync_channel(1);
    let protocol = protocol.into();
    let thread = std::thread::spawn(move || {
        let server = Arc::new(ServerShared::new(vec![protocol], limits, 1));
        let (slots, listeners) = (server.slots_max(), vec![OwnedFd::from(listener)]);
        match kind {
            DriverKind::IoUring => match Uring::new(listeners, slots, source, &UringOptions::default()) {
                Ok(driver) => {
                    report.send(()).expect("the test waits");
                    run(driver, lies, server, of_thread)
                }
                Err((error, _)) => panic!("{error}"),
            },
            _ => {
                let driver = Epoll::new(listeners, slots, source).expect("epoll is always available");
                report.send(()).expect("the test waits");
                run(driver, lies, server, of_thread)
            }
        }
    });
    reported.recv().expect("the driver opens");
    Some(Live { addr, shared, thread })
}

fn run<D: Driver>(driver: D, lies: Lies, server: Arc<ServerShared>, shared: Arc<WorkerShared>) -> Ended {
    let before = cpu_time();
    let mut worker = Worker::new(Faulty::new(driver, lies), OsClock, server, Arc::clone(&shared));
    let result = worker.run(drop);
    Ended { result, cpu: cpu_time() - before, snapshot: shared.snapshot() }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).expect("the clock starts at 0"),
        u32::try_from(now.tv_nsec).expect("below 1e9"),
    )
}

fn raw() -> Raw {
    Raw::new(|received: &[u8], reply: &mut Vec<u8>| {
        let Some(line) = received.strip_suffix(b"\n") else { return RawNext::NeedMore };
        let line = String::from_utf8_lossy(line);
        let Some((id, len)) = line.split_once(' ') else { return RawNext::Close };
        reply.extend_from_slice(&pattern(id.parse().unwrap_or(0), len.parse().unwrap_or(0)));
        RawNext::Close
    })
}

/// Returns `len` bytes that depend on `id`.
pub(super) fn pattern(id: u64, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).flat_map(|word| splitmix(splitmix(id) ^ word).to_le_bytes());
    words.take(len).collect()
}

impl Live {
    /// Connects a client that requests a pattern.
    pub(super) fn ask(&self, id: u64, len: usize) -> JobReply {
        self.exchange(format!("{id} {len}\n").as_bytes())
    }

    /// Connects a client that sends `request` and reads to the end.
    pub(super) fn exchange(&self, request: &[u8]) -> JobReply {
        let mut stream = TcpStream::connect(self.addr).expect("the listener accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option of sockets");
        let mut answer = JobReply { bytes: Vec::new(), reset: false };
        if stream.write_all(request).is_err() {
            answer.reset = true;
            return answer;
        }
        match stream.read_to_end(&mut answer.bytes) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the server ends every connection");
                answer.reset = true;
            }
        }
        let _gone = stream.shutdown(Shutdown::Both);
        answer
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Waits for a worker that ends without a command.
    pub(super) fn join(self) -> Ended {
        self.thread.join().expect("a worker does not panic")
    }

    /// Stops the worker, which must end without an error.
    pub(super) fn stop(self) -> Ended {
        self.shared.send(Command::Stop);
        let ended = self.thread.join().expect("a worker does not panic");
        assert_eq!(ended.result, Ok(()));
        ended
    }
}
