//! The access log: the selection of requests, the record of each, and its format as a line.
//!
//! Does not know about: queues, threads, files, clocks, which `doorbell::access_log` provides.
//!
//! A [`Logger`] is a layer: it asks its [`Filter`] about every request, makes a [`Record`] of those
//! to log and passes it to a [`Sink`]. A record has a fixed size and owns its contents, so making
//! one does not allocate and a queue of them is one block of memory. A [`Renderer`] converts a
//! record to a line on another thread.
//!
//! ```
//! use doorbell_http::layer::ServiceExt;
//! use doorbell_http::log::{Filter, Format, Logger, Record, Renderer, Sink, Epoch};
//! use doorbell_http::{StaticReply, Status, service_fn};
//! use std::sync::Mutex;
//!
//! /// Lines in memory.
//! struct Lines(Mutex<Vec<u8>>);
//!
//! impl Sink for Lines {
//!     fn log(&self, record: &Record) {
//!         Renderer::new(Format::Json).render(record, Epoch::default(), &mut self.0.lock().unwrap());
//!     }
//! }
//!
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |_, reply| reply.send(&alive));
//! let service = service.with(Logger::new(Filter::ERRORS, Lines(Mutex::default())));
//! # let _: Box<dyn doorbell_http::Service> = Box::new(service);
//! ```

mod entry;
mod filter;
mod logger;
mod record;
mod render;
#[cfg(test)]
mod tests;

pub use entry::Entry;
pub use filter::{Filter, Level};
pub use logger::{Logged, Logger};
pub use record::{Clip, Record, RecordHead, RecordTail};
pub use render::{Epoch, Format, Renderer};

/// Receives records, on the thread that serves requests: it must not block.
pub trait Sink {
    /// Stores a copy, or counts that it could not.
    fn log(&self, record: &Record);

    /// A second sink for the same destination, for deferred requests. Without one they are logged
    /// at once, without a status.
    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        None
    }
}

impl<K: Sink + ?Sized> Sink for &K {
    fn log(&self, record: &Record) {
        (**self).log(record);
    }

    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        (**self).later()
    }
}

impl<K: Sink + ?Sized> Sink for std::sync::Arc<K> {
    fn log(&self, record: &Record) {
        (**self).log(record);
    }

    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        (**self).later()
    }
}
