//! States of checks and endpoints, for checks of type `alias`.

use std::sync::Arc;

use doorbell_checks::StateReader;
use doorbell_checks::options::{Followed, cycles};
use doorbell_health::{Board, Class};
use doorbell_probes::{Registry, Subject};

/// The states of a registry.
#[derive(Debug)]
pub struct States(pub Arc<Registry>);

impl StateReader for States {
    fn read(&self, followed: Followed<'_>) -> Option<(Class, String)> {
        self.0.state_of(self.0.with_board(|board| subject_of(board, followed))?)
    }
}

impl States {
    /// Makes probes of each check, given by position, trigger the runs of what it follows.
    pub fn follow<'a>(&self, followed: impl Iterator<Item = (usize, Followed<'a>)>) {
        let subjects: Vec<_> = self.0.with_board(|board| {
            followed.filter_map(|(check, followed)| Some((check, subject_of(board, followed)?))).collect()
        });
        self.0.follow_subjects(subjects.into_iter());
    }
}

fn subject_of(board: &Board, followed: Followed<'_>) -> Option<Subject> {
    match followed {
        Followed::Check(name) => board.check_named(name).map(Subject::Check),
        Followed::Endpoint(name) => board.endpoint_named(name).map(Subject::Endpoint),
    }
}

/// The path of a check that follows itself; `followed` returns what the check at a position
/// follows.
pub(crate) fn find_cycle<'a>(
    board: &Board,
    followed: impl Fn(usize) -> Option<Followed<'a>>,
) -> Option<String> {
    let checks = board.checks().len();
    let node = |followed| match followed {
        Followed::Check(name) => Some(board.check_named(name)?.as_usize()),
        Followed::Endpoint(name) => Some(checks + board.endpoint_named(name)?.as_usize()),
    };
    let next = |at: usize| match at.checked_sub(checks) {
        None => followed(at).and_then(node).into_iter().collect(),
        Some(endpoint) => {
            board.endpoints()[endpoint].config().uses.iter().map(|one| one.check.as_usize()).collect()
        }
    };
    let name = |at: usize| match at.checked_sub(checks) {
        None => {
            board.checks().nth(at).map_or_else(String::new, |(_, name, _)| Followed::Check(name).to_string())
        }
        Some(endpoint) => Followed::Endpoint(&board.endpoints()[endpoint].config().name).to_string(),
    };
    let cycle = cycles(checks + board.endpoints().len(), next).pop()?;
    let names = cycle.iter().chain(cycle.first()).map(|at| name(*at));
    Some(names.collect::<Vec<_>>().join(" -> "))
}
