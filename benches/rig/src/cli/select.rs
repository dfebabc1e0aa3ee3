//! Which rows a command measures.
//!
//! Does not know about: images, guests.

use crate::ablate;
use crate::error::RigError;
use crate::image::servers::{CATALOGUE, Entry};
use crate::image::{self, OurPrograms, programs};
use crate::plan::{Mode, Row, Server};

/// The loads of every server, in the order of the columns of a comparison.
const LOADS: [(Mode, u32); 16] = [
    (Mode::Close, 1),
    (Mode::Close, 8),
    (Mode::Close, 64),
    (Mode::Close, 512),
    (Mode::Free, 1),
    (Mode::Free, 8),
    (Mode::Free, 64),
    (Mode::Free, 512),
    (Mode::Gap, 64),
    (Mode::Keep, 1),
    (Mode::Keep, 64),
    (Mode::KeepFree, 64),
    (Mode::Keep16, 64),
    (Mode::KeepToken, 64),
    (Mode::CloseIdle1k, 64),
    (Mode::CloseIdle50k, 64),
];

/// What `compare` leaves out unless `--only` asks for it.
const NOT_COMPARED: [(Mode, u32); 8] = [
    (Mode::Close, 8),
    (Mode::Free, 1),
    (Mode::Free, 8),
    (Mode::Free, 512),
    (Mode::Keep, 1),
    (Mode::KeepToken, 64),
    (Mode::CloseIdle1k, 64),
    (Mode::CloseIdle50k, 64),
];

/// The rows of `compare` or `rows` that match one of the patterns; without patterns, their usual choice.
pub(super) fn rows(with_peers: bool, patterns: &[String]) -> Result<Vec<Row>, RigError> {
    let all = CATALOGUE.iter().filter(|entry| with_peers || entry.is_ours()).flat_map(rows_of);
    let chosen: Vec<Row> = if patterns.is_empty() {
        all.filter(|row| is_usual(row, with_peers)).collect()
    } else {
        all.filter(|row| patterns.iter().any(|pattern| row.matches(pattern))).collect()
    };
    if chosen.is_empty() { Err(RigError::NoRow { patterns: patterns.to_vec() }) } else { Ok(chosen) }
}

/// The servers of `rows`, each with how the guest starts it, or why it cannot be had on this machine.
pub(super) fn servers(
    rows: &[Row],
    ours: &mut OurPrograms,
) -> Vec<(&'static Entry, Result<Server, RigError>)> {
    let mut available = |entry: &Entry| {
        programs::provide(entry, ours)?;
        Ok(entry.server(&image::program_path(entry)?.to_string_lossy()))
    };
    CATALOGUE
        .iter()
        .filter(|entry| rows.iter().any(|row| row.server == entry.name))
        .map(|entry| (entry, available(entry)))
        .collect()
}

/// Servers and loads for people.
pub(super) fn list() -> String {
    let mut text = "Servers:\n".to_owned();
    for entry in CATALOGUE {
        text.push_str(&format!("  {:22}{}\n", entry.name, entry.about));
    }
    text.push_str("\nLoads of each (mode/in flight):\n");
    for (mode, in_flight) in LOADS {
        text.push_str(&format!("  {mode}/{in_flight}\n"));
    }
    text.push_str("\nTechniques (`ablate --only`):\n");
    for technique in ablate::TECHNIQUES {
        text.push_str(&format!("  {:24}{}\n", technique.name, technique.on()));
    }
    text
}

fn rows_of(entry: &'static Entry) -> impl Iterator<Item = Row> {
    let served = LOADS.into_iter().filter(|&(mode, _)| entry.serves(mode));
    served.map(|(mode, in_flight)| Row { server: entry.name.to_owned(), mode, in_flight })
}

fn is_usual(row: &Row, with_peers: bool) -> bool {
    let on_demand = Entry::named(&row.server).is_some_and(Entry::is_on_demand);
    let not_compared = with_peers && NOT_COMPARED.contains(&(row.mode, row.in_flight));
    !(on_demand || not_compared)
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
            let usual = LOADS.iter().filter(|load| entry.serves(load.0) && !NOT_COMPARED.contains(load));
            let expected = if entry.is_on_demand() { 0 } else { usual.count() };
            assert_eq!(count, expected, "{}", entry.name);
        }
    }

    #[test]
    fn patterns_reach_what_is_not_usual() {
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
    fn nothing_is_an_error_that_says_so() {
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
