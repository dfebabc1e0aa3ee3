//! Replies to requests with the result of a new probe or with a cached result.

use super::module::Module;
use super::probe::{Prober, Refused};
use super::query::Query;
use crate::guards::browser::{is_cross_site, is_own_host};
use crate::stats::process::ProcessStats;
use crate::stats::server::{Item, ItemKind};
use bytes::Bytes;
use doorbell_checks::SharedResources;
use doorbell_proxy_config::model::Blackbox;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
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

/// Reply to a request that a page of another site has sent: modules may have credentials.
const CROSS_SITE: &str = "a page of another site may not probe: open the address itself\n";

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
    /// The longest timeout of all modules.
    pub(super) timeout: Duration,
    slots: Mutex<HashMap<(usize, String), Slot>>,
    places: Semaphore,
    process_stats: Arc<ProcessStats>,
}

impl ProbeCache {
    pub(super) fn new(
        blackbox: &Blackbox,
        shared: SharedResources,
        process_stats: Arc<ProcessStats>,
    ) -> Self {
        let modules = Module::all(blackbox);
        let timeout = modules.iter().map(|module| module.timeout).max();
        Self {
            prober: Prober::new(blackbox.targets.iter().map(|network| network.value).collect(), shared),
            modules,
            cache: blackbox.cache,
            timeout: timeout.unwrap_or(blackbox.timeout),
            slots: Mutex::default(),
            places: Semaphore::new(PROBES_MAX),
            process_stats,
        }
    }

    /// Replies to a request. `is_local`: the client is on this machine, and may be a browser under
    /// DNS rebinding.
    pub(super) async fn reply_to(
        &self,
        request: &Request<Incoming>,
        is_local: bool,
    ) -> Response<Full<Bytes>> {
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
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            self.count("unknown", "invalid");
            let mut reply = reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n");
            reply.headers_mut().insert("allow", HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        if let Some(why) = foreign(request.headers(), is_local) {
            self.count("unknown", "invalid");
            return reply(StatusCode::FORBIDDEN, PLAIN, why);
        }
        let query = match Query::parse(request.uri().query().unwrap_or_default(), &self.modules) {
            Ok(query) => query,
            Err(why) => {
                self.count("unknown", "invalid");
                return reply(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n"));
            }
        };
        let timeout_field = request.headers().get("x-prometheus-scrape-timeout-seconds");
        let module = &self.modules[query.module];
        let limit = limit_of(module, timeout_field.and_then(|value| value.to_str().ok()));
        let result = self.result(module, query, limit).await;
        self.count(&module.name, result.as_ref().map_or_else(Refused::as_str, |&(_, found)| found));
        match result {
            Ok((text, _)) => reply(StatusCode::OK, TEXT, text),
            Err(Refused::TooMany) => {
                reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}\n", Refused::TooMany))
            }
            Err(refused) => reply(StatusCode::FORBIDDEN, PLAIN, format!("{refused}\n")),
        }
    }

    fn count(&self, module: &str, result: &'static str) {
        self.process_stats.count_one(&Item::new(ItemKind::Probed, module, [result]));
    }

    /// Returns the text of the result, and the label of its counter.
    async fn result(
        &self,
        module: &Module,
        query: Query,
        limit: Duration,
    ) -> Result<(Bytes, &'static str), Refused> {
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
        let probed = self.prober.probe(module, &query.target, limit).await?;
        let text = Bytes::from(probed.text);
        let is_success = probed.is_success;
        *known = Some(Cached { at: Instant::now(), text: text.clone(), is_success, limit });
        Ok((text, if is_success { "success" } else { "failure" }))
    }

    fn slot(&self, module: usize, target: &str) -> Slot {
        let mut slots = self.slots.lock();
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

/// The refusal of a request that may come from a page of another site; `None` for other requests.
/// Links to a probe, such as those of Prometheus, are allowed.
fn foreign(headers: &HeaderMap, is_local: bool) -> Option<&'static str> {
    let field = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let is_own = |host: &[u8]| is_own_host(host, &[]);
    let host = field("host").unwrap_or_default();
    let is_link = field("sec-fetch-mode") == Some(b"navigate");
    if is_local && headers.contains_key(HOST) && !is_own(host) {
        Some(FOREIGN_HOST)
    } else {
        (!is_link && is_cross_site(field, host, is_own)).then_some(CROSS_SITE)
    }
}

/// Returns the shorter of the module's timeout and the request's scrape timeout less
/// [`TIMEOUT_OFFSET`].
fn limit_of(module: &Module, scrape_timeout: Option<&str>) -> Duration {
    let secs = scrape_timeout.and_then(|text| text.parse::<f64>().ok());
    let timeout = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    let timeout = timeout.map(|timeout| timeout.saturating_sub(TIMEOUT_OFFSET).max(TIMEOUT_OFFSET / 5));
    timeout.map_or(module.timeout, |timeout| timeout.min(module.timeout))
}

fn reply(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    #[test]
    fn pages_of_other_sites_may_only_link_to_a_probe() {
        let foreign_of = |fields: &[(&'static str, &'static str)]| {
            let fields = fields
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            foreign(&fields.collect(), true)
        };
        let host = ("host", "127.0.0.1:9115");
        let [other, same] = ["http://evil.example", "http://127.0.0.1:9115"].map(|origin| ("origin", origin));
        let [cross, direct] = ["cross-site", "none"].map(|site| ("sec-fetch-site", site));
        for (fields, expected) in [
            (&[host][..], None),
            (&[host, same], None),
            (&[host, direct], None),
            (&[host, other], Some(CROSS_SITE)),
            (&[host, cross], Some(CROSS_SITE)),
            (&[host, cross, ("sec-fetch-mode", "navigate")], None),
            (&[("host", "evil.example"), ("sec-fetch-mode", "navigate")], Some(FOREIGN_HOST)),
        ] {
            assert_eq!(foreign_of(fields), expected, "{fields:?}");
        }
    }
}
