//! The access log: the selection of requests, the record of each, and its format as a line.
//!
//! Does not know about: queues, threads, files, clocks; `doorbell::access_log` provides them.
//!
//! A [`Logger`] is a layer. For each request it consults its [`Filter`], and if the request is to
//! be logged it makes a [`Record`] and passes it to a [`Sink`]. A record has a fixed size and owns
//! its contents, so making a record does not allocate, and a queue of records is one block of
//! memory. A [`Renderer`] converts a record to a line on another thread.
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

/// Receives records on the thread that serves requests, so it must not block.
pub trait Sink {
    /// Stores a copy of the record, or counts it as lost.
    fn log(&self, record: &Record);

    /// Returns a second sink for the same destination, for deferred requests. Without a second
    /// sink, deferred requests are logged immediately, without a status.
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
