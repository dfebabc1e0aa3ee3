//! An admitted call. For the guards and the log of its route, the call is in progress until the
//! last byte of the reply is sent.

use doorbell::http::{Date, Later, Status};
use doorbell::time::{Clock as _, OsClock};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

/// Header fields that a route adds to the reply to an admitted gRPC call. The route returns them in
/// a deferred reply.
#[derive(Clone, Debug)]
pub struct GrpcAdmission(Arc<HeaderMap>);

/// A call in progress.
#[derive(Debug)]
pub(crate) struct Call {
    later: Box<Later>,
    /// Status of the reply, once it has begun.
    status: Option<Status>,
    content_len: usize,
}

impl GrpcAdmission {
    /// Creates an admission; `None` if the fields are invalid.
    #[must_use]
    pub fn new(headers: &[(String, String)]) -> Option<Self> {
        let mut fields = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            fields.append(name, HeaderValue::from_str(value).ok()?);
        }
        Some(Self(Arc::new(fields)))
    }
}

impl Call {
    /// Takes the call from a deferred reply; `Err` if the reply is deferred for another reason.
    pub(crate) fn of(later: Box<Later>) -> Result<Self, Box<Later>> {
        match later.work::<GrpcAdmission>() {
            Some(_) => Ok(Self { later, status: None, content_len: 0 }),
            None => Err(later),
        }
    }

    /// The header fields of the route and of its guards, and `Date`.
    pub(crate) fn fields(&self) -> HeaderMap {
        let mut fields =
            self.later.work::<GrpcAdmission>().map(|admission| (*admission.0).clone()).unwrap_or_default();
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

    /// Records the status of the reply.
    pub(crate) const fn begin(&mut self, status: Status) {
        self.status = Some(status);
    }

    /// Counts sent content.
    pub(crate) const fn add_content(&mut self, len: usize) {
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
