//! Balancing between workers: which of a listener's sockets gets a new connection.
//!
//! The kernel chooses among the sockets of a `SO_REUSEPORT` group. A connection is assigned once,
//! when its SYN arrives, without any further cost. In the modes `least-connections` and
//! `round-robin`, all workers accept from one socket instead, and the worker that accepts a
//! connection chooses the worker that serves it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use doorbell_ring::Errno;
use doorbell_ring::sockopt::{self, FilterInsn};

/// How new connections of a TCP listener are distributed between the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Balance {
    /// To the worker on the processor that received the SYN (`SO_INCOMING_CPU`, Linux 6.2): a
    /// connection stays on one processor. Workers are pinned to processors. Suitable if the network
    /// card distributes packets evenly to its queues. A client on this machine gets the worker of
    /// its own processor.
    Cpu,
    /// By a hash of both addresses and both ports, which distributes many short connections evenly.
    #[default]
    Kernel,
    /// To the worker with the fewest open connections, of any listener; among equals, in turn.
    /// Suitable for long-lived connections that differ in duration. The first idle worker accepts a
    /// connection and passes it on, which costs a wake-up and a few system calls for each
    /// connection. Also works for Unix and passed sockets.
    LeastConnections,
    /// To each worker in turn. Like [`Self::LeastConnections`], but open connections are ignored,
    /// so all workers get the same number of new ones.
    RoundRobin,
    /// By a hash of the client's address (classic BPF): all connections of a client have the same
    /// worker, also after a reload. If a worker is added or removed by configuration, only its
    /// clients move; if a worker fails, some clients of another worker move, too. Many clients
    /// behind one address can overload their worker.
    SourceHash,
}

impl Balance {
    /// The name used in logs and configuration: `cpu`, `kernel`, `least-connections`,
    /// `round-robin`, `source-hash`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Kernel => "kernel",
            Self::LeastConnections => "least-connections",
            Self::RoundRobin => "round-robin",
            Self::SourceHash => "source-hash",
        }
    }

    /// True if the worker that accepts a connection chooses the worker that serves it.
    pub(crate) const fn is_chosen_by_workers(self) -> bool {
        matches!(self, Self::LeastConnections | Self::RoundRobin)
    }

    /// Returns the worker that gets the next connection. `loads` has the number of connections of
    /// each worker, and `None` for a worker that must not get the next one; `turn` is the worker
    /// that is next in round-robin order.
    pub(crate) fn choose(self, loads: &[Option<u64>], turn: usize) -> Option<usize> {
        let in_turn = (turn..loads.len()).chain(0..turn.min(loads.len()));
        let mut able = in_turn.filter_map(|worker| loads[worker].map(|load| (worker, load)));
        let chosen = match self {
            // Among equals, the first one in round-robin order.
            Self::LeastConnections => able.min_by_key(|(_, load)| *load),
            Self::Cpu | Self::Kernel | Self::RoundRobin | Self::SourceHash => able.next(),
        };
        chosen.map(|(worker, _)| worker)
    }

    /// Applies this balance to the sockets of a listener, by worker; `None` for a failed worker.
    pub(crate) fn apply(self, fds: &[Option<OwnedFd>]) -> io::Result<()> {
        let cpus = allowed_cpus();
        let open = || fds.iter().flatten();
        for (worker, fd) in fds.iter().enumerate() {
            let cpu = cpus.get(worker % cpus.len().max(1)).filter(|_| self == Self::Cpu);
            let Some(fd) = fd else { continue };
            match cpu.and_then(|cpu| u32::try_from(*cpu).ok()) {
                Some(cpu) => sockopt::set_incoming_cpu(fd.as_fd(), Some(cpu))?,
                None => ignore_unsupported(sockopt::set_incoming_cpu(fd.as_fd(), None))?,
            }
        }
        let Some(any) = open().next() else { return Ok(()) };
        match self {
            Self::SourceHash => sockopt::attach_reuseport_filter(any.as_fd(), &source_hash(open().count()))?,
            Self::Cpu | Self::Kernel | Self::LeastConnections | Self::RoundRobin => {
                ignore_unsupported(sockopt::detach_reuseport_filter(any.as_fd()))?;
            }
        }
        Ok(())
    }
}

const ENOPROTOOPT: Errno = Errno(rustix::io::Errno::NOPROTOOPT.raw_os_error());

/// Ignores the error of resetting an option that the kernel does not support, and that is therefore
/// not set.
fn ignore_unsupported(reset: Result<(), Errno>) -> Result<(), Errno> {
    if reset == Err(ENOPROTOOPT) { Ok(()) } else { reset }
}

/// The processors that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

// `linux/filter.h`, `linux/bpf_common.h`.
const LOAD_ABS: u16 = 0x20;
const LOAD_CONST: u16 = 0x00;
const LOAD_MEM: u16 = 0x60;
const LOAD_X_MEM: u16 = 0x61;
const STORE: u16 = 0x02;
const MUL: u16 = 0x24;
const SHIFT_RIGHT: u16 = 0x74;
const XOR: u16 = 0xa4;
const XOR_X: u16 = 0xac;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_X: u16 = 0x2d;
const JUMP: u16 = 0x05;
const RETURN_A: u16 = 0x16;
const A_TO_X: u16 = 0x07;

/// Offset of the ancillary field with the protocol of the network layer (`SKF_AD_OFF`).
const PROTOCOL: u32 = (-0x1000_i32).cast_unsigned();
/// Offset of the network header (`SKF_NET_OFF`).
const NETWORK: u32 = (-0x10_0000_i32).cast_unsigned();
const ETH_P_IPV6: u32 = 0x86dd;

/// Cells of the program's memory.
const CLIENT: u32 = 0;
const BEST_SCORE: u32 = 1;
const BEST: u32 = 2;

const fn insn(code: u16, constant: u32) -> FilterInsn {
    FilterInsn { code, jump_true: 0, jump_false: 0, constant }
}

/// Mixes the bits of A (the finalizer of MurmurHash3, which is in the public domain, with two
/// rounds).
const MIX: [FilterInsn; 8] = [
    insn(MUL, 0x85eb_ca6b),
    insn(A_TO_X, 0),
    insn(SHIFT_RIGHT, 13),
    insn(XOR_X, 0),
    insn(MUL, 0xc2b2_ae35),
    insn(A_TO_X, 0),
    insn(SHIFT_RIGHT, 16),
    insn(XOR_X, 0),
];

/// A program that returns the socket with the highest score for the client's address (rendezvous
/// hashing): with one socket fewer, only the clients of the last socket move.
fn source_hash(sockets: usize) -> Vec<FilterInsn> {
    let mut program = load_client();
    program.extend([insn(STORE, CLIENT), insn(LOAD_CONST, 0), insn(STORE, BEST_SCORE), insn(STORE, BEST)]);
    for socket in 0..u32::try_from(sockets).unwrap_or(u32::MAX) {
        program.extend([insn(LOAD_MEM, CLIENT), insn(XOR, socket.wrapping_add(1).wrapping_mul(0x9e37_79b9))]);
        program.extend(MIX);
        program.extend([
            insn(LOAD_X_MEM, BEST_SCORE),
            FilterInsn { jump_false: 3, ..insn(JUMP_GREATER_X, 0) },
            insn(STORE, BEST_SCORE),
            insn(LOAD_CONST, socket),
            insn(STORE, BEST),
        ]);
    }
    program.extend([insn(LOAD_MEM, BEST), insn(RETURN_A, 0)]);
    program
}

/// Loads 32 bits into A: the client's IPv4 address, or a hash of its IPv6 address.
fn load_client() -> Vec<FilterInsn> {
    let mut v6 = vec![insn(LOAD_ABS, NETWORK + 8)];
    for word in [12, 16, 20] {
        v6.extend(MIX);
        v6.extend([insn(A_TO_X, 0), insn(LOAD_ABS, NETWORK + word), insn(XOR_X, 0)]);
    }
    let skip = u32::try_from(v6.len()).expect("a short program");
    let mut program = vec![
        insn(LOAD_ABS, PROTOCOL),
        FilterInsn { jump_true: 2, ..insn(JUMP_EQUAL, ETH_P_IPV6) },
        insn(LOAD_ABS, NETWORK + 12),
        insn(JUMP, skip),
    ];
    program.extend(v6);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on a packet of the client with this address, as the kernel would.
    fn run(program: &[FilterInsn], client: &[u32], is_v6: bool) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
        loop {
            let FilterInsn { code, jump_true, jump_false, constant } = program[at];
            let cell = constant as usize;
            at += 1;
            match code {
                LOAD_ABS if constant == PROTOCOL => a = if is_v6 { ETH_P_IPV6 } else { 0x0800 },
                LOAD_ABS => {
                    let first = if is_v6 { 8 } else { 12 };
                    a = client[(constant.wrapping_sub(NETWORK) - first) as usize / 4];
                }
                LOAD_CONST => a = constant,
                LOAD_MEM => a = memory[cell],
                LOAD_X_MEM => x = memory[cell],
                STORE => memory[cell] = a,
                MUL => a = a.wrapping_mul(constant),
                SHIFT_RIGHT => a >>= constant,
                XOR => a ^= constant,
                XOR_X => a ^= x,
                A_TO_X => x = a,
                JUMP => at += cell,
                JUMP_EQUAL => at += usize::from(if a == constant { jump_true } else { jump_false }),
                JUMP_GREATER_X => at += usize::from(if a > x { jump_true } else { jump_false }),
                RETURN_A => return a,
                code => panic!("an unknown instruction: {code:#x}"),
            }
        }
    }

    /// The sockets of 100,000 neighbouring clients.
    fn sockets_of(count: usize, is_v6: bool) -> Vec<u32> {
        let program = source_hash(count);
        let client = |number: u32| {
            if is_v6 { vec![0x2001_0db8, number >> 8, 0, number & 0xff] } else { vec![0x0a00_0000 + number] }
        };
        (0..100_000).map(|number| run(&program, &client(number), is_v6)).collect()
    }

    #[test]
    fn clients_are_spread_evenly_and_few_move_with_a_new_worker() {
        for is_v6 in [false, true] {
            for count in [1, 2, 3, 8, 16, 64] {
                let (before, after) = (sockets_of(count, is_v6), sockets_of(count + 1, is_v6));
                for socket in 0..count {
                    let clients = before.iter().filter(|known| **known as usize == socket).count();
                    let share = 100_000 / count;
                    assert!((share * 9 / 10..=share * 11 / 10).contains(&clients), "{count}: {clients}");
                }
                let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
                assert!(moved.clone().all(|(_, after)| *after as usize == count), "only to the new one");
                assert!(moved.count() <= 100_000 / (count + 1) + 5_000, "{count}");
            }
        }
    }

    #[test]
    fn the_next_worker_is_chosen_in_turn_or_by_load() {
        let chosen = |balance: Balance, loads: &[Option<u64>], turns: [usize; 4]| {
            turns.map(|turn| balance.choose(loads, turn).map_or('-', |worker| ['A', 'B', 'C'][worker]))
        };
        let idle = [Some(0); 3];
        let busy = [Some(9), Some(3), Some(3)];
        let (without_b, only_a) = ([Some(9), None, Some(3)], [Some(9), None, None]);
        for (loads, in_turn, by_load) in [
            (&idle[..], "ABCA", "ABCA"),
            (&busy, "ABCA", "BBCB"),
            (&without_b, "ACCA", "CCCC"),
            (&only_a, "AAAA", "AAAA"),
            (&[None; 3], "----", "----"),
            (&[], "----", "----"),
        ] {
            for (balance, expected) in [(Balance::RoundRobin, in_turn), (Balance::LeastConnections, by_load)]
            {
                let found: String = chosen(balance, loads, [0, 1, 2, 3]).iter().collect();
                assert_eq!(found, expected, "{balance:?} {loads:?}");
            }
        }
    }

    #[test]
    fn the_program_for_many_workers_is_within_the_limit_of_the_kernel() {
        assert!(source_hash(256).len() <= 4_096);
    }
}
