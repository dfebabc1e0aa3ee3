//! A network between two namespaces: each has a TUN device, and packets between them are delayed
//! and reordered.
//!
//! It stands for a pair of veth devices with `tc qdisc add … netem delay … reorder`, which many
//! kernels lack. As with netem, the kernel's TCP runs on both sides, and each direction has its own
//! delay.

use crate::common::Random;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Addresses of this namespace and of the other one.
pub(crate) const ADDRS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

/// Maximum additional delay of a packet that others overtake. One of [`OVERTAKEN_ONE_OF`] packets
/// gets such a delay.
const OVERTAKEN_AFTER_US: u64 = 10_000;
const OVERTAKEN_ONE_OF: u64 = 4;

/// Maximum number of packets that were received and wait for their thread.
const PACKETS_MAX: usize = 1_024;

/// Settings that change while packets are exchanged, and a counter.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Whether packets are dropped, including those on the way.
    pub(crate) is_cut: AtomicBool,
    pub(crate) reorders: AtomicBool,
    /// Packets that arrived before an older one of the same direction.
    pub(crate) overtaking: AtomicU64,
}

/// Programs that hold the TUN devices; they end on drop.
pub(crate) struct Network {
    pub(crate) settings: Arc<Settings>,
    devices: [Child; 2],
    dir: PathBuf,
}

impl Network {
    /// Connects this namespace with a new one. `delays` are those to the other namespace and back.
    pub(crate) fn new(socat: &Path, delays: [Duration; 2]) -> Self {
        let dir = std::env::temp_dir().join(format!("doorbell-link-network-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let settings = Arc::new(Settings::default());
        let sockets = [0, 1].map(|side| UnixDatagram::bind(dir.join(format!("network-{side}"))).unwrap());
        for (from, delay) in delays.into_iter().enumerate() {
            let (sender, packets) = sync_channel(PACKETS_MAX);
            let input = sockets[from].try_clone().unwrap();
            thread::spawn(move || {
                let mut buf = [0; 4096];
                while let Ok(len) = input.recv(&mut buf) {
                    let _ended = sender.send((Instant::now() + delay, buf[..len].to_vec()));
                }
            });
            let (output, to) =
                (sockets[1 - from].try_clone().unwrap(), dir.join(format!("device-{}", 1 - from)));
            let settings = Arc::clone(&settings);
            let send = move |packet: &[u8]| drop(output.send_to(packet, &to));
            thread::spawn(move || carry(&packets, &settings, Random(from as u64), send));
        }
        let devices = [0, 1].map(|side| {
            let mut command = Command::new(if side == 0 { socat } else { Path::new("unshare") });
            if side == 1 {
                command.arg("--net").arg(socat);
            }
            let at = |name: &str| format!("{}/{name}-{side}", dir.display());
            let socket = format!("UNIX-SENDTO:{},bind={}", at("network"), at("device"));
            command.args([format!("TUN:{}/30,iff-up", ADDRS[side]), socket]).spawn().unwrap()
        });
        let network = Self { settings, devices, dir };
        await_some(|| UdpSocket::bind((ADDRS[0], 0)).ok());
        network
    }

    /// A listener in the other namespace.
    pub(crate) fn listen(&self) -> TcpListener {
        let namespace = File::open(format!("/proc/{}/ns/net", self.devices[1].id())).unwrap();
        // Only the thread changes its namespace.
        let listening = thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            await_some(|| TcpListener::bind((ADDRS[1], 0)).ok())
        });
        listening.join().unwrap()
    }

    /// Resets the connections of the other namespace; false if the kernel cannot.
    pub(crate) fn reset_conns(&self) -> bool {
        let namespace = format!("--net=/proc/{}/ns/net", self.devices[1].id());
        let args = [&namespace, "ss", "--kill", "--no-header", "--tcp", "state", "established"];
        let killed = Command::new("nsenter").args(args).output().unwrap();
        killed.status.success() && killed.stderr.is_empty()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for device in &mut self.devices {
            let _ended = device.kill();
            let _reaped = device.wait();
        }
        let _left = std::fs::remove_dir_all(&self.dir);
    }
}

/// Delivers packets at their times until the input ends.
fn carry(
    packets: &Receiver<(Instant, Vec<u8>)>,
    settings: &Settings,
    mut random: Random,
    send: impl Fn(&[u8]),
) {
    let mut waiting: BTreeMap<(Instant, u64), Vec<u8>> = BTreeMap::new();
    let (mut number, mut newest) = (0, 0);
    loop {
        let due = waiting.keys().next().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let received = match due {
            Some(due) => packets.recv_timeout(due),
            None => packets.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok((mut at, packet)) => {
                if settings.reorders.load(Ordering::Relaxed) && random.below(OVERTAKEN_ONE_OF) == 0 {
                    at += Duration::from_micros(random.below(OVERTAKEN_AFTER_US));
                }
                number += 1;
                waiting.insert((at, number), packet);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if settings.is_cut.load(Ordering::Relaxed) {
            waiting.clear();
        }
        while let Some(next) = waiting.first_entry().filter(|next| next.key().0 <= Instant::now()) {
            let ((_, number), packet) = next.remove_entry();
            if number < newest {
                settings.overtaking.fetch_add(1, Ordering::Relaxed);
            }
            newest = newest.max(number);
            send(&packet);
        }
    }
}

/// Waits until `get` returns something.
pub(crate) fn await_some<T>(mut get: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(start.elapsed() < LIMIT, "the condition does not hold after {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

const LIMIT: Duration = Duration::from_secs(60);
