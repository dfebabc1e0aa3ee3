//! The connection for commands: a queue, pipelined commands, timeouts, and reconnects.
//!
//! Does not know about: the meaning of commands.

use super::resp::{self, Value};
use super::server::{Conn, Server};
use crate::status::Status;
use crate::store::StoreError;
use doorbell_link::Backoff;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
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
    options: Arc<RedisOptions>,
    status: Arc<Status>,
}

/// The connection that [`Redis`] uses. It must [run](Self::run) on a runtime.
#[derive(Debug)]
pub struct Commands {
    queue: mpsc::Receiver<Request>,
    options: Arc<RedisOptions>,
    status: Arc<Status>,
}

#[derive(Debug)]
struct Request {
    command: Vec<Vec<u8>>,
    until: Instant,
    reply: oneshot::Sender<Result<Value, StoreError>>,
}

/// A command that was sent.
type Pending = (Instant, oneshot::Sender<Result<Value, StoreError>>);

impl Redis {
    /// Creates a client and its connection. `status` may be that of an earlier client.
    #[must_use]
    pub fn new(options: RedisOptions, status: Arc<Status>) -> (Self, Commands) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let options = Arc::new(options);
        let commands = Commands { queue, options: Arc::clone(&options), status: Arc::clone(&status) };
        (Self { queue: sender, options, status }, commands)
    }

    /// Connection state and counters.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    pub(super) fn options(&self) -> &RedisOptions {
        &self.options
    }

    /// Sends a command and returns its reply, which may be an error of the server.
    ///
    /// # Errors
    /// There is no connection, the queue is full, or no reply arrives in time.
    pub async fn call(&self, command: Vec<Vec<u8>>) -> Result<Value, StoreError> {
        if !self.status.is_connected() {
            self.status.refused();
            return Err(StoreError(match self.status.last_error() {
                why if why.is_empty() => "not connected".to_owned(),
                why => why,
            }));
        }
        let (reply, replied) = oneshot::channel();
        let until = Instant::now() + self.options.timeout;
        if self.queue.try_send(Request { command, until, reply }).is_err() {
            self.status.refused();
            return Err(StoreError("too many commands are queued".to_owned()));
        }
        // The connection replies after the timeout at the latest.
        replied.await.unwrap_or_else(|_ended| Err(StoreError("the connection has ended".to_owned())))
    }

    /// Runs a script atomically in the server. An error reply is returned as an error.
    ///
    /// The script is sent each time: a call by digest would need a fallback for a server that has
    /// lost its script cache, and the scripts are short.
    ///
    /// # Errors
    /// As [`Self::call`], or the script failed.
    pub async fn eval<const K: usize, const A: usize>(
        &self,
        script: &str,
        keys: [Vec<u8>; K],
        arguments: [Vec<u8>; A],
    ) -> Result<Value, StoreError> {
        let mut command = vec![b"EVAL".to_vec(), script.as_bytes().to_vec(), K.to_string().into_bytes()];
        command.extend(keys);
        command.extend(arguments);
        match self.call(command).await? {
            Value::Error(why) => {
                self.status.failed();
                Err(StoreError(why))
            }
            value => Ok(value),
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
            let ended = match timeout(self.options.timeout, self.options.server.connect()).await {
                Err(_) => Err(late()),
                Ok(Err(why)) => Err(why),
                Ok(Ok(conn)) => {
                    self.status.connected();
                    changed(Ok(()));
                    self.serve(conn, &mut backoff).await
                }
            };
            let Err(why) = ended else { return };
            if self.status.lost(&why) {
                changed(Err(&why));
            }
            // Commands that were queued before the status changed.
            self.refuse_all(&why);
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = self.queue_ended(&why) => return,
            }
        }
    }

    /// Sends commands until the connection fails, or all clients are dropped.
    async fn serve(&mut self, mut conn: Conn, backoff: &mut Backoff) -> Result<(), StoreError> {
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let ended = loop {
            let oldest = pending.front().map(|(until, _)| *until);
            tokio::select! {
                request = self.queue.recv(), if pending.len() < PIPELINE_MAX => {
                    let Some(request) = request else { break Ok(()) };
                    if let Err(why) = self.send(&mut conn, request, &mut pending).await {
                        break Err(why);
                    }
                }
                reply = conn.read() => match (reply, pending.pop_front()) {
                    (Ok(value), Some((_, reply))) => {
                        let left = replica(&value);
                        let _gone = reply.send(Ok(value));
                        if let Some(why) = left {
                            break Err(why);
                        }
                        backoff.reset();
                    }
                    (Ok(_), None) => break Err(StoreError("received a reply without a command".to_owned())),
                    (Err(why), oldest) => {
                        pending.extend(oldest);
                        break Err(why);
                    }
                },
                // A late reply could be mistaken for that of a later command.
                () = until(oldest) => break Err(late()),
            }
        };
        if let Err(why) = &ended {
            for (_, reply) in pending {
                self.status.failed();
                let _gone = reply.send(Err(why.clone()));
            }
        }
        ended
    }

    /// Sends a command together with other queued ones.
    async fn send(
        &mut self,
        conn: &mut Conn,
        first: Request,
        pending: &mut VecDeque<Pending>,
    ) -> Result<(), StoreError> {
        let (mut bytes, mut next) = (Vec::new(), Some(first));
        let until = Instant::now() + self.options.timeout;
        while let Some(request) = next {
            resp::write(&request.command, &mut bytes);
            self.status.sent();
            pending.push_back((request.until, request.reply));
            next = if pending.len() < PIPELINE_MAX { self.queue.try_recv().ok() } else { None };
        }
        timeout_at(until, conn.write(&bytes)).await.map_err(|_| late())?
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

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Why a reply shows a server that became a replica: after a failover, the address may lead to
/// another server, although the former one keeps its connections.
fn replica(reply: &Value) -> Option<StoreError> {
    // The error of a script may surround that of its command.
    let is_replica = |why: &str| ["READONLY", "MASTERDOWN"].iter().any(|code| why.contains(code));
    match reply {
        Value::Error(why) if is_replica(why) => Some(StoreError(why.clone())),
        _ => None,
    }
}

fn late() -> StoreError {
    StoreError("the server did not reply in time".to_owned())
}
