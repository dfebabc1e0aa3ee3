//! D-13: two drivers accept from the same socket, like workers that share a Unix listener or an
//! inherited listener.
//! The simulator has only listeners with a single driver.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{AcceptMode, Completion, Driver, Quick, Waker};
use doorbell::id::{ConnId, Generation, SlotIndex};
use doorbell::{Receiving, Tuning};

use super::bench::LISTENER;

const SLOTS: u32 = 64;
/// Timeout for events that must happen.
const LIMIT: Duration = Duration::from_secs(20);
/// Minimum share of the clients, in percent, for each driver while both are busy.
const SHARE_PERCENT_MIN: u32 = 40;

/// Creates a driver for a shared listener.
type Make<D> = fn(OwnedFd) -> (D, Waker);

fn epoll(listener: OwnedFd) -> (Epoll, Waker) {
    let (waker, source) = Waker::pair().expect("an eventfd");
    (Epoll::new(vec![listener], SLOTS, source).expect("epoll is always available"), waker)
}

fn uring(listener: OwnedFd, options: UringOptions) -> (Uring, Waker) {
    let (waker, source) = Waker::pair().expect("an eventfd");
    let options = UringOptions { shared: vec![true], ..options };
    let driver = Uring::new(vec![listener], SLOTS, source, &options);
    (driver.unwrap_or_else(|(error, _)| panic!("{error}")), waker)
}

fn uring_ordinary(listener: OwnedFd) -> (Uring, Waker) {
    uring(listener, UringOptions::default())
}

fn uring_direct(listener: OwnedFd) -> (Uring, Waker) {
    uring(listener, UringOptions { direct: true, ..UringOptions::default() })
}

fn uring_plain(listener: OwnedFd) -> (Uring, Waker) {
    let mut tuning = Tuning::default();
    tuning.direct_calls = false;
    tuning.receive = Receiving::SingleShot;
    uring(listener, UringOptions { accept_mode: AcceptMode::SingleShot, tuning, ..UringOptions::default() })
}

fn uring_gathering(listener: OwnedFd) -> (Uring, Waker) {
    let mut tuning = Tuning::default();
    tuning.wait_min = Duration::from_micros(200);
    uring(listener, UringOptions { tuning, ..UringOptions::default() })
}

macro_rules! suite {
    ($($driver:ident: $works:expr, $make:path;)*) => {$(
        mod $driver {
            suite! { @tests $works, $make; d13_a_busy_driver_keeps_no_client_from_another,
                d13_an_unreported_client_is_available_to_another_driver, d13_both_get_their_share }
        }
    )*};
    (@tests $works:expr, $make:path; $($rule:ident),*) => {$(
        #[test]
        fn $rule() {
            if $works {
                super::$rule($make);
            }
        }
    )*};
}

suite! {
    epoll: true, crate::shared::epoll;
    io_uring: doorbell_testkit::skip::io_uring(), crate::shared::uring_ordinary;
    io_uring_direct: doorbell_testkit::skip::io_uring(), crate::shared::uring_direct;
    io_uring_gathering: doorbell_testkit::skip::io_uring(), crate::shared::uring_gathering;
    io_uring_plain: doorbell_testkit::skip::io_uring(), crate::shared::uring_plain;
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.set_nonblocking(true).expect("a flag of a descriptor");
    let addr = listener.local_addr().expect("it is bound");
    (listener, addr)
}

/// Creates two armed drivers that accept from the same socket.
fn two<D: Driver>(make: Make<D>) -> ([(D, Waker); 2], SocketAddr) {
    let (listener, addr) = listener();
    let mut both = [(); 2].map(|()| make(listener.try_clone().expect("a descriptor").into()));
    for (driver, _) in &mut both {
        driver.arm_accept(LISTENER);
        while reported(driver, Duration::ZERO).is_some() {}
    }
    (both, addr)
}

/// Waits for at most `timeout` and returns the next connection that the driver reports.
fn reported<D: Driver>(driver: &mut D, timeout: Duration) -> Option<SlotIndex> {
    driver.wait(Some(timeout)).expect("the driver works");
    reported_already(driver)
}

fn reported_already<D: Driver>(driver: &mut D) -> Option<SlotIndex> {
    loop {
        match driver.next_quick() {
            Some(Quick::Accepted(_, slot)) => return Some(slot),
            Some(Quick::Ready(conn)) => panic!("{conn:?} waits for nothing"),
            None => {}
        }
        match driver.next()? {
            Completion::Accepted { slot, .. } => return Some(slot),
            Completion::Closed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Waits for the next connection, while no other driver waits.
#[track_caller]
fn comes<D: Driver>(driver: &mut D, what: &str) -> SlotIndex {
    let until = Instant::now() + LIMIT;
    loop {
        // A driver may wait only after all its completions were read.
        if let Some(slot) = reported_already(driver) {
            return slot;
        }
        assert!(Instant::now() < until, "{what}");
        driver.wait(Some(Duration::from_millis(10))).expect("the driver works");
    }
}

/// While one of two drivers is busy and never waits, the other driver must report every client, one
/// at a time.
fn d13_a_busy_driver_keeps_no_client_from_another<D: Driver>(make: Make<D>) {
    for busy in [0, 1] {
        let (mut both, addr) = two(make);
        let (first, second) = both.split_at_mut(1);
        let (idle, busy) =
            if busy == 0 { (&mut second[0].0, &mut first[0].0) } else { (&mut first[0].0, &mut second[0].0) };
        let mut clients = Vec::new();
        for round in 0..10 {
            clients.push(TcpStream::connect(addr).expect("the listener accepts"));
            comes(idle, &format!("client {round} waits for the busy driver"));
        }
        // Then the busy driver waits, and must find no client. Then the roles change.
        let surplus = reported(busy, Duration::ZERO);
        assert!(surplus.is_none(), "{surplus:?}: all clients were reported before");
        for round in 0..10 {
            clients.push(TcpStream::connect(addr).expect("the listener accepts"));
            comes(busy, &format!("client {round} waits after the roles have changed"));
        }
    }
}

/// After a driver has reported one of many connections and stays busy, the other driver must report
/// all other connections.
fn d13_an_unreported_client_is_available_to_another_driver<D: Driver>(make: Make<D>) {
    for busy in [0, 1] {
        let (mut both, addr) = two(make);
        let clients: Vec<_> =
            (0..20).map(|_| TcpStream::connect(addr).expect("the listener accepts")).collect();
        comes(&mut both[busy].0, "clients wait");
        for client in 1..clients.len() {
            comes(&mut both[1 - busy].0, &format!("client {client} waits for the busy driver"));
        }
    }
}

/// Each of two busy drivers must serve a minimum share of the clients. Eight clients reconnect at
/// once, and each driver needs some time per client. The drivers sleep for that time, so that the
/// number of processors does not matter.
fn d13_both_get_their_share<D: Driver>(make: Make<D>) {
    const CLIENTS: u32 = 800;
    let (listener, addr) = listener();
    let left = AtomicU32::new(CLIENTS);
    let ended = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let drivers = [(); 2].map(|()| {
            let (listener, ended) = (listener.try_clone().expect("a descriptor"), &ended);
            scope.spawn(move || serve(make, listener.into(), ended))
        });
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| come_again(addr, &left))).collect();
        for client in clients {
            client.join().expect("a client is served");
        }
        ended.store(true, Ordering::Relaxed);
        drivers.map(|driver| driver.join().expect("the driver works"))
    });
    assert_eq!(served[0] + served[1], CLIENTS, "{served:?}");
    for share in served {
        assert!(share * 100 >= CLIENTS * SHARE_PERCENT_MIN, "one driver serves too many clients: {served:?}");
    }
}

/// Accepts connections, sleeps for the time of the work and closes them. Returns the number of
/// connections.
fn serve<D: Driver>(make: Make<D>, listener: OwnedFd, ended: &AtomicBool) -> u32 {
    let (mut driver, _waker) = make(listener);
    driver.arm_accept(LISTENER);
    let mut served = 0;
    while !ended.load(Ordering::Relaxed) {
        let mut slot = reported(&mut driver, Duration::from_millis(10));
        while let Some(taken) = slot {
            std::thread::sleep(Duration::from_millis(1));
            served += 1;
            // A close may complete later; `reported` skips that completion.
            let _step = driver.close(ConnId { slot: taken, generation: Generation::new(0) });
            slot = reported_already(&mut driver);
        }
    }
    served
}

fn come_again(addr: SocketAddr, left: &AtomicU32) {
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let mut stream = TcpStream::connect(addr).expect("the listener accepts");
        stream.set_read_timeout(Some(LIMIT)).expect("an option of sockets");
        match stream.read(&mut [0; 8]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("the end of the connection was expected: {other:?}"),
        }
    }
}
