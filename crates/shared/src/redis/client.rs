//! The connection for commands: a queue, timeouts, and reconnects.
//!
//! Does not know about: the meaning of commands, the protocol.

use super::conn_state::ConnState;
use super::server::{Conn, Server, not_reply, reason};
use crate::status::Status;
use crate::store::StoreError;
use doorbell_link::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, RedisResult, Script, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Maximum number of queued commands; further ones are refused.
const QUEUE_MAX: usize = 1024;

/// Maximum number of commands that wait for a reply; further ones wait in the queue.
const PIPELINE_MAX: usize = 256;

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
    /// Requests a reconnect after a reply of an unexpected type: later replies may belong to other
    /// commands.
    renew: Arc<Notify>,
    options: Arc<RedisOptions>,
    status: Arc<Status>,
}

/// The connection that [`Redis`] uses. It must [run](Self::run) on a runtime.
#[derive(Debug)]
pub struct Commands {
    queue: mpsc::Receiver<Request>,
    renew: Arc<Notify>,
    options: Arc<RedisOptions>,
    status: Arc<Status>,
}

/// A command or script with its arguments.
#[derive(Debug)]
pub(super) enum Call {
    Command(Cmd),
    Script { code: &'static str, keys: Vec<Vec<u8>>, arguments: Vec<Vec<u8>> },
}

#[derive(Debug)]
struct Request {
    call: Call,
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
        let (options, renew) = (Arc::new(options), Arc::<Notify>::default());
        let commands = Commands {
            queue,
            renew: Arc::clone(&renew),
            options: Arc::clone(&options),
            status: Arc::clone(&status),
        };
        (Self { queue: sender, renew, options, status }, commands)
    }

    /// Connection state and counters.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn options(&self) -> &RedisOptions {
        &self.options
    }

    /// Runs a script atomically in the server. The script is sent only if the server does not have
    /// it.
    pub(super) async fn eval<T: FromRedisValue>(
        &self,
        code: &'static str,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Result<T, StoreError> {
        self.call(Call::Script { code, keys, arguments }).await
    }

    /// Sends a command or script, and returns its reply.
    pub(super) async fn call<T: FromRedisValue>(&self, call: Call) -> Result<T, StoreError> {
        if !self.status.is_connected() {
            self.status.refused();
            return Err(StoreError(match self.status.last_error() {
                why if why.is_empty() => "not connected".to_owned(),
                why => why,
            }));
        }
        let (reply, replied) = oneshot::channel();
        let until = Instant::now() + self.options.timeout;
        if self.queue.try_send(Request { call, until, reply }).is_err() {
            self.status.refused();
            return Err(StoreError("too many commands are queued".to_owned()));
        }
        // The connection replies after the timeout at the latest.
        let ended = |_| Err(StoreError("the connection has ended".to_owned()));
        redis::from_redis_value(replied.await.unwrap_or_else(ended)?).map_err(|_| self.unexpected())
    }

    /// Records a reply of an unexpected type, and reconnects.
    pub(super) fn unexpected(&self) -> StoreError {
        self.status.failed();
        self.renew.notify_one();
        not_reply()
    }
}

impl Call {
    async fn run(self, redis: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Self::Command(command) => command.query_async(redis).await,
            Self::Script { code, keys, arguments } => {
                Script::new(code).key(keys).arg(arguments).invoke_async(redis).await
            }
        }
    }
}

impl Commands {
    /// Connects, sends commands, and reconnects after a pause when the connection fails. Completes
    /// when all clients are dropped. `changed` is called when the connection opens or fails, and
    /// for each new reason.
    pub async fn run(mut self, mut changed: impl FnMut(Result<(), &StoreError>)) {
        let mut backoff = Backoff::new(self.options.seed);
        loop {
            let within = self.options.timeout;
            let opened = timeout(within, self.options.server.connect(within)).await;
            let (why, unsent) = match opened.unwrap_or_else(|_| Err(late())) {
                Err(why) => (why, Vec::new()),
                Ok(conn) => {
                    self.status.connected();
                    changed(Ok(()));
                    let Some(ended) = self.serve(conn, &mut backoff).await else { return };
                    ended
                }
            };
            if self.status.lost(&why) {
                changed(Err(&why));
            }
            unsent.into_iter().for_each(|done| self.reply(done));
            // Commands that were queued before the status changed.
            self.refuse_all(&why);
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = self.queue_ended(&why) => return,
            }
        }
    }

    /// Sends commands until the connection fails, and returns the reason and the results of pending
    /// commands; `None` if all clients are dropped.
    async fn serve(&mut self, mut conn: Conn, backoff: &mut Backoff) -> Option<(StoreError, Vec<Done>)> {
        let mut unsent = Vec::new();
        let why = loop {
            tokio::select! {
                // `<=`, because `tasks` contains the driver of the connection besides the commands.
                request = self.queue.recv(), if conn.tasks.len() <= PIPELINE_MAX => {
                    let (redis, state) = (conn.redis.clone(), Arc::clone(&conn.state));
                    conn.tasks.spawn(run(request?, redis, state));
                    self.status.sent();
                }
                Some(done) = conn.tasks.join_next() => {
                    unsent.extend(done.ok().flatten());
                    if let Some(why) = conn.state.ended() {
                        break why;
                    }
                    unsent.drain(..).for_each(|done| self.reply(done));
                    backoff.reset();
                }
                () = self.renew.notified() => break conn.state.end(not_reply()),
            }
        };
        // Without the driver of the connection, all pending commands fail at once.
        conn.driver.abort();
        while let Some(done) = conn.tasks.join_next().await {
            unsent.extend(done.ok().flatten());
        }
        Some((why, unsent))
    }

    fn reply(&self, (reply, result): Done) {
        if result.is_err() {
            self.status.failed();
        }
        let _gone = reply.send(result);
    }

    fn refuse_all(&mut self, why: &StoreError) {
        while let Ok(request) = self.queue.try_recv() {
            self.refuse(request, why);
        }
    }

    fn refuse(&self, request: Request, why: &StoreError) {
        self.status.refused();
        let _gone = request.reply.send(Err(why.clone()));
    }

    /// Refuses commands; completes when all clients are dropped.
    async fn queue_ended(&mut self, why: &StoreError) {
        while let Some(request) = self.queue.recv().await {
            self.refuse(request, why);
        }
    }
}

/// Sends a command and waits for the reply. A late reply ends the connection, which may be broken.
async fn run(request: Request, mut redis: MultiplexedConnection, state: Arc<ConnState>) -> Option<Done> {
    let result = match timeout_at(request.until, request.call.run(&mut redis)).await {
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
