//! The connection for commands: a queue, timeouts, and reconnects.

use super::conn_state::ConnState;
use super::server::{Conn, Server, not_reply, reason};
use crate::status::Status;
use crate::store::StoreError;
use doorbell_link::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Script, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of queued commands; further ones are refused.
const QUEUE_MAX: usize = 1024;

/// Maximum number of commands that wait for a reply; further ones wait in the queue.
const PIPELINE_MAX: usize = 256;

/// Time without errors after which the store counts as usable again. Most commands of a store that
/// refuses to write still succeed.
const USABLE_AFTER: Duration = Duration::from_secs(60);

/// Options of the client.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The server.
    pub server: Server,
    /// Prefix of all keys and channels.
    pub prefix: String,
    /// Maximum time to connect, and from a command to its reply.
    pub timeout: Duration,
    /// Any number that differs between instances, for random pauses.
    pub seed: u64,
}

/// Sends commands, from any thread and runtime. All clones use the same connection.
#[derive(Clone, Debug)]
pub struct Redis {
    queue: mpsc::Sender<Request>,
    context: Arc<Context>,
}

/// The connection that [`Redis`] uses. It must [run](Self::run) on a runtime.
#[derive(Debug)]
pub struct Commands {
    queue: mpsc::Receiver<Request>,
    /// Why following failed.
    failures: mpsc::Receiver<StoreError>,
    /// Time of the last error of a command or a subscription, until the store is usable again.
    failed_at: Option<Instant>,
    context: Arc<Context>,
}

#[derive(Debug)]
struct Context {
    options: RedisOptions,
    status: Arc<Status>,
    /// Requests a reconnect after a reply of an unexpected type: later replies may belong to other
    /// commands.
    renew: Notify,
    failures: mpsc::Sender<StoreError>,
}

/// A script with its arguments.
#[derive(Debug)]
struct Request {
    code: &'static str,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    until: Instant,
    reply: Reply,
}

type Reply = oneshot::Sender<Result<Value, StoreError>>;

/// A finished command: the channel for its reply, and the result.
pub(super) type Done = (Reply, Result<Value, StoreError>);

impl Redis {
    /// Creates a client and its connection. `status` may be that of an earlier client.
    #[must_use]
    pub fn new(options: RedisOptions, status: Arc<Status>) -> (Self, Commands) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let (failed, failures) = mpsc::channel(1);
        let context = Arc::new(Context { options, status, renew: Notify::new(), failures: failed });
        let redis = Self { queue: sender, context: Arc::clone(&context) };
        (redis, Commands { queue, failures, failed_at: None, context })
    }

    /// Connection state and counters.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.context.status
    }

    pub(super) fn options(&self) -> &RedisOptions {
        &self.context.options
    }

    /// Runs a script atomically in the server. The script is sent only if the server does not have
    /// it.
    pub(super) async fn eval<T: FromRedisValue>(
        &self,
        code: &'static str,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Result<T, StoreError> {
        if !self.status().is_connected() {
            self.status().refused();
            return Err(StoreError(match self.status().last_error() {
                why if why.is_empty() => "not connected".to_owned(),
                why => why,
            }));
        }
        let (reply, replied) = oneshot::channel();
        let until = Instant::now() + self.options().timeout;
        if self.queue.try_send(Request { code, keys, arguments, until, reply }).is_err() {
            self.status().refused();
            return Err(StoreError("too many commands are queued".to_owned()));
        }
        // The connection replies after the timeout at the latest.
        let ended = |_| Err(StoreError("the connection has ended".to_owned()));
        redis::from_redis_value(replied.await.unwrap_or_else(ended)?).map_err(|_| self.unexpected())
    }

    /// Records a reply of an unexpected type, and reconnects.
    pub(super) fn unexpected(&self) -> StoreError {
        self.status().failed();
        self.context.renew.notify_one();
        not_reply()
    }

    /// Reports why the connection for messages ended.
    pub(super) fn lost_messages(&self, why: StoreError) {
        self.status().failed();
        // An earlier reason that was not handled yet has the same effect.
        let _full = self.context.failures.try_send(why);
    }
}

impl Commands {
    /// Connects, sends commands, and reconnects after a pause when the connection fails. Completes
    /// when all clients are dropped. `changed` is called when the connection opens or fails, when
    /// commands or the connection for messages fail, for each new reason, and when the store is
    /// usable again.
    pub async fn run(mut self, mut changed: impl FnMut(Result<(), &StoreError>)) {
        let mut backoff = Backoff::new(self.context.options.seed);
        loop {
            let within = self.context.options.timeout;
            let opened = timeout(within, self.context.options.server.connect(within)).await;
            let (why, unsent) = match opened.unwrap_or_else(|_| Err(late())) {
                Err(why) => (why, Vec::new()),
                Ok(conn) => {
                    self.context.status.connected();
                    changed(Ok(()));
                    // They concern the former connection.
                    while self.failures.try_recv().is_ok() {}
                    self.failed_at = None;
                    let Some(ended) = self.serve(conn, &mut backoff, &mut changed).await else { return };
                    ended
                }
            };
            if self.context.status.lost(&why) {
                changed(Err(&why));
            }
            unsent.into_iter().for_each(|done| self.reply(done));
            // Commands may have been queued before the status changed.
            if timeout(backoff.pause(), self.refuse_all(&why)).await.is_ok() {
                return;
            }
        }
    }

    /// Sends commands until the connection fails, and returns the reason and the results of pending
    /// commands; `None` if all clients are dropped.
    async fn serve(
        &mut self,
        mut conn: Conn,
        backoff: &mut Backoff,
        changed: &mut impl FnMut(Result<(), &StoreError>),
    ) -> Option<(StoreError, Vec<Done>)> {
        let mut unsent = Vec::new();
        let why = loop {
            tokio::select! {
                // `<=`, because `tasks` contains the driver of the connection besides the commands.
                request = self.queue.recv(), if conn.tasks.len() <= PIPELINE_MAX => {
                    let (redis, state) = (conn.redis.clone(), Arc::clone(&conn.state));
                    conn.tasks.spawn(run(request?, redis, state));
                    self.context.status.sent();
                }
                Some(done) = conn.tasks.join_next() => {
                    unsent.extend(done.ok().flatten());
                    if let Some(why) = conn.state.ended() {
                        break why;
                    }
                    for done in unsent.drain(..) {
                        self.replied(done.1.as_ref().map(|_| ()), changed);
                        self.reply(done);
                    }
                    backoff.reset();
                }
                Some(why) = self.failures.recv() => self.replied(Err(&why), changed),
                () = self.context.renew.notified() => break conn.state.end(not_reply()),
            }
        };
        // Without the driver of the connection, all pending commands fail at once.
        conn.driver.abort();
        while let Some(done) = conn.tasks.join_next().await {
            unsent.extend(done.ok().flatten());
        }
        Some((why, unsent))
    }

    /// Records a reply to a command, or the end of the connection for messages.
    fn replied(
        &mut self,
        result: Result<(), &StoreError>,
        changed: &mut impl FnMut(Result<(), &StoreError>),
    ) {
        let status = &self.context.status;
        if let Err(why) = result {
            self.failed_at = Some(Instant::now());
            if status.failing(why) {
                changed(Err(why));
            }
        } else if self.failed_at.is_some_and(|at| at.elapsed() >= USABLE_AFTER) {
            self.failed_at = None;
            status.usable();
            changed(Ok(()));
        }
    }

    fn reply(&self, (reply, result): Done) {
        if result.is_err() {
            self.context.status.failed();
        }
        let _gone = reply.send(result);
    }

    /// Refuses commands; completes when all clients are dropped.
    async fn refuse_all(&mut self, why: &StoreError) {
        while let Some(request) = self.queue.recv().await {
            self.context.status.refused();
            let _gone = request.reply.send(Err(why.clone()));
        }
    }
}

/// Sends a command and waits for the reply. A late reply ends the connection, which may be broken.
async fn run(request: Request, mut redis: MultiplexedConnection, state: Arc<ConnState>) -> Option<Done> {
    let script = Script::new(request.code);
    let mut call = script.key(request.keys);
    call.arg(request.arguments);
    let result = match timeout_at(request.until, call.invoke_async(&mut redis)).await {
        Ok(result) => result.map_err(|error| reason(&error, &state)),
        Err(_) => Err(state.end(late())),
    };
    state.replied();
    if let Err(why) = &result
        && is_replica(why)
    {
        state.end(why.clone());
    }
    Some((request.reply, result))
}

/// Whether an error shows that the server has become a replica. After a failover, the address may
/// lead to the new primary, while the old server keeps this connection open.
fn is_replica(why: &StoreError) -> bool {
    // The error of a script may surround that of its command.
    ["READONLY", "MASTERDOWN"].iter().any(|code| why.0.contains(code))
}

pub(super) fn late() -> StoreError {
    StoreError("the server did not reply in time".to_owned())
}
