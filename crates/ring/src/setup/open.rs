//! Owns the steps from `Setup` to a running ring.
#![expect(unsafe_code, reason = "registration of memory")]

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use io_uring::register::{Probe, Restriction};
use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode};

use super::ladder::{Attempt, climb_down};
use super::{Hint, Lever, Setup, SetupError, SetupReport, Step, StepDown};
use crate::Errno;
use crate::bufs::RecvBufs;
use crate::datagram;
use crate::memory::Region;
use crate::ring::{BUFFER_GROUP, DATAGRAM_GROUP, DatagramPool, Parts};
use crate::sys::{self, RingFd};

/// Required operations. The newest of them is `SHUTDOWN` (Linux 5.11).
const OPCODES: [(u8, &str); 7] = [
    (opcode::Accept::CODE, "ACCEPT"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
    (opcode::Close::CODE, "CLOSE"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::Recv::CODE, "RECV"),
    (opcode::Send::CODE, "SEND"),
    (opcode::Shutdown::CODE, "SHUTDOWN"),
];

/// Names of the required operations, as in `io_uring_enter(2)` without `IORING_OP_`.
pub fn opcodes() -> impl Iterator<Item = &'static str> {
    OPCODES.iter().map(|(_, name)| *name)
}

/// `IORING_UNREGISTER_RING_FDS`: a restricted ring must allow it for tear-down.
const UNREGISTER_RING_FDS: u8 = 21;

/// Creates the ring step by step; the failure of an optional step is recorded with its reason.
pub(crate) fn open(setup: &Setup) -> Result<Parts, SetupError> {
    check(setup)?;
    let mut steps = Vec::new();
    let created = climb_down(setup, &mut steps, |attempt| create(setup, attempt));
    let (io, attempt) = created.map_err(|errno| SetupError::new(Step::Create, errno))?;
    if !io.params().is_feature_ext_arg() || !io.params().is_feature_nodrop() {
        let hint = Hint::MissingOpcode("EXT_ARG (5.11) or NODROP (5.5)");
        return Err(SetupError::hinted(Step::Create, Errno(libc::EOPNOTSUPP), hint));
    }
    let fd_install = probe(setup, &io)?;
    let fixed_files = register_files(setup, &io, &mut steps);
    let bufs = register_bufs(setup, &io, (setup.recv_bufs, setup.recv_buf_len), BUFFER_GROUP)?;
    let datagrams = register_datagram_pool(setup, &io)?;
    let mut levers = attempt.levers;
    let ring_fd = register_ring_fd(setup, &io, &mut steps);
    levers.registered_fd = matches!(ring_fd, RingFd::Registered(_));
    let report = SetupReport {
        sq_entries: io.params().sq_entries(),
        cq_entries: io.params().cq_entries(),
        fixed_files,
        fd_install: fd_install && fixed_files > 0,
        recv_bufs: bufs.count(),
        recv_buf_len: bufs.buf_len(),
        levers,
        restricted: false,
        steps_down: steps,
    };
    let mut parts = Parts { io, ring_fd, bufs, datagrams, report };
    match start(setup, &mut parts) {
        Ok(()) => Ok(parts),
        Err((step, errno)) => {
            parts.unregister_ring_fd();
            Err(SetupError::new(step, errno))
        }
    }
}

fn check(setup: &Setup) -> Result<(), SetupError> {
    let bad = |what| Err(SetupError::hinted(Step::Check, Errno(libc::EINVAL), Hint::BadSetup(what)));
    if let Err(errno) = setup.check_fault(Step::Check) {
        return Err(SetupError::new(Step::Check, errno));
    }
    if setup.recv_bufs == 0 || setup.recv_bufs > 1 << 15 {
        return bad("receive buffers must be 1 to 32,768");
    }
    if setup.recv_buf_len == 0 || setup.recv_buf_len > 1 << 24 {
        return bad("a receive buffer must be 1 byte to 16 MiB");
    }
    if setup.datagram_bufs > 1 << 15 || setup.datagram_len > 1 << 16 {
        return bad("buffers for datagrams must be at most 32,768, of at most 64 KiB");
    }
    if setup.slots == 0 {
        return bad("there must be a slot");
    }
    Ok(())
}

fn create(setup: &Setup, attempt: &Attempt) -> Result<IoUring, Errno> {
    setup.check_fault(Step::Create)?;
    let mut builder = IoUring::builder();
    let levers = attempt.levers;
    // A forked child must not write to the queues.
    builder.dontfork();
    if levers.clamp {
        builder.setup_clamp();
    }
    if levers.coop_taskrun {
        builder.setup_coop_taskrun();
    }
    if levers.cqsize {
        builder.setup_cqsize(attempt.cq_entries);
    }
    if levers.defer_taskrun {
        builder.setup_defer_taskrun();
    }
    if levers.no_sqarray {
        builder.setup_no_sqarray();
    }
    if levers.r_disabled {
        builder.setup_r_disabled();
    }
    if levers.single_issuer {
        builder.setup_single_issuer();
    }
    if levers.submit_all {
        builder.setup_submit_all();
    }
    builder.build(attempt.sq_entries).map_err(|error| Errno::of(&error))
}

/// Fails if the kernel lacks a required operation. Returns whether it supports `FIXED_FD_INSTALL`,
/// which is optional.
fn probe(setup: &Setup, io: &IoUring) -> Result<bool, SetupError> {
    let mut probe = Probe::new();
    let asked = setup.check_fault(Step::Probe);
    asked
        .and_then(|()| io.submitter().register_probe(&mut probe).map_err(|error| Errno::of(&error)))
        .map_err(|errno| SetupError::new(Step::Probe, errno))?;
    match OPCODES.iter().find(|(code, _)| !probe.is_supported(*code)) {
        None => Ok(probe.is_supported(opcode::FixedFdInstall::CODE)),
        Some((_, name)) => {
            Err(SetupError::hinted(Step::Probe, Errno(libc::EOPNOTSUPP), Hint::MissingOpcode(name)))
        }
    }
}

/// Registers the table of direct descriptors and returns its size. On failure records the reason
/// and returns 0.
fn register_files(setup: &Setup, io: &IoUring, steps: &mut Vec<StepDown>) -> u32 {
    if setup.fixed_files == 0 {
        return 0;
    }
    let registered = setup.check_fault(Step::RegisterFiles).and_then(|()| {
        io.submitter().register_files_sparse(setup.fixed_files).map_err(|error| Errno::of(&error))
    });
    match registered {
        Ok(()) => setup.fixed_files,
        Err(errno) => {
            steps.push(StepDown { lever: Lever::FixedFiles, errno: Some(errno) });
            0
        }
    }
}

/// Maps and registers `count` buffers of `buf_len` bytes as a group.
fn register_bufs(
    setup: &Setup,
    io: &IoUring,
    (count, buf_len): (u16, u32),
    group: u16,
) -> Result<RecvBufs, SetupError> {
    let failed = |errno| SetupError::new(Step::RegisterBuffers, errno);
    setup.check_fault(Step::RegisterBuffers).map_err(failed)?;
    let bufs = RecvBufs::map(count.next_power_of_two(), buf_len, next_pool_id()).map_err(failed)?;
    let submitter = io.submitter();
    // SAFETY: R-5, the memory outlives the registration: it is unmapped after the ring is closed
    // with nothing in flight.
    let registered =
        unsafe { submitter.register_buf_ring_with_flags(bufs.ring_addr(), bufs.count(), group, 0) };
    if let Err(error) = registered {
        return Err(failed(Errno::of(&error)));
    }
    Ok(bufs)
}

/// The memory for datagrams, if the ring receives them.
fn register_datagram_pool(setup: &Setup, io: &IoUring) -> Result<Option<DatagramPool>, SetupError> {
    if setup.datagram_bufs == 0 {
        return Ok(None);
    }
    let failed = |errno| SetupError::new(Step::RegisterBuffers, errno);
    let buf_len = (u32::from(datagram::HEAD_LEN) + setup.datagram_len).next_multiple_of(8);
    let bufs = register_bufs(setup, io, (setup.datagram_bufs, buf_len), DATAGRAM_GROUP)?;
    let mut header = Region::map(size_of::<libc::msghdr>()).map_err(failed)?;
    // SAFETY: R-15, no receive has been pushed yet.
    unsafe { header.write(0, datagram::ring_header()) };
    Ok(Some(DatagramPool { bufs, header }))
}

/// Returns a unique number for a pool of buffers, so that a buffer of one pool is never mistaken
/// for a buffer of another.
fn next_pool_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
    taken.expect("R-6: a process opens fewer than 2^32 rings")
}

fn register_ring_fd(setup: &Setup, io: &IoUring, steps: &mut Vec<StepDown>) -> RingFd {
    let fd = io.as_raw_fd();
    if !setup.levers.registered_fd {
        steps.push(StepDown { lever: Lever::RegisteredFd, errno: None });
        return RingFd::Plain(fd);
    }
    match setup.check_fault(Step::RegisterRingFd).and_then(|()| sys::register_ring_fd(fd)) {
        Ok(index) => RingFd::Registered(index),
        Err(errno) => {
            steps.push(StepDown { lever: Lever::RegisteredFd, errno: Some(errno) });
            RingFd::Plain(fd)
        }
    }
}

/// Restricts, enables and enters the ring once, so that a filter on any io_uring system call makes
/// set-up fail and not a later request.
fn start(setup: &Setup, parts: &mut Parts) -> Result<(), (Step, Errno)> {
    let r_disabled = parts.report.levers.r_disabled;
    let restricted = if !setup.restrict {
        Err(None)
    } else if !r_disabled {
        Err(Some(Errno(libc::EBADFD)))
    } else {
        setup.check_fault(Step::Restrict).and_then(|()| restrict(parts)).map_err(Some)
    };
    match restricted {
        Ok(()) => parts.report.restricted = true,
        Err(errno) => parts.report.steps_down.push(StepDown { lever: Lever::Restrictions, errno }),
    }
    if r_disabled {
        setup.check_fault(Step::Enable).map_err(|errno| (Step::Enable, errno))?;
        parts.io.submitter().register_enable_rings().map_err(|error| (Step::Enable, Errno::of(&error)))?;
    }
    setup.check_fault(Step::Enter).map_err(|errno| (Step::Enter, errno))?;
    sys::enter(parts.ring_fd, 0, 0, None).map_err(|errno| (Step::Enter, errno))?;
    Ok(())
}

fn restrict(parts: &Parts) -> Result<(), Errno> {
    let mut allowed: Vec<Restriction> = OPCODES.iter().map(|(code, _)| Restriction::sqe_op(*code)).collect();
    if parts.datagrams.is_some() {
        allowed.push(Restriction::sqe_op(opcode::RecvMsgMulti::CODE));
    }
    if parts.report.fd_install {
        allowed.push(Restriction::sqe_op(opcode::FixedFdInstall::CODE));
    }
    let flags = Flags::FIXED_FILE | Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS;
    allowed.push(Restriction::sqe_flags_allowed(flags.bits()));
    allowed.push(Restriction::register_op(UNREGISTER_RING_FDS));
    parts.io.submitter().register_restrictions(&mut allowed).map_err(|error| Errno::of(&error))
}
