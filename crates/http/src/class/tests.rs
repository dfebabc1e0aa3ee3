//! The word scanners against the table, byte by byte.
//!
//! Does not know about: messages.

use super::*;
use proptest::prelude::*;

/// Two bytes at every pair of places, all values: carries between neighbours cannot hide.
#[test]
fn word_scanners_agree_with_the_table_on_every_pair_of_bytes() {
    for first in 0..=255u8 {
        for second in 0..=255u8 {
            for place in 0..9 {
                let mut buf = [b'a'; 19];
                buf[place] = first;
                buf[place + 1] = second;
                assert_eq!(
                    target_end(&buf, 0),
                    table_end(&buf, 0, TARGET),
                    "{first:#x} {second:#x} at {place}"
                );
                assert_eq!(
                    value_end(&buf, 0),
                    table_end(&buf, 0, VALUE),
                    "{first:#x} {second:#x} at {place}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn word_scanners_agree_with_the_table(buf in proptest::collection::vec(prop_oneof![Just(b'\t'), Just(b' '), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()], 0..80), from in 0usize..80) {
        prop_assume!(from <= buf.len());
        prop_assert_eq!(target_end(&buf, from), table_end(&buf, from, TARGET));
        prop_assert_eq!(value_end(&buf, from), table_end(&buf, from, VALUE));
    }
}
