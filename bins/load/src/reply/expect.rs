//! The expected reply, from the command line or from the first reply, which is the template of all
//! further replies.

use memchr::memmem;

use super::head::{self, Framing, Head};
use super::{Id, Pattern};
use crate::stats::FailureKind;

/// How strictly replies are checked. Each level includes the previous levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckLevel {
    /// A reply must be complete. Its status does not matter.
    Complete,
    /// The status must be expected.
    Status,
    /// Every byte of the body must match.
    Body,
    /// Every byte must match, except the value of `Date`.
    Exact,
}

/// The expected reply.
#[derive(Clone, Debug)]
pub struct Expect {
    /// How strictly to check.
    pub level: CheckLevel,
    /// The expected status. `None` means any status from 200 to 399.
    pub status: Option<u16>,
    /// Whether the request is `HEAD`.
    pub no_body: bool,
    /// The expected body, if known.
    pub body: Option<Pattern>,
    /// The head of the template, as bytes and parsed.
    pub head: Option<(Pattern, Head)>,
}

/// The result of checking a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) head: Head,
    pub(super) foreign: u64,
    /// The failure of a well-formed reply that is not good.
    pub(super) bad: Option<FailureKind>,
}

impl Expect {
    /// Creates an expectation without a template.
    #[must_use]
    pub const fn new(level: CheckLevel, status: Option<u16>, no_body: bool) -> Self {
        Self { level, status, no_body, body: None, head: None }
    }

    /// Stores a complete reply to the request `id` as the template. A body from the command line
    /// takes precedence.
    ///
    /// # Errors
    /// The errors of [`head::parse`]; `Short` if the reply is incomplete; `WrongBytes` if bytes
    /// follow it.
    pub fn learn(&mut self, reply: &[u8], id: Option<Id>) -> Result<Head, FailureKind> {
        let head_len = head::head_len(reply, 0).ok_or(FailureKind::Short)?;
        let (head_bytes, body) = reply.split_at(head_len);
        let head = head::parse(head_bytes, self.no_body)?;
        if let Framing::Length(length) = head.framing {
            match (body.len() as u64).cmp(&length) {
                std::cmp::Ordering::Less => return Err(FailureKind::Short),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => return Err(FailureKind::WrongBytes),
            }
        }
        let pattern = Pattern::new(head_bytes, id, head::date_value(head_bytes));
        self.head = Some((pattern, head));
        if self.body.is_none() && self.level >= CheckLevel::Body {
            self.body = Some(Pattern::new(body, id, None));
        }
        Ok(head)
    }

    /// Whether any part of the template contains the id.
    #[must_use]
    pub fn echoes_id(&self) -> bool {
        self.head.as_ref().is_some_and(|(pattern, _)| pattern.has_id())
            || self.body.as_ref().is_some_and(Pattern::has_id)
    }

    /// Whether `status` is an expected one.
    #[must_use]
    pub fn accepts(&self, status: u16) -> bool {
        match self.status {
            _ if self.level == CheckLevel::Complete => true,
            Some(expected) => status == expected,
            None => (200..400).contains(&status),
        }
    }

    /// Checks `bytes` that start with the head of the template, without parsing them. Returns the
    /// result and the length of the head; `None` if the head differs.
    #[inline]
    pub(super) fn judge_known(&self, bytes: &[u8], id: Option<Id>) -> Option<(Judged, usize)> {
        let (pattern, head) = self.head.as_ref()?;
        let difference = pattern.compare(0, bytes.get(..pattern.len())?, id);
        if difference.wrong {
            return None;
        }
        let judged = self.verdict(*head, difference.foreign, false);
        Some((judged, pattern.len()))
    }

    /// Checks a complete head that differs from the head of the template.
    #[cold]
    pub(super) fn judge_other(&self, bytes: &[u8], id: Option<Id>) -> Result<Judged, FailureKind> {
        let head = head::parse(bytes, self.no_body)?;
        let template = self.head.as_ref().map(|(pattern, _)| pattern);
        let foreign = match (template, id) {
            (Some(pattern), Some(id)) if pattern.has_id() && memmem::find(bytes, id.as_bytes()).is_none() => {
                Id::LEN as u64
            }
            _ => 0,
        };
        Ok(self.verdict(head, foreign, self.level == CheckLevel::Exact && template.is_some()))
    }

    fn verdict(&self, head: Head, foreign: u64, wrong: bool) -> Judged {
        let bad = if !self.accepts(head.status) {
            Some(FailureKind::Status)
        } else if foreign > 0 {
            Some(FailureKind::Foreign)
        } else {
            wrong.then_some(FailureKind::WrongBytes)
        };
        Judged { head, foreign, bad }
    }
}
