//! One HTTP/2 connection from its hand-over to its end: handshake, hyper, timeouts.

use super::body::ReplyBody;
use super::config::{Http2Config, Times};
use super::counters::{Counters, count};
use super::counting_stream::{Account, CountingStream};
use super::flood_limits::{Abuse, Due, FloodLimits};
use super::grpc::{GrpcService, Refusal, is_grpc_request};
use super::phase::Phase;
use super::reply::{RequestContext, RequestOutcome, dispatch, reply_to};
use doorbell::HandedConn;
use doorbell::http::{Client, HTTP2_NO_ROOM, Peer, Time, TlsInfo};
use doorbell::protocol::OVERLOAD_ALERT;
use doorbell::time::{Clock as _, OsClock};
use doorbell_tokio::Preread;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;

/// Interval at which timeouts are checked.
const TICK: Duration = Duration::from_secs(1);

/// Maximum time that a reply waits for a send window on a connection that has not used up its
/// initial window. A client that opens the window only when the reply begins needs one round trip;
/// all known clients open it earlier.
const WINDOW_WAIT: Duration = Duration::from_millis(700);

/// The context of a connection.
#[derive(Clone, Debug)]
pub(super) struct ConnContext {
    pub(super) config: Arc<Http2Config>,
    pub(super) counters: Arc<Counters>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// Serves the requests of a connection.
#[derive(Debug)]
struct ConnService {
    config: Arc<Http2Config>,
    counters: Arc<Counters>,
    account: Account,
    peer: Peer,
    tls: Option<TlsInfo>,
}

/// Serves a connection until it ends.
pub(super) async fn serve(handed: HandedConn, peer: Peer, context: ConnContext) {
    let _live = context.counters.begin();
    let time_left = handed.time_left;
    let Some(stream) = registered(handed) else {
        return count(&context.counters.unregistered);
    };
    let Some(acceptor) = &context.config.acceptor else {
        let silent = time_left.min(context.config.times.silent);
        return http2(stream, peer, None, silent, context).await;
    };
    let Some(handshake) = acceptor.begin_handed(peer, OsClock.now()) else {
        count(&context.counters.handshakes_refused);
        return send_refusal(&stream, &context.config).await;
    };
    let acceptor = TlsAcceptor::from(handshake.config());
    let accepted = async {
        // Before the runtime knows that the socket is writable, the alert of a handshake that fails at
        // once would be lost: rustls tries to write it only once.
        stream.get_ref().writable().await?;
        acceptor.accept(stream).await
    };
    // The handshake began on a worker; `time_left` is the rest of its timeout.
    match tokio::time::timeout(time_left, accepted).await {
        Ok(Ok(stream)) => match handshake.done(stream.get_ref().1, OsClock.unix_secs()) {
            // Only h2 is accepted here. If no protocol was negotiated, the client's second
            // ClientHello (after a HelloRetryRequest) no longer offered h2.
            Some(info) if info.alpn.as_deref() == Some("h2") => {
                let silent = context.config.times.silent;
                http2(stream, peer, Some(info), silent, context).await;
            }
            _ => count(&context.counters.handshakes_refused),
        },
        Ok(Err(error)) => {
            count(&context.counters.handshakes_refused);
            if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
                handshake.failed(error);
            }
        }
        Err(_elapsed) => {
            count(&context.counters.handshakes_refused);
            handshake.timed_out();
        }
    }
}

/// Registers the socket with the runtime.
fn registered(handed: HandedConn) -> Option<Preread<TcpStream>> {
    let HandedConn { fd, bytes, permit, .. } = handed;
    let stream = TcpStream::from_std(std::net::TcpStream::from(fd)).ok()?;
    Some(Preread::new(stream, bytes, permit))
}

/// Refuses a connection above a limit.
pub(super) async fn refuse(handed: HandedConn, config: Arc<Http2Config>) {
    if let Some(stream) = registered(handed) {
        send_refusal(&stream, &config).await;
    }
}

/// Sends what a worker sends without capacity. The caller closes the connection at once, so that a
/// flood of refused connections takes no place of others.
async fn send_refusal(stream: &Preread<TcpStream>, config: &Http2Config) {
    let refusal = if config.acceptor.is_some() { &OVERLOAD_ALERT[..] } else { &HTTP2_NO_ROOM };
    let stream = stream.get_ref();
    // The send buffer is full only if the client does not read replies to earlier requests.
    let Ok(Ok(())) = tokio::time::timeout(config.times.linger, stream.writable()).await else { return };
    let _sent = stream.try_write(refusal);
    // A close with unread input would cause a reset, which may overtake the refusal.
    let mut dropped = [0; 4096];
    for _ in 0..16 {
        if !matches!(stream.try_read(&mut dropped), Ok(1..)) {
            break;
        }
    }
}

async fn http2<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: Peer,
    tls: Option<TlsInfo>,
    silent: Duration,
    context: ConnContext,
) {
    let ConnContext { config, counters, phase } = context;
    let times = Times { silent, ..config.times };
    let opened = OsClock.now();
    let account = Account::new(FloodLimits::new(config.budget.clone(), opened));
    let io = TokioIo::new(CountingStream::new(stream, account.clone(), config.times.linger));
    let conn_service = ConnService {
        config: Arc::clone(&config),
        counters: Arc::clone(&counters),
        account: account.clone(),
        peer,
        tls,
    };
    let conn_service = Arc::new(conn_service);
    let service = service_fn(move |request| Arc::clone(&conn_service).serve_request(request));
    let conn = pin!(config.builder.serve_connection(io, service));
    let driver = ConnDriver { times, opened, account, counters };
    driver.run(conn, |conn| conn.graceful_shutdown(), phase).await;
}

/// State of a connection in addition to the state of hyper.
struct ConnDriver {
    times: Times,
    opened: Time,
    account: Account,
    counters: Arc<Counters>,
}

impl ConnDriver {
    /// Drives a connection until it ends, a timeout expires or the thread is stopped.
    /// `start_shutdown` starts the graceful shutdown.
    async fn run<C: Future<Output = hyper::Result<()>>>(
        &self,
        mut conn: Pin<&mut C>,
        start_shutdown: impl Fn(Pin<&mut C>),
        mut phase: watch::Receiver<Phase>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Start of the graceful shutdown.
        let mut goaway_at: Option<Time> = None;
        // Deadline of replies that wait for a window.
        let mut windowless = None;
        loop {
            let is_windowless = windowless.is_some();
            let event = poll_fn(|cx| self.drive(conn.as_mut(), goaway_at.is_some(), is_windowless, cx));
            let goaway = tokio::select! {
                event = event => match event {
                    DriveEvent::Ended(result) => return count_end(&result, &self.account, &self.counters),
                    DriveEvent::UsedUp => Some(&self.counters.used_up),
                    DriveEvent::Window => {
                        windowless = time_for_window(&self.account).map(|left| Box::pin(sleep(left)));
                        continue;
                    }
                },
                () = wait_for(&mut windowless) => {
                    // Progress may have renewed the deadline.
                    let left = time_for_window(&self.account);
                    if left == Some(Duration::ZERO) {
                        self.account.lock().abuse.get_or_insert(Abuse::Windowless);
                    }
                    windowless = left.filter(|left| !left.is_zero()).map(|left| Box::pin(sleep(left)));
                    continue;
                }
                _ = ticks.tick() => match self.check_timeouts(goaway_at) {
                    TimeoutAction::Close(counter) => return count(counter),
                    TimeoutAction::Goaway(counter) => Some(counter),
                    TimeoutAction::Stay => None,
                },
                _changed = phase.changed() => None,
            };
            let drains = *phase.borrow_and_update() != Phase::Serving;
            if goaway_at.is_none() && (drains || goaway.is_some()) {
                goaway_at = Some(OsClock.now());
                goaway.into_iter().for_each(count);
                start_shutdown(conn.as_mut());
            }
            if *phase.borrow() == Phase::Stopped {
                return;
            }
        }
    }

    fn drive<C: Future<Output = hyper::Result<()>>>(
        &self,
        conn: Pin<&mut C>,
        is_draining: bool,
        is_windowless: bool,
        cx: &mut Context<'_>,
    ) -> Poll<DriveEvent> {
        if let Poll::Ready(result) = conn.poll(cx) {
            return Poll::Ready(DriveEvent::Ended(result));
        }
        let limits = &self.account.lock().limits;
        if !is_draining && limits.is_used_up() {
            Poll::Ready(DriveEvent::UsedUp)
        } else if limits.windowless().is_some() != is_windowless {
            Poll::Ready(DriveEvent::Window)
        } else {
            Poll::Pending
        }
    }

    fn check_timeouts(&self, goaway_at: Option<Time>) -> TimeoutAction<'_> {
        let Self { times, counters, .. } = self;
        let now = OsClock.now();
        let (due, stalled) = {
            let limits = &self.account.lock().limits;
            (limits.due(now), goaway_at.and_then(|goaway_at| limits.stalled_since(goaway_at, now)))
        };
        match (due, goaway_at) {
            (Due::Silent(time), _) if time >= times.silent => TimeoutAction::Close(&counters.silent),
            (Due::Stalled(time), _) if time >= times.stalled => TimeoutAction::Close(&counters.stalled),
            (_, Some(_)) if stalled.is_some_and(|time| time >= times.stalled) => {
                TimeoutAction::Close(&counters.stalled)
            }
            (Due::Idle(time), None) if time >= times.idle => TimeoutAction::Goaway(&counters.idle),
            (_, None) if now.since(self.opened) >= times.age => TimeoutAction::Goaway(&counters.aged),
            _ => TimeoutAction::Stay,
        }
    }
}

/// The result of driving a connection.
enum DriveEvent {
    Ended(hyper::Result<()>),
    UsedUp,
    /// The connection begins or stops waiting for a window.
    Window,
}

/// Remaining time of replies that wait for a window; `None` if no reply waits.
fn time_for_window(account: &Account) -> Option<Duration> {
    let since = account.lock().limits.windowless()?;
    Some(WINDOW_WAIT.saturating_sub(OsClock.now().since(since)))
}

/// Waits until the timer fires; forever without a timer.
async fn wait_for(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.as_mut().await,
        None => std::future::pending().await,
    }
}

/// The effect of a timeout on a connection.
enum TimeoutAction<'a> {
    Close(&'a AtomicU64),
    Goaway(&'a AtomicU64),
    Stay,
}

/// Counts the end of a connection by its reason.
fn count_end(result: &hyper::Result<()>, account: &Account, counters: &Counters) {
    if let Some(abuse) = account.lock().abuse {
        counters.count_abuse(abuse);
    } else if let Err(error) = result
        && is_protocol_error(error)
    {
        count(&counters.protocol);
    }
}

/// Whether the client violated the protocol; false if the transport failed.
fn is_protocol_error(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| !cause.is_io())
}

impl ConnService {
    async fn serve_request(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ReplyBody>, h2::Error> {
        count(&self.counters.requests);
        let client = Client::new(self.peer).with_tls(self.tls.as_ref());
        let context = RequestContext {
            http: &self.config.http,
            limits: &self.config.limits,
            account: &self.account,
            counters: &self.counters,
            client: &client,
        };
        let reply = match &self.config.grpc_service {
            Some(grpc_service) if is_grpc_request(&request) => {
                self.serve_grpc(grpc_service, &context, request).await
            }
            _ => {
                let (parts, body) = request.into_parts();
                reply_to(&context, &parts, body).await
            }
        };
        // The service closes a connection without a reply if it did not process the request, so the
        // client may repeat the request on a new connection.
        let mut reply = reply.ok_or(h2::Reason::REFUSED_STREAM)?;
        if let Some(hsts) = &self.config.hsts {
            reply.headers_mut().entry(header::STRICT_TRANSPORT_SECURITY).or_insert_with(|| hsts.clone());
        }
        Ok(reply)
    }

    /// Applies routes and guards as to any request; admitted and refused calls get gRPC replies.
    async fn serve_grpc(
        &self,
        grpc_service: &GrpcService,
        context: &RequestContext<'_>,
        request: Request<Incoming>,
    ) -> Option<Response<ReplyBody>> {
        let (parts, body) = request.into_parts();
        match dispatch(context, &parts).await {
            RequestOutcome::Reply(reply) => {
                let reply = reply?;
                let has_cert = self.tls.as_ref().is_some_and(|tls| tls.client_verified);
                let refusal = Refusal::of(&reply, self.config.requests_client_cert && !has_cert);
                Some(with_fields(refusal.into_response(), reply.headers()))
            }
            RequestOutcome::Call(call) => {
                let (request, account) = (Request::from_parts(parts, body), self.account.clone());
                let fields = call.fields();
                let reply = grpc_service.clone().serve_call(request, call, account, self.peer.addr()).await;
                Some(with_fields(reply, &fields))
            }
        }
    }
}

/// Adds the header fields of the route, its guards and its listener, except `Allow`, `Location` and
/// those that describe content.
fn with_fields(mut reply: Response<ReplyBody>, fields: &HeaderMap) -> Response<ReplyBody> {
    let about_content = [header::ALLOW, header::CONTENT_LENGTH, header::CONTENT_TYPE, header::LOCATION];
    for (name, value) in fields.iter().filter(|(name, _)| !about_content.contains(name)) {
        reply.headers_mut().append(name, value.clone());
    }
    reply
}
