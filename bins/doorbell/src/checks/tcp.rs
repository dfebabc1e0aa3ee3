//! A connection, perhaps some bytes, perhaps some others back.
//!
//! Does not know about: protocols. Whoever accepts and says nothing is well unless something is expected of him.

use super::dial::{Dialer, cause_of};
use super::judge::{contains, too_slow};
use super::{Complaint, Progress, Stage, Verdict};
use crate::config::model::TcpCheck;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes among which the expected ones must be.
const READ_MAX: usize = 64 << 10;

/// What a complaint shows of bytes.
const SHOWN_MAX: usize = 32;

/// Asks one address.
#[derive(Debug)]
pub(super) struct TcpAsk {
    check: TcpCheck,
    dialer: Dialer,
}

impl TcpAsk {
    pub(super) const fn new(check: TcpCheck, dialer: Dialer) -> Self {
        Self { check, dialer }
    }

    pub(super) async fn ask(&self, progress: &Progress, start: Instant) -> Verdict {
        let mut stream = self.dialer.connect(progress).await?;
        progress.enter(Stage::Answer);
        let broken = |error: std::io::Error| Complaint::failure(cause_of(&error));
        if !self.check.send.is_empty() {
            stream.write_all(&self.check.send).await.map_err(broken)?;
        }
        if !self.check.contains.is_empty() {
            self.expect(&mut stream).await?;
        }
        let latency = start.elapsed();
        too_slow(latency, self.check.max_latency).map_err(Complaint::failure)?;
        too_slow(latency, self.check.degraded_latency).map_err(Complaint::degraded)
    }

    async fn expect(&self, stream: &mut TcpStream) -> Result<(), Complaint> {
        let wanted = &self.check.contains;
        let mut read = Vec::new();
        loop {
            // What was looked through need not be again, but for what may be the beginning of it.
            let from = read.len().saturating_sub(wanted.len() - 1);
            let room = READ_MAX - read.len();
            let mut some = (&mut *stream).take(room.min(8 << 10) as u64);
            let len = some.read_buf(&mut read).await.map_err(|error| Complaint::failure(cause_of(&error)))?;
            if contains(&read[from..], wanted) {
                return Ok(());
            }
            if len == 0 || read.len() == READ_MAX {
                let ended = if len == 0 { "the connection ended" } else { "64 KiB came" };
                let reason = format!("{ended} without {}, but with {}", shown(wanted), shown(&read));
                return Err(Complaint::failure(reason));
            }
        }
    }
}

/// The beginning of some bytes, so that anybody can read it.
fn shown(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let more = if bytes.len() > SHOWN_MAX { ".." } else { "" };
    format!("\"{}\"{more}", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_short_and_plain() {
        assert_eq!(shown(b""), "nothing");
        assert_eq!(shown(b"PO\x00\"NG\n"), "\"PO\\x00\\\"NG\\n\"");
        assert_eq!(shown(&[b'x'; 33]), format!("\"{}\"..", "x".repeat(32)));
    }
}
