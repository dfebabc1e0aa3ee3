//! Valid tokens with random changes. A changed token is accepted only if it equals a signed token
//! byte for byte.

use super::sign::{ALL, CLAIMS, NOW, decode, encode, header, policy, sign, token};
use doorbell_http::auth::jwt::{Algorithm, Denied};
use proptest::prelude::*;

/// Number of mutations for each algorithm.
const EACH: usize = 25_000;

/// A small seeded generator, so that failures are reproducible (Steele, Lea, Flood: SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("good input")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.next() >> 56).expect("good input")
    }
}

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/";

/// Changes raw bytes at random.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = bytes.len();
    if len == 0 {
        bytes.push(random.byte());
        return;
    }
    let place = random.below(len);
    match random.below(9) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = random.byte(),
        2 => bytes[place] = ALPHABET[random.below(ALPHABET.len())],
        3 => bytes.insert(place, ALPHABET[random.below(ALPHABET.len())]),
        4 => drop(bytes.remove(place)),
        5 => bytes.swap(place, random.below(len)),
        6 => bytes.truncate(place.max(1)),
        7 => {
            let end = (place + 1 + random.below(16)).min(len);
            let piece = bytes[place..end].to_vec();
            bytes.splice(place..place, piece);
        }
        _ => bytes[place] ^= 0x20,
    }
}

/// Decodes one part, changes it, and encodes it again.
fn damage_inside(token: &str, random: &mut Random) -> Vec<u8> {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let part = random.below(3);
    let mut bytes = decode(&parts[part]);
    damage(&mut bytes, random);
    parts[part] = encode(bytes);
    parts.join(".").into_bytes()
}

/// Encodes the same bits differently: other unused bits, padding, or the other alphabet.
fn respell(token: &str, random: &mut Random) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = token.split('.').map(|part| part.as_bytes().to_vec()).collect();
    let part = &mut parts[random.below(3)];
    match random.below(4) {
        0 => part.push(b'='),
        1 => part.extend(b"=="),
        2 => part.iter_mut().for_each(|byte| match byte {
            b'-' => *byte = b'+',
            b'_' => *byte = b'/',
            _ => {}
        }),
        _ => {
            let last = part.last_mut().expect("good input");
            let value = ALPHABET[..64].iter().position(|byte| byte == last).expect("good input");
            *last = ALPHABET[value ^ (1 + random.below(15))];
        }
    }
    parts.join(&b'.')
}

/// Joins parts of several valid tokens.
fn cross(tokens: &[String], random: &mut Random) -> Vec<u8> {
    let mut part = |place: usize| {
        tokens[random.below(tokens.len())].split('.').nth(place).expect("good input").to_owned()
    };
    [part(0), part(1), part(2)].join(".").into_bytes()
}

#[test]
fn hundred_thousand_changed_tokens() {
    let policy = policy();
    let mut signed: Vec<String> = ALL.iter().map(|&algorithm| token(algorithm)).collect();
    signed.extend(
        ALL.iter().map(|&algorithm| sign(algorithm, &header(algorithm), CLAIMS.replace("alice", "bob"))),
    );
    for token in &signed {
        assert!(policy.verify(token.as_bytes(), NOW).is_ok());
    }
    let mut random = Random(0x646f_6f72);
    let mut changed = 0;
    for (token, algorithm) in signed.clone().iter().zip(ALL) {
        let (mut of_this, mut to_the_end) = (0, 0);
        while of_this < EACH {
            let mutant = match random.below(8) {
                0 => respell(token, &mut random),
                1 => cross(&signed, &mut random),
                2 | 3 => damage_inside(token, &mut random),
                times => {
                    let mut bytes = token.clone().into_bytes();
                    (4..=times).for_each(|_| damage(&mut bytes, &mut random));
                    bytes
                }
            };
            if signed.iter().any(|good| good.as_bytes() == mutant) {
                continue;
            }
            of_this += 1;
            let verdict = policy.verify(&mutant, NOW);
            assert!(verdict.is_err(), "{algorithm:?}: {}", mutant.escape_ascii());
            to_the_end += usize::from(verdict == Err(Denied::SignatureWrong));
        }
        assert!(to_the_end > EACH / 3, "only {to_the_end} reached the signature check");
        changed += of_this;
    }
    assert_eq!(changed, 100_000);
}

/// An ECDSA signature with `n - s` is accepted, because it is equally valid; see the module's
/// documentation. It is the only known second encoding of a token.
#[test]
fn the_twin_of_an_ecdsa_signature() {
    let good = token(Algorithm::Es256);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let mut signature = decode(signature);
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let mut borrow = 0;
    for at in (0..32).rev() {
        let digit = i16::from_str_radix(&order[2 * at..2 * at + 2], 16).unwrap();
        let left = digit - i16::from(signature[32 + at]) - borrow;
        borrow = i16::from(left < 0);
        signature[32 + at] = u8::try_from(left.rem_euclid(256)).unwrap();
    }
    let twin = format!("{message}.{}", encode(signature));
    assert_ne!(twin, good);
    assert_eq!(policy().verify(twin.as_bytes(), NOW), policy().verify(good.as_bytes(), NOW));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Bytes without a valid signature are refused, whatever their form.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,5}") {
        let policy = policy();
        prop_assert!(policy.verify(&bytes, NOW).is_err());
        prop_assert!(policy.verify(text.as_bytes(), NOW).is_err());
    }
}
