//! The fields that report a client's remaining quota.
//!
//! `RateLimit-Limit`, `-Remaining` and `-Reset` are those of draft-ietf-httpapi-ratelimit-headers
//! up to version 6, which clients support. Later versions replace them with two structured fields
//! that few clients support yet. Seconds are rounded up.

use super::decision::Decision;
use super::quota::Quota;
use std::time::Duration;

/// Field lines in a fixed buffer.
#[derive(Clone, Copy, Debug)]
pub struct LimitFields {
    bytes: [u8; LEN_MAX],
    len: usize,
}

const LIMIT: &[u8] = b"RateLimit-Limit";
const REMAINING: &[u8] = b"RateLimit-Remaining";
const RESET: &[u8] = b"RateLimit-Reset";
const RETRY: &[u8] = b"Retry-After";
/// Space for four field lines, each with a name, a colon and a space, a number of at most 10
/// digits, and CRLF.
const LEN_MAX: usize = LIMIT.len() + REMAINING.len() + RESET.len() + RETRY.len() + 4 * (2 + 10 + 2);

impl Decision {
    /// The fields for the reply: `RateLimit-*` and, after a refusal, `Retry-After`. `quota` is that
    /// of the limiter that made the decision.
    pub fn fields(&self, quota: &Quota) -> LimitFields {
        let mut fields = LimitFields { bytes: [0; LEN_MAX], len: 0 };
        fields.line(LIMIT, quota.burst());
        fields.line(REMAINING, self.remaining(quota));
        fields.line(RESET, seconds(self.reset_after(quota)));
        if let Some(retry_after) = self.retry_after(quota) {
            fields.line(RETRY, seconds(retry_after).max(1));
        }
        fields
    }
}

impl LimitFields {
    /// Complete field lines, each with its CRLF.
    pub fn lines(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The names and values of the fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = std::str::from_utf8(self.lines()).unwrap_or_default();
        text.split_terminator("\r\n").filter_map(|line| line.split_once(": "))
    }

    fn line(&mut self, name: &[u8], value: u32) {
        let mut digits = [0; 10];
        let mut from = digits.len();
        let mut rest = value;
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10).to_le_bytes()[0];
            rest /= 10;
            from = at;
            if rest == 0 {
                break;
            }
        }
        for part in [name, b": ", digits.get(from..).unwrap_or_default(), b"\r\n"] {
            let end = self.len + part.len();
            if let Some(room) = self.bytes.get_mut(self.len..end) {
                room.copy_from_slice(part);
                self.len = end;
            }
        }
    }
}

fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs().saturating_add((duration.subsec_nanos() > 0).into());
    u32::try_from(whole).unwrap_or(u32::MAX)
}
