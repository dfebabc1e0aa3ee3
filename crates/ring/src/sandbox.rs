//! Owns a seccomp filter that refuses io_uring to the calling thread, for tests of fallbacks.
//! Start at [`deny`]. A filter cannot be removed: it stays until the thread ends, even after
//! `exec`.
#![expect(unsafe_code, reason = "prctl and seccomp")]

use crate::Errno;

/// The errno that each of the three system calls returns; `None` allows the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// `io_uring_enter`.
    pub enter: Option<Errno>,
    /// `io_uring_register`.
    pub register: Option<Errno>,
    /// `io_uring_setup`.
    pub setup: Option<Errno>,
}

impl Denial {
    /// Refuses to create a ring, as the default seccomp profiles of container run-times do.
    #[must_use]
    pub const fn at_setup(errno: Errno) -> Self {
        Self { enter: None, register: None, setup: Some(errno) }
    }

    /// Allows a ring to be created but not used: an open ring breaks at its next `enter`.
    #[must_use]
    pub const fn later(errno: Errno) -> Self {
        Self { enter: Some(errno), register: Some(errno), setup: None }
    }
}

/// Installs the filter for the calling thread and every thread and process it starts from now on.
///
/// Sets `NO_NEW_PRIVS`.
///
/// # Errors
/// `EINVAL` if an errno is not in 1 to 4,095; otherwise as `seccomp(2)`.
pub fn deny(denial: &Denial) -> Result<(), Errno> {
    let filter = program(denial)?;
    // SAFETY: R-7, numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) } != 0 {
        return Err(Errno::last());
    }
    let len = u16::try_from(filter.len()).expect("the program is short");
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    let program_ptr = &raw const program;
    // SAFETY: R-7, the kernel copies the program during the call and does not write it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, program_ptr) };
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// Returns a filter that compares the number of the system call with each refused number. The three
/// numbers are the same on every supported architecture, so the architecture is not checked.
fn program(denial: &Denial) -> Result<Vec<libc::sock_filter>, Errno> {
    let refused = [
        (libc::SYS_io_uring_enter, denial.enter),
        (libc::SYS_io_uring_register, denial.register),
        (libc::SYS_io_uring_setup, denial.setup),
    ];
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (call, errno) in refused {
        let Some(errno) = errno else { continue };
        let number = u32::try_from(call).expect("a system call has a small number");
        let errno = u32::try_from(errno.0)
            .ok()
            .filter(|errno| (1..4_096).contains(errno))
            .ok_or(Errno(libc::EINVAL))?;
        let skip_next_if_other = 1;
        filter.push(libc::sock_filter {
            jf: skip_next_if_other,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ, number)
        });
        filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno));
    }
    filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    Ok(filter)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    let code = u16::try_from(code).expect("a BPF operation has 16 bits");
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program for a system call, as the kernel does, and returns the program's result.
    fn answer(denial: &Denial, call: i64) -> u32 {
        let filter = program(denial).unwrap();
        let mut at = 1;
        loop {
            let op = filter[at];
            if u32::from(op.code) == libc::BPF_RET {
                return op.k;
            }
            at += 1 + usize::from(if i64::from(op.k) == call { op.jt } else { op.jf });
        }
    }

    #[test]
    fn only_what_is_denied_is_refused() {
        let eperm = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let calls =
            [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_read];
        let answers = |denial: Denial| calls.map(|call| answer(&denial, call));
        let allow = libc::SECCOMP_RET_ALLOW;
        assert_eq!(answers(Denial::default()), [allow; 4]);
        assert_eq!(answers(Denial::at_setup(Errno(libc::EPERM))), [eperm, allow, allow, allow]);
        assert_eq!(answers(Denial::later(Errno(libc::EPERM))), [allow, eperm, eperm, allow]);
    }

    #[test]
    fn an_errno_the_kernel_would_cut_is_refused() {
        for errno in [0, -1, 4_096, i32::MAX] {
            assert_eq!(deny(&Denial::at_setup(Errno(errno))), Err(Errno(libc::EINVAL)));
        }
    }
}
