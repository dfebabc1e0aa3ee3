//! The bytes to send. Requests without an id share one buffer; requests with an id have a buffer
//! for each slot.

use bytes::Bytes;
use doorbell_ring::SendBuf;

use crate::conn::{Conn, Job};
use crate::plan::RequestTemplate;

/// The bytes of requests.
#[derive(Debug)]
pub(super) struct Requests {
    template: RequestTemplate,
    /// The requests of one write, all identical. If requests contain an id, only the initial
    /// content of each slot's buffer.
    shared: Bytes,
}

impl Requests {
    pub(super) fn new(template: &RequestTemplate, pipeline: u32) -> Self {
        let shared = Bytes::from(template.as_bytes().repeat(pipeline as usize));
        Self { template: template.clone(), shared }
    }

    /// Returns a buffer for a slot, if requests contain an id.
    pub(super) fn buf(&self) -> Option<Vec<u8>> {
        self.template.has_id().then(|| self.shared.to_vec())
    }

    /// The bytes of the unfinished requests in a connection's batch.
    pub(super) fn fill(&self, conn: &Conn, own: Option<Vec<u8>>, job: &Job) -> SendBuf {
        let batch = conn.batch();
        let len = self.template.len();
        let left = batch.left() as usize;
        let Some(mut own) = own else { return self.shared.slice(..left * len).into() };
        // The buffer contains the requests of one write, which differ only in their ids.
        own.truncate(left * len);
        while own.len() < left * len {
            own.extend_from_slice(self.template.as_bytes());
        }
        for (request, sequence) in own.chunks_exact_mut(len).zip(batch.next()..) {
            if let Some(id) = job.id(sequence) {
                self.template.set_id(request, id);
            }
        }
        own.into()
    }
}
