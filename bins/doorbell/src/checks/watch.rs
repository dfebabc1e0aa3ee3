//! A `Watch` of `grpc.health.v1`: one call that stays, on which the server tells every change.
//!
//! Does not know about: how the connection was made, what a status is worth.

use super::Teller;
use super::grpc::Sender;
use crate::config::model::Pace;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// A call that may be there.
#[derive(Debug)]
pub(super) struct Watch {
    /// How often a silent server is asked whether it is still there, and how long it may take to say so.
    ping_every: Duration,
    ping_timeout: Duration,
    /// How far apart calls begin: a server that ends each of them at once keeps nobody busy.
    apart: Duration,
    teller: OnceLock<Teller>,
    following: Mutex<Option<Following>>,
}

/// What the server said last, until another call may be made. The call ends when this goes.
#[derive(Debug)]
struct Following {
    last: Arc<Mutex<Option<ServingStatus>>>,
    task: JoinHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    pub(super) const fn new(pace: &Pace) -> Self {
        Self {
            ping_every: pace.interval,
            ping_timeout: pace.timeout,
            apart: pace.fast_interval,
            teller: OnceLock::new(),
            following: Mutex::new(None),
        }
    }

    pub(super) fn tell(&self, teller: Teller) {
        let _known = self.teller.set(teller);
    }

    /// Without it a server that is gone without a word would look as well as ever.
    pub(super) fn keep_alive(&self, builder: &mut http2::Builder<TokioExecutor>) {
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(self.ping_every)
            .keep_alive_timeout(self.ping_timeout)
            .keep_alive_while_idle(true);
    }

    /// What the server said last; nothing when the call is over and another one may be made.
    pub(super) fn known(&self) -> Option<ServingStatus> {
        let following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        following.as_ref().and_then(|following| *lock(&following.last))
    }

    /// Makes the call and gives the first that is told. What comes behind it is told by the teller.
    pub(super) async fn begin<C, E>(
        &self,
        mut client: HealthClient<Sender>,
        request: Request<HealthCheckRequest>,
        conn: C,
    ) -> Result<ServingStatus, Status>
    where
        C: Future<Output = Result<(), E>> + Send + 'static,
        E: Send + 'static,
    {
        let again_at = Instant::now() + self.apart;
        // The call of before is over, or this would not be made.
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
        let last = Arc::new(Mutex::new(Some(status)));
        let (kept, teller) = (Arc::clone(&last), self.teller.get().cloned());
        let task = tokio::spawn(async move {
            let tell = |news| {
                *lock(&kept) = news;
                teller.iter().for_each(Teller::changed);
            };
            while let Some(news) = tokio::select! {
                news = next(&mut told) => news.ok(),
                _ended = &mut conn => None,
            } {
                tell(Some(news));
            }
            // As long as the client lives, so does the connection.
            drop((client, told, conn));
            // Whoever runs meanwhile goes by what was told last, and makes no other call.
            sleep_until(again_at).await;
            tell(None);
        });
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) = Some(Following { last, task });
        Ok(status)
    }
}

async fn next(told: &mut Streaming<HealthCheckResponse>) -> Result<ServingStatus, Status> {
    let message = told.message().await?;
    let message = message.ok_or_else(|| Status::new(Code::Unavailable, "the server ended the watch"))?;
    Ok(message.status())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
