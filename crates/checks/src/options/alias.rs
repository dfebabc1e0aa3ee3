//! Options of checks that follow another check or endpoint.

use super::address::{Address, ClientTls, Resolve, Url};
use super::http;
use super::target::{remote_of, target};
use doorbell_config::{Problem, Secret, Section, Table};
use std::fmt;

/// The state of another check or endpoint, of this doorbell or of another one.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct AliasCheck {
    /// Check of this doorbell to follow. With `check` or `health`, the defaults of `interval`,
    /// `rise` and `fall` are 1s, 1 and 1, and that of `down_interval` is `interval`. Required
    /// without `health` and `url`.
    pub check: Option<String>,
    /// Endpoint of this doorbell to follow. It must not contain this check, not even indirectly.
    /// Required without `check` and `url`.
    pub health: Option<String>,
    /// URL of an endpoint or check of another doorbell, such as "http://192.0.2.1:8080/readyz/db".
    /// The route of that doorbell must show details (`details`) to tell maintenance from down, and
    /// to pass on reasons. Required without `check` and `health`.
    pub url: Option<Url>,
    /// Address to connect to instead of the host of `url`.
    pub address: Option<Address>,
    /// Sent as `Authorization: Bearer`, to the scheme, host and port of `url` only; preferably
    /// ${file:PATH}.
    pub bearer: Option<Secret>,
    /// TLS of an https URL.
    pub tls: ClientTls,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

/// A check or an endpoint of the same program, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed<'a> {
    /// A check.
    Check(&'a str),
    /// An endpoint.
    Endpoint(&'a str),
}

impl fmt::Display for Followed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(name) => write!(f, "check `{name}`"),
            Self::Endpoint(name) => write!(f, "endpoint `{name}`"),
        }
    }
}

target!(check: AliasCheck, remote_of(check.address.as_ref(), check.url.as_ref()?), check.url.is_some().then_some(&check.tls));

impl AliasCheck {
    /// Follows a check or an endpoint of this program.
    #[must_use]
    pub fn of(followed: Followed<'_>) -> Self {
        let owned = |name: &str| Some(name.to_owned());
        match followed {
            Followed::Check(name) => Self { check: owned(name), ..Self::default() },
            Followed::Endpoint(name) => Self { health: owned(name), ..Self::default() },
        }
    }

    /// Follows an endpoint or a check of another doorbell.
    #[must_use]
    pub fn at(url: Url) -> Self {
        Self { url: Some(url), ..Self::default() }
    }

    /// The check or endpoint of this program that is followed, if any.
    #[must_use]
    pub fn followed(&self) -> Option<Followed<'_>> {
        let endpoint = || self.health.as_deref().map(Followed::Endpoint);
        self.check.as_deref().map(Followed::Check).or_else(endpoint)
    }

    fn check(&self, at: &Section<'_>) {
        let targets: Vec<_> =
            ["check", "health", "url"].into_iter().filter_map(|key| at.place(key)).collect();
        match &targets[..] {
            [] => {
                let message = format!("check `{}` has neither `check` nor `health` nor `url`", at.name);
                let problem = Problem::error("missing-key", at.span.clone(), message);
                at.problem(problem.help("add one of them, as in `health = \"readyz\"`"));
            }
            [_] => {}
            [first, others @ ..] => others.iter().for_each(|other| {
                let problem = Problem::error("contradiction", other.clone(), "a check follows one state");
                at.problem(problem.also(first.clone(), "the other state").help("remove one of them"));
            }),
        }
        let (useless, url): (&[_], _) = match &self.url {
            None if at.place("url").is_none() => (&["address", "bearer", "resolve", "tls"], "`url`"),
            Some(url) if !url.is_https => (&["tls"], "an https `url`"),
            _ => (&[], ""),
        };
        for (key, place) in useless.iter().filter_map(|key| Some((key, at.place(key)?))) {
            let message = format!("`{key}` has no effect without {url}");
            at.problem(Problem::warning("no-effect", place, message).help("remove it"));
        }
        http::check_token(self.bearer.as_ref(), at);
    }
}

/// Cycles of a graph whose nodes are numbered from 0; at least one if there are any, but not
/// necessarily all. `next` returns the nodes to which a node leads. A cycle may begin at any of its
/// nodes.
#[must_use]
pub fn cycles(nodes: usize, next: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let (mut is_seen, mut is_on_path) = (vec![false; nodes], vec![false; nodes]);
    for start in 0..nodes {
        // The nodes of the path, each with its next nodes that are not examined yet. No recursion,
        // because a path may have thousands of nodes.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut step = Some(start).filter(|start| !is_seen[*start]);
        loop {
            if let Some(node) = step {
                (is_seen[node], is_on_path[node]) = (true, true);
                path.push((node, next(node)));
            }
            let Some((last, rest)) = path.last_mut() else { break };
            step = rest.pop();
            match step {
                None => {
                    is_on_path[*last] = false;
                    path.pop();
                }
                Some(node) if is_on_path[node] => {
                    let cycle = path.iter().map(|(node, _)| *node).skip_while(|on_path| *on_path != node);
                    found.push(cycle.collect());
                    step = None;
                }
                Some(node) => step = step.filter(|_| !is_seen[node]),
            }
        }
    }
    found
}
