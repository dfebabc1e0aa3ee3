//! A TCP connection, with optional bytes to send and to expect.
//!
//! An accepted connection is a success unless a response is expected.

use crate::connect::connector::Conn;
use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, cause_of};
use crate::kinds::expectations::{contains, in_time, lacking, text_of};
use crate::kinds::lines::shown;
use crate::kinds::materials::Materials;
use crate::options::{Payload, TcpCheck};
use crate::progress::{Progress, Stage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

/// Maximum number of received bytes that are searched.
const READ_MAX: usize = 64 << 10;

/// Maximum total number of bytes matched against an expression before the end of the input. Bounds
/// the work for input that arrives byte by byte; the match at the end is always made.
const MATCHED_MAX: usize = 1 << 20;

/// Checks one address.
#[derive(Debug)]
pub(crate) struct TcpRunner {
    check: TcpCheck,
    dialer: Dialer,
}

impl TcpRunner {
    pub(crate) fn new(check: &TcpCheck, with: &Materials<'_>) -> Self {
        let dialer = with.dialer(&check.address, check.resolve).with_proxy_header(check.proxy_protocol);
        let dialer = if check.payload.send.is_empty() { dialer.peer_sends_first() } else { dialer };
        Self { check: check.clone(), dialer }
    }

    pub(crate) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    pub(crate) async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let mut conn = self.dialer.connect(progress).await?;
        progress.enter(Stage::Response);
        let broken = |error: std::io::Error| Issue::failure(cause_of(&error));
        if !self.check.payload.send.is_empty() {
            conn.write_all(&self.check.payload.send).await.map_err(broken)?;
        }
        if self.check.payload.expects_response() {
            self.expect(&mut conn, progress).await?;
        }
        conn.close_with_fin();
        in_time(start.elapsed(), self.check.latency)
    }

    async fn expect(&self, conn: &mut Conn, progress: &Progress) -> Result<(), Issue> {
        let Payload { contains: wanted, matches, .. } = &self.check.payload;
        let (mut read, mut has_wanted, mut matched) = (Vec::new(), false, 0);
        loop {
            // Continue the search where the last one ended, minus a possible partial match.
            let from = read.len().saturating_sub(wanted.len().saturating_sub(1));
            let room = READ_MAX - read.len();
            let mut some = (&mut *conn).take(room.min(8 << 10) as u64);
            let len = some.read_buf(&mut read).await.map_err(|error| Issue::failure(cause_of(&error)))?;
            let is_end = len == 0 || read.len() == READ_MAX;
            has_wanted = has_wanted || contains(&read[from..], wanted);
            let may_match = has_wanted && (is_end || matched < MATCHED_MAX);
            if may_match && matches.as_ref().is_none_or(|pattern| pattern.matches(&text_of(&read))) {
                return Ok(());
            }
            matched += read.len();
            if is_end {
                progress.see(|seen| seen.fails_pattern = true);
                let ended = if len == 0 { "the connection ended" } else { "64 KiB received" };
                let lacking = lacking(&self.check.payload, has_wanted);
                return Err(Issue::failure(format!("{ended} without {lacking}, but with {}", shown(&read))));
            }
        }
    }
}
