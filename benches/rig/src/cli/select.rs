//! Selects the rows to measure.

use crate::ablate;
use crate::error::RigError;
use crate::image::servers::{CATALOGUE, Entry};
use crate::plan::{self, Load, Mode, Row};

/// The loads for every server in the order of measurement, with whether `compare` includes the load
/// by default.
const LOADS: [(Load, bool); 16] = [
    (Load::new(Mode::Close, 1), true),
    (Load::new(Mode::Close, 8), false),
    (Load::new(Mode::Close, 64), true),
    (Load::new(Mode::Close, 512), true),
    (Load::new(Mode::Free, 1), false),
    (Load::new(Mode::Free, 8), false),
    (Load::new(Mode::Free, 64), true),
    (Load::new(Mode::Free, 512), false),
    (Load::new(Mode::Gap, 64), true),
    (Load::new(Mode::Keep, 1), false),
    (Load::new(Mode::Keep, 64), true),
    (Load::new(Mode::KeepFree, 64), true),
    (Load::new(Mode::Keep16, 64), true),
    (Load::new(Mode::KeepToken, 64), false),
    (Load::new(Mode::CloseIdle1k, 64), false),
    (Load::new(Mode::CloseIdle50k, 64), false),
];

/// Returns the rows of `compare` or `rows` that match a pattern. Without patterns, the default
/// rows.
pub(super) fn rows(with_peers: bool, patterns: &[String]) -> Result<Vec<Row>, RigError> {
    let entries = CATALOGUE.iter().filter(|entry| with_peers || entry.is_ours());
    let all = entries.flat_map(|entry| {
        let served = LOADS.into_iter().filter(|(load, _)| entry.serves(load.mode));
        served.map(move |(load, is_compared)| (entry, load, is_compared))
    });
    let row = |&(entry, load, _): &(&Entry, Load, bool)| Row { server: entry.name.to_owned(), load };
    let is_usual = |&(entry, _, is_compared): &(&Entry, Load, bool)| {
        !entry.is_on_demand() && (!with_peers || is_compared)
    };
    let chosen = plan::select(all, patterns, |one| row(one).id(), is_usual)?;
    Ok(chosen.iter().map(row).collect())
}

/// Formats the lists of servers, loads and techniques.
pub(super) fn list() -> String {
    let mut text = "Servers:\n".to_owned();
    for entry in CATALOGUE {
        text.push_str(&format!("  {:22}{}\n", entry.name, entry.about));
    }
    text.push_str("\nLoads of each (mode/in flight):\n");
    for (load, _) in LOADS {
        text.push_str(&format!("  {load}\n"));
    }
    text.push_str("\nTechniques (`ablate --only`):\n");
    for technique in ablate::TECHNIQUES {
        text.push_str(&format!("  {:24}{}\n", technique.name, technique.on()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(with_peers: bool, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        rows(with_peers, &patterns).unwrap().iter().map(Row::id).collect()
    }

    #[test]
    fn rows_are_ours_and_compare_has_peers() {
        assert_eq!(ids(false, &[]).len(), 2 * LOADS.len());
        let compared = ids(true, &[]);
        assert!(compared.iter().any(|id| id.starts_with("nginx-plain/")));
        for entry in CATALOGUE {
            let count = compared.iter().filter(|id| id.starts_with(&format!("{}/", entry.name))).count();
            let usual = LOADS.iter().filter(|(load, is_compared)| entry.serves(load.mode) && *is_compared);
            let expected = if entry.is_on_demand() { 0 } else { usual.count() };
            assert_eq!(count, expected, "{}", entry.name);
        }
    }

    #[test]
    fn patterns_select_rows_outside_the_default() {
        assert_eq!(ids(false, &["doorbell-uring-plain/free/1"]), ["doorbell-uring-plain/free/1"]);
        assert_eq!(
            ids(true, &["nginx/close/64", "haproxy/close/64"]),
            ["nginx/close/64", "haproxy/close/64"]
        );
        assert_eq!(ids(false, &["gap/64"]).len(), 10);
        assert_eq!(
            ids(true, &["doorbell-epoll-2w/close/64", "nginx/close-idle1k"]),
            ["doorbell-epoll-2w/close/64"]
        );
    }

    #[test]
    fn patterns_that_match_no_row_are_an_error() {
        let error = rows(false, &["nginx".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("nginx"), "{error}");
    }

    #[test]
    fn the_list_names_all() {
        let list = list();
        assert!(CATALOGUE.iter().all(|entry| list.contains(entry.name)));
        assert!(list.contains("keep-16/64"));
    }
}
