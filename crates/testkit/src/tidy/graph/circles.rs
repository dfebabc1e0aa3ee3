//! Dependency cycles: sets of files that all depend on each other, directly or indirectly.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;

type Neighbours<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Every cycle of two or more files, the largest first, each sorted by path.
pub(in crate::tidy) fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let (mut forth, mut back) = (Neighbours::new(), Neighbours::new());
    for (from, to, _) in graph.edges() {
        forth.entry(&from.path).or_default().insert(&to.path);
        back.entry(&to.path).or_default().insert(&from.path);
    }
    let mut left: BTreeSet<&str> = forth.keys().copied().collect();
    let mut found = Vec::new();
    while let Some(&start) = left.first() {
        let after = reached(&forth, start);
        let mut circle: Vec<&str> = reached(&back, start).intersection(&after).copied().collect();
        circle.sort_unstable();
        left.remove(start);
        left.retain(|file| !circle.contains(file));
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found
}

/// The files reachable from `start`, including itself.
fn reached<'a>(neighbours: &Neighbours<'a>, start: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut queue = vec![start];
    while let Some(file) = queue.pop() {
        if seen.insert(file) {
            queue.extend(neighbours.get(file).into_iter().flatten());
        }
    }
    seen
}
