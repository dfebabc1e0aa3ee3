//! Owns the payloads in flight, one per slot.
#![expect(
    unsafe_code,
    reason = "cells without destructor, so that a payload in flight is leaked and never freed"
)]

use std::fmt;
use std::mem::MaybeUninit;

use crate::bitmap::Bitmap;
use crate::event::SendBuf;

/// The table of payloads in flight. A cell is first written when its slot first sends, so the
/// memory of unused slots is never resident.
pub(crate) struct Sends {
    bufs: Box<[MaybeUninit<SendBuf>]>,
    busy: Bitmap,
}

/// Maximum length of one send; a longer payload results in a short send.
const SEND_LEN_MAX: usize = 1 << 30;

impl Sends {
    pub(crate) fn new(slots: u32) -> Self {
        Self { bufs: Box::new_uninit_slice(slots as usize), busy: Bitmap::new(slots) }
    }

    /// Stores `buf` and returns the address and length of its unsent bytes.
    ///
    /// # Panics
    /// If the slot does not exist or has a send in flight.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32, buf: SendBuf) -> (*const u8, u32) {
        assert!(slot < self.busy.len(), "slot {slot} is beyond the ring's table");
        assert!(self.busy.insert(slot), "slot {slot} has a send in flight already");
        let bytes = self.bufs[slot as usize].write(buf).remaining();
        let len = u32::try_from(bytes.len().min(SEND_LEN_MAX)).expect("SEND_LEN_MAX fits");
        (bytes.as_ptr(), len)
    }

    /// Handles the final completion of the slot's send: returns the payload, or `None` if no send
    /// was in flight.
    #[inline]
    pub(crate) fn take(&mut self, slot: u32) -> Option<SendBuf> {
        if !self.busy.remove(slot) {
            return None;
        }
        // SAFETY: R-4, the bit was set, so the cell holds a payload. The bit is cleared above, so
        // the payload is moved out once.
        Some(unsafe { self.bufs[slot as usize].assume_init_read() })
    }
}

impl fmt::Debug for Sends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sends").field("slots", &self.busy.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_payload_stays_where_the_kernel_looks() {
        let mut sends = Sends::new(3);
        for payload in [SendBuf::from(b"hello".to_vec()), SendBuf::from(Bytes::from_static(b"hello"))] {
            let before = payload.payload.as_slice().as_ptr();
            let (addr, len) = sends.put(2, payload);
            assert_eq!((addr, len), (before, 5));
            let back = sends.take(2).unwrap();
            assert_eq!(back.payload.as_slice().as_ptr(), before);
            assert!(sends.take(2).is_none());
        }
    }

    #[test]
    fn only_what_is_left_is_sent() {
        let mut sends = Sends::new(1);
        for (from, len) in [(0, 5), (1, 4), (5, 0), (6, 0), (usize::MAX, 0)] {
            let mut buf = SendBuf::from(b"hello".to_vec());
            buf.from = from;
            assert_eq!(sends.put(0, buf).1, len);
            assert_eq!(sends.take(0).unwrap().from, from);
        }
    }

    #[test]
    #[should_panic(expected = "in flight already")]
    fn a_slot_sends_one_thing_at_a_time() {
        let mut sends = Sends::new(1);
        let _ = sends.put(0, b"one".to_vec().into());
        let _ = sends.put(0, b"two".to_vec().into());
    }

    #[test]
    #[should_panic(expected = "beyond the ring's table")]
    fn a_slot_outside_is_refused() {
        let _ = Sends::new(1).put(1, Vec::new().into());
    }

    #[test]
    fn a_table_that_goes_early_leaks_what_is_in_flight() {
        let watched = std::sync::Arc::new(());
        struct Watched {
            _count: std::sync::Arc<()>,
        }
        impl AsRef<[u8]> for Watched {
            fn as_ref(&self) -> &[u8] {
                b"x"
            }
        }
        let mut sends = Sends::new(2);
        let _ = sends.put(0, Bytes::from_owner(Watched { _count: watched.clone() }).into());
        let _ = sends.put(1, Bytes::from_owner(Watched { _count: watched.clone() }).into());
        drop(sends.take(1));
        drop(sends);
        assert_eq!(std::sync::Arc::strong_count(&watched), 2, "slot 0 is leaked, slot 1 was freed");
    }
}
