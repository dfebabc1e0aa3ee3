//! `wakes [ROUNDS]`: compares kernel mechanisms for waking a thread that waits for I/O, by their
//! cost on the waking thread and on the woken thread.
//! A round is one wake-up in each direction; all rounds are identical.
//!
//! The unit is nanoseconds of CPU time per round. In the virtual machine that `doorbell-rig wakes`
//! starts, one nanosecond stands for one executed instruction of the program or the kernel.
#![expect(unsafe_code, reason = "pushing an entry is unsafe in the io-uring crate")]
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::{self, Thread};

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{ClockId, clock_gettime};

/// The mechanism by which one thread wakes the other.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// An eventfd that epoll watches.
    EpollEventfd,
    /// A futex that a ring operation waits for (Linux 6.7).
    Futex,
    /// A completion that the waking thread posts from its own ring (Linux 5.18).
    MsgRing,
    /// `unpark` of a parked thread, the baseline without I/O.
    Park,
    /// An eventfd that a multishot poll of the ring watches.
    RingEventfd,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Park, "park and unpark, no I/O"),
    (Way::EpollEventfd, "eventfd, epoll"),
    (Way::RingEventfd, "eventfd, io_uring"),
    (Way::MsgRing, "MSG_RING, io_uring"),
    (Way::Futex, "futex, io_uring"),
];

/// The futex word, and the number of the ring to wake.
static WORD: AtomicU32 = AtomicU32::new(0);
static RING: AtomicI32 = AtomicI32::new(-1);
/// Number of replies of the woken thread.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// `FUTEX2_SIZE_U32` and `FUTEX2_PRIVATE` of futex2.
const FUTEX_FLAGS: u32 = 0x82;

fn main() -> io::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(20_000);
    println!("{:28}{:>10}{:>10}{:>10}", "a round", "waker", "woken", "both");
    for (way, name) in WAYS {
        match measure(way, rounds) {
            Ok((waker, woken)) => println!("{name:28}{waker:>10}{woken:>10}{:>10}", waker + woken),
            Err(error) => println!("{name:28}{error}"),
        }
    }
    Ok(())
}

/// CPU time per round of the waking and of the woken thread.
fn measure(way: Way, rounds: u32) -> io::Result<(i64, i64)> {
    WORD.store(0, Ordering::SeqCst);
    ANSWERED.store(0, Ordering::SeqCst);
    RING.store(-1, Ordering::SeqCst);
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let measurer = thread::current();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| sleep(way, rounds, &bell, &measurer));
        // The first reply shows that the thread is ready.
        await_answer(0, || sleeper.is_finished());
        let woken = sleeper.thread().clone();
        let mut sender = Sender::new(way, &bell, &woken)?;
        let begun = cpu_time();
        for round in 1..=rounds {
            WORD.store(round, Ordering::SeqCst);
            sender.wake()?;
            await_answer(round, || sleeper.is_finished());
        }
        let waker = cpu_time() - begun;
        let woken = sleeper.join().map_err(|_| io::Error::other("the other thread panicked"))??;
        Ok((waker / i64::from(rounds), woken / i64::from(rounds)))
    })
}

fn await_answer(round: u32, over: impl Fn() -> bool) {
    while ANSWERED.load(Ordering::SeqCst) <= round && !over() {
        thread::park();
    }
}

/// Waits for each round and replies to it.
fn sleep(way: Way, rounds: u32, bell: &OwnedFd, measurer: &Thread) -> io::Result<i64> {
    // When dropped, unparks the measuring thread, so that it does not wait after an error.
    let guard = UnparkOnDrop(measurer);
    let mut source = Source::new(way, bell)?;
    let answer = |count| {
        ANSWERED.store(count, Ordering::SeqCst);
        guard.0.unpark();
    };
    answer(1);
    let begun = cpu_time();
    for round in 1..=rounds {
        source.arm(round - 1)?;
        while WORD.load(Ordering::SeqCst) < round {
            source.wait()?;
        }
        answer(round + 1);
    }
    Ok(cpu_time() - begun)
}

struct UnparkOnDrop<'a>(&'a Thread);

impl Drop for UnparkOnDrop<'_> {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// The waking side.
enum Sender<'a> {
    Bell(&'a OwnedFd),
    Futex,
    Ring(Box<IoUring>, RawFd),
    Thread(&'a Thread),
}

impl<'a> Sender<'a> {
    fn new(way: Way, bell: &'a OwnedFd, woken: &'a Thread) -> io::Result<Self> {
        Ok(match way {
            Way::EpollEventfd | Way::RingEventfd => Self::Bell(bell),
            Way::Futex => Self::Futex,
            Way::MsgRing => Self::Ring(Box::new(ring()?), RING.load(Ordering::SeqCst)),
            Way::Park => Self::Thread(woken),
        })
    }

    fn wake(&mut self) -> io::Result<()> {
        match self {
            Self::Bell(bell) => rustix::io::write(bell, &1_u64.to_ne_bytes()).map(drop)?,
            Self::Futex => {
                rustix::thread::futex::wake(&WORD, rustix::thread::futex::Flags::PRIVATE, 1).map(drop)?;
            }
            Self::Ring(own, other) => {
                let message = opcode::MsgRingData::new(types::Fd(*other), 0, 0, None).build();
                push(own, &message.flags(Flags::SKIP_SUCCESS))?;
                own.submit()?;
            }
            Self::Thread(woken) => woken.unpark(),
        }
        Ok(())
    }
}

/// The woken side.
enum Source<'a> {
    Epoll { epoll: OwnedFd, bell: &'a OwnedFd },
    Park,
    Ring { ring: Box<IoUring>, bell: Option<&'a OwnedFd>, is_futex: bool },
}

impl<'a> Source<'a> {
    fn new(way: Way, bell: &'a OwnedFd) -> io::Result<Self> {
        match way {
            Way::EpollEventfd => {
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                let data = epoll::EventData::new_u64(0);
                epoll::add(&epoll, bell, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
                Ok(Self::Epoll { epoll, bell })
            }
            Way::Park => Ok(Self::Park),
            Way::Futex | Way::MsgRing | Way::RingEventfd => {
                let mut ring = Box::new(ring()?);
                RING.store(ring.as_raw_fd(), Ordering::SeqCst);
                let watched = matches!(way, Way::RingEventfd).then_some(bell);
                if let Some(bell) = watched {
                    let fd = types::Fd(bell.as_fd().as_raw_fd());
                    push(&mut ring, &opcode::PollAdd::new(fd, 1).multi(true).build())?;
                    ring.submit()?;
                }
                Ok(Self::Ring { ring, bell: watched, is_futex: matches!(way, Way::Futex) })
            }
        }
    }

    /// Prepares a wait that ends when the word differs from `seen`.
    fn arm(&mut self, seen: u32) -> io::Result<()> {
        if let Self::Ring { ring, is_futex: true, .. } = self {
            let any = u64::from(u32::MAX);
            let wait = opcode::FutexWait::new(WORD.as_ptr(), u64::from(seen), any, FUTEX_FLAGS).build();
            push(ring, &wait)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        let clear = |bell: &OwnedFd| {
            // EAGAIN means that the eventfd is already cleared.
            let _count = rustix::io::read(bell, &mut [0; 8]);
        };
        match self {
            Self::Epoll { epoll, bell } => {
                let mut events =
                    [epoll::Event { flags: epoll::EventFlags::IN, data: epoll::EventData::new_u64(0) }; 8];
                epoll::wait(&*epoll, &mut events[..], None)?;
                clear(bell);
            }
            Self::Park => thread::park(),
            Self::Ring { ring, bell, .. } => {
                ring.submit_and_wait(1)?;
                for completion in ring.completion() {
                    // EAGAIN of a futex means that the word had already changed.
                    if completion.result() < 0 && completion.result() != -libc::EAGAIN {
                        return Err(io::Error::from_raw_os_error(-completion.result()));
                    }
                }
                bell.iter().for_each(|bell| clear(bell));
            }
        }
        Ok(())
    }
}

/// Opens a ring with those set-up flags of the engine's ring that affect wake-ups.
fn ring() -> io::Result<IoUring> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8)
}

fn push(ring: &mut IoUring, entry: &Entry) -> io::Result<()> {
    // SAFETY: R-3, the entry names only descriptors, integers, and a word in a static variable.
    let pushed = unsafe { ring.submission().push(entry) };
    pushed.map_err(io::Error::other)
}

fn cpu_time() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
