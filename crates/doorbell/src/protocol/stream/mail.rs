//! Messages of other threads to connections, and jobs that connections wait for.

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;

use super::super::local::Notify;
use crate::id::ConnId;
use crate::offload::{JobContext, Offload, Outcome, OutcomeReceiver, Ticket};
use crate::panics::dispose;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, PoisonError, TryLockError};
use crate::time::Time;

/// Set in [`MailState::waiting`] when the connection has ended.
const GONE: u32 = 1 << 31;

/// A message on its way to a connection.
#[derive(Debug)]
pub(super) enum Mail<M> {
    /// The result of the job with this number.
    Job(u64, M),
    /// The job with this number has panicked.
    JobFailed(u64),
    /// A message of [`ConnHandle::push`].
    Pushed(M),
}

/// The messages for the connections of one listener on one worker.
pub(super) struct Mailbox<M> {
    queue: Mutex<Vec<(ConnId, Mail<M>)>>,
    notify: Notify,
    counters: MessageCounters,
    /// Maximum number of pushed messages that may wait for one connection.
    messages_max: u32,
}

impl<M> Mailbox<M> {
    pub(super) const fn new(notify: Notify, counters: MessageCounters, messages_max: u32) -> Self {
        Self { queue: Mutex::new(Vec::new()), notify, counters, messages_max }
    }

    /// Adds a message, and wakes the worker if the mailbox was empty.
    fn leave(&self, conn: ConnId, mail: Mail<M>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push((conn, mail));
        let is_first = queue.len() == 1;
        drop(queue);
        if is_first {
            (self.notify)();
        }
    }

    /// Takes all messages into `taken`, which must be empty. Never blocks: if another thread holds
    /// the lock, the messages are taken in the next turn.
    pub(super) fn take(&self, taken: &mut Vec<(ConnId, Mail<M>)>) {
        match self.queue.try_lock() {
            Ok(mut queue) => core::mem::swap(&mut *queue, taken),
            Err(TryLockError::Poisoned(queue)) => core::mem::swap(&mut *queue.into_inner(), taken),
            Err(TryLockError::WouldBlock) => (self.notify)(),
        }
    }

    pub(super) const fn counters(&self) -> &MessageCounters {
        &self.counters
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        // Each message is dropped separately: a second panic during unwinding would abort the
        // process.
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
        let counters = &self.counters;
        for (_, mail) in queue.drain(..) {
            counters.add_dropped(usize::from(matches!(mail, Mail::Pushed(_))));
            dispose(mail);
        }
    }
}

/// Counters of the pushed messages of one protocol, on all workers.
#[derive(Clone, Debug, Default)]
pub struct MessageCounters(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    pushed: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl MessageCounters {
    /// Number of messages that [`ConnHandle::push`] accepted.
    pub fn pushed(&self) -> u64 {
        self.0.pushed.load(Ordering::Relaxed)
    }

    /// Number of messages that were refused, because too many waited for their connection or it had
    /// ended.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Number of accepted messages that were dropped because their connection had ended.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn add_dropped(&self, messages: usize) {
        self.0.dropped.fetch_add(messages as u64, Ordering::Relaxed);
    }
}

/// State shared by the handles of one connection.
#[derive(Debug, Default)]
pub(super) struct MailState {
    /// Number of pushed messages that were not handled yet, and [`GONE`].
    waiting: AtomicU32,
}

/// Pushes messages to a connection from any thread. Cheap to clone.
pub struct ConnHandle<M> {
    conn: ConnId,
    shared: Arc<MailState>,
    mailbox: Arc<Mailbox<M>>,
}

/// A message that was not accepted. It is returned to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError<M> {
    /// Too many messages wait for the connection, for example because its peer reads too slowly.
    Full(M),
    /// The connection has ended.
    Gone(M),
}

impl<M> ConnHandle<M> {
    /// Pushes a message; the connection's handler gets it as
    /// [`StreamHandler::message`](super::StreamHandler::message), in order. Never waits.
    ///
    /// An accepted message is dropped if the connection ends before it is handled.
    ///
    /// # Errors
    /// The message, if too many messages wait or the connection has ended.
    pub fn push(&self, message: M) -> Result<(), PushError<M>> {
        let before = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let refused = match before {
            _ if before & GONE != 0 => Some(PushError::Gone as fn(M) -> _),
            _ if before >= self.mailbox.messages_max => Some(PushError::Full as fn(M) -> _),
            _ => None,
        };
        if let Some(refused) = refused {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.mailbox.counters.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(refused(message));
        }
        self.mailbox.counters.0.pushed.fetch_add(1, Ordering::Relaxed);
        self.mailbox.leave(self.conn, Mail::Pushed(message));
        Ok(())
    }

    /// True once the connection has ended.
    pub fn is_gone(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) & GONE != 0
    }
}

impl<M> Clone for ConnHandle<M> {
    fn clone(&self) -> Self {
        Self { conn: self.conn, shared: Arc::clone(&self.shared), mailbox: Arc::clone(&self.mailbox) }
    }
}

/// The messages, handles and job of one connection.
pub(super) struct Link<M> {
    conn: ConnId,
    mailbox: Arc<Mailbox<M>>,
    /// Messages that were not handled yet.
    pub(super) mail: VecDeque<Mail<M>>,
    /// Created for the first handle.
    shared: Option<Arc<MailState>>,
    job: Option<Pending>,
    /// Number of the next job.
    job_next: u64,
    /// True in a test without threads.
    pub(super) runs_jobs_here: bool,
}

/// The job that a connection waits for.
struct Pending {
    number: u64,
    /// `None` in a test, which has run the job already.
    ticket: Option<Ticket>,
}

impl<M: Send + 'static> Link<M> {
    pub(super) const fn new(conn: ConnId, mailbox: Arc<Mailbox<M>>) -> Self {
        Self {
            conn,
            mailbox,
            mail: VecDeque::new(),
            shared: None,
            job: None,
            job_next: 0,
            runs_jobs_here: false,
        }
    }

    /// Sets the connection of the slot, after the previous one has ended.
    pub(super) const fn reuse_for(&mut self, conn: ConnId) {
        self.conn = conn;
    }

    pub(super) fn handle(&mut self) -> ConnHandle<M> {
        let shared = Arc::clone(self.shared.get_or_insert_default());
        ConnHandle { conn: self.conn, shared, mailbox: Arc::clone(&self.mailbox) }
    }

    /// Starts a job and returns its deadline. `None` if it cannot be started.
    pub(super) fn run(
        &mut self,
        offload: &Offload,
        now: Time,
        job: impl FnOnce(&JobContext<'_>) -> M + Send + 'static,
    ) -> Option<Time> {
        if self.job.is_some() {
            return None;
        }
        let (conn, number) = (self.conn, self.job_next);
        self.job_next += 1;
        let (mailbox, for_failure) = (Arc::clone(&self.mailbox), Arc::clone(&self.mailbox));
        let work = move |context: &JobContext<'_>| mailbox.leave(conn, Mail::Job(number, job(context)));
        let done = move |outcome| {
            if !matches!(outcome, Outcome::Replied(_)) {
                for_failure.leave(conn, Mail::JobFailed(number));
            }
        };
        let (job, deadline) = offload.job(now, work);
        let ticket = if self.runs_jobs_here {
            done(job.run_here());
            None
        } else {
            Some(job.submit_for(OutcomeReceiver::Other(Box::new(done)))?)
        };
        self.job = Some(Pending { number, ticket });
        Some(deadline)
    }

    /// True while the connection waits for a job.
    pub(super) const fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// Abandons the job: cancels it, or drops its result when it arrives.
    pub(super) fn give_up_job(&mut self) {
        if let Some(ticket) = self.job.take().and_then(|pending| pending.ticket) {
            let _started = ticket.call_off();
        }
    }

    /// Takes the next message that still concerns the connection.
    pub(super) fn next_mail(&mut self) -> Option<Due<M>> {
        loop {
            let mail = self.mail.pop_front()?;
            let is_due = |job: &Option<Pending>, number| job.as_ref().is_some_and(|job| job.number == number);
            match mail {
                Mail::Pushed(message) => {
                    if let Some(shared) = &self.shared {
                        shared.waiting.fetch_sub(1, Ordering::Relaxed);
                    }
                    return Some(Due::Pushed(message));
                }
                Mail::Job(number, message) if is_due(&self.job, number) => {
                    self.job = None;
                    return Some(Due::Result(message));
                }
                Mail::JobFailed(number) if is_due(&self.job, number) => {
                    self.job = None;
                    return Some(Due::JobFailed);
                }
                late @ (Mail::Job(..) | Mail::JobFailed(_)) => dispose(late),
            }
        }
    }

    /// Ends the connection: its messages are dropped, and its handles refuse further ones.
    pub(super) fn end(&mut self) {
        self.give_up_job();
        if let Some(shared) = self.shared.take() {
            shared.waiting.fetch_or(GONE, Ordering::Relaxed);
        }
        let pushed = self.mail.iter().filter(|mail| matches!(mail, Mail::Pushed(_))).count();
        self.mailbox.counters().add_dropped(pushed);
        self.mail.drain(..).for_each(dispose);
    }
}

/// A message that its connection is to handle.
pub(super) enum Due<M> {
    /// The job of the connection has panicked.
    JobFailed,
    /// A message of [`ConnHandle::push`].
    Pushed(M),
    /// The result of the job.
    Result(M),
}

impl<M> fmt::Debug for ConnHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnHandle").field("conn", &self.conn).finish_non_exhaustive()
    }
}

impl<M> fmt::Display for PushError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "too many messages wait for the connection",
            Self::Gone(_) => "the connection has ended",
        })
    }
}

impl<M: fmt::Debug> std::error::Error for PushError<M> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, SlotIndex};

    /// A message that panics when dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a message's fault"));
        }
    }

    /// A second panic during the first one would end the process.
    #[test]
    fn messages_that_are_left_are_dropped_one_by_one_and_counted() {
        let counters = MessageCounters::default();
        let mailbox = Arc::new(Mailbox::new(Arc::new(|| ()), counters.clone(), 4));
        let conn = ConnId { slot: SlotIndex(0), generation: Generation::new(0) };
        let handle = Link::new(conn, Arc::clone(&mailbox)).handle();
        (0..3).for_each(|_| assert!(handle.push(Bomb).is_ok()));
        mailbox.leave(conn, Mail::Job(0, Bomb));
        drop((handle, mailbox));
        assert_eq!((counters.pushed(), counters.dropped()), (3, 3));
    }
}
