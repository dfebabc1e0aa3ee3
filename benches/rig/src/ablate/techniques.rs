//! The techniques of the engine: the settings that switch each technique on and off, and where it
//! has an effect.

use crate::variant::{Driver, Settings};

/// One technique, which is a configuration key with two values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Technique {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    key: &'static str,
    /// The value that switches the technique on.
    on: &'static str,
    /// The value that switches the technique off.
    off: &'static str,
    /// Settings that the technique requires to have an effect.
    context: &'static [(&'static str, &'static str)],
    /// Whether the epoll driver also supports the technique.
    on_epoll: bool,
}

const fn uring(name: &'static str, key: &'static str, on: &'static str, off: &'static str) -> Technique {
    Technique { name, key, on, off, context: &[], on_epoll: false }
}

const fn both(name: &'static str, key: &'static str, on: &'static str, off: &'static str) -> Technique {
    Technique { on_epoll: true, ..uring(name, key, on, off) }
}

impl Technique {
    const fn beside(self, context: &'static [(&'static str, &'static str)]) -> Self {
        Self { context, ..self }
    }
}

/// All techniques: first of the listener, then of the loop, then of the ring.
pub(crate) const TECHNIQUES: &[Technique] = &[
    both("deferred accept", "tcp.defer_accept", "true", "false"),
    both("quick-ack off", "tcp.quickack", "false", "true"),
    both("reply with the FIN", "tuning.send_more", "true", "false"),
    uring("direct calls", "tuning.direct_calls", "true", "false"),
    uring("multishot accept", "tuning.accept", "\"multishot\"", "\"single-shot\""),
    uring("accept by polling", "tuning.accept", "\"poll\"", "\"single-shot\""),
    uring("lazy wake 200us", "tuning.wait_min", "\"200us\"", "\"0s\"")
        .beside(&[("tuning.accept", "\"poll\"")]),
    uring("lazy wake 1ms", "tuning.wait_min", "\"1ms\"", "\"0s\"").beside(&[("tuning.accept", "\"poll\"")]),
    uring("receive by polling", "tuning.receive", "\"poll\"", "\"single-shot\""),
    uring("poll first", "tuning.poll_first", "true", "false")
        .beside(&[("tuning.receive", "\"single-shot\"")]),
    uring("direct descriptors", "tuning.descriptors", "\"direct\"", "\"ordinary\""),
    uring("skipped completions", "tuning.skip_success", "true", "false")
        .beside(&[("tuning.descriptors", "\"direct\"")]),
    // Deferred task work requires a single issuer, and is a technique of its own, so it is off
    // here.
    uring("one issuer", "tuning.single_issuer", "true", "false").beside(&[("tuning.defer_taskrun", "false")]),
    uring("deferred task work", "tuning.defer_taskrun", "true", "false")
        .beside(&[("tuning.single_issuer", "true")]),
    // Deferred task work is off here, because with it the ring never interrupts the task.
    uring("cooperative task work", "tuning.coop_taskrun", "true", "false")
        .beside(&[("tuning.defer_taskrun", "false")]),
    uring("registered ring", "tuning.registered_ring", "true", "false"),
    uring("no index array", "tuning.no_sqarray", "true", "false"),
];

impl Technique {
    /// The settings with the technique on.
    pub(crate) fn on(&self) -> Settings {
        Settings::of(&[(self.key, self.on)])
    }

    /// The settings with the technique off.
    pub(crate) fn off(&self) -> Settings {
        Settings::of(&[(self.key, self.off)])
    }

    /// The settings that the technique requires.
    pub(crate) fn context(&self) -> Settings {
        Settings::of(self.context)
    }

    /// Whether `driver` supports the technique, and `defaults` contains its key and the keys of its
    /// context.
    pub(crate) fn is_of(&self, driver: Driver, defaults: &Settings) -> bool {
        let mut keys = self.context.iter().map(|(key, _)| *key).chain([self.key]);
        (self.on_epoll || driver == Driver::IoUring) && keys.all(|key| defaults.get(key).is_some())
    }
}

/// Settings with all techniques off. Techniques whose keys are missing in `defaults` are left out,
/// because the program does not support them.
pub(crate) fn nothing(defaults: &Settings) -> Settings {
    let known = TECHNIQUES.iter().filter(|technique| technique.is_of(Driver::IoUring, defaults));
    known.fold(Settings::default(), |settings, technique| settings.with(&technique.off()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_technique_turns_its_own_keys() {
        for (at, technique) in TECHNIQUES.iter().enumerate() {
            assert!(TECHNIQUES[..at].iter().all(|other| other.name != technique.name), "{}", technique.name);
            assert_ne!(technique.on, technique.off);
            assert!(technique.context.iter().all(|(key, _)| *key != technique.key), "{}", technique.name);
        }
    }

    /// Default settings with a value for every key.
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
            technique.is_of(Driver::IoUring, &one)
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
