//! A body with a maximum length: each piece is written completely or omitted.

/// A body under construction, with space reserved for its end.
#[derive(Debug)]
pub(super) struct Body<'a> {
    out: &'a mut Vec<u8>,
    /// Maximum length of the body without its end.
    len_max: usize,
}

impl<'a> Body<'a> {
    /// Creates a body of at most `len_max` bytes, with `end_len` bytes reserved for its end.
    pub(super) fn new(out: &'a mut Vec<u8>, len_max: usize, end_len: usize) -> Self {
        Self { out, len_max: len_max.saturating_sub(end_len) }
    }

    /// Writes a piece if it fits; returns whether it did.
    pub(super) fn fit(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.out.len();
        write(self.out);
        let fits = self.out.len() <= self.len_max;
        if !fits {
            self.out.truncate(start);
        }
        fits
    }

    /// Writes as many of these pieces as fit, in order; returns how many of `total` are missing.
    pub(super) fn fit_all<T>(
        &mut self,
        pieces: &[T],
        total: usize,
        mut write: impl FnMut(&mut Vec<u8>, usize, &T),
    ) -> usize {
        let fitting =
            pieces.iter().enumerate().take_while(|(at, piece)| self.fit(|out| write(out, *at, piece)));
        total - fitting.count()
    }

    /// Returns the buffer, for writing the end into the reserved space.
    pub(super) fn end(self) -> &'a mut Vec<u8> {
        self.out
    }
}

/// Writes a number in decimal.
pub(super) fn decimal(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a text within a line. Control characters are replaced, because they could start new
/// lines.
pub(super) fn plain(out: &mut Vec<u8>, text: &str) {
    let mut buf = [0; 4];
    for c in text.chars() {
        let c = if c.is_control() { '?' } else { c };
        out.extend_from_slice(c.encode_utf8(&mut buf).as_bytes());
    }
}

/// Writes the remark about the number of checks that did not fit.
pub(super) fn remark(out: &mut Vec<u8>, missing: usize) {
    decimal(out, missing as u64);
    out.extend_from_slice(b" more checks not shown");
}

/// Length of the longest remark.
pub(super) const REMARK_LEN_MAX: usize = 5 + 22;

const _: () = assert!(crate::limits::CHECKS_MAX < 100_000, "five digits");
