//! Selects the route of a request by host, path and method, without an allocation.
//!
//! Entry points: [`Router::builder`], [`Router::find`].
//!
//! A path is matched segment by segment; static text has priority over `{name}`, and `{name}` over
//! `{*name}`. The method does not affect which path is found: a path with routes for other methods
//! hides less specific paths, and the result is [`Lookup::MethodNotAllowed`]. If several routes have
//! the same path and the method, the priority is: a route that names the host,
//! the route with the longest matching `*.` name, a route for any host. A route for any host
//! therefore keeps its exact path even if another route matches all paths of one host.
//! `*.example.com` matches every name below `example.com` at any depth, but not `example.com`
//! itself. The tree is implemented here because matchit, the usual library, allocates a list for
//! backtracking and refuses `{name}` together with `{*name}`. Decision 0032
//! (`deploy/book/src/decisions/0032.md`) compares their performance.
#![expect(clippy::indexing_slicing, reason = "route and table numbers are indices of existing elements")]

mod error;
pub mod host;
mod map;
mod methods;
mod table;
#[cfg(test)]
mod tests;

pub use error::{Conflict, RouteError, RouteErrors};
pub use methods::MethodSet;

pub use crate::pattern::{PARAMS_MAX, Params, PatternError, SEGMENTS_MAX, param_names};
use crate::pattern::{Pattern, Segment};
use crate::{Method, Request};
pub(crate) use map::{ByteMap, hash};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use table::{Leaf, NONE, Table};

/// The definition of a route: the requests it matches, and a value that represents its action.
#[derive(Clone, Debug)]
pub struct Route<T> {
    /// The name in error messages.
    pub name: String,
    /// Hosts without port, or `*.example.com` for all names below `example.com`. Empty means any
    /// host.
    pub hosts: Vec<String>,
    /// The path: `/static`, `/a/{name}` or `/a/{*rest}`, which also matches `/a/`.
    pub path: String,
    /// Methods of the route. GET includes HEAD unless another route of the same path has HEAD.
    pub methods: MethodSet,
    /// Returned by [`Router::find`].
    pub value: T,
}

/// Builder of a [`Router`].
#[derive(Clone, Debug)]
pub struct RouterBuilder<T> {
    routes: Vec<Route<T>>,
}

/// An immutable set of routes for look-ups.
#[derive(Clone, Debug)]
pub struct Router<T> {
    values: Vec<Built<T>>,
    /// The routes for hosts without a table of their own.
    any: Table,
    /// One table for each distinct set of routes of named hosts. `hosts` maps a host to the index
    /// of its table, and `wildcards` maps a name after `*.` to its index.
    tables: Vec<Table>,
    hosts: ByteMap<true>,
    wildcards: ByteMap<true>,
    /// Whether any route names a host.
    by_host: bool,
    has_plain: HasPlain,
    /// The paths of all routes that name a host, to distinguish a wrong host from a wrong path.
    listed: Option<Table>,
    allow_all: Box<str>,
}

/// Whether [`Router::find_plain`] is enabled.
#[derive(Debug)]
struct HasPlain(AtomicBool);

impl Clone for HasPlain {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Acquire)))
    }
}

#[derive(Clone, Debug)]
struct Built<T> {
    value: T,
    pattern: Pattern,
}

impl<T> Built<T> {
    #[inline(always)]
    fn matched<'r, 'p>(&'r self, path: &'p [u8]) -> Match<'r, 'p, T> {
        Match { value: &self.value, params: Params::of(&self.pattern, path) }
    }
}

/// The result of a look-up.
#[derive(Clone, Debug)]
pub enum Lookup<'r, 'p, T> {
    /// A route matches the request.
    Found(Match<'r, 'p, T>),
    /// The path exists, but not for this method: 405 with the following `Allow`.
    MethodNotAllowed {
        /// The value of `Allow`.
        allow: &'r str,
    },
    /// The path exists, but only on other hosts: 421 (RFC 9110 section 15.5.20).
    Misdirected,
    /// No route has this path: 404.
    NotFound,
    /// OPTIONS for a path whose routes do not handle it: 204 with the following `Allow`.
    Options {
        /// The value of `Allow`.
        allow: &'r str,
    },
}

/// A route and the parameters of the path.
#[derive(Clone, Debug)]
pub struct Match<'r, 'p, T> {
    /// The value of the route.
    pub value: &'r T,
    /// The parameters, undecoded as in the path.
    pub params: Params<'r, 'p>,
}

/// A route found by [`Router::find_plain`].
///
/// It contains only a reference to the route. Data that a reply may need is looked up on demand.
#[derive(Debug)]
pub struct Plain<'r, T>(&'r Built<T>);

impl<T> Router<T> {
    /// Creates a builder.
    #[must_use]
    pub const fn builder() -> RouterBuilder<T> {
        RouterBuilder { routes: Vec::new() }
    }

    /// Finds the route of a request. Inputs that do not affect the result are not read.
    #[inline(always)]
    pub fn find_for<'r, 'p>(&'r self, request: &Request<'p>) -> Lookup<'r, 'p, T> {
        let host = if self.by_host { request.host_bytes() } else { None };
        self.find(host, request.method(), request.path_bytes())
    }

    /// Finds the route of a request if no route names a host and the path has no parameters, as
    /// for most probes. Costs half as much as [`Router::find_for`]. After `None`, call
    /// [`Router::find_for`].
    #[inline(always)]
    pub fn find_plain(&self, request: &Request<'_>) -> Option<Plain<'_, T>> {
        if !self.has_plain.0.load(Ordering::Acquire) {
            return None;
        }
        let leaf = self.any.find_static(request.path_bytes())?;
        // A missing route has the number `NONE`, which is not an index of `values`.
        self.values.get(leaf.routes[MethodSet::position(request.method())] as usize).map(Plain)
    }

    /// Makes [`Self::find_plain`] return `None` from now on. A service can thus make every request
    /// use the complete look-up, without another check in the fast path. Writes before this call
    /// are visible to a thread for which the fast path fails.
    pub fn forgo_plain(&self) {
        self.has_plain.0.store(false, Ordering::Release);
    }

    /// Finds the route of a request. `host` is the `Host` field or the authority, with or without a
    /// port. `path` ends before the `?`; for `OPTIONS *` it is `*`.
    #[inline(always)]
    pub fn find<'r, 'p>(&'r self, host: Option<&[u8]>, method: Method, path: &'p [u8]) -> Lookup<'r, 'p, T> {
        let table = self.table(host);
        match table.find_static(path) {
            Some(leaf) => self.on_leaf(leaf, method, path),
            None => self.find_dynamic(table, method, path),
        }
    }

    #[inline(always)]
    fn on_leaf<'r, 'p>(&'r self, leaf: &'r Leaf, method: Method, path: &'p [u8]) -> Lookup<'r, 'p, T> {
        let route = leaf.routes[MethodSet::position(method)];
        if route == NONE {
            return refuse(leaf, method);
        }
        Lookup::Found(self.values[route as usize].matched(path))
    }

    #[inline(never)]
    fn find_dynamic<'r, 'p>(&'r self, table: &'r Table, method: Method, path: &'p [u8]) -> Lookup<'r, 'p, T> {
        match table.find_dynamic(path) {
            Some(leaf) => self.on_leaf(leaf, method, path),
            None => self.miss(table, method, path),
        }
    }

    /// The values of all routes, in the order in which they were added.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(|built| &built.value)
    }

    #[inline(always)]
    fn table(&self, host: Option<&[u8]>) -> &Table {
        match host {
            Some(host) if self.by_host => self.table_of(host),
            _ => &self.any,
        }
    }

    #[inline(never)]
    fn table_of(&self, host: &[u8]) -> &Table {
        let place = if host.first() == Some(&b'[') {
            host::find_literal(&self.hosts, host)
        } else {
            let name = host::without_port(host);
            self.hosts.find(name).or_else(|| {
                if self.wildcards.is_empty() {
                    return None;
                }
                host::suffixes(name).find_map(|suffix| self.wildcards.find(suffix))
            })
        };
        place.map_or(&self.any, |place| &self.tables[place as usize])
    }

    #[cold]
    fn miss(&self, table: &Table, method: Method, path: &[u8]) -> Lookup<'_, 'static, T> {
        if method == Method::Options && path == b"*" {
            return Lookup::Options { allow: &self.allow_all };
        }
        // The table of a listed host contains all routes for that host, so this path has none.
        let unlisted = std::ptr::eq(table, &raw const self.any);
        match &self.listed {
            Some(listed) if unlisted && listed.has(path) => Lookup::Misdirected,
            _ => Lookup::NotFound,
        }
    }
}

#[cold]
fn refuse<T>(leaf: &Leaf, method: Method) -> Lookup<'_, 'static, T> {
    match method {
        Method::Options => Lookup::Options { allow: &leaf.allow },
        _ => Lookup::MethodNotAllowed { allow: &leaf.allow },
    }
}

impl<T> RouterBuilder<T> {
    /// Adds a route.
    #[must_use]
    pub fn route(mut self, route: Route<T>) -> Self {
        self.add(route);
        self
    }

    /// Adds a route.
    pub fn add(&mut self, route: Route<T>) {
        self.routes.push(route);
    }

    /// Builds the router.
    ///
    /// # Errors
    /// All invalid routes and all conflicts between routes, not only the first.
    pub fn build(self) -> Result<Router<T>, RouteErrors> {
        self.build_without(|_, _| None)
    }

    /// Same as [`Self::build`]. `missing` returns a parameter of the path that a value needs and
    /// that is not one of the parameters of its route.
    pub(crate) fn build_without(
        self,
        missing: impl Fn(&T, &[&str]) -> Option<String>,
    ) -> Result<Router<T>, RouteErrors> {
        let mut errors = Vec::new();
        for Route { name: route, path, value, .. } in &self.routes {
            // An invalid path is reported below.
            let Ok(known) = param_names(path) else { continue };
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            if let Some(name) = missing(value, &names) {
                errors.push(RouteError::UnknownParam { route: route.clone(), name, known });
            }
        }
        let drafts: Vec<_> = self.routes.iter().map(|route| Draft::of(route, &mut errors)).collect();
        find_conflicts(&self.routes, &drafts, &mut errors);
        if !errors.is_empty() {
            return Err(RouteErrors::new(errors));
        }
        let drafts: Vec<Draft> = drafts.into_iter().flatten().collect();
        let HostTables { any, tables, hosts, wildcards } = HostTables::build(&drafts);
        let listed = drafts.iter().any(|draft| !draft.hosts.is_empty());
        let listed = listed.then(|| {
            Table::build(drafts.iter().filter(|draft| !draft.hosts.is_empty()).map(|draft| draft.row(0)))
        });
        let allowed = tables.iter().fold(any.allowed(), |set, table| set.union(table.allowed()));
        let values = self.routes.into_iter().zip(drafts);
        let values = values.map(|(route, draft)| Built { value: route.value, pattern: draft.pattern });
        Ok(Router {
            values: values.collect(),
            any,
            tables,
            hosts,
            wildcards,
            by_host: listed.is_some(),
            has_plain: HasPlain(AtomicBool::new(listed.is_none())),
            listed,
            allow_all: allowed.with(Method::Options).to_string().into(),
        })
    }
}

impl<T> Default for RouterBuilder<T> {
    fn default() -> Self {
        Router::builder()
    }
}

/// A validated route.
struct Draft {
    hosts: Vec<String>,
    pattern: Pattern,
    methods: MethodSet,
}

impl Draft {
    fn of<T>(route: &Route<T>, errors: &mut Vec<RouteError>) -> Option<Self> {
        let errors_len = errors.len();
        let mut hosts = Vec::new();
        for host in &route.hosts {
            match host::canonical_pattern(host) {
                Some(host) => hosts.push(host),
                None => errors.push(RouteError::BadHost { route: route.name.clone(), host: host.clone() }),
            }
        }
        hosts.sort();
        hosts.dedup();
        if route.methods.is_empty() {
            errors.push(RouteError::NoMethods { route: route.name.clone() });
        }
        let pattern = Pattern::parse(&route.path).map_err(|cause| RouteError::BadPath {
            route: route.name.clone(),
            path: route.path.clone(),
            cause,
        });
        match pattern {
            Ok(pattern) if errors.len() == errors_len => {
                Some(Self { hosts, pattern, methods: route.methods })
            }
            Ok(_) => None,
            Err(error) => {
                errors.push(error);
                None
            }
        }
    }

    fn row(&self, number: usize) -> (&Pattern, MethodSet, u32) {
        let number = u32::try_from(number).expect("a configuration has fewer than 2^32 routes");
        (&self.pattern, self.methods, number)
    }
}

/// The methods of a host and path that a route was the first to claim.
struct Claim {
    route: usize,
    methods: MethodSet,
}

/// Finds routes that have a host, the shape of the path and a method in common with an earlier
/// route. Only the first route with a method claims it: a thousand equal routes are 999 conflicts,
/// not one for each pair.
fn find_conflicts<T>(routes: &[Route<T>], drafts: &[Option<Draft>], errors: &mut Vec<RouteError>) {
    let mut claims: HashMap<(Option<&str>, &[Segment]), Vec<Claim>> = HashMap::new();
    for (second, draft) in drafts.iter().enumerate() {
        let Some(draft) = draft else { continue };
        let any = draft.hosts.is_empty().then_some(None);
        let mut reported = HashSet::new();
        for host in draft.hosts.iter().map(|host| Some(host.as_str())).chain(any) {
            let earlier = claims.entry((host, &draft.pattern.segments)).or_default();
            let mut unclaimed = draft.methods;
            for &Claim { route: first, methods: claimed } in earlier.iter() {
                unclaimed = unclaimed.without(claimed);
                // Two routes with ten hosts in common are reported once.
                if claimed.intersection(draft.methods).is_empty() || !reported.insert(first) {
                    continue;
                }
                let conflict = Conflict {
                    first: routes[first].name.clone(),
                    second: routes[second].name.clone(),
                    host: host.map(str::to_owned),
                    first_path: routes[first].path.clone(),
                    second_path: routes[second].path.clone(),
                    methods: routes[first].methods.intersection(draft.methods),
                };
                errors.push(if routes[first].methods == draft.methods {
                    RouteError::Duplicate(conflict)
                } else {
                    RouteError::Shadowed(conflict)
                });
            }
            if !unclaimed.is_empty() {
                earlier.push(Claim { route: second, methods: unclaimed });
            }
        }
    }
}

/// One table for hosts that no route names, and one for each distinct set of routes of named hosts.
struct HostTables {
    any: Table,
    tables: Vec<Table>,
    hosts: ByteMap<true>,
    wildcards: ByteMap<true>,
}

impl HostTables {
    fn build(drafts: &[Draft]) -> Self {
        let any: Vec<usize> = (0..drafts.len()).filter(|&n| drafts[n].hosts.is_empty()).collect();
        let mut by_host: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, draft) in drafts.iter().enumerate() {
            for host in &draft.hosts {
                by_host.entry(host).or_default().push(number);
            }
        }
        let rows = |numbers: &[usize]| numbers.iter().map(|&n| drafts[n].row(n)).collect::<Vec<_>>();
        let mut tables: Vec<Table> = Vec::new();
        let mut known: HashMap<Vec<usize>, u32> = HashMap::new();
        let (mut hosts, mut wildcards) = (Vec::new(), Vec::new());
        for (&host, own) in &by_host {
            let name = host.strip_prefix(host::WILDCARD).unwrap_or(host);
            // Routes with more specific hosts are added earlier, which gives them priority.
            let covering = host::suffixes(name.as_bytes()).filter_map(|suffix| {
                let wildcard = format!("{}{}", host::WILDCARD, String::from_utf8_lossy(suffix));
                by_host.get(wildcard.as_str())
            });
            let numbers: Vec<usize> =
                [own].into_iter().chain(covering).flatten().chain(&any).copied().collect();
            let table = *known.entry(numbers).or_insert_with_key(|numbers| {
                tables.push(Table::build(rows(numbers)));
                u32::try_from(tables.len() - 1).expect("a configuration has fewer than 2^32 hosts")
            });
            let list = if name.len() == host.len() { &mut hosts } else { &mut wildcards };
            list.push((name.as_bytes().to_vec(), table));
        }
        let (hosts, wildcards) = (ByteMap::new(hosts), ByteMap::new(wildcards));
        Self { any: Table::build(rows(&any)), tables, hosts, wildcards }
    }
}

impl<'r, T> Plain<'r, T> {
    /// The value of the route.
    #[inline(always)]
    #[must_use]
    pub const fn value(&self) -> &'r T {
        &self.0.value
    }

    /// The match that [`Router::find_for`] would return for the same request.
    #[inline(always)]
    #[must_use]
    pub fn matched<'p>(&self, request: &Request<'p>) -> Match<'r, 'p, T> {
        self.0.matched(request.path_bytes())
    }
}
