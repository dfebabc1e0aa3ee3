//! Frames that wait for a receipt, and arrivals that wait to be reported.

use crate::time::Time;
use crate::wire::Payload;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of frames that wait for their receipt; older ones are not measured.
const SENT_MAX: usize = 4096;

/// Maximum number of arrivals that wait to be reported; beyond it, the oldest is dropped.
const ARRIVALS_MAX: usize = 1024;

/// Maximum number of arrivals in a batch. A full batch does not wait for [`BATCH_DELAY`].
const BATCH_LEN: usize = 256;

/// Time for which a batch waits for more arrivals.
const BATCH_DELAY: Duration = Duration::from_millis(100);

/// A frame that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentFrame {
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) size: u32,
}

/// The frames of one connection that have no receipt yet.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    waiting: VecDeque<SentFrame>,
    /// Number of the last frame that was sent.
    pub(crate) last: u64,
    /// Number of the last frame with a receipt.
    pub(crate) receipted: u64,
}

impl Sent {
    pub(crate) fn add(&mut self, at: Time, size: u32) {
        self.last += 1;
        if self.waiting.len() >= SENT_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(SentFrame { number: self.last, at, size });
    }

    /// Removes the frame of a receipt; `None` if the frame is no longer stored. `Err` if the
    /// receipt is out of order or for a frame that was not sent.
    pub(crate) fn take(&mut self, number: u64) -> Result<Option<SentFrame>, ()> {
        if number <= self.receipted || number > self.last {
            return Err(());
        }
        self.receipted = number;
        while let Some(frame) = self.waiting.pop_front_if(|frame| frame.number <= number) {
            if frame.number == number {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

/// Arrivals of consecutive frames whose receipts have not been sent.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    waiting: VecDeque<Time>,
    /// Number of the last frame that arrived.
    pub(crate) last: u64,
    /// Time at which a batch must be sent. A frame that contains only receipts does not set it;
    /// otherwise both sides would send receipts of receipts forever.
    pub(crate) due: Option<Time>,
    pub(crate) dropped: u64,
}

impl Arrivals {
    pub(crate) fn add(&mut self, at: Time, is_reason: bool) {
        self.last += 1;
        if self.waiting.len() >= ARRIVALS_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(at);
        if is_reason && self.due.is_none() {
            self.due = Some(at.after(BATCH_DELAY));
        }
        if self.waiting.len() >= BATCH_LEN {
            self.due = self.due.map(|_| at);
        }
    }

    /// Removes and returns a batch, if one is due.
    pub(crate) fn take(&mut self, now: Time) -> Option<Payload> {
        self.due.filter(|due| *due <= now)?;
        let len = self.waiting.len().min(BATCH_LEN);
        let first = self.last + 1 - self.waiting.len() as u64;
        let batch: Vec<Time> = self.waiting.drain(..len).collect();
        if self.waiting.is_empty() {
            self.due = None;
        }
        let base = *batch.first()?;
        let after = |at: &Time| u32::try_from(at.since(base).as_micros()).unwrap_or(u32::MAX);
        let after_us = batch.iter().skip(1).map(after).collect();
        Some(Payload::Receipts { first, base_us: base.as_micros(), after_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn receipts_are_sent_in_batches_and_not_for_receipts_alone() {
        let mut arrivals = Arrivals::default();
        arrivals.add(at(1), false);
        assert_eq!((arrivals.due, arrivals.take(at(9_000))), (None, None));
        arrivals.add(at(2), true);
        arrivals.add(at(5), false);
        assert_eq!((arrivals.due, arrivals.take(at(101))), (Some(at(102)), None));
        let batch = Payload::Receipts { first: 1, base_us: 1000, after_us: vec![1000, 4000] };
        assert_eq!((arrivals.take(at(102)), arrivals.due), (Some(batch), None));
    }

    #[test]
    fn a_full_list_drops_the_oldest() {
        let mut arrivals = Arrivals::default();
        (0..ARRIVALS_MAX as u64 + 7).for_each(|ms| arrivals.add(at(ms), true));
        assert_eq!(arrivals.dropped, 7);
        let Some(Payload::Receipts { first: 8, base_us: 7000, after_us }) = arrivals.take(at(9_000)) else {
            panic!("the batch starts after the dropped ones");
        };
        assert_eq!(after_us.len() + 1, BATCH_LEN);
        let batches = std::iter::from_fn(|| arrivals.take(at(9_000))).count();
        assert_eq!((batches, arrivals.due), (ARRIVALS_MAX / BATCH_LEN - 1, None));
    }

    #[test]
    fn a_receipt_is_for_a_later_frame_that_was_sent() {
        let mut sent = Sent::default();
        (0..3).for_each(|ms| sent.add(at(ms), 9));
        assert!(sent.take(4).is_err(), "not sent");
        assert_eq!(sent.take(2).unwrap().map(|frame| frame.at), Some(at(1)));
        assert!(sent.take(2).is_err(), "a second receipt");
        assert!(sent.take(3).unwrap().is_some());
        (0..SENT_MAX as u64 + 1).for_each(|ms| sent.add(at(ms), 9));
        assert!(sent.take(4).unwrap().is_none(), "no longer stored");
    }
}
