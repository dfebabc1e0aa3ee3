//! The source of an epoll event, packed into the 64 bits that epoll stores.

use rustix::event::epoll::EventData;

use crate::id::{DatagramIndex, ListenerIndex, SlotIndex};

#[derive(Clone, Copy)]
pub(super) enum Source {
    Alarm,
    Conn(SlotIndex),
    Datagrams(DatagramIndex),
    Listener(ListenerIndex),
    Waker,
}

impl Source {
    const LISTENER: u64 = 1 << 32;
    const WAKER: u64 = 2 << 32;
    const ALARM: u64 = 3 << 32;
    const DATAGRAMS: u64 = 4 << 32;

    pub(super) fn pack(self) -> EventData {
        EventData::new_u64(match self {
            Self::Alarm => Self::ALARM,
            Self::Conn(slot) => u64::from(slot.0),
            Self::Datagrams(socket) => Self::DATAGRAMS | u64::from(socket.0),
            Self::Listener(listener) => Self::LISTENER | u64::from(listener.0),
            Self::Waker => Self::WAKER,
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "`pack` stored values of these widths")]
    pub(super) fn unpack(data: EventData) -> Self {
        let word = data.u64();
        match word & !0xFFFF_FFFF {
            0 => Self::Conn(SlotIndex(word as u32)),
            Self::ALARM => Self::Alarm,
            Self::DATAGRAMS => Self::Datagrams(DatagramIndex(word as u16)),
            Self::LISTENER => Self::Listener(ListenerIndex(word as u16)),
            _ => Self::Waker,
        }
    }
}
