//! Owns the fallback order of `io_uring_setup`: which flag is dropped next, and when the ring is
//! halved.

use super::{Lever, Levers, Setup, StepDown};
use crate::Errno;

/// The parameters of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) sq_entries: u32,
    pub(super) cq_entries: u32,
    pub(super) levers: Levers,
}

/// Minimum number of entries; a smaller ring is useless.
pub(super) const SQ_ENTRIES_MIN: u32 = 64;

/// Flags in the order in which they are dropped, newest first. A kernel that supports a flag also
/// supports all flags after it, so as few flags as possible are dropped.
const GIVEN_UP_IN_ORDER: [Lever; 8] = [
    Lever::NoSqarray,
    Lever::DeferTaskrun,
    Lever::SingleIssuer,
    Lever::CoopTaskrun,
    Lever::SubmitAll,
    Lever::RDisabled,
    Lever::Clamp,
    Lever::Cqsize,
];

/// Retries until `create` succeeds: `EINVAL` drops one flag, `ENOMEM` halves the ring. Returns any
/// other error, `EINVAL` when no flag is left to drop, and `ENOMEM` at the minimum size.
pub(super) fn climb_down<T>(
    setup: &Setup,
    steps: &mut Vec<StepDown>,
    mut create: impl FnMut(&Attempt) -> Result<T, Errno>,
) -> Result<(T, Attempt), Errno> {
    let mut attempt = Attempt::first(setup, steps);
    loop {
        let errno = match create(&attempt) {
            Ok(made) => return Ok((made, attempt)),
            Err(errno) => errno,
        };
        let lever = match errno.0 {
            libc::EINVAL => attempt.give_up_flag().ok_or(errno)?,
            libc::ENOMEM => attempt.halve().ok_or(errno)?,
            _ => return Err(errno),
        };
        steps.push(StepDown { lever, errno: Some(errno) });
    }
}

impl Attempt {
    /// Creates the first attempt with all requested flags, and records the flags that were not
    /// requested.
    fn first(setup: &Setup, steps: &mut Vec<StepDown>) -> Self {
        let sq_entries = setup.sq_entries.clamp(SQ_ENTRIES_MIN, 32_768).next_power_of_two();
        let cq_wanted = match setup.cq_entries {
            0 => setup.slots.saturating_mul(2).saturating_add(1_024),
            given => given,
        };
        let cq_entries = cq_wanted.clamp(sq_entries, 1 << 30).next_power_of_two();
        let mut attempt = Self { sq_entries, cq_entries, levers: setup.levers };
        if !attempt.levers.single_issuer {
            attempt.levers.defer_taskrun = false;
        }
        for lever in GIVEN_UP_IN_ORDER {
            if !*attempt.flag(lever) {
                steps.push(StepDown { lever, errno: None });
            }
        }
        attempt
    }

    fn give_up_flag(&mut self) -> Option<Lever> {
        for lever in GIVEN_UP_IN_ORDER {
            let flag = self.flag(lever);
            if *flag {
                *flag = false;
                return Some(lever);
            }
        }
        None
    }

    fn halve(&mut self) -> Option<Lever> {
        if self.sq_entries / 2 < SQ_ENTRIES_MIN {
            return None;
        }
        self.sq_entries /= 2;
        self.cq_entries = (self.cq_entries.min(65_536) / 2).max(self.sq_entries);
        Some(Lever::RingSize(self.sq_entries))
    }

    const fn flag(&mut self, lever: Lever) -> &mut bool {
        let levers = &mut self.levers;
        match lever {
            Lever::Clamp => &mut levers.clamp,
            Lever::CoopTaskrun => &mut levers.coop_taskrun,
            Lever::Cqsize => &mut levers.cqsize,
            Lever::DeferTaskrun => &mut levers.defer_taskrun,
            Lever::NoSqarray => &mut levers.no_sqarray,
            Lever::RDisabled => &mut levers.r_disabled,
            Lever::RegisteredFd | Lever::Restrictions | Lever::FixedFiles | Lever::RingSize(_) => {
                &mut levers.registered_fd
            }
            Lever::SingleIssuer => &mut levers.single_issuer,
            Lever::SubmitAll => &mut levers.submit_all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EINVAL: Errno = Errno(libc::EINVAL);
    const ENOMEM: Errno = Errno(libc::ENOMEM);

    fn climb(
        setup: &Setup,
        kernel: impl FnMut(&Attempt) -> Result<(), Errno>,
    ) -> (Result<Attempt, Errno>, Vec<StepDown>) {
        let mut steps = Vec::new();
        let result = climb_down(setup, &mut steps, kernel).map(|((), attempt)| attempt);
        (result, steps)
    }

    /// Imitates a kernel that rejects these flags.
    fn kernel(unknown: &'static [Lever]) -> impl FnMut(&Attempt) -> Result<(), Errno> {
        move |attempt| {
            let mut copy = *attempt;
            if unknown.iter().any(|lever| *copy.flag(*lever)) { Err(EINVAL) } else { Ok(()) }
        }
    }

    #[test]
    fn a_new_kernel_gives_everything() {
        let (result, steps) = climb(&Setup::default(), kernel(&[]));
        assert_eq!(
            result.unwrap(),
            Attempt { sq_entries: 1_024, cq_entries: 4_096, levers: Levers::default() }
        );
        assert_eq!(steps, []);
    }

    #[test]
    fn each_old_kernel_loses_only_what_it_lacks() {
        for known in 0..=GIVEN_UP_IN_ORDER.len() {
            let unknown = &GIVEN_UP_IN_ORDER[..known];
            let (result, steps) = climb(&Setup::default(), move |attempt| {
                let mut copy = *attempt;
                if unknown.iter().any(|lever| *copy.flag(*lever)) { Err(EINVAL) } else { Ok(()) }
            });
            let expected: Vec<_> =
                unknown.iter().map(|lever| StepDown { lever: *lever, errno: Some(EINVAL) }).collect();
            assert_eq!(steps, expected);
            let mut levers = result.unwrap();
            assert!(GIVEN_UP_IN_ORDER[known..].iter().all(|lever| *levers.flag(*lever)));
        }
    }

    #[test]
    fn deferred_work_is_never_asked_for_without_a_single_issuer() {
        let levers = Levers { single_issuer: false, ..Levers::default() };
        let (result, steps) = climb(&Setup { levers, ..Setup::default() }, kernel(&[]));
        assert!(!result.unwrap().levers.defer_taskrun);
        let not_asked = |lever| StepDown { lever, errno: None };
        assert_eq!(steps, [not_asked(Lever::DeferTaskrun), not_asked(Lever::SingleIssuer)]);
    }

    #[test]
    fn no_memory_halves_both_queues_down_to_64() {
        let (result, steps) = climb(&Setup { slots: 4_096, ..Setup::default() }, |_| Err(ENOMEM));
        assert_eq!(result, Err(ENOMEM));
        let halved = [512, 256, 128, 64]
            .map(|entries| StepDown { lever: Lever::RingSize(entries), errno: Some(ENOMEM) });
        assert_eq!(steps, halved);
        let (result, _) = climb(&Setup { slots: 4_096, ..Setup::default() }, |attempt| {
            if attempt.sq_entries > 128 { Err(ENOMEM) } else { Ok(()) }
        });
        let attempt = result.unwrap();
        assert_eq!((attempt.sq_entries, attempt.cq_entries), (128, 2_048));
    }

    #[test]
    fn a_completion_queue_the_kernel_would_clamp_shrinks_at_once() {
        let setup = Setup { slots: 10_000_000, ..Setup::default() };
        let (result, _) =
            climb(&setup, |attempt| if attempt.sq_entries > 512 { Err(ENOMEM) } else { Ok(()) });
        assert_eq!(result.unwrap().cq_entries, 32_768);
    }

    #[test]
    fn both_reasons_mix() {
        let (result, steps) = climb(&Setup::default(), |attempt| {
            if attempt.levers.no_sqarray {
                Err(EINVAL)
            } else if attempt.sq_entries > 512 {
                Err(ENOMEM)
            } else {
                Ok(())
            }
        });
        assert!(result.is_ok());
        assert_eq!(
            steps.iter().map(|step| step.lever).collect::<Vec<_>>(),
            [Lever::NoSqarray, Lever::RingSize(512)]
        );
    }

    #[test]
    fn a_refusal_is_not_argued_with() {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EMFILE, libc::EOPNOTSUPP] {
            let mut calls = 0;
            let (result, steps) = climb(&Setup::default(), |_| {
                calls += 1;
                Err(Errno(errno))
            });
            assert_eq!((result, calls), (Err(Errno(errno)), 1));
            assert_eq!(steps, []);
        }
    }

    #[test]
    fn sizes_out_of_range_are_brought_into_it() {
        let setup = Setup { sq_entries: u32::MAX, cq_entries: u32::MAX, ..Setup::default() };
        let (result, _) = climb(&setup, |_| Ok(()));
        let attempt = result.unwrap();
        assert_eq!((attempt.sq_entries, attempt.cq_entries), (32_768, 1 << 30));
        let (result, _) = climb(&Setup { sq_entries: 0, cq_entries: 1, ..Setup::default() }, |_| Ok(()));
        let attempt = result.unwrap();
        assert_eq!((attempt.sq_entries, attempt.cq_entries), (64, 64));
    }
}
