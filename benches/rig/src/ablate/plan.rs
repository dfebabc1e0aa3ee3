//! The servers of an ablation, and their distribution to boots.

use super::techniques::{TECHNIQUES, Technique, nothing};
use crate::plan::name_of;
use crate::variant::{Driver, Settings, Variant};

/// Maximum number of servers per boot. The two servers of a comparison are always in the same boot.
const SERVERS_A_BOOT: usize = 12;

/// The state of all other techniques in a comparison of one technique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Set {
    /// All other techniques are switched off.
    Alone,
    /// All other techniques have their defaults.
    Full,
}

/// One comparison.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// The technique to compare.
    pub(super) technique: &'static Technique,
    /// The driver.
    pub(super) driver: Driver,
    /// The state of all other techniques.
    pub(super) set: Set,
    /// Whether the technique is on by default.
    pub(super) is_default: bool,
    /// The server with the technique.
    pub(super) with: Variant,
    /// The server without the technique.
    pub(super) without: Variant,
}

/// Returns every comparison for one driver, of the techniques in `only` or, if `only` is empty, of
/// all.
pub(super) fn pairs(driver: Driver, only: &[String], defaults: &Settings) -> Vec<Pair> {
    let chosen = TECHNIQUES.iter().filter(|technique| {
        technique.is_of(driver, defaults)
            && (only.is_empty() || only.iter().any(|name| name == technique.name))
    });
    chosen
        .flat_map(|technique| [Set::Full, Set::Alone].map(|set| pair(technique, driver, set, defaults)))
        .collect()
}

fn pair(technique: &'static Technique, driver: Driver, set: Set, defaults: &Settings) -> Pair {
    let (whole, word) = match set {
        Set::Alone => (nothing(defaults), "none"),
        Set::Full => (defaults.clone(), "full"),
    };
    let base = whole.with(&technique.context());
    let variant = |settings: Settings| {
        let what = settings.without(&whole);
        let name = format!("{}-{word}", name_of(&driver));
        let name = if what == Settings::default() { name } else { format!("{name} {what}") };
        Variant { name, driver, settings: settings.without(defaults) }
    };
    let is_default = technique.on().hold_in(defaults);
    // In the full set, a technique that is off by default is compared with the defaults, not with
    // its `off` value.
    let without = if set == Set::Full && !is_default { base.clone() } else { base.with(&technique.off()) };
    let with = variant(base.with(&technique.on()));
    Pair { technique, driver, set, is_default, with, without: variant(without) }
}

/// Distributes the comparisons to at least two boots. Each boot also has the server with default
/// settings of each of its drivers, which shows how repeatable a boot is.
pub(super) fn boots(pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let servers_max = SERVERS_A_BOOT.min(variants(pairs).len().div_ceil(2) + 1);
    let mut boots: Vec<Vec<Pair>> = Vec::new();
    for pair in pairs {
        let mut more = boots.last().cloned().unwrap_or_default();
        more.push(pair.clone());
        match boots.last_mut() {
            Some(boot) if variants(&more).len() <= servers_max => *boot = more,
            _ => boots.push(vec![pair.clone()]),
        }
    }
    boots
}

/// Returns every server of these comparisons once, and for each of their drivers the server with
/// default settings, which is the same in every boot.
pub(super) fn variants(pairs: &[Pair]) -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    let full = pairs.iter().map(|pair| full(pair.driver));
    for variant in pairs.iter().flat_map(|pair| [pair.with.clone(), pair.without.clone()]).chain(full) {
        if variants.iter().all(|known| known.name != variant.name) {
            variants.push(variant);
        }
    }
    variants
}

/// The server with default settings.
fn full(driver: Driver) -> Variant {
    Variant { name: format!("{}-full", name_of(&driver)), driver, settings: Settings::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::servers::ServerEnvironment;

    /// Settings with every technique on, so that every key has a value.
    fn all() -> Settings {
        TECHNIQUES.iter().fold(Settings::default(), |settings, technique| settings.with(&technique.on()))
    }

    fn defaults() -> Settings {
        TECHNIQUES
            .iter()
            .filter(|technique| !technique.name.contains("poll") && !technique.name.contains("lazy"))
            .fold(nothing(&all()), |settings, technique| settings.with(&technique.on()))
            .with(&Settings::of(&[("tuning.receive", "\"poll\"")]))
    }

    fn find(name: &str, set: Set) -> Pair {
        let pairs = pairs(Driver::IoUring, &[name.to_owned()], &defaults());
        pairs.into_iter().find(|pair| pair.set == set).unwrap()
    }

    #[test]
    fn the_full_set_differs_by_one_technique() {
        let on = find("deferred task work", Set::Full);
        assert!(on.is_default);
        assert_eq!(on.with.name, "io_uring-full");
        assert_eq!(on.without.name, "io_uring-full defer_taskrun=false");
        assert_eq!(on.without.settings, Settings::of(&[("tuning.defer_taskrun", "false")]));
        let off = find("accept by polling", Set::Full);
        assert!(!off.is_default);
        assert_eq!(off.with.settings, Settings::of(&[("tuning.accept", "\"poll\"")]));
        assert_eq!(off.without.name, "io_uring-full");
    }

    #[test]
    fn alone_everything_else_is_off() {
        let alone = find("registered ring", Set::Alone);
        assert_eq!(alone.without.name, "io_uring-none");
        assert!(nothing(&all()).without(&defaults()).hold_in(&alone.without.settings));
        assert_eq!(alone.with.name, "io_uring-none registered_ring=true");
    }

    #[test]
    fn a_context_is_on_both_sides() {
        for set in [Set::Alone, Set::Full] {
            let pair = find("lazy wake 1ms", set);
            let both = [&pair.with, &pair.without];
            assert!(both.iter().all(|variant| variant.settings.get("tuning.accept") == Some("\"poll\"")));
            assert_ne!(pair.with.settings, pair.without.settings);
        }
    }

    #[test]
    fn epoll_has_only_what_it_can_do() {
        let names: Vec<&str> =
            pairs(Driver::Epoll, &[], &defaults()).iter().map(|pair| pair.technique.name).collect();
        assert!(names.contains(&"deferred accept") && !names.contains(&"multishot accept"), "{names:?}");
    }

    #[test]
    fn boots_hold_all_pairs_whole_and_share_a_server() {
        let pairs = pairs(Driver::IoUring, &[], &defaults());
        let boots = boots(&pairs);
        assert_eq!(boots.iter().map(Vec::len).sum::<usize>(), pairs.len());
        assert!(boots.len() >= 2);
        for boot in &boots {
            let mut files: Vec<String> = variants(boot)
                .iter()
                .map(|one| one.at("p", &ServerEnvironment::GUEST).files.remove(0).0)
                .collect();
            assert!(files.len() <= SERVERS_A_BOOT, "{}", files.len());
            files.sort();
            files.dedup();
            assert_eq!(files.len(), variants(boot).len(), "two servers share a file");
        }
        let with_full = boots.iter().filter(|boot| variants(boot).iter().any(|v| v.name == "io_uring-full"));
        assert_eq!(with_full.count(), boots.len());
    }

    #[test]
    fn even_one_technique_takes_two_boots() {
        let one = pairs(Driver::Epoll, &["deferred accept".to_owned()], &defaults());
        let boots = boots(&one);
        assert_eq!(boots.len(), 2);
        assert!(boots.iter().all(|boot| variants(boot).iter().any(|variant| variant.name == "epoll-full")));
    }
}
