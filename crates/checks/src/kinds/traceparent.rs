//! `traceparent` for runs that must not be recorded (W3C Trace Context): fresh identifiers, and the
//! flag "not sampled".

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the header field.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Length of `00-` 32 digits `-` 16 digits `-00`.
const LEN: usize = 55;

/// Generates identifiers that are unique with high probability.
#[derive(Debug, Default)]
pub(crate) struct Unsampled {
    chance: RandomState,
    count: AtomicU64,
}

impl Unsampled {
    pub(crate) fn next(&self) -> [u8; LEN] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        for (part, at) in [3, 19, 36].into_iter().enumerate() {
            // Zero is not a valid identifier.
            let mut number = self.chance.hash_one((count, part)) | 1;
            for digit in text[at..at + 16].iter_mut().rev() {
                *digit = b"0123456789abcdef"[(number & 15) as usize];
                number >>= 4;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_is_unique_and_not_sampled() {
        let unsampled = Unsampled::default();
        let all: HashSet<String> =
            (0..1000).map(|_| String::from_utf8(unsampled.next().to_vec()).unwrap()).collect();
        assert_eq!(all.len(), 1000);
        for text in all {
            let parts: Vec<&str> = text.split('-').collect();
            let [version, trace, parent, flags] = parts[..] else { panic!("{text}") };
            assert_eq!((version, trace.len(), parent.len(), flags), ("00", 32, 16, "00"), "{text}");
            let is_number = |part: &str| {
                part.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
                    && part.bytes().any(|byte| byte != b'0')
            };
            assert!(is_number(trace) && is_number(parent), "{text}");
        }
    }
}
