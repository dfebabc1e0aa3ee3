//! Tests of the registry: commands and results, and the replies that follow.

use super::*;
use crate::replies::{CachedReply, StateFields, ThreadReplies};
use doorbell_health::{
    CheckConfig, Class, Codes, Details, EndpointConfig, Format, OnDrain, Outcome, Severity, Use,
};
use std::sync::atomic::AtomicUsize;

const NOW: Time = Time::from_secs(1);

/// Positions of the endpoints in [`one`].
const READYZ: usize = 0;
const LIVEZ: usize = 1;

const LIVENESS: EndpointOptions = EndpointOptions {
    is_readiness: false,
    warns_kubelets: false,
    is_down: false,
    fields: StateFields { retry_after_secs: None, envoy_degraded: false, endpoint_weight: false },
};

fn builder() -> RegistryBuilder {
    Registry::builder(Time::ZERO, Duration::ZERO)
}

fn pushed() -> CheckConfig {
    CheckConfig::ttl(Duration::from_hours(1))
}

/// `readyz` with the pushed check `app`, and `livez` without checks.
fn one() -> Arc<Registry> {
    let mut builder = builder();
    let app = builder.check("app", pushed()).unwrap();
    let on_drain = [OnDrain::Ignore, OnDrain::Code(599), OnDrain::Code(599)];
    let readyz = EndpointConfig { on_drain, ..EndpointConfig::new("readyz").with(app, Severity::Required) };
    builder.endpoint(readyz, EndpointOptions::default()).unwrap();
    add_livez(&mut builder);
    builder.build()
}

fn add_livez(builder: &mut RegistryBuilder) {
    let livez = EndpointConfig { on_drain: [OnDrain::Ignore; 3], ..EndpointConfig::new("livez") };
    builder.endpoint(livez, LIVENESS).unwrap();
}

fn add_readyz(builder: &mut RegistryBuilder, name: &str) {
    builder.endpoint(EndpointConfig::new(name), EndpointOptions::default()).unwrap();
}

/// A route that replies with text and shows details to all clients.
fn route(endpoint: usize) -> ReplyOptions {
    ReplyOptions {
        endpoint,
        format: Some(Format::Text),
        details: Details::Always,
        allow: "GET".to_owned(),
        ..ReplyOptions::default()
    }
}

fn with_singles(endpoint: usize) -> ReplyOptions {
    ReplyOptions { has_singles: true, ..route(endpoint) }
}

fn with<T>(cache: &ReplyCache, look: impl FnOnce(&CachedReply) -> T) -> T {
    let mut thread_replies = ThreadReplies::take();
    let seen = match cache.known(&thread_replies) {
        Some(cached) => look(cached),
        None => look(cache.read(&mut thread_replies)),
    };
    thread_replies.put_back();
    seen
}

fn answer(cache: &ReplyCache, audience: Audience) -> (u16, String) {
    answer_to(cache, audience, true)
}

fn answer_to(cache: &ReplyCache, audience: Audience, sees_details: bool) -> (u16, String) {
    with(cache, |cached| {
        let reply = cached.replies.reply(audience, Format::Text, sees_details).unwrap();
        (reply.status().code(), String::from_utf8(reply.content().to_vec()).unwrap())
    })
}

fn found(registry: &Registry, outcome: Outcome, reason: &str) -> Duration {
    registry.found(0, &CheckResult::new(outcome, Duration::ZERO, reason.as_bytes()), NOW)
}

#[test]
fn a_result_is_in_the_next_reply() {
    let registry = one();
    let cache = registry.cache(with_singles(READYZ)).unwrap();
    let live = registry.cache(route(LIVEZ)).unwrap();
    let single = |name: &str| {
        cache.with_single(name.as_bytes(), Format::Text, |reply| {
            reply.map(|reply| (reply.status().code(), String::from_utf8(reply.content().to_vec()).unwrap()))
        })
    };
    let all = |code, body: &str| {
        for audience in Audience::ALL {
            assert_eq!(answer(&cache, audience), (code, body.to_owned()));
        }
        assert_eq!(answer(&live, Audience::Other), (200, "up\n".to_owned()));
    };
    all(503, "down\napp: unknown\n");
    assert_eq!(single("app"), Some((503, "unknown\n".to_owned())));
    assert_eq!(single("apps"), None);
    found(&registry, Outcome::Success, "");
    all(200, "up\napp: up\n");
    assert_eq!(single("app"), Some((200, "ok".to_owned())));
    found(&registry, Outcome::Degraded, "slow");
    all(200, "degraded\napp: degraded (slow)\n");
    found(&registry, Outcome::Failure, "refused");
    all(503, "down\napp: down (refused)\n");
    assert_eq!(single("app"), Some((503, "down: refused\n".to_owned())));
    found(&registry, Outcome::Success, "");
    registry.drain(Some(""), NOW);
    assert_eq!(answer(&cache, Audience::Kubelet), (200, "up\napp: up\n".to_owned()));
    assert_eq!(answer(&cache, Audience::LoadBalancer), (599, "drain\napp: up\n".to_owned()));
    let differ = |cache: &ReplyCache| with(cache, |cached| !cached.replies.plain.is_for(true));
    assert!(differ(&cache) && !differ(&live), "livez ignores a drain");
}

#[test]
fn routes_with_the_same_options_share_replies() {
    let registry = one();
    let cache = registry.cache(route(READYZ)).unwrap();
    assert!(Arc::ptr_eq(&cache, &registry.cache(route(READYZ)).unwrap()));
    let with_header = |value: &str| {
        let headers = vec![("A".to_owned(), value.to_owned())];
        registry.cache(ReplyOptions { headers, ..route(READYZ) })
    };
    let with_field = with_header("b").unwrap();
    let with_singles = registry.cache(with_singles(READYZ)).unwrap();
    let hidden = registry.cache(ReplyOptions { details: Details::Never, ..route(READYZ) }).unwrap();
    for other in [&with_field, &with_singles, &hidden] {
        assert!(!Arc::ptr_eq(&cache, other));
    }
    assert_eq!(answer(&hidden, Audience::Other), (503, "down\n".to_owned()));
    assert!(with_header("b\n").is_none(), "no such field");
    assert!(registry.cache(route(2)).is_none(), "no such endpoint");
}

#[test]
fn a_failed_worker_is_not_ready_and_alive() {
    let mut builder = builder();
    add_readyz(&mut builder, "readyz");
    add_livez(&mut builder);
    let registry = builder.build();
    let [ready, live] = [READYZ, LIVEZ].map(|endpoint| registry.cache(route(endpoint)).unwrap());
    assert_eq!(answer(&ready, Audience::Other), (200, "up\n".to_owned()));
    registry.fail("a worker failed", NOW);
    assert_eq!(answer(&ready, Audience::Kubelet), (503, "down\nreason: a worker failed\n".to_owned()));
    assert_eq!(answer(&live, Audience::Kubelet), (200, "up\n".to_owned()));
}

#[test]
fn followers_are_called_for_changes_only() {
    let registry = one();
    let heard = Arc::new(AtomicUsize::new(0));
    let (count, serves) = (Arc::clone(&heard), Arc::new(AtomicUsize::new(9)));
    let last = Arc::clone(&serves);
    registry.follow(move |serving| {
        count.fetch_add(1, Ordering::Relaxed);
        last.store(usize::from(serving.state(READYZ, Audience::Other).1), Ordering::Relaxed);
    });
    let now = || (heard.load(Ordering::Relaxed), serves.load(Ordering::Relaxed));
    assert_eq!(now(), (1, 0));
    found(&registry, Outcome::Success, "");
    assert_eq!(now(), (2, 1));
    found(&registry, Outcome::Success, "");
    registry.tick(NOW);
    assert_eq!(now(), (2, 1));
    registry.drain(Some(""), NOW);
    assert_eq!(now(), (3, 0));
}

/// A check that was never up runs at the fast interval. A check that fails after it was up runs at
/// the slow interval.
#[test]
fn a_check_that_was_never_up_runs_often() {
    let mut builder = builder();
    builder.check("app", CheckConfig { fall: 1, ..CheckConfig::default() }).unwrap();
    let registry = builder.build();
    let (fast, usual, slow) = (Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(10));
    assert_eq!(found(&registry, Outcome::Failure, ""), fast);
    assert_eq!(found(&registry, Outcome::Failure, ""), fast);
    assert_eq!(found(&registry, Outcome::Success, ""), fast);
    assert_eq!(found(&registry, Outcome::Success, ""), usual);
    assert_eq!(found(&registry, Outcome::Failure, ""), slow);
}

#[test]
fn a_kubelet_is_warned_of_degraded_and_all_others_read_the_status() {
    let mut builder = builder();
    let db = builder.check("db", pushed()).unwrap();
    let readyz = EndpointConfig {
        codes: Codes { degraded: 203, ..Codes::default() },
        on_drain: [OnDrain::Ignore, OnDrain::Report, OnDrain::Report],
        ..EndpointConfig::new("readyz").with(db, Severity::Degrading)
    };
    let warns = EndpointOptions { warns_kubelets: true, ..EndpointOptions::default() };
    builder.endpoint(readyz, warns).unwrap();
    let registry = builder.build();
    let headers = vec![("Location".to_owned(), "/here".to_owned())];
    let cache = registry.cache(ReplyOptions { headers, ..route(READYZ) }).unwrap();
    let page_of = |details| registry.cache(ReplyOptions { details, ..route(READYZ) }).unwrap();
    let (hidden, guarded) = (page_of(Details::Never), page_of(Details::Authenticated));
    found(&registry, Outcome::Success, "");
    for audience in Audience::ALL {
        assert_eq!(answer(&cache, audience), (200, "up\ndb: up\n".to_owned()));
    }
    found(&registry, Outcome::Failure, "refused\r\nX: y");
    let warned = (302, "readyz is degraded: db down (refused  X: y)".to_owned());
    assert_eq!(answer(&cache, Audience::Kubelet), warned);
    for audience in [Audience::LoadBalancer, Audience::Other] {
        assert_eq!(answer(&cache, audience).0, 203);
    }
    // Any client can claim to be a kubelet, so only clients that see details get the reasons.
    for (cache, sees_details, expected) in [
        (&hidden, false, "readyz is degraded"),
        (&hidden, true, "readyz is degraded"),
        (&guarded, false, "readyz is degraded"),
        (&guarded, true, &warned.1),
    ] {
        let found = answer_to(cache, Audience::Kubelet, sees_details);
        assert_eq!(found, (302, expected.to_owned()), "{sees_details}");
    }
    with(&cache, |cached| assert_eq!(cached.replies.state(Audience::Kubelet), EndpointState::Degraded));
    // The kubelet ignores the drain, so it still gets the warning.
    registry.drain(Some(""), NOW);
    assert_eq!((answer(&cache, Audience::Kubelet), answer(&cache, Audience::Other).0), (warned, 503));
    registry.drain(None, NOW);
    found(&registry, Outcome::Success, "");
    assert_eq!(answer(&cache, Audience::Kubelet), (200, "up\ndb: up\n".to_owned()));
    with(&cache, |cached| assert!(cached.replies.plain.is_for(true), "all get the same reply again"));
}

#[test]
fn a_warning_keeps_within_the_body() {
    let mut builder = builder();
    let uses = (0..40).map(|number| {
        let check = builder.check(&format!("check-{number}"), pushed()).unwrap();
        Use::new(check, Severity::Degrading)
    });
    let uses = uses.collect();
    let readyz = EndpointConfig { uses, body_len_max: 256, ..EndpointConfig::new("readyz") };
    let warns = EndpointOptions { warns_kubelets: true, ..EndpointOptions::default() };
    builder.endpoint(readyz, warns).unwrap();
    let registry = builder.build();
    let cache = registry.cache(route(READYZ)).unwrap();
    for check in 0..40 {
        let refused = CheckResult::new(Outcome::Failure, Duration::ZERO, b"connection refused");
        registry.found(check, &refused, NOW);
    }
    let (code, body) = answer(&cache, Audience::Kubelet);
    assert_eq!(code, 302);
    assert!(body.len() <= 256 && body.len() > 200, "{body}");
    assert!(
        body.starts_with("readyz is degraded: check-0 down (connection refused); check-1 down"),
        "{body}"
    );
    assert!(body.ends_with("; 34 more"), "{body}");
}

/// While one thread changes the state, each reply that other threads read belongs to exactly one
/// state. The next probe after a change gets the new reply.
#[test]
fn no_reply_is_torn_and_none_stays_old() {
    let registry = one();
    let cache = registry.cache(with_singles(READYZ)).unwrap();
    let (goes_on, reads) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let whole = [(503, "down\napp: down (refused)\n"), (503, "down\napp: unknown\n"), (200, "up\napp: up\n")];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) == 1 {
                    let (code, body) = answer(&cache, Audience::Kubelet);
                    assert!(whole.contains(&(code, &*body)), "{code} {body}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for at in 0..2_000 {
            let (outcome, reason, code) =
                if at % 2 == 0 { (Outcome::Success, "", 200) } else { (Outcome::Failure, "refused", 503) };
            found(&registry, outcome, reason);
            assert_eq!(answer(&cache, Audience::Other).0, code, "seen by the next probe");
        }
        goes_on.store(0, Ordering::Relaxed);
    });
    assert!(reads.into_inner() > 0);
}

/// After the first changed reply, no later probe of any protocol gets the former reply. The test
/// sends all probes after each step of a publication, starting with a different probe in each
/// round.
#[test]
fn all_probes_see_a_change_at_once() {
    let mut builder = builder();
    let app = builder.check("app", pushed()).unwrap();
    for name in ["readyz", "other"] {
        let endpoint = EndpointConfig::new(name).with(app, Severity::Required);
        builder.endpoint(endpoint, EndpointOptions::default()).unwrap();
    }
    let registry = builder.build();
    let cache = registry.cache(with_singles(READYZ)).unwrap();
    let plain = registry.cache(route(READYZ)).unwrap();
    let other = registry.cache(with_singles(1)).unwrap();
    let texts = registry.render(|serving, at| vec![u8::from(serving.state(at, Audience::LoadBalancer).1)]);
    let published = Arc::clone(registry.published());
    let single = |cache: &ReplyCache| {
        cache.with_single(b"app", Format::Text, |reply| reply.unwrap().status().code() == 200)
    };
    let (cache_of_check, cache_of_other) = (Arc::clone(&cache), Arc::clone(&other));
    let (by_word, by_text) = (Arc::clone(&published), Arc::clone(&published));
    let probes: Vec<Box<dyn Fn() -> bool + Send>> = vec![
        Box::new(move || single(&cache_of_check)),
        Box::new(move || single(&cache_of_other)),
        Box::new(move || answer(&cache, Audience::Other).0 == 200),
        Box::new(move || answer(&plain, Audience::Kubelet).0 == 200),
        Box::new(move || answer(&other, Audience::LoadBalancer).0 == 200),
        Box::new(move || by_word.load().states(READYZ)[Audience::LoadBalancer as usize].1),
        Box::new(move || by_text.load().text(texts, READYZ) == [1]),
    ];
    // The first probe of the round, the state after the change, whether any probe has seen this
    // state, and the number of steps.
    let given = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
    let [first, target, is_seen, steps] = given.clone();
    // Each probe is the first in one of the rounds. Once a probe has seen the change, no later
    // probe sees the former state.
    let look = move || {
        steps.fetch_add(1, Ordering::Relaxed);
        let first = first.load(Ordering::Relaxed);
        for probe in (0..probes.len()).map(|at| (first + at) % probes.len()) {
            let is_new = usize::from(probes[probe]()) == target.load(Ordering::Relaxed);
            let was_seen = is_seen.fetch_or(usize::from(is_new), Ordering::Relaxed) == 1;
            assert!(is_new || !was_seen, "probe {probe}, after {first}, sees the former state");
        }
    };
    *published.pause.0.lock().unwrap() = Some(Box::new(look));
    let [first, target, is_seen, steps] = given;
    for at in 0..14 {
        first.store(at / 2, Ordering::Relaxed);
        target.store(1 - at % 2, Ordering::Relaxed);
        is_seen.store(0, Ordering::Relaxed);
        found(&registry, if at % 2 == 0 { Outcome::Success } else { Outcome::Failure }, "");
        assert_eq!((is_seen.load(Ordering::Relaxed), steps.load(Ordering::Relaxed)), (1, 2 * (at + 1)));
    }
}

/// No probe sees the maintenance of one endpoint before that of another.
#[test]
fn maintenance_of_several_is_published_once() {
    let mut builder = builder();
    ["readyz", "other", "third"].iter().for_each(|name| add_readyz(&mut builder, name));
    add_livez(&mut builder);
    let registry = builder.build();
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    *registry.published().pause.0.lock().unwrap() = Some(Box::new(count));
    assert_eq!(registry.readiness().count(), 3);
    for wanted in [Some(("disks", None)), None] {
        steps.store(0, Ordering::Relaxed);
        registry.maintain(registry.readiness().map(|subject| (subject, wanted)), NOW);
        assert_eq!(steps.load(Ordering::Relaxed), 2, "one step for the set, one for its number");
        let set = registry.published().load();
        let states: Vec<_> = (0..4).map(|at| set.states(at)[0].0).collect();
        let held = states.iter().filter(|state| **state == EndpointState::Maintenance).count();
        assert_eq!(held, if wanted.is_some() { 3 } else { 0 }, "{states:?}");
    }
}

/// Caches of different registries do not share replies, although they have the same place.
#[test]
fn caches_of_two_registries_keep_apart() {
    let registries = [(); 2].map(|()| one());
    let caches: Vec<_> = registries.iter().map(|registry| registry.cache(route(READYZ)).unwrap()).collect();
    found(&registries[0], Outcome::Success, "");
    for _ in 0..3 {
        assert_eq!([0, 1].map(|at| answer(&caches[at], Audience::Other).0), [200, 503]);
    }
}

/// A thread releases its cached replies when it ends: each reload starts new threads.
#[test]
fn a_thread_that_ends_gives_back_what_it_read() {
    let registry = one();
    let cache = registry.cache(route(READYZ)).unwrap();
    let replies = std::thread::scope(|scope| {
        let cache = &cache;
        let looks = move || with(cache, |cached| Arc::downgrade(&cached.replies));
        scope.spawn(move || drop((looks(), looks()))).join().unwrap();
        scope.spawn(looks).join().unwrap()
    });
    found(&registry, Outcome::Success, "");
    assert!(replies.upgrade().is_none(), "an ended thread still holds replies of a former state");
}

#[test]
fn a_clock_that_is_set_is_followed() {
    let registry = one();
    let cache = registry.cache(route(READYZ)).unwrap();
    let shows = |day: &str| {
        with(&cache, |cached| {
            let reply = cached.replies.reply(Audience::Other, Format::HealthJson, true).unwrap();
            String::from_utf8_lossy(reply.content()).contains(day)
        })
    };
    found(&registry, Outcome::Success, "");
    let noon = Duration::from_secs(47_482 * 86_400 + 43_200);
    let follow = |time_of_day| registry.follow_clock(|| Some((time_of_day, NOW)));
    assert!(shows("1970-01-01T") && !shows("2100-01-01T"));
    assert!(follow(noon));
    assert!(shows("2100-01-01T"), "without a new result");
    assert!(!follow(noon + Duration::from_millis(900)) && !follow(noon + CLOCK_STEP_MIN), "not a step");
    assert!(!registry.follow_clock(|| None), "the clock could not be read");
    assert!(shows("2100-01-01T"));
    assert!(follow(Duration::from_secs(1)));
    assert!(shows("1970-01-01T"));
}

/// Records every transition.
#[derive(Default)]
struct Kept {
    recorded: Mutex<Vec<Transition>>,
    written: Mutex<Vec<Transition>>,
}

impl TransitionSink for Kept {
    fn record(&self, transition: &Transition) {
        self.recorded.lock().unwrap().push(transition.clone());
    }

    fn write(&self, transition: &Transition) {
        self.written.lock().unwrap().push(transition.clone());
    }
}

impl Kept {
    fn take(&self) -> Vec<(String, &'static str)> {
        let recorded = std::mem::take(&mut *self.recorded.lock().unwrap());
        assert_eq!(recorded, std::mem::take(&mut *self.written.lock().unwrap()));
        let short = |transition| match transition {
            Transition::Check { name, to, .. } => (name, to.as_str()),
            Transition::Endpoint { name, to, .. } => (name, to.as_str()),
        };
        recorded.into_iter().map(short).collect()
    }
}

/// The newest registry forwards results to the former one, and only one of them reports
/// transitions.
#[test]
fn one_registry_of_a_succession_reports() {
    let (before, kept) = (one(), Arc::new(Kept::default()));
    before.report_to(Arc::clone(&kept) as Arc<dyn TransitionSink>);
    found(&before, Outcome::Success, "");
    let both = |state| vec![("app".to_owned(), state), ("readyz".to_owned(), state)];
    assert_eq!(kept.take(), both("up"));
    let mut builder = before.successor(NOW);
    let app = builder.check("app", pushed()).unwrap();
    let readyz = EndpointConfig::new("readyz").with(app, Severity::Required);
    builder.endpoint(readyz, EndpointOptions::default()).unwrap();
    let after = builder.build();
    after.report_to(Arc::clone(&kept) as Arc<dyn TransitionSink>);
    after.inherit(&before, &SameChecks { places: vec![Some(0)], awaited: HashMap::new() }, NOW);
    assert_eq!(kept.take(), [], "an inherited state is not a transition");
    let [old, new] = [&before, &after].map(|registry| registry.cache(route(READYZ)).unwrap());
    assert_eq!([&old, &new].map(|cache| answer(cache, Audience::Other).0), [200, 200]);
    assert_eq!(after.last_run(0), Some((NOW, Time::MAX)));
    found(&after, Outcome::Failure, "refused");
    assert_eq!([&old, &new].map(|cache| answer(cache, Audience::Other).0), [503, 503]);
    assert_eq!(kept.take(), both("down"), "reported by one registry");
    after.report_instead_of(&before);
    found(&after, Outcome::Success, "");
    assert_eq!(kept.take(), both("up"), "once");
    before.drain(Some(""), NOW);
    assert_eq!(kept.take(), [], "the former registry reports nothing");
}

#[test]
fn a_probe_requests_runs_of_checks_that_run_on_demand() {
    let registry = one();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let trigger = RunTrigger::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    registry.run_on_demand([(0, trigger)].into_iter());
    let [ready, live] = [READYZ, LIVEZ].map(|endpoint| registry.cache(route(endpoint)).unwrap());
    for probes in 1..=3 {
        answer(&live, Audience::Other);
        answer(&ready, Audience::Other);
        assert_eq!(requests.load(Ordering::Relaxed), probes);
    }
    assert_eq!([READYZ, LIVEZ, 2].map(|endpoint| registry.triggers_of(endpoint).len()), [1, 0, 0]);
}

/// A check that follows others has no trigger of its own.
#[test]
fn a_probe_requests_runs_of_followed_checks() {
    let mut builder = builder();
    let [db, disk, alias_db, alias_shop, other] =
        ["db", "disk", "alias_db", "alias_shop", "other"].map(|name| builder.check(name, pushed()).unwrap());
    let uses = |name: &str, check| EndpointConfig::new(name).with(check, Severity::Required);
    for config in [
        uses("direct", db),
        uses("check", alias_db),
        uses("endpoint", alias_shop),
        uses("shop", alias_db).with(disk, Severity::Info).with(db, Severity::Info),
        uses("none", other),
    ] {
        builder.endpoint(config, EndpointOptions::default()).unwrap();
    }
    let registry = builder.build();
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let trigger = |at: usize| {
        let counts = Arc::clone(&counts);
        let count = move || {
            counts[at].fetch_add(1, Ordering::Relaxed);
        };
        (at, RunTrigger::new(count))
    };
    registry.run_on_demand([0, 1].map(trigger).into_iter());
    let shop = registry.subject("shop").unwrap();
    // A cycle, which a configuration must not have, ends.
    let followed = [(2, Subject::Check(db)), (3, shop), (4, registry.subject("none").unwrap())];
    registry.follow_subjects(followed.into_iter());
    for (endpoint, expected) in [[1, 0], [1, 0], [1, 1], [1, 1], [0, 0]].into_iter().enumerate() {
        answer(&registry.cache(route(endpoint)).unwrap(), Audience::Other);
        let found = [&counts[0], &counts[1]].map(|count| count.swap(0, Ordering::Relaxed));
        assert_eq!(found, expected, "endpoint {endpoint}");
    }
}

#[test]
fn names_resolve_to_subjects() {
    let mut builder = builder();
    builder.check("all", pushed()).unwrap();
    builder.check("db", CheckConfig::default()).unwrap();
    add_readyz(&mut builder, "all");
    add_readyz(&mut builder, "db");
    let registry = builder.build();
    assert_eq!(registry.subject("all"), Some(Subject::All));
    for (name, resolved) in
        [("db", "db"), ("check:db", "check:db"), ("endpoint:all", "endpoint:all"), ("check:all", "check:all")]
    {
        let subject = registry.subject(name).unwrap();
        assert_eq!(registry.name_of(subject).as_deref(), Some(resolved));
    }
    assert_eq!(registry.subject("cache"), None);
    let Some(Subject::Check(db)) = registry.subject("check:db") else { panic!("a check") };
    assert_eq!((registry.position_of_run(db), registry.position_of_pushed(db)), (Some(1), None));
    assert!(!registry.wait_for_result(db, Time::ZERO, Duration::ZERO));
    registry.found(1, &CheckResult::success(Duration::ZERO), NOW);
    assert!(registry.wait_for_result(db, Time::ZERO, Duration::ZERO));
}

/// An alias of a liveness endpoint that failed during a drain would restart the container.
#[test]
fn a_drain_changes_no_endpoint_that_ignores_it() {
    let registry = one();
    found(&registry, Outcome::Success, "");
    registry.drain(Some(""), NOW);
    let class = |name| registry.state_of(registry.subject(name).unwrap()).unwrap().0;
    assert_eq!((class("livez"), class("readyz")), (Class::Up, Class::Maintenance));
}
