//! Parses a head from its first byte to the end of the request line (RFC 9112 2.2 and 3).

use super::{ABSOLUTE, HEAD_BYTES_CAP, Head, Span, Step, UNKNOWN, is_host, offset};
use crate::limits::METHOD_BYTES_MAX;
use crate::{Limits, Method, RequestError, class};

impl Head {
    /// Skips the tolerated empty lines; returns true at the first other byte.
    pub(super) fn leading_lines(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let empty_lines_max = u16::try_from(limits.leading_empty_lines_max).unwrap_or(u16::MAX);
        loop {
            let at = self.at as usize;
            if at >= limits.head_bytes_max {
                return Err(RequestError::HeadTooLarge);
            }
            let Some(&byte) = buf.get(at) else { return Ok(false) };
            match (self.step, byte) {
                (Step::StartLf, b'\n') => {
                    self.empty_lines += 1;
                    self.step = Step::Start;
                }
                (Step::StartLf, _) | (_, b'\n') => return Err(RequestError::LineEnd),
                (_, b'\r') if self.empty_lines >= empty_lines_max => {
                    return Err(RequestError::LeadingLines);
                }
                (_, b'\r') => self.step = Step::StartLf,
                _ => {
                    self.step = Step::Method;
                    self.lines_at = self.at;
                    return Ok(true);
                }
            }
            self.at += 1;
        }
    }

    /// Reads method, target and version; returns true at the end of the line.
    #[inline]
    pub(super) fn request_line(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let line_at = self.lines_at as usize;
        let limit = line_at
            .saturating_add(limits.request_line_bytes_max)
            .min(limits.head_bytes_max)
            .min(HEAD_BYTES_CAP);
        let window = buf.get(..limit).unwrap_or(buf);
        if self.step == Step::Method && !self.read_method(window)? {
            return self.pause_line(window, limit);
        }
        if self.step == Step::Target && !self.read_target(window)? {
            return self.pause_line(window, limit);
        }
        if !self.read_version(window)? {
            return self.pause_line(window, limit);
        }
        // The version is checked before the target, so that an HTTP/2 preface is reported as a
        // wrong version.
        if self.major != 1 {
            return Err(RequestError::VersionUnsupported);
        }
        self.split_target(buf)?;
        self.lines_at = self.at;
        self.step = Step::FieldStart;
        Ok(true)
    }

    /// Handles an incomplete line: more bytes are needed, unless the line has reached its limit.
    const fn pause_line(&self, window: &[u8], limit: usize) -> Result<bool, RequestError> {
        if window.len() >= limit { Err(RequestError::TargetTooLong) } else { Ok(false) }
    }

    #[inline]
    fn read_method(&mut self, window: &[u8]) -> Result<bool, RequestError> {
        let start = self.lines_at as usize;
        let end = class::token_end(window, self.at as usize);
        if end - start > METHOD_BYTES_MAX {
            return Err(RequestError::MethodUnknown);
        }
        self.at = offset(end);
        let Some(&byte) = window.get(end) else { return Ok(false) };
        if byte != b' ' || end == start {
            return Err(RequestError::Method);
        }
        match Method::from_bytes(window.get(start..end).unwrap_or_default()) {
            Some(method) => self.method = method,
            None => self.flags |= UNKNOWN,
        }
        self.at = offset(end + 1);
        self.mark = self.at;
        self.step = Step::Target;
        Ok(true)
    }

    #[inline]
    fn read_target(&mut self, window: &[u8]) -> Result<bool, RequestError> {
        let start = self.mark as usize;
        let end = class::target_end(window, self.at as usize);
        self.at = offset(end);
        let Some(&byte) = window.get(end) else { return Ok(false) };
        if byte != b' ' || end == start {
            return Err(RequestError::Target);
        }
        self.target = Span::new(start, end);
        self.at = offset(end + 1);
        self.mark = self.at;
        self.step = Step::Version;
        Ok(true)
    }

    #[inline]
    fn read_version(&mut self, window: &[u8]) -> Result<bool, RequestError> {
        let rest = window.get(self.at as usize..).unwrap_or_default();
        if self.at == self.mark && rest.first_chunk() == Some(b"HTTP/1.1\r\n") {
            (self.major, self.minor) = (1, 1);
            self.at += 10;
            return Ok(true);
        }
        for &byte in rest {
            match (self.at - self.mark, byte) {
                (0, b'H') | (1 | 2, b'T') | (3, b'P') | (4, b'/') | (6, b'.') | (8, b'\r') => {}
                (5, b'0'..=b'9') => self.major = byte - b'0',
                (7, b'0'..=b'9') => self.minor = byte - b'0',
                (9, b'\n') => {
                    self.at += 1;
                    return Ok(true);
                }
                (8, b'\n') | (9, _) => return Err(RequestError::LineEnd),
                _ => return Err(RequestError::Version),
            }
            self.at += 1;
        }
        Ok(false)
    }

    /// Finds authority, path and query, and checks that the form of the target fits the method (RFC
    /// 9112 3.2).
    #[inline]
    fn split_target(&mut self, buf: &[u8]) -> Result<(), RequestError> {
        let (start, end) = (self.target.start as usize, self.target.end as usize);
        let target = self.target.of(buf);
        if !self.has(UNKNOWN) && self.method == Method::Connect {
            self.path = self.target;
            return if has_port(target) && is_host(target) { Ok(()) } else { Err(RequestError::Target) };
        }
        let path_at = match target {
            [b'/', ..] => start,
            b"*" if !self.has(UNKNOWN) && self.method == Method::Options => {
                self.path = self.target;
                return Ok(());
            }
            _ => {
                let authority_at = scheme_len(target).ok_or(RequestError::Target)?;
                let rest = target.get(authority_at..).unwrap_or_default();
                let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
                if !is_host(rest.get(..len).unwrap_or_default()) {
                    return Err(RequestError::Target);
                }
                self.flags |= ABSOLUTE;
                self.authority = Span::new(start + authority_at, start + authority_at + len);
                start + authority_at + len
            }
        };
        let tail = buf.get(path_at..end).unwrap_or_default();
        let path_len = path_len(tail).ok_or(RequestError::Target)?;
        self.path = Span::new(path_at, path_at + path_len);
        Ok(())
    }
}

/// The length of the path before a query; `None` if programs may interpret the path differently.
/// Many treat a backslash as `/` and end a string at an encoded NUL, so a path with one of these is
/// refused.
fn path_len(tail: &[u8]) -> Option<usize> {
    for (at, &byte) in tail.iter().enumerate() {
        match byte {
            b'?' => return Some(at),
            b'\\' => return None,
            b'%' if tail.get(at + 1..at + 3) == Some(b"00") => return None,
            _ => {}
        }
    }
    Some(tail.len())
}

/// Length of `http://` or `https://` at the start of an absolute target; other schemes are not
/// supported.
fn scheme_len(target: &[u8]) -> Option<usize> {
    [b"http://".as_slice(), b"https://"]
        .iter()
        .find_map(|scheme| target.get(..scheme.len())?.eq_ignore_ascii_case(scheme).then_some(scheme.len()))
}

/// Whether an authority has both host and port, as `CONNECT` requires.
fn has_port(authority: &[u8]) -> bool {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && authority.iter().rev().nth(digits) == Some(&b':')
}
