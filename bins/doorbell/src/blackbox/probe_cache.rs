//! Replies to requests with the result of a new probe or with a cached result.
//!
//! Does not know about: connections.

use super::probe::{Prober, Refused};
use super::query::Query;
use crate::config::model::{Blackbox, Module};
use crate::guards::browser::is_own_host;
use crate::stats::process::ProcessStats;
use crate::stats::server::Item;
use bytes::Bytes;
use doorbell_checks::Shared;
use doorbell_config::Words as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Maximum number of probes in progress; a request that waits longer than its timeout is refused.
pub(super) const PROBES_MAX: usize = 32;

/// Maximum number of cached results, each of a few KiB.
const RESULTS_MAX: usize = 1024;

/// Time deducted from the scrape timeout of Prometheus (blackbox_exporter's `--timeout-offset`).
const TIMEOUT_OFFSET: Duration = Duration::from_millis(500);

/// Reply to a request with an unknown `Host`: a page of another site may have sent the request.
const FOREIGN_HOST: &str = "unknown name in `Host`: use an IP address or localhost\n";

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The cached result of one target and module.
type Slot = Arc<tokio::sync::Mutex<Option<Cached>>>;

/// A result. A failure is reused only for requests whose timeout is not longer than that of the
/// failed probe.
#[derive(Debug)]
struct Cached {
    at: Instant,
    text: Bytes,
    is_success: bool,
    limit: Duration,
}

/// Runs probes, caches results, and replies to requests.
#[derive(Debug)]
pub(super) struct ProbeCache {
    prober: Prober,
    modules: Vec<Module>,
    cache: Duration,
    pub(super) timeout: Duration,
    slots: Mutex<HashMap<(Module, String), Slot>>,
    places: Semaphore,
    process_stats: Arc<ProcessStats>,
}

impl ProbeCache {
    pub(super) fn new(blackbox: &Blackbox, shared: Shared, process_stats: Arc<ProcessStats>) -> Self {
        Self {
            prober: Prober::new(blackbox.targets.iter().map(|network| network.value).collect(), shared),
            modules: blackbox.modules.clone(),
            cache: blackbox.cache,
            timeout: blackbox.timeout,
            slots: Mutex::default(),
            places: Semaphore::new(PROBES_MAX),
            process_stats,
        }
    }

    /// Replies to a request. `is_here`: the client is on this machine, and may be a browser under
    /// DNS rebinding.
    pub(super) async fn reply_to(&self, request: &Request<Incoming>, is_here: bool) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/probe" => {}
            "/-/healthy" => return reply(StatusCode::OK, PLAIN, "Healthy"),
            _ => {
                return reply(
                    StatusCode::NOT_FOUND,
                    PLAIN,
                    "not found: use /probe?target=TARGET&module=MODULE\n",
                );
            }
        }
        let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
        if is_here && host.is_some_and(|host| !is_own_host(host, &[])) {
            self.count("unknown", "invalid");
            return reply(StatusCode::FORBIDDEN, PLAIN, FOREIGN_HOST);
        }
        let query = match Query::parse(request.uri().query().unwrap_or_default(), &self.modules) {
            Ok(query) => query,
            Err(why) => {
                self.count("unknown", "invalid");
                return reply(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n"));
            }
        };
        let wanted = request.headers().get("x-prometheus-scrape-timeout-seconds");
        let limit = self.timeout_of(wanted.and_then(|value| value.to_str().ok()));
        let module = query.module.word();
        let result = self.result(query, limit).await;
        self.count(module, result.as_ref().map_or_else(Refused::as_str, |&(_, found)| found));
        match result {
            Ok((text, _)) => reply(StatusCode::OK, TEXT, text),
            Err(Refused::TooMany) => {
                reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}\n", Refused::TooMany))
            }
            Err(refused) => reply(StatusCode::FORBIDDEN, PLAIN, format!("{refused}\n")),
        }
    }

    /// Returns the shorter of the configured timeout and the scrape timeout of the request.
    fn timeout_of(&self, scrape_timeout: Option<&str>) -> Duration {
        let secs = scrape_timeout.and_then(|text| text.parse::<f64>().ok());
        let wanted = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
        let wanted = wanted.map(|wanted| wanted.saturating_sub(TIMEOUT_OFFSET).max(TIMEOUT_OFFSET / 5));
        wanted.map_or(self.timeout, |wanted| wanted.min(self.timeout))
    }

    fn count(&self, module: &'static str, result: &'static str) {
        self.process_stats.count_one(&Item::Probed { module, result });
    }

    /// Returns the text of the result, and the label of its counter.
    async fn result(&self, query: Query, limit: Duration) -> Result<(Bytes, &'static str), Refused> {
        let slot = self.slot(query.module, &query.target);
        // Identical requests wait here for the result.
        let waits_until = Instant::now() + limit;
        let Ok(mut known) = timeout_at(waits_until, slot.lock()).await else { return Err(Refused::TooMany) };
        let is_usable =
            |known: &&Cached| known.at.elapsed() < self.cache && (known.is_success || limit <= known.limit);
        if let Some(cached) = known.as_ref().filter(is_usable) {
            return Ok((cached.text.clone(), "cached"));
        }
        let place = timeout_at(waits_until, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else { return Err(Refused::TooMany) };
        let made = self.prober.probe(query.module, &query.target, limit).await?;
        let text = Bytes::from(made.text);
        let is_success = made.is_success;
        *known = Some(Cached { at: Instant::now(), text: text.clone(), is_success, limit });
        Ok((text, if is_success { "success" } else { "failure" }))
    }

    fn slot(&self, module: Module, target: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&(module, target.to_owned())) {
            return Arc::clone(slot);
        }
        if slots.len() >= RESULTS_MAX {
            // Removes expired and empty entries; entries in use stay.
            let is_new = |slot: &Slot| {
                slot.try_lock().map_or(true, |known| {
                    known.as_ref().is_some_and(|cached| cached.at.elapsed() < self.cache)
                })
            };
            slots.retain(|_, slot| is_new(slot));
        }
        let slot = Slot::default();
        if slots.len() < RESULTS_MAX {
            slots.insert((module, target.to_owned()), Arc::clone(&slot));
        }
        slot
    }
}

fn reply(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
