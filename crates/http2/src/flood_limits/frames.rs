//! Parses HTTP/2 frame headers of a byte stream that arrives in pieces of any size; skips payloads
//! (RFC 9113 4.1).

/// Types of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flag of DATA and HEADERS: the sender ends the stream.
const END_STREAM: u8 = 1;

const HEADER_LEN: usize = 9;

/// The header of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) len: u32,
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
}

/// Parser of a byte stream.
#[derive(Debug)]
pub(super) struct Frames {
    /// Remaining bytes of the preface or of a payload.
    skip: usize,
    /// Type of the frame to which the payload belongs; `None` for the preface.
    kind: Option<u8>,
    header: [u8; HEADER_LEN],
    header_len: usize,
}

impl Frames {
    /// Creates a parser for frames after a preface of this length.
    pub(super) const fn after(preface_len: usize) -> Self {
        Self { skip: preface_len, kind: None, header: [0; HEADER_LEN], header_len: 0 }
    }

    /// Returns the next frame whose header ends in `bytes`; consumes the parsed bytes.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        *bytes = &bytes[skipped..];
        let taken = (HEADER_LEN - self.header_len).min(bytes.len());
        let (head, rest) = bytes.split_at(taken);
        self.header[self.header_len..self.header_len + taken].copy_from_slice(head);
        self.header_len += taken;
        *bytes = rest;
        if self.header_len < HEADER_LEN {
            return None;
        }
        self.header_len = 0;
        let [top, high, low, kind, flags, stream @ ..] = self.header;
        let len = u32::from_be_bytes([0, top, high, low]);
        self.skip = len as usize;
        self.kind = Some(kind);
        Some(Frame {
            kind,
            len,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
            ends_stream: flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS),
        })
    }

    /// Whether the position is within the payload of a DATA frame.
    pub(super) fn is_within_data(&self) -> bool {
        self.skip > 0 && self.kind == Some(DATA)
    }

    /// Whether the position is between two frames.
    pub(super) const fn is_between(&self) -> bool {
        self.skip == 0 && self.header_len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let len = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
    }

    #[test]
    fn frames_are_found_however_the_stream_is_split() {
        let bytes = [
            &b"PREFACE"[..],
            &frame(4, 0, 0, &[0; 12]),
            &frame(HEADERS, 5, 0x8000_0001, b"block"),
            &frame(DATA, 0, 1, b""),
            &frame(DATA, 1, 1, b"end"),
            &frame(6, 1, 0, &[0; 8]),
        ]
        .concat();
        let mut whole = Vec::new();
        let mut frames = Frames::after(7);
        let mut rest = &bytes[..];
        while let Some(frame) = frames.next(&mut rest) {
            whole.push(frame);
        }
        assert!(frames.is_between() && rest.is_empty());
        let told: Vec<_> =
            whole.iter().map(|frame| (frame.kind, frame.len, frame.stream, frame.ends_stream)).collect();
        assert_eq!(
            told,
            [(4, 12, 0, false), (1, 5, 1, true), (0, 0, 1, false), (0, 3, 1, true), (6, 8, 0, false)]
        );
        for piece_len in 1..bytes.len() {
            let mut frames = Frames::after(7);
            let mut found = Vec::new();
            for mut piece in bytes.chunks(piece_len) {
                while let Some(frame) = frames.next(&mut piece) {
                    found.push(frame);
                }
            }
            assert_eq!(found, whole, "pieces of {piece_len}");
        }
    }
}
