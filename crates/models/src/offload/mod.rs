//! The compute lane's result inbox, jobs and queues, without the interface for handlers.

#[path = "../../../doorbell/src/offload/job.rs"]
mod job;
#[path = "../../../doorbell/src/offload/line.rs"]
mod line;
#[path = "../../../doorbell/src/offload/outcome.rs"]
mod outcome;
#[path = "../../../doorbell/src/offload/queue.rs"]
mod queue;

pub(crate) use job::{Class, Job, JobContext, Ticket};
pub(crate) use outcome::{Delivery, Inbox, JobReply, Outcome};
pub(crate) use queue::{Core, Executor, Pump};

impl Core {
    /// A lane on the threads of `executor`, with at most `jobs_max` queued jobs per class.
    pub(crate) fn of(executor: impl Executor + 'static, jobs_max: usize) -> Self {
        Self::new(Box::new(executor), [jobs_max; 2], true)
    }
}
