//! Commands and findings against what a page then answers.
//!
//! Does not know about: requests.

use super::*;
use crate::config::model::{Details, HealthRoute};
use crate::config::{Source, parse};
use doorbell_health::{Format, Outcome};
use std::sync::atomic::{AtomicUsize, Ordering};

fn config(text: &str) -> Config {
    let source = Source { name: "f".to_owned(), text: format!("version = 1\n{text}") };
    let parsed = parse(&source, &|_| None);
    parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems))
}

const ONE: &str = "[check.app]\ntype = \"ttl\"\nttl = \"1h\"\n\
                   [health.readyz]\nrequire = [\"app\"]\non_drain = { default = 599, kubelet = \"ignore\" }\n";

fn route(config: &Config, name: &str) -> HealthRoute {
    let endpoint = config.health.iter().position(|health| health.name == name).unwrap();
    HealthRoute { details: Details::Always, ..HealthRoute::of(endpoint) }
}

fn with<T>(cache: &ReplyCache, look: impl FnOnce(&CachedReply) -> T) -> T {
    let mut thread_replies = ThreadReplies::take();
    let told = match cache.known(&thread_replies) {
        Some(cached) => look(cached),
        None => look(cache.read(&mut thread_replies)),
    };
    thread_replies.put_back();
    told
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

fn found(registry: &HealthRegistry, outcome: Outcome, reason: &str) -> Duration {
    registry.found(0, &Finding { outcome, latency: Duration::ZERO, reason: reason.to_owned() })
}

#[test]
fn what_is_found_is_answered_at_once() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", true).unwrap();
    let live = registry.cache(&route(&config, "livez"), &[], "GET", false).unwrap();
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
    registry.drain(true);
    assert_eq!(answer(&cache, Audience::Kubelet), (200, "up\napp: up\n".to_owned()));
    assert_eq!(answer(&cache, Audience::LoadBalancer), (599, "drain\napp: up\n".to_owned()));
    let differ = |cache: &ReplyCache| with(cache, |cached| !cached.replies.plain.is_for(true));
    assert!(differ(&cache) && !differ(&live), "livez takes no notice of a drain");
}

#[test]
fn routes_that_answer_the_same_share_a_page() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let ready = route(&config, "readyz");
    let cache = registry.cache(&ready, &[], "GET", false).unwrap();
    assert!(Arc::ptr_eq(&cache, &registry.cache(&ready, &[], "GET", false).unwrap()));
    let with_field = registry.cache(&ready, &[("A".to_owned(), "b".to_owned())], "GET", false).unwrap();
    let with_singles = registry.cache(&ready, &[], "GET", true).unwrap();
    let hidden =
        registry.cache(&HealthRoute { details: Details::Never, ..ready.clone() }, &[], "GET", false).unwrap();
    for other in [&with_field, &with_singles, &hidden] {
        assert!(!Arc::ptr_eq(&cache, other));
    }
    assert_eq!(answer(&hidden, Audience::Other), (503, "down\n".to_owned()));
    assert!(
        registry.cache(&ready, &[("A".to_owned(), "b\n".to_owned())], "GET", false).is_none(),
        "no such field"
    );
}

#[test]
fn a_failed_worker_is_not_ready_and_alive() {
    let config = config("");
    let registry = HealthRegistry::build(&config).unwrap();
    let [ready, live] =
        ["readyz", "livez"].map(|name| registry.cache(&route(&config, name), &[], "GET", false).unwrap());
    assert_eq!(answer(&ready, Audience::Other), (200, "up\n".to_owned()));
    registry.fail("a worker failed");
    assert_eq!(answer(&ready, Audience::Kubelet), (503, "down\nreason: a worker failed\n".to_owned()));
    assert_eq!(answer(&live, Audience::Kubelet), (200, "up\n".to_owned()));
}

#[test]
fn followers_hear_of_news_only() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let position = config.health.iter().position(|health| health.name == "readyz").unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let (count, serves) = (Arc::clone(&heard), Arc::new(AtomicUsize::new(9)));
    let last = Arc::clone(&serves);
    registry.follow(move |serving| {
        count.fetch_add(1, Ordering::Relaxed);
        last.store(usize::from(serving.told(position, Audience::Other).1), Ordering::Relaxed);
    });
    let now = || (heard.load(Ordering::Relaxed), serves.load(Ordering::Relaxed));
    assert_eq!(now(), (1, 0));
    found(&registry, Outcome::Success, "");
    assert_eq!(now(), (2, 1));
    found(&registry, Outcome::Success, "");
    registry.tick();
    assert_eq!(now(), (2, 1));
    registry.drain(true);
    assert_eq!(now(), (3, 0));
}

/// A check that never was up is looked at fast; one that was and is down, slowly.
#[test]
fn what_is_awaited_is_asked_often() {
    let config = config("[check.app]\ntype = \"tcp\"\naddress = \"a:1\"\nfall = 1\n");
    let registry = HealthRegistry::build(&config).unwrap();
    let (fast, usual, slow) = (Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(10));
    assert_eq!(found(&registry, Outcome::Failure, ""), fast);
    assert_eq!(found(&registry, Outcome::Failure, ""), fast);
    assert_eq!(found(&registry, Outcome::Success, ""), fast);
    assert_eq!(found(&registry, Outcome::Success, ""), usual);
    assert_eq!(found(&registry, Outcome::Failure, ""), slow);
}

const WARNS: &str = "[check.db]\ntype = \"ttl\"\nttl = \"1h\"\nfall = 1\nrise = 1\n\
                     [health.readyz]\ndegrading = [\"db\"]\ndegraded_via = \"kube-warning\"\n\
                     status = { degraded = 203 }\non_drain = { kubelet = \"ignore\" }\n";

#[test]
fn a_kubelet_is_warned_of_degraded_and_all_others_read_the_status() {
    let config = config(WARNS);
    let registry = HealthRegistry::build(&config).unwrap();
    let ready = route(&config, "readyz");
    let cache = registry.cache(&ready, &[("Location".to_owned(), "/here".to_owned())], "GET", false).unwrap();
    let page_of =
        |details| registry.cache(&HealthRoute { details, ..ready.clone() }, &[], "GET", false).unwrap();
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
    // Anybody can say that he is a kubelet: reasons are for whoever sees details.
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
    // To a kubelet that is told nothing of a drain, it is degraded as before.
    registry.drain(true);
    assert_eq!((answer(&cache, Audience::Kubelet), answer(&cache, Audience::Other).0), (warned, 503));
    registry.drain(false);
    found(&registry, Outcome::Success, "");
    assert_eq!(answer(&cache, Audience::Kubelet), (200, "up\ndb: up\n".to_owned()));
    with(&cache, |cached| assert!(cached.replies.plain.is_for(true), "all are told the same again"));
}

#[test]
fn a_warning_keeps_within_the_body() {
    let mut text = String::new();
    let names: Vec<String> = (0..40).map(|number| format!("\"check-{number}\"")).collect();
    for name in &names {
        text.push_str(&format!("[check.{name}]\ntype = \"ttl\"\nttl = \"1h\"\nfall = 1\n"));
    }
    let names = names.join(", ");
    text.push_str(&format!(
        "[health.readyz]\ndegrading = [{names}]\ndegraded_via = \"kube-warning\"\nmax_body = \"256B\"\n"
    ));
    let config = config(&text);
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", false).unwrap();
    for check in 0..40 {
        let reason = "connection refused".to_owned();
        registry.found(check, &Finding { outcome: Outcome::Failure, latency: Duration::ZERO, reason });
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

/// While one thread changes the state all the time, what others read is always one of the states, and after the last change the last one.
#[test]
fn no_reply_is_torn_and_none_stays_old() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", true).unwrap();
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
            assert_eq!(answer(&cache, Audience::Other).0, code, "seen by the next who asks");
        }
        goes_on.store(0, Ordering::Relaxed);
    });
    assert!(reads.into_inner() > 0);
}

/// Once any probe, by whatever protocol, was told of a change, every later one is. The steps of a publication are looked at one by one, with
/// a thread that knows the replies of before and one that does not.
#[test]
fn all_probes_are_told_of_a_change_at_once() {
    let config = config(
        "[check.app]\ntype = \"ttl\"\nttl = \"1h\"\nfall = 1\nrise = 1\n\
         [health.readyz]\nrequire = [\"app\"]\n[health.other]\nrequire = [\"app\"]\n",
    );
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", true).unwrap();
    let plain = registry.cache(&route(&config, "readyz"), &[], "GET", false).unwrap();
    let other = registry.cache(&route(&config, "other"), &[], "GET", true).unwrap();
    let position = config.health.iter().position(|health| health.name == "readyz").unwrap();
    let texts = registry.render(|serving, at| vec![u8::from(serving.told(at, Audience::LoadBalancer).1)]);
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
        Box::new(move || by_word.load().told(position)[Audience::LoadBalancer as usize].1),
        Box::new(move || by_text.load().text(texts, position) == [1]),
    ];
    // Which probe is the first, what the change leads to, whether any probe was told of it, and the steps.
    let given = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
    let [first, target, is_told, steps] = given.clone();
    // Each probe is once the first, and no probe behind one that was told of the change is told of the time before.
    let look = move || {
        steps.fetch_add(1, Ordering::Relaxed);
        let first = first.load(Ordering::Relaxed);
        for probe in (0..probes.len()).map(|at| (first + at) % probes.len()) {
            let is_new = usize::from(probes[probe]()) == target.load(Ordering::Relaxed);
            let was_told = is_told.fetch_or(usize::from(is_new), Ordering::Relaxed) == 1;
            assert!(is_new || !was_told, "probe {probe} behind {first} is told of the time before");
        }
    };
    *published.pause.0.lock().unwrap() = Some(Box::new(look));
    let [first, target, is_told, steps] = given;
    for at in 0..14 {
        first.store(at / 2, Ordering::Relaxed);
        target.store(1 - at % 2, Ordering::Relaxed);
        is_told.store(0, Ordering::Relaxed);
        found(&registry, if at % 2 == 0 { Outcome::Success } else { Outcome::Failure }, "");
        assert_eq!((is_told.load(Ordering::Relaxed), steps.load(Ordering::Relaxed)), (1, 2 * (at + 1)));
    }
}

/// No probe is told of one endpoint's maintenance and not yet of another's.
#[test]
fn maintenance_of_several_is_published_once() {
    let config = config("[health.readyz]\n[health.other]\n[health.third]\n");
    let registry = HealthRegistry::build(&config).unwrap();
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    *registry.published().pause.0.lock().unwrap() = Some(Box::new(count));
    assert_eq!(registry.readiness().count(), 3);
    for wanted in [Some(("disks", None)), None] {
        steps.store(0, Ordering::Relaxed);
        registry.maintain(registry.readiness().map(|subject| (subject, wanted)));
        assert_eq!(steps.load(Ordering::Relaxed), 2, "a set, and its number");
        let set = registry.published().load();
        let told: Vec<_> = (0..config.health.len()).map(|at| set.told(at)[0].0).collect();
        let cached = told.iter().filter(|state| **state == EndpointState::Maintenance).count();
        assert_eq!(cached, if wanted.is_some() { 3 } else { 0 }, "{told:?}");
    }
}

/// Pages of different boards have the same places, and must not be taken for each other.
#[test]
fn pages_of_two_boards_keep_apart() {
    let config = config(ONE);
    let registries = [(); 2].map(|()| HealthRegistry::build(&config).unwrap());
    let caches: Vec<_> = registries
        .iter()
        .map(|registry| registry.cache(&route(&config, "readyz"), &[], "GET", false).unwrap())
        .collect();
    found(&registries[0], Outcome::Success, "");
    for _ in 0..3 {
        assert_eq!([0, 1].map(|at| answer(&caches[at], Audience::Other).0), [200, 503]);
    }
}

/// Each reload has threads of its own.
#[test]
fn a_thread_that_ends_gives_back_what_it_read() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", false).unwrap();
    let replies = std::thread::scope(|scope| {
        let cache = &cache;
        let looks = move || with(cache, |cached| Arc::downgrade(&cached.replies));
        scope.spawn(move || drop((looks(), looks()))).join().unwrap();
        scope.spawn(looks).join().unwrap()
    });
    found(&registry, Outcome::Success, "");
    assert!(replies.upgrade().is_none(), "replies of a former state are kept by a thread that is gone");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that is stopped by others is imitated")]
fn a_clock_that_is_set_is_followed() {
    let config = config(ONE);
    let registry = HealthRegistry::build(&config).unwrap();
    let cache = registry.cache(&route(&config, "readyz"), &[], "GET", false).unwrap();
    let shows = |day: &str| {
        with(&cache, |cached| {
            let reply = cached.replies.reply(Audience::Other, Format::HealthJson, true).unwrap();
            String::from_utf8_lossy(reply.content()).contains(day)
        })
    };
    found(&registry, Outcome::Success, "");
    let today = registry.lock().unix;
    let noon = Duration::from_secs(47_482 * 86_400 + 43_200);
    assert!(!shows("2100-01-01T"));
    registry.look_at_clock(|| noon);
    assert!(shows("2100-01-01T"), "without a new result");
    registry.look_at_clock(|| noon + Duration::from_millis(900));
    assert!(registry.lock().unix < noon + Duration::from_millis(500), "that is no step");
    let told = registry.lock().unix;
    registry.look_at_clock(|| {
        std::thread::sleep(CLOCK_STEP_MIN + Duration::from_millis(200));
        noon
    });
    assert_eq!(registry.lock().unix, told, "a thread was stopped between two clocks");
    registry.tick();
    assert!(!shows("2100-01-01T") && registry.lock().unix.abs_diff(today) < CLOCK_STEP_MIN, "a tick looks");
}
