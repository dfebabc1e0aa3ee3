//! Parses and checks replies as their bytes arrive, however they are split.
//!
//! Start at [`Reader::handle`].

pub mod expect;
pub mod head;
mod id;
mod pattern;
#[cfg(test)]
mod tests;

pub use expect::{CheckLevel, Expect};
pub use head::{Framing, Head};
pub use id::Id;
pub use pattern::{Difference, Pattern};

use crate::stats::FailureKind;
use expect::Judged;

/// Maximum length of a supported head.
pub const HEAD_LEN_MAX: usize = 64 * 1_024;

/// Parses consecutive replies.
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// The start of a head that arrived in several pieces. Its capacity is reused.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Body(Body),
    Head,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    judged: Judged,
    /// Number of body bytes so far.
    at: u64,
    wrong: bool,
}

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of the reply.
    pub status: u16,
    /// Whether the server closes the connection after the reply.
    pub close: bool,
    /// Number of wrong bytes in place of the request's id.
    pub foreign: u64,
    /// The failure of a reply that is complete but not good.
    pub bad: Option<FailureKind>,
}

/// The result of parsing some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The reply is complete and ends after this number of bytes.
    Done(Reply, usize),
    /// All bytes were used, and the reply is incomplete.
    More,
}

impl Default for Reader {
    fn default() -> Self {
        Self { state: State::Head, partial: Vec::new() }
    }
}

impl Reader {
    /// Parses the next bytes, at least one. `id` belongs to the request of this reply.
    ///
    /// # Errors
    /// `Malformed` or `Unsupported`; the connection cannot be used for further replies.
    #[inline]
    pub fn handle(&mut self, bytes: &[u8], expect: &Expect, id: Option<Id>) -> Result<Progress, FailureKind> {
        let mut used = 0;
        if matches!(self.state, State::Head) {
            match self.handle_head(bytes, expect, id)? {
                Some(head_end) => used = head_end,
                None => return Ok(Progress::More),
            }
        }
        self.handle_body(bytes, used, expect, id)
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// `Short`, unless the end of the connection completes the reply.
    pub fn handle_end(&mut self, expect: &Expect) -> Result<Reply, FailureKind> {
        match self.state {
            State::Body(body) if body.judged.head.framing == Framing::ToEnd => Ok(self.finish(body, expect)),
            State::Body(_) | State::Head => Err(FailureKind::Short),
        }
    }

    /// Whether no byte of the next reply has arrived.
    #[must_use]
    pub const fn is_between_replies(&self) -> bool {
        matches!(self.state, State::Head) && self.partial.is_empty()
    }

    /// Discards a partial reply.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial.clear();
    }

    /// Returns the end of the head in `bytes` once the head is complete.
    #[inline]
    fn handle_head(
        &mut self,
        bytes: &[u8],
        expect: &Expect,
        id: Option<Id>,
    ) -> Result<Option<usize>, FailureKind> {
        if self.partial.is_empty()
            && let Some((judged, head_len)) = expect.judge_known(bytes, id)
        {
            self.state = State::Body(Body { judged, at: 0, wrong: false });
            return Ok(Some(head_len));
        }
        self.handle_other_head(bytes, expect, id)
    }

    #[cold]
    fn handle_other_head(
        &mut self,
        bytes: &[u8],
        expect: &Expect,
        id: Option<Id>,
    ) -> Result<Option<usize>, FailureKind> {
        let before = self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(HEAD_LEN_MAX + 1 - before)]);
        // Bytes that cannot start a status line are refused at once, instead of after 64 KiB or a
        // timeout.
        let start = &self.partial[..self.partial.len().min(7)];
        if !b"HTTP/1.".starts_with(start) {
            return Err(FailureKind::Malformed);
        }
        let Some(head_len) = head::head_len(&self.partial, before) else {
            return if self.partial.len() > HEAD_LEN_MAX { Err(FailureKind::Unsupported) } else { Ok(None) };
        };
        self.partial.truncate(head_len);
        let judged = match expect.judge_known(&self.partial, id) {
            Some((judged, len)) if len == head_len => judged,
            _ => expect.judge_other(&self.partial, id)?,
        };
        self.partial.clear();
        let end = head_len - before;
        if judged.head.status < 200 {
            // This reply is interim. The final reply follows, perhaps in the same bytes.
            if end == bytes.len() {
                return Ok(None);
            }
            return Ok(self.handle_head(&bytes[end..], expect, id)?.map(|more| end + more));
        }
        self.state = State::Body(Body { judged, at: 0, wrong: false });
        Ok(Some(end))
    }

    #[inline]
    fn handle_body(
        &mut self,
        bytes: &[u8],
        used: usize,
        expect: &Expect,
        id: Option<Id>,
    ) -> Result<Progress, FailureKind> {
        let State::Body(mut body) = self.state else { return Err(FailureKind::Malformed) };
        let rest = &bytes[used..];
        let here = match body.judged.head.framing {
            Framing::Length(length) => {
                let missing = length - body.at;
                &rest[..usize::try_from(missing).map_or(rest.len(), |missing| missing.min(rest.len()))]
            }
            Framing::ToEnd => rest,
        };
        // The body of a reply with an unexpected status is not compared, because the expected body
        // is that of the expected status.
        if let (Some(pattern), None | Some(FailureKind::Foreign)) = (&expect.body, body.judged.bad)
            && !expect.no_body
            && !here.is_empty()
        {
            let at = usize::try_from(body.at).unwrap_or(usize::MAX);
            let difference = pattern.compare(at, here, id);
            body.judged.foreign += difference.foreign;
            body.wrong |= difference.wrong;
        }
        body.at += here.len() as u64;
        let used = used + here.len();
        if body.judged.head.framing == Framing::Length(body.at) {
            let reply = self.finish(body, expect);
            return Ok(Progress::Done(reply, used));
        }
        self.state = State::Body(body);
        Ok(Progress::More)
    }

    #[inline]
    fn finish(&mut self, body: Body, expect: &Expect) -> Reply {
        self.state = State::Head;
        let Body { judged, at, wrong } = body;
        let short = expect.body.as_ref().is_some_and(|pattern| !expect.no_body && pattern.len() as u64 != at);
        let bad = match judged.bad {
            Some(kind) => Some(kind),
            None if judged.foreign > 0 => Some(FailureKind::Foreign),
            None if wrong || short => Some(FailureKind::WrongBytes),
            None => None,
        };
        Reply { status: judged.head.status, close: judged.head.close, foreign: judged.foreign, bad }
    }
}
