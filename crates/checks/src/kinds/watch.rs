//! A `Watch` of `grpc.health.v1`: one call that stays, on which the server tells every change.
//!
//! Does not know about: how the connection was made, what a status is worth.
//!
//! A server that is gone without a word would look as well as ever. It is not pinged: servers of gRPC end the connection of whoever pings more
//! often than every five minutes (gRFC A8), and a process that hangs may still have its transport answer. Each run makes a call of `Check`
//! beside the watch instead, of which only counts that there is an answer.

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

/// A call that may be there.
#[derive(Debug)]
pub(crate) struct Watch {
    /// How long nothing may have been heard of a server before it is asked whether it is still there.
    silence: Duration,
    /// How far apart calls begin: a server that ends each of them at once keeps nobody busy.
    apart: Duration,
    notice: OnceLock<ChangeNotice>,
    following: Mutex<Option<Following>>,
}

/// What the server said last, until another call may be made. The call ends when this goes.
#[derive(Debug)]
struct Following {
    last: Arc<Mutex<Option<Known>>>,
    /// As long as it lives, so does the connection.
    client: HealthClient<Channel>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    status: ServingStatus,
    /// When the server last said anything.
    heard: Instant,
}

/// Ends the call when it goes, unless the server has answered.
struct Doubt<'a> {
    watch: &'a Watch,
    is_settled: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
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
            // Less than is between two runs of the schedule; more than between those of a server that changes all the time.
            silence: pace.fast_interval / 4,
            apart: pace.fast_interval,
            notice: OnceLock::new(),
            following: Mutex::new(None),
        }
    }

    pub(crate) fn notify_changes(&self, notice: ChangeNotice) {
        let _known = self.notice.set(notice);
    }

    /// What the server said last, if it is still there; nothing when the call is over and another one may be made. Who stops waiting
    /// for this ends the call.
    pub(crate) async fn known(
        &self,
        request: impl FnOnce() -> Request<HealthCheckRequest>,
        progress: &Progress,
    ) -> Option<ServingStatus> {
        let (last, mut client) = {
            let following = self.following();
            let Following { last, client, .. } = following.as_ref()?;
            let known = (*lock(last))?;
            if known.heard.elapsed() < self.silence {
                return Some(known.status);
            }
            (Arc::clone(last), client.clone())
        };
        progress.enter(Stage::Response);
        let mut doubt = Doubt { watch: self, is_settled: false };
        // If the connection is over, so is the watch, and says so by itself.
        let _answer = client.check(request()).await;
        doubt.is_settled = true;
        let mut last = lock(&last);
        last.as_mut().map(|known| {
            known.heard = Instant::now();
            known.status
        })
    }

    fn following(&self) -> MutexGuard<'_, Option<Following>> {
        lock(&self.following)
    }

    /// Makes the call and returns the first status. Later ones are reported by the notice.
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
        // The call of before is over, or this would not be made.
        *self.following() = None;
        let mut conn = Box::pin(conn);
        let mut first = pin!(async move {
            let mut told = client.watch(request).await?.into_inner();
            let status = next(&mut told).await?;
            Ok::<_, Status>((client, told, status))
        });
        let (client, mut told, status) = tokio::select! {
            first = &mut first => first?,
            _ended = &mut conn => {
                // What it never sent would wait for as long as it is there.
                drop(conn);
                return first.await.map(|(_, _, status)| status);
            }
        };
        let last = Arc::new(Mutex::new(Some(Known { status, heard: Instant::now() })));
        let (kept, notice) = (Arc::clone(&last), self.notice.get().cloned());
        let task = tokio::spawn(async move {
            let tell = |news: Option<ServingStatus>| {
                *lock(&kept) = news.map(|status| Known { status, heard: Instant::now() });
                notice.iter().for_each(ChangeNotice::changed);
            };
            while let Some(news) = tokio::select! {
                news = next(&mut told) => news.ok(),
                _ended = &mut conn => None,
            } {
                tell(Some(news));
            }
            // Nothing of it stays open meanwhile.
            drop((told, conn));
            // Whoever runs meanwhile goes by what was told last, and makes no other call.
            sleep_until(again_at).await;
            tell(None);
        });
        *self.following() = Some(Following { last, client, task });
        Ok(status)
    }
}

async fn next(told: &mut Streaming<HealthCheckResponse>) -> Result<ServingStatus, Status> {
    let message = told.message().await?;
    let message = message.ok_or_else(|| Status::new(Code::Unavailable, "the server ended the watch"))?;
    Ok(message.status())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
