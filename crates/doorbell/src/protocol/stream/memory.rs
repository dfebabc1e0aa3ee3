//! The states of a protocol's connections on one worker, by slot.

use std::sync::Arc;

use super::super::local::{Notify, StreamMemory};
use super::handler::StreamHandler;
use super::mail::{Link, Mail, Mailbox, MessageCounters};
use crate::id::ConnId;
use crate::panics::dispose;

/// The states of the connections of a handler on one worker, and their messages.
pub(crate) struct Memory<H: StreamHandler> {
    /// By slot, up to the highest slot that was used. The capacity is that of the worker's table.
    slots: Vec<Option<Slot<H>>>,
    mailbox: Arc<Mailbox<H::Message>>,
    /// Messages that were taken from the mailbox in this turn, the oldest last.
    arrived: Vec<(ConnId, Mail<H::Message>)>,
}

/// A slot that a connection of this protocol has used. Its buffers are kept for the next
/// connection.
pub(super) struct Slot<H: StreamHandler> {
    /// The handler's state of the connection; `None` before the first event and after the end.
    pub(super) conn: Option<H::Conn>,
    pub(super) link: Link<H::Message>,
    id: ConnId,
}

impl<H: StreamHandler> Memory<H> {
    pub(crate) fn new(slots_max: u32, notify: &Notify, counters: MessageCounters, messages_max: u32) -> Self {
        let mailbox = Mailbox::new(Arc::clone(notify), counters, messages_max);
        Self {
            slots: Vec::with_capacity(slots_max as usize),
            mailbox: Arc::new(mailbox),
            arrived: Vec::new(),
        }
    }

    /// The slot of a connection. If the slot belongs to an earlier connection, it is reset first.
    pub(super) fn slot(&mut self, id: ConnId) -> &mut Slot<H> {
        let index = id.slot.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let mailbox = &self.mailbox;
        let slot = self.slots[index].get_or_insert_with(|| Slot {
            conn: None,
            link: Link::new(id, Arc::clone(mailbox)),
            id,
        });
        if slot.id != id {
            debug_assert!(slot.conn.is_none(), "I-9: the state of a connection ends with it");
            slot.link.end();
            dispose(slot.conn.take());
            slot.id = id;
            slot.link.reuse_for(id);
        }
        slot
    }

    /// Ends a connection and returns its state.
    pub(super) fn end(&mut self, id: ConnId) -> Option<H::Conn> {
        let slot = self.slots.get_mut(id.slot.index())?.as_mut().filter(|slot| slot.id == id)?;
        slot.link.end();
        slot.conn.take()
    }
}

impl<H: StreamHandler> StreamMemory for Memory<H> {
    fn take_mail(&mut self) {
        self.mailbox.take(&mut self.arrived);
        self.arrived.reverse();
    }

    fn next_addressee(&mut self) -> Option<ConnId> {
        loop {
            let (id, mail) = self.arrived.pop()?;
            let slot = self.slots.get_mut(id.slot.index()).and_then(Option::as_mut);
            if let Some(slot) = slot.filter(|slot| slot.id == id && slot.conn.is_some()) {
                slot.link.mail.push_back(mail);
                return Some(id);
            }
            self.mailbox.counters().add_dropped(usize::from(matches!(mail, Mail::Pushed(_))));
            dispose(mail);
        }
    }
}

impl<H: StreamHandler> Drop for Memory<H> {
    fn drop(&mut self) {
        // Each state is dropped separately: a second panic during unwinding would abort the
        // process.
        for slot in self.slots.iter_mut().flatten() {
            slot.link.end();
            dispose(slot.conn.take());
        }
        self.arrived.drain(..).for_each(dispose);
    }
}
