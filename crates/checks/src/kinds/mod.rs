//! The kinds of checks, one module each, and shared code.

#[cfg(feature = "alias")]
pub(crate) mod alias;
pub(crate) mod blocking;
mod channel;
pub(crate) mod children;
pub(crate) mod dns;
mod exchange;
pub(crate) mod exec;
pub(crate) mod expectations;
pub(crate) mod file;
mod first_bytes;
pub(crate) mod gauge;
pub(crate) mod grpc;
pub(crate) mod http;
#[cfg(feature = "icmp")]
pub(crate) mod icmp;
mod interim;
mod lines;
#[cfg(feature = "mail")]
pub(crate) mod mail;
pub(crate) mod materials;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "process")]
pub(crate) mod process;
pub(crate) mod redis;
mod session;
pub(crate) mod tcp;
pub(crate) mod tls;
mod traceparent;
#[cfg(feature = "udp")]
pub(crate) mod udp;
mod unary;
mod watch;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

use crate::connect::dialer::Dialer;
use crate::finding::Verdict;
use crate::progress::Progress;
use std::fmt::Debug;
use std::pin::Pin;
use tokio::time::Instant;

/// A kind of check that is called through a trait object. Kinds that run often, or keep state
/// between runs, are variants of `runner::target::Kind` instead.
pub(crate) trait KindRunner: Debug + Send + Sync {
    /// The dialer of the target; `None` for kinds that do not connect.
    fn dialer(&self) -> Option<&Dialer>;

    /// Whether the kind sends datagrams. A changed address of the target then does not show as a
    /// failed connection.
    fn is_connectionless(&self) -> bool {
        false
    }

    /// Number of descriptors that a run uses, if the kind does not connect.
    fn descriptors(&self) -> usize {
        1
    }

    /// Whether a run makes blocking calls, which need a separate thread.
    fn blocks(&self) -> bool {
        false
    }

    /// Performs a run.
    fn run<'a>(&'a self, progress: &'a Progress, start: Instant) -> BoxedRun<'a>;
}

/// Implements [`KindRunner`] for a runner with a `dialer` and a method `run`, and properties that
/// are not the default.
macro_rules! impl_kind_runner {
    ($runner:ty $(, $property:ident: |$it:ident| $value:expr)?) => {
        impl crate::kinds::KindRunner for $runner {
            fn dialer(&self) -> Option<&Dialer> {
                Some(&self.dialer)
            }

            $(fn $property(&self) -> bool {
                let $it = self;
                $value
            })?

            fn run<'a>(&'a self, progress: &'a Progress, start: Instant) -> crate::kinds::BoxedRun<'a> {
                Box::pin(self.run(progress, start))
            }
        }
    };
}
pub(crate) use impl_kind_runner;

/// A run in progress.
pub(crate) type BoxedRun<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;
