//! Requests and replies that belong to exactly one id, so that bytes of another reply can be
//! detected.
//!
//! The server side calls [`Unique::parse`] and [`Unique::body`]; the client compares.

/// One request: a unique id, and the requested body length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unique {
    /// The id.
    pub id: u64,
    /// Length of the reply's body in bytes.
    pub len: usize,
}

impl Unique {
    /// A request whose length depends on its id: at least 40 bytes, mostly small, and 64 KiB for
    /// one id in 64.
    pub fn from_id(id: u64) -> Self {
        let len = match id % 64 {
            0 => 65_536,
            1 => 16_385,
            2..8 => 4_096,
            8..24 => 1_000,
            24..40 => 200,
            _ => 40,
        };
        Self { id, len }
    }

    /// The request target.
    pub fn path(self) -> String {
        format!("/unique/{:016x}/{}", self.id, self.len)
    }

    /// The inverse of [`Unique::path`]; lengths up to 64 MiB.
    pub fn parse(path: &str) -> Option<Self> {
        let (id, len) = path.strip_prefix("/unique/")?.split_once('/')?;
        let unique = Self { id: u64::from_str_radix(id, 16).ok()?, len: len.parse().ok()? };
        (unique.len <= 64 << 20).then_some(unique)
    }

    /// The body: the id in 16 hexadecimal digits, repeated.
    pub fn body(self) -> Vec<u8> {
        let unit = format!("{:016x}", self.id).into_bytes();
        let mut body = unit.repeat(self.len.div_ceil(unit.len()).max(1));
        body.truncate(self.len);
        body
    }

    /// Number of bytes in `got` that differ from this id's body at `offset`. Excess bytes count.
    pub fn foreign(self, got: &[u8], offset: usize) -> u64 {
        let unit = format!("{:016x}", self.id).into_bytes();
        let mut foreign = got.len().saturating_sub(self.len.saturating_sub(offset)) as u64;
        let owned = &got[..got.len().min(self.len.saturating_sub(offset))];
        let skew = offset % unit.len();
        let mut rotated = unit;
        rotated.rotate_left(skew);
        for chunk in owned.chunks(rotated.len()) {
            if chunk != &rotated[..chunk.len()] {
                foreign += chunk.iter().zip(&rotated).filter(|(a, b)| a != b).count() as u64;
            }
        }
        foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_byte_is_seen_anywhere() {
        let mine = Unique { id: 0x0123_4567_89ab_cdef, len: 40 };
        assert_eq!(Unique::parse(&mine.path()), Some(mine));
        let body = mine.body();
        assert_eq!((body.len(), mine.foreign(&body, 0)), (40, 0));
        for at in 0..body.len() {
            let mut bad = body.clone();
            bad[at] ^= 1;
            assert_eq!(mine.foreign(&bad, 0), 1, "at {at}");
            assert_eq!(mine.foreign(&body[at..], at), 0, "from {at}");
        }
        let other = Unique { id: mine.id + 1, len: 40 };
        assert!(other.foreign(&body, 0) >= 2);
        assert_eq!(mine.foreign(&[&body[..], b"x"].concat(), 0), 1, "excess");
    }

    #[test]
    fn lengths_span_the_promise() {
        let lens: Vec<usize> = (0..64).map(|id| Unique::from_id(id).len).collect();
        assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&40), Some(&65_536)));
        assert_eq!(Unique::parse("/unique/1/99999999999"), None);
    }
}
