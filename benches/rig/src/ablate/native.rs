//! CPU time of each technique on this machine. A server with the technique and a server without it
//! alternate, as in `native`; both have the defaults of all other techniques.

use super::Question;
use super::plan::{self, Pair, Set};
use crate::error::RigError;
use crate::image::OurPrograms;
use crate::native::{self, CPU, Contest, Report, Rules, Shape};
use crate::plan::{Load, Mode, name_of};
use crate::variant::{self, Driver, Settings, Variant};

const SHAPE: Shape = Shape {
    about: "CPU time of the server per request; * on by default, the others are added to the defaults",
    heads: ["technique", "driver", "load"],
    sides: ["with", "without"],
    figures: &[CPU],
    note: "",
};

/// Compares the requested techniques under each load.
pub(crate) fn run(
    question: &Question,
    requests: u64,
    rules: &Rules,
    ours: impl FnOnce() -> Result<OurPrograms, RigError>,
) -> Result<Report, RigError> {
    let loads = question.loads_or(&[Mode::Close, Mode::Keep]);
    if let Some(load) = loads.iter().find(|load| !native::is_native(**load)) {
        return Err(RigError::NotNative { load: load.to_string() });
    }
    let ours = ours()?;
    let pairs = pairs(&question.driver, &question.only, &variant::defaults(&ours.doorbell)?);
    native::variants(&contests(&pairs, &loads), SHAPE, requests, rules, &ours)
}

/// The comparisons of every selected technique in which all other techniques have their defaults.
fn pairs(drivers: &[Driver], only: &[String], defaults: &Settings) -> Vec<Pair> {
    let pairs = drivers.iter().flat_map(|&driver| plan::pairs(driver, only, defaults));
    pairs.filter(|pair| pair.set == Set::Full).collect()
}

fn contests<'a>(pairs: &'a [Pair], loads: &[Load]) -> Vec<Contest<(&'a Variant, Load)>> {
    let contest = |pair: &'a Pair, load: Load| {
        let star = if pair.is_default { " *" } else { "" };
        let technique = format!("{}{star}", pair.technique.name);
        let names = [technique, name_of(&pair.driver), load.to_string()];
        Contest { names, ours: (&pair.with, load), peer: (&pair.without, load), at_most: None }
    };
    pairs.iter().flat_map(|pair| loads.iter().map(move |&load| contest(pair, load))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(names: &[&str]) -> Vec<Load> {
        names.iter().map(|load| load.parse().unwrap()).collect()
    }

    #[test]
    fn each_technique_of_each_driver_is_compared_once_a_load_in_the_full_set() {
        let keys = ["tuning.send_more", "tuning.registered_ring", "tcp.quickack"];
        let pairs =
            pairs(&[Driver::IoUring, Driver::Epoll], &[], &Settings::of(&keys.map(|key| (key, "true"))));
        let all = contests(&pairs, &loads(&["close/64", "keep/64"]));
        let ids: Vec<String> = all.iter().map(Contest::id).collect();
        assert_eq!(ids.len(), (3 + 2) * 2, "{ids:?}");
        assert!(ids.contains(&"registered ring */io_uring/keep/64".to_owned()), "{ids:?}");
        assert!(ids.contains(&"quick-ack off/epoll/close/64".to_owned()), "{ids:?}");
        assert!(!ids.iter().any(|id| id.starts_with("registered ring */epoll")), "{ids:?}");
        for Contest { ours: (with, _), peer: (without, _), .. } in &all {
            assert!(with.settings == Settings::default() || without.settings == Settings::default());
        }
    }

    #[test]
    fn a_load_that_only_a_guest_has_is_refused_before_anything_runs() {
        let rules = Rules { pairs: 3, server_core: 0, client_core: 1 };
        let never = || panic!("nothing is built");
        let question = Question {
            kernel: Vec::new(),
            driver: vec![Driver::Epoll],
            only: Vec::new(),
            loads: loads(&["free/64"]),
            repeat: 1,
            cpu: String::new(),
        };
        let error = run(&question, 100, &rules, never).unwrap_err();
        assert!(error.to_string().contains("free/64"), "{error}");
    }
}
