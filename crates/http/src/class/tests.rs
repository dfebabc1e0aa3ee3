//! The scanners and both implementations of blocks, compared with loops over single bytes.

use super::block::LEN;
use super::block::portable::Block as PlainBlock;
use super::*;
use proptest::prelude::*;

/// The name of a scanner, the scanner, and the class that it scans.
type Scanner = (&'static str, fn(&[u8], usize) -> usize, fn(u8) -> bool);

const SCANNERS: [Scanner; 4] = [
    ("target", target_end, |byte| is(byte, TARGET)),
    ("path", path_end, |byte| is(byte, TARGET) && !b"?\\%!\"$".contains(&byte)),
    ("value", value_end, |byte| is(byte, VALUE)),
    ("plain host", plain_host_end, is_plain_host),
];

const fn is_plain_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

fn check(buf: &[u8], from: usize) {
    for (name, scanner, class) in SCANNERS {
        let len = buf[from..].iter().take_while(|&&byte| class(byte)).count();
        assert_eq!(scanner(buf, from), from + len, "{name} from {from}: {}", buf.escape_ascii());
    }
    if let Some(bytes) = buf[from..].first_chunk() {
        let plain = |byte: &&u8| byte.is_ascii_alphabetic() || **byte == b'-';
        let len = bytes.iter().take_while(plain).count();
        assert_eq!(plain_name_len(bytes), len, "{}", bytes.escape_ascii());
    }
}

/// The scanners are correct for every pair of adjacent byte values, so no operation carries into a
/// neighbouring byte. The pair is placed around the ends of words and blocks.
#[test]
fn scanners_agree_with_the_classes_on_every_pair_of_bytes() {
    for first in 0..=255u8 {
        for second in 0..=255u8 {
            for place in [0, 6, 7, 8, 14, 15, 16, 30, 31] {
                let mut buf = [b'a'; 37];
                buf[place] = first;
                buf[place + 1] = second;
                check(&buf, 0);
            }
        }
    }
}

#[test]
fn scanners_agree_with_the_classes_at_every_place_and_length() {
    for len in 0..70 {
        for from in 0..=len {
            check(&vec![b'a'; len], from);
            for bad in from..len {
                for byte in
                    [0, b'\t', b'\r', b' ', b'#', b'%', b'&', b'/', b'?', b':', b'\\', 0x7f, 0x80, 0xff]
                {
                    let mut buf = vec![b'a'; len];
                    buf[bad] = byte;
                    check(&buf, from);
                }
            }
        }
    }
}

fn bits(marked: impl Fn(u8) -> bool, bytes: &[u8; LEN]) -> u32 {
    bytes.iter().enumerate().map(|(n, &byte)| u32::from(marked(byte)) << n).sum()
}

/// Both implementations of blocks classify every pair of adjacent byte values like a loop over
/// bytes.
#[test]
fn blocks_agree_with_bytes() {
    let limits =
        [(0x20, 0x7e), (0x21, 0x7e), (b'&', 0x7e), (b'-', b'9'), (b'a', b'z'), (b'0', b'9'), (1, 0x7f)];
    for first in 0..=255u8 {
        for second in 0..=255u8 {
            let bytes: [u8; LEN] = std::array::from_fn(|n| if n % 3 == 0 { first } else { second });
            let (own, plain) = (Block::load(&bytes), PlainBlock::load(&bytes));
            for (low, high) in limits {
                let expect = bits(|byte| byte < low || byte > high, &bytes);
                assert_eq!(own.outside(low, high).bits(), expect, "{bytes:?} {low} {high}");
                assert_eq!(plain.outside(low, high).bits(), expect, "{bytes:?} {low} {high}");
            }
            let equal = bits(|byte| byte == second, &bytes);
            assert_eq!(own.equals(second).bits(), equal, "{bytes:?}");
            assert_eq!(plain.equals(second).bits(), equal, "{bytes:?}");
            let folded = bits(|byte| byte | 0x20 == b'a', &bytes);
            assert_eq!(own.fold().equals(b'a').bits(), folded, "{bytes:?}");
            assert_eq!(plain.fold().equals(b'a').bits(), folded, "{bytes:?}");
        }
    }
}

proptest! {
    #[test]
    fn masks_combine_as_bits(a in any::<[u8; LEN]>(), x in any::<u8>(), y in any::<u8>()) {
        let (own, plain) = (Block::load(&a), PlainBlock::load(&a));
        let (ox, oy, px, py) = (own.equals(x), own.outside(0x20, 0x7e), plain.equals(x), plain.outside(0x20, 0x7e));
        prop_assert_eq!(ox.or(oy).bits(), ox.bits() | oy.bits());
        prop_assert_eq!(ox.and(oy).bits(), ox.bits() & oy.bits());
        prop_assert_eq!(oy.and_not(ox).bits(), oy.bits() & !ox.bits());
        prop_assert_eq!(px.or(py).bits(), ox.or(oy).bits());
        prop_assert_eq!(px.and(py).bits(), ox.and(oy).bits());
        prop_assert_eq!(py.and_not(px).bits(), oy.and_not(ox).bits());
        prop_assert_eq!(plain.equals(y).bits(), own.equals(y).bits());
    }

    #[test]
    fn scanners_agree_with_the_classes(buf in proptest::collection::vec(prop_oneof![Just(b'\t'), Just(b' '), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()], 0..80), from in 0usize..80) {
        prop_assume!(from <= buf.len());
        check(&buf, from);
    }
}
