//! The replies of the admin listener, by path.

use super::events;
use super::guard::{Denied, Ends, Guard};
use super::page::{self, EVENTS_SHOWN, View};
use super::reply_memory::{ReplyMemory, with_permit};
use crate::log::Throttle;
use crate::operator::{Operator, millis};
use crate::query;
use crate::stats::metrics;
use bytes::Bytes;
use doorbell_checks::Finding;
use doorbell_control::{AudienceWord, Lifecycle, Refusal, RefusalKind};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Maximum number of event streams.
pub(super) const FOLLOWERS_MAX: usize = 16;

/// Maximum time that a request waits for a drain (see [`Operator::is_drain_pending`]).
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Polling interval of a request that waits for a drain.
const WAIT_STEP: Duration = Duration::from_millis(100);

/// Content security policy: no foreign resources, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
type Reply = Response<Body>;

/// A reply whose content is complete in memory.
type FullReply = Response<Bytes>;

/// Why a request is invalid, with the code of the reply.
type Invalid = (StatusCode, String);

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct AdminState {
    operator: Operator,
    guard: Arc<Guard>,
    followers: Arc<Semaphore>,
    reply_memory: ReplyMemory,
}

/// A request without its body, which is ignored.
#[derive(Debug)]
struct AdminRequest {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    /// The host of a request target in absolute form, which overrides `Host` (RFC 9112, section
    /// 3.2.2).
    authority: Option<String>,
    peer: SocketAddr,
    ends: Ends,
}

/// A command of an operator.
enum Operation {
    /// A request; the reply to a drain waits for the drain, at most for this time.
    Handle(doorbell_control::Request, Duration),
    /// A result of the check with this name.
    Push(String, Finding),
}

impl AdminState {
    pub(super) fn new(operator: Operator, guard: Arc<Guard>) -> Self {
        let followers = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        Self { operator, guard, followers, reply_memory: ReplyMemory::default() }
    }

    /// Replies to a request. Calls `takes_long` if the reply may take longer than usual.
    pub(super) async fn reply_to<B>(
        &self,
        request: Request<B>,
        (peer, local): (SocketAddr, IpAddr),
        takes_long: impl FnOnce(),
    ) -> Reply {
        let (parts, _unread) = request.into_parts();
        let request = AdminRequest {
            authority: parts.uri.authority().map(|authority| authority.as_str().to_owned()),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            method: parts.method,
            headers: parts.headers,
            peer,
            ends: Ends { peer: peer.ip(), local },
        };
        let mut reply = match request.operation() {
            _ if let Err(why) = self.guard.admit_read(&request.headers, request.hosts(), request.ends) => {
                boxed(request.denied(why))
            }
            Some(Ok(operation)) => boxed(self.execute(&request, operation, takes_long).await),
            Some(Err((code, text))) => boxed(error(code, text)),
            None if !matches!(request.method, Method::GET | Method::HEAD) => boxed(not_allowed(&request)),
            None if request.path == "/-/events" => self.follow(&request, takes_long),
            None => boxed(self.reply_memory.reserve(self.get(&request)).unwrap_or_else(memory_exhausted)),
        };
        let headers = reply.headers_mut();
        headers.insert("cache-control", HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        reply
    }

    fn get(&self, request: &AdminRequest) -> FullReply {
        let operator = &self.operator;
        match request.path.as_str() {
            "/" | "/-" => redirect("/-/"),
            "/livez" | "/healthz" => self.alive(),
            "/readyz" => self.ready(),
            "/startupz" => self.started(),
            "/metrics" => {
                let accept = request.headers.get("accept").map(HeaderValue::as_bytes).unwrap_or_default();
                let (exposition, text) = metrics::render(operator, accept);
                reply(StatusCode::OK, exposition.content_type(), text)
            }
            "/-/" => html(page::page(&self.view())),
            "/-/fragment" => html(page::live(&self.view())),
            "/-/style.css" => reply(StatusCode::OK, "text/css; charset=utf-8", page::style()),
            "/-/script.js" => reply(StatusCode::OK, "text/javascript; charset=utf-8", page::script()),
            "/-/status" => json(&operator.status()),
            "/-/checks" => found(operator.checks(None, request.parameter("history").is_some())),
            "/-/probers" => json(&operator.probers()),
            "/-/stub_status" => reply(StatusCode::OK, TEXT, metrics::stub_status(operator)),
            path => self.get_check(path),
        }
    }

    /// `/-/checks/NAME` and `/-/checks/NAME/history`.
    fn get_check(&self, path: &str) -> FullReply {
        let Some(name) = path.strip_prefix("/-/checks/") else { return not_found() };
        let (name, history) = name.strip_suffix("/history").map_or((name, false), |name| (name, true));
        let Some(name) = query::segment(name) else { return not_found() };
        let one = self.operator.checks(Some(&name), history);
        found(one.map(|mut checks| checks.pop()))
    }

    fn view(&self) -> View {
        let status = self.operator.status();
        let (events, _) = self.operator.events_since(status.event.saturating_sub(EVENTS_SHOWN as u64));
        View {
            checks: self.operator.checks(None, true).unwrap_or_default(),
            links: self.operator.links(),
            probers: self.operator.probers(),
            events,
            status,
        }
    }

    /// Reports whether all workers run, regardless of the checks.
    fn alive(&self) -> FullReply {
        let failed = self.operator.status().workers.iter().filter(|worker| worker.has_failed).count();
        match failed {
            0 => reply(StatusCode::OK, TEXT, "ok\n"),
            failed => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("failed workers: {failed}\n")),
        }
    }

    /// Reports the verdict of the endpoint `readyz`; without that endpoint, whether the program is
    /// ready.
    fn ready(&self) -> FullReply {
        let status = self.operator.status();
        let endpoint = status.endpoints.iter().find(|endpoint| endpoint.name == "readyz");
        let answers = endpoint.into_iter().flat_map(|endpoint| &endpoint.answers);
        match answers.into_iter().find(|answer| answer.audience == AudienceWord::Other) {
            Some(answer) => {
                let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                reply(code, TEXT, format!("{}\n", answer.state))
            }
            None => serving(status.lifecycle, status.lifecycle == Lifecycle::Ready),
        }
    }

    /// Reports whether the program has started.
    fn started(&self) -> FullReply {
        let lifecycle = self.operator.status().lifecycle;
        serving(lifecycle, lifecycle != Lifecycle::Starting)
    }

    fn follow(&self, request: &AdminRequest, takes_long: impl FnOnce()) -> Reply {
        let Ok(place) = Arc::clone(&self.followers).try_acquire_owned() else {
            let text = format!("too many event streams: the maximum is {FOLLOWERS_MAX}");
            return boxed(refused(&Refusal::new(RefusalKind::Busy, text)));
        };
        takes_long();
        let last = request.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let since = last.or_else(|| request.parameter("since")).and_then(|id| id.parse().ok());
        // Without an event number only new events are sent.
        let since = since.unwrap_or_else(|| self.operator.status().event);
        let frames = events::frames(self.operator.follow(since), place);
        with_type(Response::new(StreamBody::new(frames).boxed_unsync()), "text/event-stream")
    }

    async fn execute(
        &self,
        request: &AdminRequest,
        operation: Operation,
        takes_long: impl FnOnce(),
    ) -> FullReply {
        let is_quit = matches!(operation, Operation::Handle(doorbell_control::Request::Quit { .. }, _));
        let admitted = match is_quit {
            true => self.guard.admit_local(&request.method, &request.headers, request.ends),
            false => self.guard.admit(&request.method, &request.headers, request.ends),
        };
        if let Err(why) = admitted {
            return request.denied(why);
        }
        takes_long();
        // The shutdown waits for the reply.
        let permit = if is_quit { self.operator.reply_permits().begin().await } else { None };
        let wait = match &operation {
            Operation::Handle(doorbell_control::Request::Drain { target, .. }, wait) => {
                Some((target.clone(), *wait))
            }
            _ => None,
        };
        let operator = self.operator.clone();
        let done = spawn_blocking(move || operation.run(&operator)).await;
        let done =
            done.unwrap_or_else(|_| Err(Refusal::new(RefusalKind::Failed, "the command did not finish")));
        if let (Ok(_), Some((target, wait))) = (&done, wait) {
            self.wait(&target, wait).await;
        }
        let reply = match done {
            Ok(text) => json_with(StatusCode::OK, &serde_json::json!({ "done": text })),
            Err(refusal) => refused(&refusal),
        };
        match permit {
            Some(permit) => with_permit(reply, permit),
            None => reply,
        }
    }

    /// Waits while [`Operator::is_drain_pending`], for at most `wait` and [`WAIT_MAX`]. The wait
    /// ends early only after two consecutive polls without a pending drain, because workers publish
    /// their connection counts only at the end of a turn.
    async fn wait(&self, target: &str, wait: Duration) {
        let (mut left, mut is_over) = (wait.min(WAIT_MAX), false);
        while !left.is_zero() {
            let was_over = std::mem::replace(&mut is_over, !self.operator.is_drain_pending(target));
            if was_over && is_over {
                break;
            }
            let step = left.min(WAIT_STEP);
            sleep(step).await;
            left -= step;
        }
    }
}

impl AdminRequest {
    /// Every host name in the request.
    fn hosts(&self) -> impl Iterator<Item = &[u8]> {
        let fields = self.headers.get_all("host").iter().map(HeaderValue::as_bytes);
        fields.chain(self.authority.as_deref().map(str::as_bytes))
    }

    /// Denies a request, and logs denials at a limited rate.
    fn denied(&self, why: Denied) -> FullReply {
        static REFUSED: Throttle = Throttle::new();
        if let Some(suppressed) = REFUSED.turn() {
            tracing::warn!(peer = %self.peer, path = self.path, suppressed, "refused: {why}");
        }
        denied(why)
    }

    /// The command of a request; `None` if the request is not a command.
    fn operation(&self) -> Option<Result<Operation, Invalid>> {
        self.operation_by(&self.method)
    }

    /// The command of a request with this method.
    fn operation_by(&self, method: &Method) -> Option<Result<Operation, Invalid>> {
        let is_post = method == Method::POST;
        if is_post || method == Method::PUT {
            let pushed = self.path.strip_prefix("/-/checks/").and_then(|path| self.pushed(path));
            if pushed.is_some() {
                return pushed;
            }
        }
        let text = |name| self.parameter(name);
        let target = || text("target").unwrap_or_else(|| "all".to_owned());
        let request = match self.path.as_str() {
            // HTTP hooks of Kubernetes can only send GET. Kubernetes stops the program after such a
            // drain, so the drain is not kept across restarts.
            "/-/drain" if is_post || method == Method::GET => {
                let times = self.duration("wait").and_then(|wait| Ok((wait, self.duration("for")?)));
                return Some(times.map(|(wait, time)| {
                    let reason = text("reason").unwrap_or_else(|| format!("requested by {}", self.peer));
                    let (target, for_ms) = (target(), time.map(millis));
                    let drain = doorbell_control::Request::Drain { target, reason, for_ms, is_kept: is_post };
                    Operation::Handle(drain, wait.unwrap_or_default())
                }));
            }
            _ if !is_post => return None,
            "/-/undrain" => Ok(doorbell_control::Request::Undrain { target: target() }),
            "/-/maint" => self.duration("for").map(|time| doorbell_control::Request::Maintain {
                target: target(),
                reason: text("reason").unwrap_or_default(),
                for_ms: time.map(millis),
            }),
            "/-/ready" => Ok(doorbell_control::Request::Ready { target: target() }),
            "/-/reload" => Ok(doorbell_control::Request::Reload),
            "/-/quit" | "/quitquitquit" => Ok(doorbell_control::Request::Quit { now: text("now").is_some() }),
            path => {
                let name = path.strip_prefix("/-/checks/").and_then(|path| path.strip_suffix("/run"));
                Ok(doorbell_control::Request::RunCheck { name: query::segment(name?)? })
            }
        };
        Some(request.map(|request| Operation::Handle(request, Duration::ZERO)))
    }

    /// Parses a pushed result of a check from the last two segments of the path: name and result.
    fn pushed(&self, path: &str) -> Option<Result<Operation, Invalid>> {
        let (name, result) = path.rsplit_once('/')?;
        if matches!(result, "history" | "run") {
            return None;
        }
        let Some(outcome) = query::outcome(result.as_bytes()) else {
            let text = "invalid result: expected pass, warn, fail or maintenance".to_owned();
            return Some(Err((StatusCode::NOT_FOUND, text)));
        };
        let reason = query::note(self.query.as_bytes());
        let check = query::segment(name)?;
        let latency = self.duration("latency").map(Option::unwrap_or_default);
        Some(latency.map(|latency| Operation::Push(check, Finding { outcome, latency, reason })))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        query::value(self.query.as_bytes(), name)
    }

    fn duration(&self, name: &str) -> Result<Option<Duration>, Invalid> {
        query::duration(self.query.as_bytes(), name).map_err(|text| {
            let text = format!("{text:?} is not a duration: expected a number and a unit, as in {name}=20s");
            (StatusCode::BAD_REQUEST, text)
        })
    }
}

impl Operation {
    /// Executes the command. May block on the disk or on a run of a check.
    fn run(self, operator: &Operator) -> Result<String, Refusal> {
        match self {
            Self::Handle(request, _wait) => operator.handle(request).map(|response| match response {
                doorbell_control::Response::Checks(checks) => {
                    checks.iter().map(|check| format!("{}: {}", check.name, check.state)).collect()
                }
                doorbell_control::Response::Done(text) => text,
                // No command has another response.
                _ => String::new(),
            }),
            Self::Push(check, finding) => operator.push(&check, finding),
        }
    }
}

fn serving(lifecycle: Lifecycle, is_well: bool) -> FullReply {
    let code = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply(code, TEXT, format!("{lifecycle}\n"))
}

fn html(text: String) -> FullReply {
    let mut reply = reply(StatusCode::OK, HTML, text);
    reply.headers_mut().insert("content-security-policy", HeaderValue::from_static(POLICY));
    reply.headers_mut().insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    reply
}

fn found<T: Serialize>(value: Result<T, Refusal>) -> FullReply {
    match value {
        Ok(value) => json(&value),
        Err(refusal) => refused(&refusal),
    }
}

fn json(value: &impl Serialize) -> FullReply {
    json_with(StatusCode::OK, value)
}

fn json_with(code: StatusCode, value: &impl Serialize) -> FullReply {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    reply(code, JSON, text)
}

fn refused(refusal: &Refusal) -> FullReply {
    let code = match refusal.kind {
        RefusalKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::NotPermitted => StatusCode::FORBIDDEN,
        RefusalKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
        RefusalKind::TooLate => StatusCode::CONFLICT,
    };
    error(code, &refusal.text)
}

fn error(code: StatusCode, text: impl Serialize) -> FullReply {
    json_with(code, &serde_json::json!({ "error": text }))
}

/// Reply while the memory for replies is exhausted.
fn memory_exhausted() -> FullReply {
    static REFUSED: Throttle = Throttle::new();
    if let Some(suppressed) = REFUSED.turn() {
        tracing::warn!(suppressed, "admin request refused: too many large replies in progress");
    }
    refused(&Refusal::new(RefusalKind::Busy, "too many large replies in progress"))
}

fn denied(why: Denied) -> FullReply {
    let code = if why == Denied::Token { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
    let mut reply = error(code, why.to_string());
    if why == Denied::Token {
        reply.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer realm=\"doorbell\""));
    }
    reply
}

fn not_found() -> FullReply {
    refused(&Refusal::new(RefusalKind::NotFound, "not found: the start page is /-/"))
}

/// Refuses the method of a request, which is neither a command nor GET or HEAD.
fn not_allowed(request: &AdminRequest) -> FullReply {
    let is_command = |method: &Method| request.operation_by(method).is_some();
    let (allow, text) = match (is_command(&Method::GET), is_command(&Method::PUT), is_command(&Method::POST))
    {
        (true, ..) => ("GET, POST", "use POST"),
        (_, true, _) => ("POST, PUT", "use POST"),
        (.., true) => ("POST", "use POST"),
        _ => ("GET, HEAD", "it is read-only: use GET"),
    };
    let text = format!("{} is not supported by {}: {text}", request.method, request.path);
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, text);
    reply.headers_mut().insert("allow", HeaderValue::from_static(allow));
    reply
}

fn redirect(to: &'static str) -> FullReply {
    let mut reply = reply(StatusCode::FOUND, TEXT, format!("{to}\n"));
    reply.headers_mut().insert("location", HeaderValue::from_static(to));
    reply
}

fn reply(code: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> FullReply {
    let mut reply = with_type(Response::new(text.into()), content_type);
    *reply.status_mut() = code;
    reply
}

fn with_type<B>(mut reply: Response<B>, content_type: &'static str) -> Response<B> {
    reply.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    reply
}

fn boxed(reply: FullReply) -> Reply {
    reply.map(|content| Full::new(content).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::supervisor::Supervisor;
    use doorbell_proxy_config::model::Admin;
    use futures_util::FutureExt as _;

    fn shared() -> AdminState {
        let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
        let guard = Guard::closed();
        guard.follow(Some(&Admin::default()));
        AdminState::new(operator, Arc::new(guard))
    }

    fn post(shared: &AdminState, path: &str) -> Reply {
        ask(shared, Method::POST, path)
    }

    fn ask(shared: &AdminState, method: Method, path: &str) -> Reply {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let here = IpAddr::from([127, 0, 0, 1]);
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        runtime.block_on(shared.reply_to(request, (SocketAddr::new(here, 1), here), || {}))
    }

    #[test]
    fn invalid_requests() {
        for (path, expected) in [
            ("/-/checks/db/well", StatusCode::NOT_FOUND),
            ("/-/checks/db/pass?latency=soon", StatusCode::BAD_REQUEST),
            ("/-/drain?wait=soon", StatusCode::BAD_REQUEST),
            ("/-/maint?for=soon", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(post(&shared(), path).status(), expected, "{path}");
        }
    }

    #[test]
    fn a_refused_method_is_answered_with_those_of_the_path() {
        for (method, path, allow) in [
            (Method::PUT, "/-/reload", "POST"),
            (Method::DELETE, "/-/maint", "POST"),
            (Method::PUT, "/-/checks/db/run", "POST"),
            (Method::DELETE, "/-/checks/db/pass", "POST, PUT"),
            (Method::PUT, "/-/drain", "GET, POST"),
            (Method::POST, "/-/status", "GET, HEAD"),
            (Method::DELETE, "/metrics", "GET, HEAD"),
        ] {
            let reply = ask(&shared(), method.clone(), path);
            assert_eq!(reply.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(reply.headers()["allow"], allow, "{method} {path}");
        }
    }

    #[test]
    fn the_shutdown_waits_for_the_reply_to_quit() {
        let shared = shared();
        let reply = post(&shared, "/-/quit?now=1");
        assert_eq!(reply.status(), StatusCode::OK);
        let permits = shared.operator.reply_permits();
        assert!(permits.all_sent().now_or_never().is_none());
        drop(reply);
        assert!(permits.all_sent().now_or_never().is_some());
    }
}
