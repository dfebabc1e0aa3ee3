//! Owns the packing of `user_data`: operation tag (8 bits), generation (24 bits), slot (32 bits).

/// The identity of an operation.
///
/// The ring returns the token with each event and does not interpret it, except that the payload of
/// a send is stored under the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Index into the caller's table.
    pub slot: u32,
    /// Number of the current use of the slot. The number has 24 bits; the upper eight bits are
    /// discarded.
    pub generation: u32,
}

impl Token {
    /// The largest generation that fits into 24 bits.
    pub const GENERATION_MAX: u32 = 0x00FF_FFFF;

    /// Creates a token of `slot` in its `generation`.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation: generation & Self::GENERATION_MAX }
    }
}

/// An operation that can be cancelled, named after the method that starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `Ring::accept`.
    Accept,
    /// `Ring::close_fixed`.
    Close,
    /// `Ring::install_fixed`.
    Install,
    /// `Ring::poll_conn`.
    PollConn,
    /// `Ring::poll_readable`.
    PollReadable,
    /// `Ring::recv`.
    Recv,
    /// `Ring::recv_datagrams`.
    RecvDatagrams,
    /// `Ring::send`.
    Send,
    /// `Ring::shutdown_fixed`.
    ShutDown,
}

/// The kind of operation in `user_data`. An accept has four kinds, because the meaning of its
/// result differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    AcceptFd = 1,
    AcceptFixed,
    AcceptMultiFd,
    AcceptMultiFixed,
    Cancel,
    Close,
    /// A close that posts a completion only on failure; it is not counted as in flight.
    CloseQuiet,
    Install,
    PollConn,
    PollReadable,
    Recv,
    RecvDatagrams,
    Send,
    ShutDown,
}

impl Tag {
    pub(crate) const ALL: [Self; 14] = [
        Self::AcceptFd,
        Self::AcceptFixed,
        Self::AcceptMultiFd,
        Self::AcceptMultiFixed,
        Self::Cancel,
        Self::Close,
        Self::CloseQuiet,
        Self::Install,
        Self::PollConn,
        Self::PollReadable,
        Self::Recv,
        Self::RecvDatagrams,
        Self::Send,
        Self::ShutDown,
    ];

    pub(crate) const fn accept(multishot: bool, direct: bool) -> Self {
        match (multishot, direct) {
            (false, false) => Self::AcceptFd,
            (false, true) => Self::AcceptFixed,
            (true, false) => Self::AcceptMultiFd,
            (true, true) => Self::AcceptMultiFixed,
        }
    }

    /// The possible tags of an operation.
    pub(crate) const fn of(op: Op) -> &'static [Self] {
        match op {
            Op::Accept => &[Self::AcceptMultiFd, Self::AcceptMultiFixed, Self::AcceptFd, Self::AcceptFixed],
            Op::Close => &[Self::Close, Self::CloseQuiet],
            Op::Install => &[Self::Install],
            Op::PollConn => &[Self::PollConn],
            Op::PollReadable => &[Self::PollReadable],
            Op::Recv => &[Self::Recv],
            Op::RecvDatagrams => &[Self::RecvDatagrams],
            Op::Send => &[Self::Send],
            Op::ShutDown => &[Self::ShutDown],
        }
    }
}

/// Packs tag, generation and slot into a number, tag in the most significant bits.
pub(crate) const fn pack(tag: Tag, token: Token) -> u64 {
    let generation = token.generation & Token::GENERATION_MAX;
    ((tag as u64) << 56) | ((generation as u64) << 32) | token.slot as u64
}

/// Reverses [`pack`]. The tag is `None` if it has a number that this crate does not use.
pub(crate) const fn unpack(user_data: u64) -> (Option<Tag>, Token) {
    let (number, token) = split(user_data);
    let index = number as usize;
    let tag = if index >= 1 && index <= Tag::ALL.len() { Some(Tag::ALL[index - 1]) } else { None };
    (tag, token)
}

/// Reverses [`pack`] like [`unpack`], but returns the number of the tag, which is not validated.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "each part is cut to its width on purpose")]
pub(crate) const fn split(user_data: u64) -> (u8, Token) {
    ((user_data >> 56) as u8, Token::new(user_data as u32, (user_data >> 32) as u32))
}

const _: () = {
    let mut index = 0;
    while index < Tag::ALL.len() {
        assert!(Tag::ALL[index] as usize == index + 1, "ALL is sorted by number");
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_survives_every_tag_and_the_edges_of_both_numbers() {
        for tag in Tag::ALL {
            for slot in [0, 1, 65_535, 0x8000_0000, u32::MAX] {
                for generation in [0, 1, 0x0080_0000, Token::GENERATION_MAX] {
                    let token = Token { slot, generation };
                    assert_eq!(unpack(pack(tag, token)), (Some(tag), token));
                }
            }
        }
    }

    #[test]
    fn a_generation_too_wide_never_reaches_the_tag() {
        let wide = Token { slot: 7, generation: u32::MAX };
        assert_eq!(unpack(pack(Tag::Recv, wide)), (Some(Tag::Recv), Token::new(7, Token::GENERATION_MAX)));
        assert_eq!(Token::new(7, u32::MAX).generation, Token::GENERATION_MAX);
    }

    #[test]
    fn layout_is_the_documented_one() {
        assert_eq!(pack(Tag::AcceptFd, Token::new(0x89AB_CDEF, 0x12_3456)), 0x0112_3456_89AB_CDEF);
    }

    #[test]
    fn foreign_numbers_have_no_tag() {
        for tag in [0_u64, 15, 128, 255] {
            assert_eq!(unpack(tag << 56).0, None);
        }
    }

    #[test]
    fn every_operation_names_its_tags_and_no_two_share_one() {
        let ops = [
            Op::Accept,
            Op::Close,
            Op::Install,
            Op::PollConn,
            Op::PollReadable,
            Op::Recv,
            Op::RecvDatagrams,
            Op::Send,
            Op::ShutDown,
        ];
        let mut seen: Vec<Tag> = ops.iter().flat_map(|op| Tag::of(*op)).copied().collect();
        assert_eq!(seen.len(), Tag::ALL.len() - 1, "all but Cancel");
        seen.dedup();
        assert_eq!(seen.len(), Tag::ALL.len() - 1);
        assert!(!seen.contains(&Tag::Cancel));
    }
}
