//! Limits the number of Watch streams: of all connections together, and of each connection.

use super::GrpcOptions;
use crate::common::Common;
use crate::counters::{Counters, count};
use crate::counting_stream::Account;
use doorbell_grpc::{AdmitWatch, WatchLimit, WatchPermit};
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
    pub(super) fn new(common: &Common, options: &GrpcOptions) -> Self {
        Self {
            counters: Arc::clone(common.counters()),
            all: WatchLimit::shared(options.watches_max, Arc::clone(common.watches())),
            per_conn_max: options.watches_per_conn_max,
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
    use crate::flood_limits::{Budget, FloodLimits};
    use std::sync::atomic::Ordering;

    #[test]
    fn streams_are_limited_by_connection_and_over_all_generations() {
        let options = GrpcOptions {
            services: Vec::new(),
            watches_max: 2,
            watches_per_conn_max: 1,
            always_healthy_for_alb: false,
        };
        let common = Common::default();
        let conn = || {
            let mut extensions = Extensions::default();
            extensions.insert(Account::new(FloodLimits::new(Budget::default(), doorbell::http::Time::ZERO)));
            extensions
        };
        let (before, after) = (Watches::new(&common, &options), Watches::new(&common, &options));
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
