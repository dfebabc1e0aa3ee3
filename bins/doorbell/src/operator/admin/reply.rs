//! What each path of the admin listener answers.
//!
//! Does not know about: connections.

use super::guard::{Denied, Ends, Guard};
use super::page::{self, EVENTS_SHOWN, View};
use super::room::Room;
use super::{events, query};
use crate::config::parse_duration;
use crate::log::Throttle;
use crate::operator::Operator;
use crate::stats::metrics;
use crate::wire::{AudienceWord, Lifecycle, Refusal, RefusalKind};
use bytes::Bytes;
use doorbell_health::Outcome;
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

/// Followers of events at once.
pub(super) const FOLLOWERS_MAX: usize = 16;

/// The longest that somebody may wait for a drain.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Bytes of a note that are looked at; fewer are kept.
const NOTE_LEN_MAX: usize = 1024;

/// A wait looks so often whether the drain is called off or done.
const WAIT_STEP: Duration = Duration::from_millis(100);

/// Nothing from elsewhere, and nothing within a page that is not a file of ours.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
type Reply = Response<Body>;

/// A reply that is there at once.
type Whole = Response<Bytes>;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    operator: Operator,
    guard: Arc<Guard>,
    followers: Arc<Semaphore>,
    room: Room,
}

/// A request without its body, which nobody reads.
#[derive(Debug)]
struct Asked {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    /// The host of an address in absolute form, which goes before `Host` (RFC 9112, section 3.2.2).
    authority: Option<String>,
    peer: SocketAddr,
    ends: Ends,
}

/// What is asked of the operator.
enum Wish {
    Drain { target: String, reason: Option<String>, time: Option<Duration>, wait: Duration, is_kept: bool },
    Maintain { target: String, reason: String, time: Option<Duration> },
    Push { check: String, outcome: Outcome, note: String },
    Quit { now: bool },
    Ready { target: String },
    Reload,
    Run { check: String },
    Undrain { target: String },
}

impl Shared {
    pub(super) fn new(operator: Operator, guard: Arc<Guard>) -> Self {
        let followers = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        Self { operator, guard, followers, room: Room::default() }
    }

    /// `takes_long` is called when an answer may take longer than a usual one.
    pub(super) async fn answer<B>(
        &self,
        request: Request<B>,
        (peer, local): (SocketAddr, IpAddr),
        takes_long: impl FnOnce(),
    ) -> Reply {
        let (parts, _unread) = request.into_parts();
        let asked = Asked {
            authority: parts.uri.authority().map(|authority| authority.as_str().to_owned()),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            method: parts.method,
            headers: parts.headers,
            peer,
            ends: Ends { peer: peer.ip(), local },
        };
        let mut reply = match asked.wish() {
            _ if let Err(why) = self.guard.admit_read(&asked.headers, asked.hosts(), asked.ends) => {
                whole(asked.denied(why))
            }
            Some(Ok(wish)) => whole(self.fulfil(&asked, wish, takes_long).await),
            Some(Err(refusal)) => whole(refused(&refusal)),
            None if !matches!(asked.method, Method::GET | Method::HEAD) => whole(not_allowed(&asked.path)),
            None if asked.path == "/-/events" => self.follow(&asked, takes_long),
            None => whole(self.room.hold(self.show(&asked)).unwrap_or_else(no_room)),
        };
        let headers = reply.headers_mut();
        headers.insert("cache-control", HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        reply
    }

    fn show(&self, asked: &Asked) -> Whole {
        let operator = &self.operator;
        match asked.path.as_str() {
            "/" | "/-" => moved("/-/"),
            "/livez" | "/healthz" => self.alive(),
            "/readyz" => self.ready(),
            "/startupz" => self.started(),
            "/metrics" => {
                let accept = asked.headers.get("accept").map(HeaderValue::as_bytes).unwrap_or_default();
                let (exposition, text) = metrics::render(operator, accept);
                reply(StatusCode::OK, exposition.content_type(), text)
            }
            "/-/" => html(page::page(&self.view())),
            "/-/fragment" => html(page::live(&self.view())),
            "/-/style.css" => reply(StatusCode::OK, "text/css; charset=utf-8", page::style()),
            "/-/script.js" => reply(StatusCode::OK, "text/javascript; charset=utf-8", page::script()),
            "/-/status" => json(&operator.status()),
            "/-/checks" => found(operator.checks(None, query::value(&asked.query, "history").is_some())),
            "/-/probers" => json(&operator.probers()),
            "/-/stub_status" => reply(StatusCode::OK, TEXT, metrics::stub_status(operator)),
            path => self.show_check(path),
        }
    }

    /// `/-/checks/NAME` and `/-/checks/NAME/history`.
    fn show_check(&self, path: &str) -> Whole {
        let Some(name) = path.strip_prefix("/-/checks/") else { return missing() };
        let (name, history) = name.strip_suffix("/history").map_or((name, false), |name| (name, true));
        let Some(name) = query::decoded(name) else { return missing() };
        let one = self.operator.checks(Some(&name), history);
        found(one.map(|mut checks| checks.pop()))
    }

    fn view(&self) -> View {
        let status = self.operator.status();
        let (events, _) = self.operator.events_since(status.event.saturating_sub(EVENTS_SHOWN as u64));
        View {
            checks: self.operator.checks(None, true).unwrap_or_default(),
            probers: self.operator.probers(),
            events,
            status,
        }
    }

    /// Whether the program works, whatever it is told by checks.
    fn alive(&self) -> Whole {
        let failed = self.operator.status().workers.iter().filter(|worker| worker.has_failed).count();
        match failed {
            0 => reply(StatusCode::OK, TEXT, "ok\n"),
            failed => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("workers failed: {failed}\n")),
        }
    }

    /// The same verdict as `/readyz` of a listener; where no endpoint has that name, whether the program serves.
    fn ready(&self) -> Whole {
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

    /// Whether the program has started, whatever came then.
    fn started(&self) -> Whole {
        let lifecycle = self.operator.status().lifecycle;
        serving(lifecycle, lifecycle != Lifecycle::Starting)
    }

    fn follow(&self, asked: &Asked, takes_long: impl FnOnce()) -> Reply {
        let Ok(place) = Arc::clone(&self.followers).try_acquire_owned() else {
            let text = format!("{FOLLOWERS_MAX} follow already");
            return whole(refused(&Refusal::new(RefusalKind::Busy, text)));
        };
        takes_long();
        let last = asked.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let since = last.or_else(|| query::value(&asked.query, "since")).and_then(|id| id.parse().ok());
        // Without a number only what comes from now on.
        let since = since.unwrap_or_else(|| self.operator.status().event);
        let frames = events::frames(self.operator.follow(since), place);
        with_type(Response::new(StreamBody::new(frames).boxed_unsync()), "text/event-stream")
    }

    async fn fulfil(&self, asked: &Asked, wish: Wish, takes_long: impl FnOnce()) -> Whole {
        let admitted = match wish {
            Wish::Quit { .. } => self.guard.admit_here(&asked.headers, asked.ends),
            _ => self.guard.admit(&asked.headers, asked.ends),
        };
        if let Err(why) = admitted {
            return asked.denied(why);
        }
        takes_long();
        let wait =
            if let Wish::Drain { target, wait, .. } = &wish { Some((target.clone(), *wait)) } else { None };
        let operator = self.operator.clone();
        let peer = asked.peer;
        let done = spawn_blocking(move || wish.done_by(&operator, peer)).await;
        let done = done.unwrap_or_else(|_| Err(Refusal::new(RefusalKind::Failed, "it was not finished")));
        if let (Ok(_), Some((target, wait))) = (&done, wait) {
            self.wait(&target, wait).await;
        }
        match done {
            Ok(text) => json_with(StatusCode::OK, &serde_json::json!({ "done": text })),
            Err(refusal) => refused(&refusal),
        }
    }

    /// Waits, unless the drain is called off or done. Both are looked at twice: ring threads say at the end of a turn how many are
    /// connected, and whoever was answered in this one is not counted yet.
    async fn wait(&self, target: &str, wait: Duration) {
        let (mut left, mut is_over) = (wait.min(WAIT_MAX), false);
        while !left.is_zero() {
            let was_over = std::mem::replace(&mut is_over, !self.operator.has_to_drain(target));
            if was_over && is_over {
                break;
            }
            let step = left.min(WAIT_STEP);
            sleep(step).await;
            left -= step;
        }
    }
}

impl Asked {
    /// Every name that the request has for us.
    fn hosts(&self) -> impl Iterator<Item = &[u8]> {
        let fields = self.headers.get_all("host").iter().map(HeaderValue::as_bytes);
        fields.chain(self.authority.as_deref().map(str::as_bytes))
    }

    /// A request that is refused; told in the log, too, and seldom.
    fn denied(&self, why: Denied) -> Whole {
        static REFUSED: Throttle = Throttle::new();
        if let Some(suppressed) = REFUSED.turn() {
            tracing::warn!(peer = %self.peer, path = self.path, suppressed, "refused: {why}");
        }
        denied(why)
    }

    /// What is to change, if anything: `None` for what is only shown.
    fn wish(&self) -> Option<Result<Wish, Refusal>> {
        let is_post = self.method == Method::POST;
        if is_post || self.method == Method::PUT {
            let told = self.path.strip_prefix("/-/checks/").and_then(|path| self.told(path));
            if told.is_some() {
                return told;
            }
        }
        let text = |name| query::value(&self.query, name);
        let target = || text("target").unwrap_or_else(|| "all".to_owned());
        let wish = match self.path.as_str() {
            // A hook of Kubernetes can only send GET. What it begins belongs to the end of the program, and is not for the next one.
            "/-/drain" if is_post || self.method == Method::GET => {
                let times = self.duration("wait").and_then(|wait| Ok((wait, self.duration("for")?)));
                times.map(|(wait, time)| Wish::Drain {
                    target: target(),
                    reason: text("reason"),
                    time,
                    wait: wait.unwrap_or_default(),
                    is_kept: is_post,
                })
            }
            _ if !is_post => return None,
            "/-/undrain" => Ok(Wish::Undrain { target: target() }),
            "/-/maint" => self.duration("for").map(|time| Wish::Maintain {
                target: target(),
                reason: text("reason").unwrap_or_default(),
                time,
            }),
            "/-/ready" => Ok(Wish::Ready { target: target() }),
            "/-/reload" => Ok(Wish::Reload),
            "/-/quit" | "/quitquitquit" => Ok(Wish::Quit { now: text("now").is_some() }),
            path => {
                let name = path.strip_prefix("/-/checks/").and_then(|path| path.strip_suffix("/run"));
                Ok(Wish::Run { check: query::decoded(name?)? })
            }
        };
        Some(wish)
    }

    /// What a check is told, which is the last part of the path behind its name.
    fn told(&self, path: &str) -> Option<Result<Wish, Refusal>> {
        let (name, result) = path.rsplit_once('/')?;
        let outcome = match result {
            "fail" => Outcome::Failure,
            "history" | "run" => return None,
            "maintenance" => Outcome::Maintenance,
            "pass" => Outcome::Success,
            "warn" => Outcome::Degraded,
            _ => {
                let text = "a result is pass, warn, fail or maintenance".to_owned();
                return Some(Err(Refusal::new(RefusalKind::NotFound, text)));
            }
        };
        let mut note = query::value(&self.query, "note").unwrap_or_default();
        note.truncate(note.floor_char_boundary(NOTE_LEN_MAX));
        Some(Ok(Wish::Push { check: query::decoded(name)?, outcome, note }))
    }

    fn duration(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let Some(text) = query::value(&self.query, name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        // A number alone is in seconds, as in `sleep`.
        let parsed = parse_duration(&text).or_else(|| text.parse().ok().map(Duration::from_secs));
        let bad = || {
            Refusal::new(RefusalKind::NotFound, format!("{text:?} is no length of time: write {name}=20s"))
        };
        parsed.map(Some).ok_or_else(bad)
    }
}

impl Wish {
    /// May wait for a disk.
    fn done_by(self, operator: &Operator, peer: SocketAddr) -> Result<String, Refusal> {
        match self {
            Self::Drain { target, reason, time, wait: _, is_kept } => {
                let reason = reason.unwrap_or_else(|| format!("asked for by {peer}"));
                operator.drain(&target, &reason, time, is_kept)
            }
            Self::Maintain { target, reason, time } => operator.maintain(&target, &reason, time),
            Self::Push { check, outcome, note } => operator.push(&check, outcome, note),
            Self::Quit { now } => operator.quit(now),
            Self::Ready { target } => operator.ready(&target),
            Self::Reload => operator.reload(),
            Self::Run { check } => {
                operator.run_check(&check).map(|view| format!("{}: {}", view.name, view.state))
            }
            Self::Undrain { target } => operator.undrain(&target),
        }
    }
}

fn serving(lifecycle: Lifecycle, is_well: bool) -> Whole {
    let code = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply(code, TEXT, format!("{lifecycle}\n"))
}

fn html(text: String) -> Whole {
    let mut reply = reply(StatusCode::OK, HTML, text);
    reply.headers_mut().insert("content-security-policy", HeaderValue::from_static(POLICY));
    reply.headers_mut().insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    reply
}

fn found<T: Serialize>(value: Result<T, Refusal>) -> Whole {
    match value {
        Ok(value) => json(&value),
        Err(refusal) => refused(&refusal),
    }
}

fn json(value: &impl Serialize) -> Whole {
    json_with(StatusCode::OK, value)
}

fn json_with(code: StatusCode, value: &impl Serialize) -> Whole {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    reply(code, JSON, text)
}

fn refused(refusal: &Refusal) -> Whole {
    let code = match refusal.kind {
        RefusalKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RefusalKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::NotPermitted => StatusCode::FORBIDDEN,
        RefusalKind::NotSupported => StatusCode::NOT_IMPLEMENTED,
        RefusalKind::TooLate => StatusCode::CONFLICT,
    };
    json_with(code, &serde_json::json!({ "error": refusal.text }))
}

/// Replies that nobody reads take all the memory that there is for them.
fn no_room() -> Whole {
    static REFUSED: Throttle = Throttle::new();
    if let Some(suppressed) = REFUSED.turn() {
        tracing::warn!(suppressed, "refused: too many large replies of the admin address are on their way");
    }
    refused(&Refusal::new(RefusalKind::Busy, "too many large replies are on their way"))
}

fn denied(why: Denied) -> Whole {
    let code = if why == Denied::Token { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
    let mut reply = json_with(code, &serde_json::json!({ "error": why.to_string() }));
    if why == Denied::Token {
        reply.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer realm=\"doorbell\""));
    }
    reply
}

fn missing() -> Whole {
    refused(&Refusal::new(RefusalKind::NotFound, "there is no such page: /-/ is the first one"))
}

fn not_allowed(path: &str) -> Whole {
    let text = format!("{path} is only shown: ask with GET");
    let mut reply = json_with(StatusCode::METHOD_NOT_ALLOWED, &serde_json::json!({ "error": text }));
    reply.headers_mut().insert("allow", HeaderValue::from_static("GET, HEAD"));
    reply
}

fn moved(to: &'static str) -> Whole {
    let mut reply = reply(StatusCode::FOUND, TEXT, format!("{to}\n"));
    reply.headers_mut().insert("location", HeaderValue::from_static(to));
    reply
}

fn reply(code: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Whole {
    let mut reply = with_type(Response::new(text.into()), content_type);
    *reply.status_mut() = code;
    reply
}

fn with_type<B>(mut reply: Response<B>, content_type: &'static str) -> Response<B> {
    reply.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    reply
}

fn whole(reply: Whole) -> Reply {
    reply.map(|content| Full::new(content).boxed_unsync())
}
