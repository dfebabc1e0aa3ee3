//! One Watch stream: the current status of a service, then its changes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::{Extensions, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckResponse;

use crate::statuses::{Statuses, Watched};

/// Interval at which an open Watch requests on-demand checks. A check with a fresh result does not
/// run again.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Admits Watch streams. Clients may keep a stream open without a time limit.
pub trait AdmitWatch: fmt::Debug + Send + Sync {
    /// Admits the Watch stream of a request with these extensions. The permit is dropped at the end
    /// of the stream.
    ///
    /// # Errors
    /// The status of the call, if the stream is refused.
    fn admit(&self, extensions: &Extensions) -> Result<WatchPermit, Status>;
}

/// A permit for one Watch stream.
pub type WatchPermit = Box<dyn Any + Send>;

/// A maximum number of open Watch streams.
#[derive(Debug)]
pub struct WatchLimit {
    max: u32,
    open: Arc<AtomicU32>,
}

/// A permit of a [`WatchLimit`].
#[derive(Debug)]
struct OpenStream(Arc<AtomicU32>);

impl WatchLimit {
    /// A limit of `max` open streams.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self::shared(max, Arc::default())
    }

    /// A limit of `max` open streams, counted in `open` together with the streams of other limits.
    #[must_use]
    pub const fn shared(max: u32, open: Arc<AtomicU32>) -> Self {
        Self { max, open }
    }
}

impl AdmitWatch for WatchLimit {
    fn admit(&self, _extensions: &Extensions) -> Result<WatchPermit, Status> {
        // Counted before the limit is checked: if the stream is refused, dropping the permit
        // reverts the count.
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let open_stream = OpenStream(Arc::clone(&self.open));
        if before >= self.max {
            return Err(Status::resource_exhausted("too many Watch streams"));
        }
        Ok(Box::new(open_stream))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The response for a status.
pub(crate) const fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

/// `SERVICE_UNKNOWN`, which only Watch sends.
const UNKNOWN: HealthCheckResponse = HealthCheckResponse { status: 3 };

/// One Watch stream.
pub(crate) struct WatchCall {
    /// `None` for an unknown service.
    pub(crate) status: Option<Watched>,
    /// The [`Statuses`] through which the stream requests runs of on-demand checks, and the name of
    /// the service. `None` for a service without on-demand checks.
    pub(crate) asks: Option<(Arc<Statuses>, String)>,
    /// True when the stream must end.
    pub(crate) ends: watch::Receiver<bool>,
    pub(crate) _permit: WatchPermit,
}

/// State of the responses of a Watch stream.
struct ResponseState {
    watching: WatchCall,
    /// The last sent status.
    sent: Option<ServingStatus>,
    over: bool,
}

impl WatchCall {
    /// The responses: the status, then its changes, then UNAVAILABLE.
    pub(crate) fn responses(self) -> impl Stream<Item = Result<HealthCheckResponse, Status>> + Send {
        unfold(ResponseState { watching: self, sent: None, over: false }, ResponseState::next)
    }
}

impl ResponseState {
    async fn next(mut self) -> Option<(Result<HealthCheckResponse, Status>, Self)> {
        if self.over {
            return None;
        }
        match self.next_response().await {
            Some(next_response) => Some((Ok(next_response), self)),
            None => {
                self.over = true;
                Some((Err(Status::unavailable("the server is shutting down")), self))
            }
        }
    }

    /// Waits for the next response; `None` at the end, after the last change.
    async fn next_response(&mut self) -> Option<HealthCheckResponse> {
        let Self { watching: WatchCall { status, asks, ends, _permit }, sent, .. } = self;
        let Some(status) = status else {
            if sent.replace(ServingStatus::Unknown).is_none() {
                return Some(UNKNOWN);
            }
            let _ended = ends.wait_for(|ends| *ends).await;
            return None;
        };
        loop {
            let now = status.status();
            if sent.replace(now) != Some(now) {
                return Some(response(now));
            }
            let ask_again = async {
                match asks {
                    Some((statuses, service)) => {
                        statuses.ask(service);
                        sleep(ASK_EVERY).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = status.changed() => changed?,
                () = ask_again => {}
                _ended = ends.wait_for(|ends| *ends) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_share_a_counter_count_together() {
        let open = Arc::<AtomicU32>::default();
        let limit = || WatchLimit::shared(2, Arc::clone(&open));
        let (before, after) = (limit(), limit());
        let admit = |limit: &WatchLimit| limit.admit(&Extensions::default());
        let (first, second) = (admit(&before).unwrap(), admit(&after).unwrap());
        assert!(admit(&before).is_err() && admit(&after).is_err());
        assert_eq!(open.load(Ordering::Relaxed), 2, "a refused stream takes no permit");
        drop(first);
        drop(before);
        let third = admit(&after).unwrap();
        drop((second, third));
        assert_eq!(open.load(Ordering::Relaxed), 0);
    }
}
