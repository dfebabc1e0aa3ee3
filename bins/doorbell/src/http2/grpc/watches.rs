//! Limits the number of Watch streams: of all connections together, and of each connection.
//!
//! Does not know about: health statuses, responses.

use crate::http2::common::Common;
use crate::http2::counters::{Counters, count};
use crate::http2::counting_stream::Account;
use doorbell_grpc::{AdmitWatch, WatchLimit, WatchPermit};
use doorbell_proxy_config::model::Grpc;
use std::sync::Arc;
use tonic::{Extensions, Status};

/// The limits of a configuration. All generations share the counters.
#[derive(Debug)]
pub(super) struct Watches {
    counters: Arc<Counters>,
    all: WatchLimit,
    per_conn_max: u32,
}

/// Counts a Watch stream in the account of its connection until this value is dropped.
#[derive(Debug)]
struct Waiting(Account);

impl Watches {
    pub(super) fn new(common: &Common, grpc: &Grpc) -> Self {
        Self {
            counters: Arc::clone(common.counters()),
            all: WatchLimit::shared(grpc.max_watches, Arc::clone(common.watches())),
            per_conn_max: grpc.watches_per_connection,
        }
    }

    fn admit_on(&self, account: &Account, extensions: &Extensions) -> Result<WatchPermit, Status> {
        if account.lock().limits.waiting() >= self.per_conn_max {
            return Err(Status::resource_exhausted("too many Watch streams on this connection"));
        }
        let permit = self.all.admit(extensions)?;
        Ok(Box::new((Waiting::begin(account), permit)))
    }
}

impl AdmitWatch for Watches {
    fn admit(&self, extensions: &Extensions) -> Result<WatchPermit, Status> {
        let account = extensions.get::<Account>();
        let account = account.ok_or_else(|| Status::internal("request without a connection"))?;
        self.admit_on(account, extensions).inspect_err(|_refused| count(&self.counters.watches))
    }
}

impl Waiting {
    fn begin(account: &Account) -> Self {
        account.lock().limits.set_waiting(true);
        Self(account.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().limits.set_waiting(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::flood_limits::{Budget, FloodLimits};
    use doorbell_proxy_config::{Source, parse};
    use std::sync::atomic::Ordering;

    #[test]
    fn streams_are_limited_by_connection_and_over_all_generations() {
        let text = "version = 1\n[grpc]\nmax_watches = 2\nwatches_per_connection = 1\n".to_owned();
        let config = parse(&Source { name: "f".to_owned(), text }, &|_| None).config.unwrap();
        let common = Common::default();
        let conn = || {
            let mut extensions = Extensions::default();
            extensions.insert(Account::new(FloodLimits::new(Budget::default(), crate::http::Time::ZERO)));
            extensions
        };
        let (before, after) = (Watches::new(&common, &config.grpc), Watches::new(&common, &config.grpc));
        let (one, other) = (conn(), conn());
        let first = before.admit(&one).unwrap();
        assert!(after.admit(&one).is_err(), "the connection has one");
        let second = after.admit(&other).unwrap();
        assert!(before.admit(&conn()).is_err() && after.admit(&conn()).is_err());
        assert_eq!(common.watches().load(Ordering::Relaxed), 2, "a refused stream takes no permit");
        assert_eq!(common.counters().watches.load(Ordering::Relaxed), 3);
        drop((first, before));
        let third = after.admit(&one).unwrap();
        drop((second, third));
        assert_eq!(common.watches().load(Ordering::Relaxed), 0);
    }
}
