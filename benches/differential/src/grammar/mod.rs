//! Random streams of requests from a grammar of HTTP/1 with occasional errors in any part.
//!
//! About one part in forty is invalid, so most streams contain at most one error and a refusal has
//! a single cause. In addition, one stream in ten has a random byte changed.

mod body;
mod head;

use crate::rng::Rng;

/// Average number of parts per invalid part. Each stream has dozens of parts.
const ODD: usize = 40;

/// Returns stream number `item` of the run `seed`, and the position at which the stream is split.
pub fn stream(seed: u64, item: u64) -> (Vec<u8>, usize) {
    let mut maker = Maker { rng: Rng::new(seed, item), bytes: Vec::with_capacity(256) };
    let messages = [1, 1, 1, 2, 2, 3][maker.rng.below(6)];
    for _ in 0..messages {
        maker.message();
    }
    if maker.odd() {
        maker.pick(&["\r\n", "\n", "\0", "G", "GET", "GET / HTTP/1.1\r\n", "0\r\n\r\n", "\r\n\r\n\r\n"]);
    }
    if maker.rng.one_in(10) {
        maker.change_a_byte();
    }
    let Maker { mut rng, bytes } = maker;
    let cut = if rng.one_in(2) { bytes.len() } else { rng.below(bytes.len() + 1) };
    (bytes, cut)
}

struct Maker {
    rng: Rng,
    bytes: Vec<u8>,
}

impl Maker {
    fn odd(&mut self) -> bool {
        self.rng.one_in(ODD)
    }

    fn put(&mut self, bytes: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(bytes.as_ref());
    }

    fn pick(&mut self, items: &[&str]) {
        let item = self.rng.pick(items);
        self.put(item);
    }

    /// Adds one of the valid texts, or occasionally one of the odd texts.
    fn sound_or(&mut self, sound: &[&str], odd: &[&[u8]]) {
        if self.odd() {
            let item = self.rng.pick(odd);
            self.put(item);
        } else {
            self.pick(sound);
        }
    }

    fn line_end(&mut self) {
        self.sound_or(
            &["\r\n"],
            &[b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b" \r\n", b"\r\n\t", b"\r\n\r\n", b"", b"\0\r\n"],
        );
    }

    fn change_a_byte(&mut self) {
        let at = self.rng.below(self.bytes.len());
        let byte = if self.rng.one_in(2) {
            NASTY[self.rng.below(NASTY.len())]
        } else {
            u8::try_from(self.rng.below(256)).unwrap_or(0)
        };
        match self.rng.below(4) {
            0 => self.bytes.insert(at, byte),
            1 => drop(self.bytes.remove(at)),
            2 => self.bytes[at] = byte,
            _ => {
                let again = self.bytes[at];
                self.bytes.insert(at, again);
            }
        }
    }
}

const NASTY: &[u8] = b"\r\n\0\t :;,\"=/#?@%\\_+-.0159afx\x0b\x0c\x1f\x7f\x80\xa0\xff";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_every_time() {
        for item in 0..1000 {
            assert_eq!(stream(7, item), stream(7, item));
        }
        assert_ne!(stream(7, 0), stream(8, 0));
        assert_ne!(stream(7, 0), stream(7, 1));
    }
}
