//! Field lines (RFC 9112 5): their grammar, and the field names that the parser uses.

use super::{
    AUTHORIZATION, AUTHORIZATIONS, CHUNKED, CLOSE, ENCODED, EXPECT_CONTINUE, EXPECT_OTHER, HEAD_BYTES_CAP,
    HOST, Head, KEEP_ALIVE, LENGTH, Span, Step, is_host, offset,
};
use crate::{Limits, RequestError, class};

impl Head {
    /// Reads field lines; returns true after the empty line at the end of the head.
    #[inline]
    pub(super) fn field_lines(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let limit = limits.head_bytes_max.min(HEAD_BYTES_CAP);
        let window = buf.get(..limit).unwrap_or(buf);
        loop {
            if !self.field_line(window, limits)? {
                // The error occurs exactly at the limit, without waiting for another byte.
                return if window.len() >= limit { Err(RequestError::HeadTooLarge) } else { Ok(false) };
            }
            if self.step == Step::EndLf {
                return Ok(true);
            }
        }
    }

    /// Continues to read one line; returns false if more bytes are needed. The steps follow each
    /// other in the code as the parts do in a line, so that a complete line is read in one pass.
    #[inline(always)]
    fn field_line(&mut self, window: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let mut at = self.at as usize;
        let mut step = self.step;
        if step == Step::FieldStart {
            let Some(&byte) = window.get(at) else { return Ok(false) };
            if byte == b'\r' {
                at += 1;
                step = Step::EndLf;
            } else {
                self.begin_field(byte, limits)?;
                self.mark = offset(at);
                step = Step::Name;
            }
        }
        if step == Step::EndLf {
            return match window.get(at) {
                None => Ok(self.pause(step, at)),
                Some(b'\n') => {
                    self.pause(step, at + 1);
                    Ok(true)
                }
                Some(_) => Err(RequestError::LineEnd),
            };
        }
        if step == Step::Name {
            at = class::token_end(window, at);
            match window.get(at) {
                None => return Ok(self.pause(step, at)),
                Some(b':') => {}
                Some(_) => return Err(RequestError::Field),
            }
            self.name_end = offset(at);
            at += 1;
            step = Step::Gap;
        }
        if step == Step::Gap {
            while let Some(b' ' | b'\t') = window.get(at) {
                at += 1;
            }
            if at >= window.len() {
                return Ok(self.pause(step, at));
            }
            self.value_at = offset(at);
            step = Step::Value;
        }
        if step == Step::Value {
            at = class::value_end(window, at);
            match window.get(at) {
                None => return Ok(self.pause(step, at)),
                Some(b'\r') => {}
                Some(b'\n') => return Err(RequestError::LineEnd),
                Some(_) => return Err(RequestError::Field),
            }
            at += 1;
        }
        match window.get(at) {
            None => return Ok(self.pause(Step::FieldLf, at)),
            Some(b'\n') => {}
            Some(_) => return Err(RequestError::LineEnd),
        }
        self.end_field(window, at - 1)?;
        self.pause(Step::FieldStart, at + 1);
        Ok(true)
    }

    /// Stores the position. Always returns false, so that callers can return the result to report
    /// an incomplete line.
    #[inline(always)]
    const fn pause(&mut self, step: Step, at: usize) -> bool {
        self.step = step;
        self.at = offset(at);
        false
    }

    #[inline(always)]
    fn begin_field(&mut self, byte: u8, limits: &Limits) -> Result<(), RequestError> {
        // White space here means a folded line, or precedes the first field. Both are refused.
        if !class::is(byte, class::TCHAR) {
            return Err(if byte == b'\n' { RequestError::LineEnd } else { RequestError::Field });
        }
        if self.fields >= limits.fields_max {
            return Err(RequestError::HeadTooLarge);
        }
        self.fields += 1;
        Ok(())
    }

    #[inline(always)]
    fn end_field(&mut self, window: &[u8], end: usize) -> Result<(), RequestError> {
        let name = window.get(self.mark as usize..self.name_end as usize).unwrap_or_default();
        if !has_meaning(name.len()) {
            return Ok(());
        }
        self.on_field(name, window, self.value_at as usize, end)
    }

    /// Like `end_field`, for a line read in one pass, from its first byte at `from` to its CR at
    /// `end`.
    #[inline(never)]
    pub(super) fn on_whole_field(
        &mut self,
        window: &[u8],
        from: usize,
        name_len: usize,
        end: usize,
    ) -> Result<(), RequestError> {
        let line = window.get(from..end).unwrap_or_default();
        let (name, value) = line.split_at_checked(name_len).unwrap_or_default();
        let gap = value.iter().skip(1).take_while(|&&byte| is_space(byte)).count();
        self.on_field(name, window, from + name_len + 1 + gap, end)
    }

    /// Handles the fields that the parser uses. The value, with trailing white space, is in
    /// `start..end`.
    fn on_field(&mut self, name: &[u8], window: &[u8], start: usize, end: usize) -> Result<(), RequestError> {
        let value = trim_end(window.get(start..end).unwrap_or_default());
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.on_host(value, start),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.on_expect(value);
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.on_connection(value);
                Ok(())
            }
            13 if name.eq_ignore_ascii_case(b"authorization") => {
                self.on_authorization(start, value.len());
                Ok(())
            }
            14 if is_framing_name(name, b"content-length") => self.on_content_length(name, value),
            17 if is_framing_name(name, b"transfer-encoding") => self.on_transfer_encoding(name, value),
            _ => Ok(()),
        }
    }

    fn on_host(&mut self, value: &[u8], start: usize) -> Result<(), RequestError> {
        if self.has(HOST) || !is_host(value) {
            return Err(RequestError::Host);
        }
        self.flags |= HOST;
        self.host = Span::new(start, start + value.len());
        Ok(())
    }

    const fn on_expect(&mut self, value: &[u8]) {
        let again = self.has(EXPECT_CONTINUE);
        self.flags |= if value.eq_ignore_ascii_case(b"100-continue") && !again {
            EXPECT_CONTINUE
        } else {
            EXPECT_OTHER
        };
    }

    fn on_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            if option.eq_ignore_ascii_case(b"close") {
                self.flags |= CLOSE;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.flags |= KEEP_ALIVE;
            }
        }
    }

    /// Stores the position of the first `Authorization`, and whether there are several. The value
    /// is not examined.
    #[inline]
    pub(super) fn on_authorization(&mut self, at: usize, len: usize) {
        if self.has(AUTHORIZATION) {
            self.flags |= AUTHORIZATIONS;
            return;
        }
        self.flags |= AUTHORIZATION;
        self.authorization_at = offset(at);
        self.authorization_len = u16::try_from(len).unwrap_or(u16::MAX);
    }

    /// Handles `Content-Length`, which must be a single number (RFC 9112 6.3). RFC 9110 8.6 permits
    /// refusing repeated equal values.
    fn on_content_length(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        if name.contains(&b'_') {
            return Err(RequestError::FieldLookAlike);
        }
        let length = decimal(value).ok_or(RequestError::ContentLength)?;
        if self.has(LENGTH) {
            return Err(RequestError::ContentLength);
        }
        self.flags |= LENGTH;
        self.content_length = length;
        Ok(())
    }

    /// Handles `Transfer-Encoding`, which must be `chunked`, once, in HTTP/1.1 or later (RFC 9112
    /// 6.1). Another single coding is refused at the end of the head.
    fn on_transfer_encoding(&mut self, name: &[u8], value: &[u8]) -> Result<(), RequestError> {
        if name.contains(&b'_') {
            return Err(RequestError::FieldLookAlike);
        }
        if self.minor == 0 || self.has(ENCODED) {
            return Err(RequestError::TransferEncoding);
        }
        self.flags |= ENCODED;
        if value.eq_ignore_ascii_case(b"chunked") {
            self.flags |= CHUNKED;
        } else if value.is_empty()
            || class::token_end(value, 0) != value.len()
            || value.eq_ignore_ascii_case(b"identity")
        {
            return Err(RequestError::TransferEncoding);
        }
        Ok(())
    }
}

/// Whether a field that the parser interprets may have a name of this length.
#[inline(always)]
const fn has_meaning(name_len: usize) -> bool {
    matches!(name_len, 4 | 6 | 10 | 13 | 14 | 17)
}

/// Whether `name` equals `lower_name`. `_` counts as `-`, because some gateways treat both alike.
fn is_framing_name(name: &[u8], lower_name: &[u8]) -> bool {
    name.iter()
        .zip(lower_name)
        .all(|(&byte, &lower)| byte.to_ascii_lowercase() == lower || (byte == b'_' && lower == b'-'))
}

/// Parses a decimal number without leading zeros, up to 2^63.
fn decimal(value: &[u8]) -> Option<u64> {
    let canonical = matches!(value, [b'0'] | [b'1'..=b'9', ..]);
    if !canonical || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    (number <= 1 << 63).then_some(number)
}

#[inline(always)]
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
