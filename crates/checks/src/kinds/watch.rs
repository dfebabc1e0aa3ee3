//! A `Watch` of `grpc.health.v1`: one long-lived call on which the server reports every change.
//!
//! If a server disappears without closing the connection, its last status would stay valid. HTTP/2
//! pings are not used: gRPC servers close the connection of a client that pings more often than
//! every five minutes (gRFC A8), and the transport of a hung process may still answer pings.
//! Instead, a run makes a `Check` call in addition to the watch, unless a message has just arrived.
//! Only the arrival of a response matters: any status is a response, an error of the connection is
//! not.

use crate::kinds::channel::Channel;
use crate::options::Pace;
use crate::progress::{Progress, Stage};
use crate::scheduler::run_requests::ChangeNotice;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The watch call of a check; at most one is open.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Time without messages after which a run verifies that the server responds.
    silence: Duration,
    /// Minimum interval between the starts of `Watch` calls. Limits the load on a server that ends
    /// each call immediately.
    apart: Duration,
    notice: OnceLock<ChangeNotice>,
    following: Mutex<Option<Following>>,
}

/// A call and its last status. After the call has ended, the status stays valid until the next call
/// may start (see [`Watch::apart`]). Dropping this struct ends an open call.
#[derive(Debug)]
struct Following {
    last: Arc<Mutex<Option<Known>>>,
    /// Keeps the connection open.
    client: HealthClient<Channel>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    status: ServingStatus,
    /// Time of the last message of the watch, or of the last response to `Check`.
    received_at: Instant,
    /// True if the call has ended, and another call may not start yet.
    is_ended: bool,
}

/// Ends the call when dropped, unless the server has responded.
struct EndUnlessAnswered<'a> {
    watch: &'a Watch,
    is_answered: bool,
}

impl Known {
    fn now(status: ServingStatus) -> Self {
        Self { status, received_at: Instant::now(), is_ended: false }
    }
}

impl Drop for EndUnlessAnswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            *self.watch.following() = None;
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            // Shorter than the usual intervals, so that a scheduled run makes a `Check` call if the
            // server has been silent. A run that a change causes starts within this time after the
            // server's message, so it makes no call.
            silence: pace.fast_interval / 4,
            apart: pace.fast_interval,
            notice: OnceLock::new(),
            following: Mutex::new(None),
        }
    }

    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        let _known = self.notice.set(notice);
    }

    /// The last status if the server still responds. `None` if no call has been made, if the
    /// connection is lost, or if the call has ended and the next one may already start. Dropping
    /// this future early ends the call.
    pub(crate) async fn known(
        &self,
        request: impl FnOnce() -> Request<HealthCheckRequest>,
        progress: &Progress,
    ) -> Option<ServingStatus> {
        let (last, mut client) = {
            let following = self.following();
            let Following { last, client, .. } = following.as_ref()?;
            let known = (*lock(last))?;
            if known.is_ended || known.received_at.elapsed() < self.silence {
                return Some(known.status);
            }
            (Arc::clone(last), client.clone())
        };
        progress.enter(Stage::Response);
        let mut guard = EndUnlessAnswered { watch: self, is_answered: false };
        if client.check(request()).await.is_err_and(|status| is_lost(&status)) {
            return None;
        }
        guard.is_answered = true;
        let mut last = lock(&last);
        last.as_mut().map(|known| {
            known.received_at = Instant::now();
            known.status
        })
    }

    fn following(&self) -> MutexGuard<'_, Option<Following>> {
        lock(&self.following)
    }

    /// Makes the call and returns the first status. The [`ChangeNotice`] reports later changes.
    pub(crate) async fn begin<C, E>(
        &self,
        mut client: HealthClient<Channel>,
        request: Request<HealthCheckRequest>,
        conn: C,
    ) -> Result<ServingStatus, Status>
    where
        C: Future<Output = Result<(), E>> + Send + 'static,
        E: Send + 'static,
    {
        let again_at = Instant::now() + self.apart;
        // The previous call has ended; otherwise this call would not start.
        *self.following() = None;
        let mut conn = Box::pin(conn);
        let mut first = pin!(async move {
            let mut stream = client.watch(request).await?.into_inner();
            let status = next(&mut stream).await?;
            Ok::<_, Status>((client, stream, status))
        });
        let (client, mut stream, status) = tokio::select! {
            first = &mut first => first?,
            _ended = &mut conn => {
                // A request that was never sent fails only when the connection is dropped.
                drop(conn);
                return first.await.map(|(_, _, status)| status);
            }
        };
        let last = Arc::new(Mutex::new(Some(Known::now(status))));
        let (kept, notice) = (Arc::clone(&last), self.notice.get().cloned());
        let task = tokio::spawn(async move {
            let set_status = |news: Option<ServingStatus>| {
                *lock(&kept) = news.map(Known::now);
                notice.iter().for_each(ChangeNotice::changed);
            };
            while let Some(news) = tokio::select! {
                news = next(&mut stream) => news.ok(),
                _ended = &mut conn => None,
            } {
                set_status(Some(news));
            }
            // Until `again_at`, runs use the last status and start no other call.
            if Instant::now() < again_at
                && let Some(known) = &mut *lock(&kept)
            {
                known.is_ended = true;
            }
            // Close the call and its connection before the wait.
            drop((stream, conn));
            sleep_until(again_at).await;
            set_status(None);
        });
        *self.following() = Some(Following { last, client, task });
        Ok(status)
    }
}

async fn next(stream: &mut Streaming<HealthCheckResponse>) -> Result<ServingStatus, Status> {
    let message = stream.message().await?;
    let message = message.ok_or_else(|| Status::new(Code::Unavailable, "the server ended the watch"))?;
    Ok(message.status())
}

/// Whether a call failed without a response: errors of the connection have a source, a status that
/// the server sent has none.
fn is_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
