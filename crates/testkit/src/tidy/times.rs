//! The rule that no test fails because a machine is slow.
//!
//! Does not know about: figures, which `crate::figures` asserts in the long versions of tests.

use super::words::has_word;
use super::{Complaint, Ratchet, Source};

/// Names of variables in which tests store measured times.
const MEASURED: [&str; 8] = ["took", "elapsed", "longest", "slowest", "fastest", "waited", "lasted", "late"];

/// Names of limits for waiting for a condition: reaching such a limit is a failure on any machine.
const WAITS: [&str; 6] = ["limit", "LIMIT", "WAIT", "LONG", "PATIENCE", "patience"];

/// Reports test assertions with an upper bound on a measured time, which fail on a slow machine.
///
/// `ratchet` contains the permitted number of such assertions by file, and may only shrink.
pub fn time_bounds(sources: &[Source], ratchet: Ratchet<'_>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut known: Vec<_> = ratchet.to_vec();
    // Files that use the simulator are exempt, because its time is virtual. Code outside tests
    // asserts no times.
    let in_real_time = |source: &&Source| source.is_rust() && !source.path.contains("/simulator/");
    for source in sources.iter().filter(in_real_time) {
        let lines: Vec<_> = bounds(&source.masked.code);
        let allowed = known.iter().position(|(path, _)| *path == source.path);
        let allowed = allowed.map_or(0, |at| known.swap_remove(at).1);
        if lines.len() < allowed {
            complaints.push(Complaint::new(
                &source.path,
                0,
                format!("{allowed} bounds are listed: shrink the list"),
            ));
        } else if lines.len() > allowed {
            complaints.extend(lines.into_iter().map(|line| {
                Complaint::new(
                    &source.path,
                    line,
                    "an upper bound on real time: await a condition, or `figures::at_most`",
                )
            }));
        }
    }
    complaints
        .extend(known.into_iter().map(|(path, _)| Complaint::new(path, 0, "listed, but has no upper bound")));
    complaints
}

/// The line numbers, from 1, of assertions with an upper bound on a measured time.
fn bounds(code: &str) -> Vec<usize> {
    let starts = code.match_indices("assert!(").map(|(at, _)| at);
    let is_bound = |at: &usize| {
        let statement = code[*at..].split_once(";\n").map_or(&code[*at..], |(statement, _)| statement);
        statement.match_indices(" < ").chain(statement.match_indices(" <= ")).any(|(at, sign)| {
            let (left, right) = (&statement[..at], &statement[at + sign.len()..]);
            let left = left.rsplit(['(', ',', '&', '|']).find(|part| part.trim() != ")").unwrap_or(left);
            MEASURED.iter().any(|name| has_word(left, name))
                && !WAITS.iter().any(|name| right.starts_with(name))
        })
    };
    starts.filter(is_bound).map(|at| code[..at].matches('\n').count() + 1).collect()
}
