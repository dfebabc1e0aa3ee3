//! A call that its route lets go on: in progress, to the guards and the log of that route, until its last byte is out.
//!
//! Does not know about: what is answered.

use crate::http::{Date, Later, Status};
use doorbell::time::{Clock as _, OsClock};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

/// What a route says to a request of gRPC that may go on, as the work of a request that is answered later: the fields of the answer.
#[derive(Clone, Debug)]
pub(crate) struct GoOn(Arc<HeaderMap>);

/// See the [module](self).
#[derive(Debug)]
pub(in crate::http2) struct Call {
    later: Box<Later>,
    /// Of the answer, once it has begun.
    status: Option<Status>,
    content_len: usize,
}

impl GoOn {
    /// `None` when the fields cannot be sent.
    pub(crate) fn new(headers: &[(String, String)]) -> Option<Self> {
        let mut fields = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            fields.append(name, HeaderValue::from_str(value).ok()?);
        }
        Some(Self(Arc::new(fields)))
    }
}

impl Call {
    /// `Err`: it is another work that the request waits for.
    pub(in crate::http2) fn of(later: Box<Later>) -> Result<Self, Box<Later>> {
        match later.work::<GoOn>() {
            Some(_) => Ok(Self { later, status: None, content_len: 0 }),
            None => Err(later),
        }
    }

    /// What the answer says beside it: the fields of the route, and those of its guards.
    pub(in crate::http2) fn fields(&self) -> HeaderMap {
        let mut fields = self.later.work::<GoOn>().map(|go_on| (*go_on.0).clone()).unwrap_or_default();
        for line in self.later.lines().split(|&byte| byte == b'\n') {
            let line = line.trim_ascii_end();
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii_start());
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                fields.append(name, value);
            }
        }
        let date = Date::new(OsClock.unix_secs());
        if let Ok(date) = HeaderValue::from_bytes(date.as_bytes()) {
            fields.insert(header::DATE, date);
        }
        fields
    }

    /// The answer begins.
    pub(in crate::http2) const fn begin(&mut self, status: Status) {
        self.status = Some(status);
    }

    /// So much of it is on its way.
    pub(in crate::http2) const fn add_content(&mut self, len: usize) {
        self.content_len += len;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(status) = self.status {
            self.later.answered(status, self.content_len);
        }
    }
}
