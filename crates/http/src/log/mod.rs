//! The access log: which requests it shows, what is kept of each, and how that reads as a line.
//!
//! Does not know about: queues, threads, files, clocks. `doorbell::access_log` brings them.
//!
//! A [`Logger`] is a layer: it asks its [`Filter`] about every answered or refused request, makes a [`Record`] of those that are
//! shown and gives it to a [`Sink`]. A record has one size and owns what it says, so making one allocates nothing and a queue of them is
//! one block of memory. A [`Renderer`] makes a line of a record on whatever thread has the time.
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

/// Takes records, on the thread that answers requests: it must not wait.
pub trait Sink {
    /// Takes a copy, or counts that it could not.
    fn log(&self, record: &Record);

    /// Another way to the same place, for a request whose answer comes later. Without one it is logged at once, without a status.
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
