//! The result of an exchange with a handler under test: the bytes that its client would receive.

use doorbell_http::{ApiMisuse, Misuses, Out, Status};

/// The bytes that a client would receive, and the state of its connection afterwards.
#[derive(Clone, Debug)]
#[must_use = "a test compares it"]
pub struct Exchange {
    bytes: Vec<u8>,
    replies: Vec<SentReply>,
    misuses: Misuses,
    after: After,
}

/// The state of a connection after an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum After {
    /// The server closes the connection.
    Closed,
    /// The connection is handed over, with these bytes as its first input.
    HandedOver(Vec<u8>),
    /// The connection stays open and waits for more input.
    Open,
}

/// One reply, as the client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentReply {
    status: Status,
    /// The field lines, without the status line.
    fields: String,
    body: Vec<u8>,
}

impl Exchange {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new(), replies: Vec::new(), misuses: Misuses::NONE, after: After::Open }
    }

    /// Takes the output of one step. The output has at most one final reply, which comes last.
    pub(super) fn add(&mut self, out: &mut Out) {
        let sent = [out.unsent(), &out.body].concat();
        self.misuses.add(out.take_misuses());
        out.clear();
        self.bytes.extend_from_slice(&sent);
        let mut rest = sent.as_slice();
        while let Some((status, fields, after)) = split_head(rest) {
            rest = after;
            if !status.is_informational() {
                self.replies.push(SentReply { status, fields, body: rest.to_vec() });
                return;
            }
        }
        debug_assert!(rest.is_empty(), "output consists of replies");
    }

    pub(super) fn ended(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// Returns all bytes sent, in order, including interim replies such as `100 Continue`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the final replies, in order.
    pub fn replies(&self) -> &[SentReply] {
        &self.replies
    }

    /// Returns the only reply.
    ///
    /// # Panics
    /// If the number of replies is not 1.
    #[track_caller]
    pub fn reply(&self) -> &SentReply {
        match self.replies.as_slice() {
            [reply] => reply,
            replies => panic!("one reply was expected, the handler sent {}: {self:?}", replies.len()),
        }
    }

    /// Returns the state of the connection after the exchange.
    pub const fn after(&self) -> &After {
        &self.after
    }

    /// Whether the connection stays open.
    pub const fn is_open(&self) -> bool {
        matches!(self.after, After::Open)
    }

    /// Returns why the handler's reply was invalid and replaced by a 500, or `None` if it was
    /// valid.
    pub fn misuse(&self) -> Option<ApiMisuse> {
        self.misuses.kinds().next()
    }
}

impl SentReply {
    /// Returns the status.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// Returns the value of the first field with this name, which is not case-sensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the content.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the content as text.
    ///
    /// # Panics
    /// If the content is not UTF-8.
    #[track_caller]
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.body).expect("the content of the reply is UTF-8")
    }
}

/// Splits output at the end of its first head.
fn split_head(bytes: &[u8]) -> Option<(Status, String, &[u8])> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let (head, rest) = bytes.split_at(end);
    let head = String::from_utf8_lossy(head);
    let (line, fields) = head.split_once("\r\n")?;
    let status = line.split(' ').nth(1)?.parse().ok().and_then(Status::new)?;
    Some((status, fields.to_owned(), rest))
}
