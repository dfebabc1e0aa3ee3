//! Models of the hand-over: its permits, and the queue between ring threads and a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use loom::thread;

use super::explore;
use crate::driver::{WakeSource, Waker};
use crate::hand_over::{Gate, HandedConn, HandedCount, Taker};
use crate::queue::HandedQueue;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Waits at the gate. Returns `true` once the worker has a permit, `false` once the gate is closed.
fn enter(gate: &Gate, source: &WakeSource) -> bool {
    loop {
        gate.waits();
        if gate.is_closed() {
            return false;
        }
        if gate.enter() {
            assert!(gate.out() <= gate.max(), "never above the cap");
            return true;
        }
        source.wait();
    }
}

fn full_gate() -> (Arc<Gate>, WakeSource) {
    let gate = Arc::new(Gate::new(1));
    let source = wake_on_room(&gate);
    assert!(gate.enter());
    (gate, source)
}

fn wake_on_room(gate: &Gate) -> WakeSource {
    let (waker, source) = Waker::pair();
    gate.on_room(Box::new(move || waker.wake()));
    source
}

/// Two workers wait for the only permit, which is in use: each gets the permit in turn and returns
/// it.
pub fn room() -> usize {
    explore(Some(2), || {
        let (gate, source) = full_gate();
        let held = gate.permit();
        let other = {
            let (gate, source) = (Arc::clone(&gate), wake_on_room(&gate));
            thread::spawn(move || {
                assert!(enter(&gate, &source));
                drop(gate.permit());
            })
        };
        let owner = thread::spawn(move || drop(held));
        assert!(enter(&gate, &source));
        drop(gate.permit());
        other.join().expect("the other worker returned its permit");
        owner.join().expect("the owner returned its permit");
        assert_eq!(gate.out(), 0);
    })
}

/// Two generations of a server share a limit of one permit, which is in use. One worker of each
/// generation waits at the gate of its generation, and both get the permit in turn.
pub fn one_house() -> usize {
    explore(Some(2), || {
        let (gate, source) = full_gate();
        let held = gate.permit();
        let successor = {
            let gate = Arc::new(gate.with_same_count(1));
            let source = wake_on_room(&gate);
            thread::spawn(move || {
                assert!(enter(&gate, &source));
                drop(gate.permit());
            })
        };
        let owner = thread::spawn(move || drop(held));
        assert!(enter(&gate, &source));
        drop(gate.permit());
        successor.join().expect("the successor returned its permit");
        owner.join().expect("the owner returned its permit");
        assert_eq!(gate.out(), 0);
    })
}

/// A gate is closed while a worker waits for room: the worker is woken although no permit is
/// returned.
pub fn closed_gate() -> usize {
    explore(None, || {
        let (gate, source) = full_gate();
        let closer = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.close())
        };
        assert!(!enter(&gate, &source));
        closer.join().expect("the thread closed the gate");
        assert_eq!(gate.out(), 1);
    })
}

/// A task whose wake-ups go to the model's waker.
#[derive(Debug)]
struct Task(Waker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

fn block_on<R>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> (R, usize) {
    let (waker, source) = Waker::pair();
    let waker = std::task::Waker::from(Arc::new(Task(waker)));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(ready) = poll(&mut cx) {
            return (ready, source.wakes());
        }
        source.wait();
    }
}

fn conns(gate: &Arc<Gate>, numbers: core::ops::Range<usize>) -> Vec<HandedConn> {
    numbers.filter(|_| gate.enter()).map(|number| HandedConn { number, _permit: gate.permit() }).collect()
}

fn queue(gate: &Arc<Gate>) -> HandedQueue {
    let queue = HandedQueue::default();
    queue.set_places(HandedCount { gate: Arc::clone(gate) });
    queue
}

/// Two batches and the end are queued while one task receives and another waits until all are
/// delivered: every connection arrives once and in order, each wait of the receiving task gets at
/// most one wake-up, and the other task continues after the last connection was read.
pub fn delivered() -> usize {
    explore(Some(2), || {
        let gate = Arc::new(Gate::new(3));
        let queue = queue(&gate);
        let ring_thread = {
            let (queue, gate) = (queue.clone(), Arc::clone(&gate));
            thread::spawn(move || {
                queue.take(&mut conns(&gate, 0..2));
                queue.take(&mut conns(&gate, 2..3));
                queue.end();
            })
        };
        let has_ended = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (queue, has_ended) = (queue.clone(), Arc::clone(&has_ended));
            thread::spawn(move || {
                let mut delivered = pin!(queue.delivered());
                block_on(|cx| delivered.as_mut().poll(cx));
                assert_eq!(queue.waiting(), 0);
                has_ended.store(true, Ordering::Relaxed);
            })
        };
        let mut found = Vec::new();
        loop {
            let (taken, wakes) = block_on(|cx| queue.poll_take(cx));
            assert!(wakes <= 1, "{wakes} wake-ups for one wait");
            let Some((conn, _unread)) = taken else { break };
            found.push(conn.number);
            assert!(!has_ended.load(Ordering::Relaxed), "a connection is still unread");
        }
        assert_eq!(found, [0, 1, 2]);
        ring_thread.join().expect("the ring thread queued all connections");
        watcher.join().expect("the watcher saw the end");
        assert_eq!(gate.out(), 0);
    })
}

/// An empty queue is ended while a task waits for the end and no task receives: the waiting task is
/// woken.
pub fn ended() -> usize {
    explore(None, || {
        let queue = queue(&Arc::new(Gate::new(1)));
        let ring_thread = {
            let queue = queue.clone();
            thread::spawn(move || queue.end())
        };
        let mut delivered = pin!(queue.delivered());
        block_on(|cx| delivered.as_mut().poll(cx));
        ring_thread.join().expect("the ring thread queued the end");
    })
}

/// The receiver is dropped while connections are queued: each connection is dropped, its permit is
/// returned, and the gate is closed.
pub fn gone() -> usize {
    explore(None, || {
        let gate = Arc::new(Gate::new(2));
        let queue = queue(&gate);
        let ring_thread = {
            let (queue, gate) = (queue.clone(), Arc::clone(&gate));
            thread::spawn(move || {
                for number in 0..2 {
                    queue.take(&mut conns(&gate, number..number + 1));
                }
            })
        };
        queue.leave();
        ring_thread.join().expect("the ring thread queued all connections");
        assert_eq!((gate.out(), queue.waiting(), gate.is_closed()), (0, 0, true));
    })
}
