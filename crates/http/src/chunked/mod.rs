//! The chunked coding (RFC 9112 7.1): framing is decoded byte by byte, data in runs.
//!
//! Entry point: [`Chunked::decode`].

use crate::limits::TINY_CHUNK_BYTES;
use crate::{Limits, RequestError, class};

/// State of a chunked body between two parts of the input.
#[derive(Clone, Debug)]
pub struct Chunked {
    /// The chunk size read so far or, inside the data, the number of bytes left in this chunk.
    size: u64,
    /// Sum of the chunk sizes so far.
    total: u32,
    digits: u32,
    ext_bytes: u32,
    ext_total_bytes: u32,
    tiny_chunks: u32,
    trailer_bytes: u32,
    trailer_fields: u32,
    step: Step,
}

impl Chunked {
    /// Creates the state for the beginning of a body.
    pub const fn new() -> Self {
        Self {
            size: 0,
            total: 0,
            digits: 0,
            ext_bytes: 0,
            ext_total_bytes: 0,
            tiny_chunks: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
            step: Step::Size,
        }
    }

    /// Decodes `input` and appends the data to `sink`, if there is one.
    ///
    /// Returns the number of bytes used and whether the body, including trailers, is complete. If
    /// it is not complete, all of `input` was used. Trailers are validated and dropped (RFC 9110
    /// 6.5.1). Must not be called again after an error.
    pub fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        mut sink: Option<&mut Vec<u8>>,
    ) -> Result<(usize, bool), RequestError> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if self.step == Step::Data {
                let rest = input.get(at..).unwrap_or_default();
                let len = usize::try_from(self.size).unwrap_or(usize::MAX).min(rest.len());
                if let Some(sink) = &mut sink {
                    sink.extend_from_slice(rest.get(..len).unwrap_or_default());
                }
                self.size -= len as u64;
                at += len;
                if self.size == 0 {
                    self.step = Step::DataCr;
                }
                continue;
            }
            at += 1;
            if self.step >= Step::TrailerStart {
                self.count_trailer_byte(limits)?;
            }
            self.step = self.next(byte, limits)?;
            if self.step == Step::Done {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    #[inline]
    fn next(&mut self, byte: u8, limits: &Limits) -> Result<Step, RequestError> {
        Ok(match (self.step, byte) {
            (Step::Size, b'\r') => {
                self.end_size(limits)?;
                Step::SizeLf
            }
            (Step::Size, b';') => {
                self.end_size(limits)?;
                self.ext_bytes = 0;
                self.count_ext_byte(limits)?;
                Step::ExtNameStart
            }
            (Step::Size, _) => self.size_digit(byte)?,
            (Step::SizeLf, b'\n') => self.end_size_line(),
            (Step::DataCr, b'\r') => Step::DataLf,
            (Step::DataLf, b'\n') => {
                (self.size, self.digits) = (0, 0);
                Step::Size
            }
            (Step::SizeLf, _) => return Err(RequestError::LineEnd),
            (Step::DataCr | Step::DataLf | Step::Data | Step::Done, _) => {
                return Err(RequestError::ChunkFraming);
            }
            (Step::TrailerStart, b'\r') => Step::EndLf,
            (Step::TrailerStart, _) if class::is(byte, class::TCHAR) => {
                if self.trailer_fields >= limits.fields_max {
                    return Err(RequestError::HeadTooLarge);
                }
                self.trailer_fields += 1;
                Step::TrailerName
            }
            (Step::TrailerName, b':') => Step::TrailerValue,
            (Step::TrailerName, _) if class::is(byte, class::TCHAR) => Step::TrailerName,
            (Step::TrailerValue, b'\r') => Step::TrailerLf,
            (Step::TrailerValue, _) if class::is(byte, class::VALUE) => Step::TrailerValue,
            (Step::TrailerLf, b'\n') => Step::TrailerStart,
            (Step::EndLf, b'\n') => Step::Done,
            (Step::TrailerLf | Step::EndLf, _) | (Step::TrailerStart | Step::TrailerValue, b'\n') => {
                return Err(RequestError::LineEnd);
            }
            (Step::TrailerStart | Step::TrailerName | Step::TrailerValue, _) => {
                return Err(RequestError::Field);
            }
            (step, _) => self.next_ext(step, byte, limits)?,
        })
    }

    /// Parses a `chunk-ext`. Bad white space (BWS), which recipients must accept according to RFC
    /// 9110 5.6.3, is refused: test suites and strict peers refuse it, and no known client sends
    /// it.
    fn next_ext(&mut self, step: Step, byte: u8, limits: &Limits) -> Result<Step, RequestError> {
        let next = match (step, byte) {
            (Step::ExtName | Step::ExtToken | Step::ExtQuotedEnd, b'\r') => return Ok(Step::SizeLf),
            (Step::ExtName | Step::ExtToken | Step::ExtQuotedEnd, b';') => Step::ExtNameStart,
            (Step::ExtNameStart | Step::ExtName, _) if class::is(byte, class::TCHAR) => Step::ExtName,
            (Step::ExtName, b'=') => Step::ExtValueStart,
            (Step::ExtValueStart, b'"') => Step::ExtQuoted,
            (Step::ExtQuoted, _) if class::is(byte, class::QDTEXT) => Step::ExtQuoted,
            (Step::ExtQuoted, b'"') => Step::ExtQuotedEnd,
            (Step::ExtQuoted, b'\\') => Step::ExtEscape,
            (Step::ExtEscape, _) if class::is(byte, class::VALUE) => Step::ExtQuoted,
            (Step::ExtValueStart | Step::ExtToken, _) if class::is(byte, class::TCHAR) => Step::ExtToken,
            _ => return Err(RequestError::ChunkExtension),
        };
        self.count_ext_byte(limits)?;
        Ok(next)
    }

    /// Adds a digit to the size. At most 16 digits are allowed, so that the size cannot overflow
    /// and the number of leading zeros is bounded.
    fn size_digit(&mut self, byte: u8) -> Result<Step, RequestError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(RequestError::ChunkFraming),
        };
        if self.digits == 16 {
            return Err(RequestError::ChunkFraming);
        }
        self.digits += 1;
        self.size = self.size << 4 | u64::from(digit);
        Ok(Step::Size)
    }

    fn end_size(&mut self, limits: &Limits) -> Result<(), RequestError> {
        if self.digits == 0 {
            return Err(RequestError::ChunkFraming);
        }
        let total = u64::from(self.total).saturating_add(self.size);
        self.total = match u32::try_from(total) {
            Ok(total) if total as usize <= limits.body_bytes_max => total,
            _ => return Err(RequestError::BodyTooLarge),
        };
        if self.size > 0 && self.size < TINY_CHUNK_BYTES {
            if self.tiny_chunks >= limits.tiny_chunks_max {
                return Err(RequestError::TinyChunks);
            }
            self.tiny_chunks += 1;
        }
        Ok(())
    }

    const fn end_size_line(&self) -> Step {
        if self.size == 0 { Step::TrailerStart } else { Step::Data }
    }

    const fn count_ext_byte(&mut self, limits: &Limits) -> Result<(), RequestError> {
        self.ext_bytes += 1;
        self.ext_total_bytes += 1;
        if self.ext_bytes as usize > limits.chunk_ext_bytes_max
            || self.ext_total_bytes as usize > limits.chunk_ext_total_bytes_max
        {
            return Err(RequestError::ChunkExtensionTooLong);
        }
        Ok(())
    }

    const fn count_trailer_byte(&mut self, limits: &Limits) -> Result<(), RequestError> {
        self.trailer_bytes = self.trailer_bytes.saturating_add(1);
        if self.trailer_bytes as usize > limits.head_bytes_max {
            return Err(RequestError::HeadTooLarge);
        }
        Ok(())
    }
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

/// The expected element. From `TrailerStart` on, every byte counts towards the limit for trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Size,
    SizeLf,
    ExtNameStart,
    ExtName,
    ExtValueStart,
    ExtToken,
    ExtQuoted,
    ExtEscape,
    ExtQuotedEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

#[cfg(test)]
mod tests;
