//! The techniques of the engine: which settings turn each on and off, and where it makes a difference at all.
//!
//! Does not know about: what is the default (the program tells), figures.

use crate::variant::{Engine, Settings};

/// Keys of the configuration with values.
type Pairs = &'static [(&'static str, &'static str)];

/// One technique.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Technique {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    /// Settings with it.
    on: Pairs,
    /// Settings without it.
    off: Pairs,
    /// Without these settings it does nothing.
    context: Pairs,
    /// Whether the epoll driver has it too.
    on_epoll: bool,
}

const URING: Technique = Technique { name: "", on: &[], off: &[], context: &[], on_epoll: false };
const BOTH: Technique = Technique { on_epoll: true, ..URING };

/// All of them: on the listener, in the loop, of the ring.
pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "deferred accept",
        on: &[("tcp.defer_accept", "true")],
        off: &[("tcp.defer_accept", "false")],
        ..BOTH
    },
    Technique {
        name: "quick-ack off",
        on: &[("tcp.quickack", "false")],
        off: &[("tcp.quickack", "true")],
        ..BOTH
    },
    Technique {
        name: "reply with the FIN",
        on: &[("tuning.send_more", "true")],
        off: &[("tuning.send_more", "false")],
        ..BOTH
    },
    Technique {
        name: "direct calls",
        on: &[("tuning.direct_calls", "true")],
        off: &[("tuning.direct_calls", "false")],
        ..URING
    },
    Technique {
        name: "multishot accept",
        on: &[("tuning.accept", "\"multishot\"")],
        off: &[("tuning.accept", "\"single-shot\"")],
        ..URING
    },
    Technique {
        name: "accept by polling",
        on: &[("tuning.accept", "\"poll\"")],
        off: &[("tuning.accept", "\"single-shot\"")],
        ..URING
    },
    Technique {
        name: "lazy wake 200us",
        on: &[("tuning.wait_min", "\"200us\"")],
        off: &[("tuning.wait_min", "\"0s\"")],
        context: &[("tuning.accept", "\"poll\"")],
        ..URING
    },
    Technique {
        name: "lazy wake 1ms",
        on: &[("tuning.wait_min", "\"1ms\"")],
        off: &[("tuning.wait_min", "\"0s\"")],
        context: &[("tuning.accept", "\"poll\"")],
        ..URING
    },
    Technique {
        name: "receive by polling",
        on: &[("tuning.receive", "\"poll\"")],
        off: &[("tuning.receive", "\"single-shot\"")],
        ..URING
    },
    Technique {
        name: "poll first",
        on: &[("tuning.poll_first", "true")],
        off: &[("tuning.poll_first", "false")],
        context: &[("tuning.receive", "\"single-shot\"")],
        ..URING
    },
    Technique {
        name: "direct descriptors",
        on: &[("tuning.descriptors", "\"direct\"")],
        off: &[("tuning.descriptors", "\"ordinary\"")],
        ..URING
    },
    Technique {
        name: "skipped completions",
        on: &[("tuning.skip_success", "true")],
        off: &[("tuning.skip_success", "false")],
        context: &[("tuning.descriptors", "\"direct\"")],
        ..URING
    },
    Technique {
        name: "one issuer",
        on: &[("tuning.single_issuer", "true")],
        off: &[("tuning.single_issuer", "false")],
        // It carries deferred task work, which is a technique of its own.
        context: &[("tuning.defer_taskrun", "false")],
        ..URING
    },
    Technique {
        name: "deferred task work",
        on: &[("tuning.defer_taskrun", "true")],
        off: &[("tuning.defer_taskrun", "false")],
        context: &[("tuning.single_issuer", "true")],
        ..URING
    },
    Technique {
        name: "cooperative task work",
        on: &[("tuning.coop_taskrun", "true")],
        off: &[("tuning.coop_taskrun", "false")],
        // Deferred task work never interrupts.
        context: &[("tuning.defer_taskrun", "false")],
        ..URING
    },
    Technique {
        name: "registered ring",
        on: &[("tuning.registered_ring", "true")],
        off: &[("tuning.registered_ring", "false")],
        ..URING
    },
    Technique {
        name: "no index array",
        on: &[("tuning.no_sqarray", "true")],
        off: &[("tuning.no_sqarray", "false")],
        ..URING
    },
];

impl Technique {
    /// Settings with it.
    pub(crate) fn on(&self) -> Settings {
        Settings::of(self.on)
    }

    /// Settings without it.
    pub(crate) fn off(&self) -> Settings {
        Settings::of(self.off)
    }

    /// Where it makes a difference.
    pub(crate) fn context(&self) -> Settings {
        Settings::of(self.context)
    }

    /// Whether `engine` has it, and the program whose defaults these are knows every key of it.
    pub(crate) fn is_of(&self, engine: Engine, defaults: &Settings) -> bool {
        let mut keys = self.on.iter().chain(self.context).map(|(key, _)| key);
        (self.on_epoll || engine == Engine::IoUring) && keys.all(|key| defaults.get(key).is_some())
    }
}

/// Every technique off that the program whose defaults these are has a switch for.
pub(crate) fn nothing(defaults: &Settings) -> Settings {
    let known = TECHNIQUES.iter().filter(|technique| technique.is_of(Engine::IoUring, defaults));
    known.fold(Settings::default(), |settings, technique| settings.with(&technique.off()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_technique_turns_its_own_keys() {
        for (at, technique) in TECHNIQUES.iter().enumerate() {
            assert!(TECHNIQUES[..at].iter().all(|other| other.name != technique.name), "{}", technique.name);
            let keys = |pairs: Pairs| pairs.iter().map(|(key, _)| *key).collect::<Vec<_>>();
            assert_eq!(keys(technique.on), keys(technique.off), "{}", technique.name);
            assert_ne!(technique.on, technique.off);
            assert!(
                technique.context.iter().all(|(key, _)| !keys(technique.on).contains(key)),
                "{}",
                technique.name
            );
        }
    }

    /// Some value for every key.
    fn defaults() -> Settings {
        TECHNIQUES.iter().fold(Settings::default(), |settings, technique| settings.with(&technique.on()))
    }

    #[test]
    fn everything_can_be_off_at_once() {
        let nothing = nothing(&defaults());
        for technique in TECHNIQUES {
            assert!(technique.off().hold_in(&nothing), "{}", technique.name);
            assert!(!technique.on().hold_in(&nothing), "{}", technique.name);
        }
    }

    #[test]
    fn what_the_program_has_no_switch_for_is_left_out() {
        let one = Settings::of(&[("tcp.quickack", "true"), ("tuning.receive", "\"poll\"")]);
        let known = |name: &str| {
            let technique = TECHNIQUES.iter().find(|technique| technique.name == name).unwrap();
            technique.is_of(Engine::IoUring, &one)
        };
        assert!(known("quick-ack off") && known("receive by polling"));
        assert!(!known("accept by polling") && !known("direct calls"));
        let expected =
            [("tcp.quickack", "true"), ("tuning.poll_first", "false"), ("tuning.receive", "\"single-shot\"")];
        assert_eq!(
            nothing(&one.with(&Settings::of(&[("tuning.poll_first", "true")]))),
            Settings::of(&expected)
        );
    }
}
