//! The paths of one host: an exact map for static paths, a tree of segments for the others.
//!
//! Does not know about: hosts, requests, what a route does. A look-up prefers, segment by segment, static text over
//! `{name}` over `{*name}` and goes back when a preferred branch ends nowhere. A node of the tree is entered at most
//! once a look-up, so the work is bounded by the configuration and not by the request.
#![expect(
    clippy::indexing_slicing,
    reason = "node and leaf numbers were made while the lists grew, and positions come from the path itself"
)]

use super::map::ByteMap;
use super::methods::{METHODS, MethodSet};
use super::pattern::{PARAMS_MAX, Pattern, Segment};
use std::collections::HashMap;

/// No route, no child.
pub(super) const NONE: u32 = u32::MAX;

/// What one pattern answers: a route for each method.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) routes: [u32; METHODS],
    pub(super) allow: Box<str>,
    pub(super) allowed: MethodSet,
}

/// Where the parameters of a path stand: start and end, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Captures {
    pub(super) ranges: [(u32, u32); PARAMS_MAX],
    pub(super) len: u32,
}

/// All paths of one host.
#[derive(Clone, Debug)]
pub(super) struct Table {
    statics: ByteMap<false>,
    /// The root comes first; empty when every path is static.
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
}

#[derive(Clone, Debug)]
struct Node {
    /// Static segments that may follow, sorted.
    children: Vec<(Box<[u8]>, u32)>,
    /// The node behind `{name}`.
    param: u32,
    /// The leaf of `{*name}`.
    rest: u32,
    /// The leaf of a pattern that ends here.
    leaf: u32,
}

impl Table {
    /// Builds the table of routes given as pattern, methods and route number. Where two routes claim the same method
    /// of the same pattern the first given keeps it.
    pub(super) fn build<'a>(routes: impl IntoIterator<Item = (&'a Pattern, MethodSet, u32)>) -> Self {
        let mut by_shape: HashMap<&[Segment], usize> = HashMap::new();
        let mut shapes: Vec<(&Pattern, [u32; METHODS])> = Vec::new();
        for (pattern, methods, route) in routes {
            let shape = *by_shape.entry(&pattern.segments).or_insert_with(|| {
                shapes.push((pattern, [NONE; METHODS]));
                shapes.len() - 1
            });
            for method in methods.iter() {
                let place = &mut shapes[shape].1[MethodSet::position(method)];
                if *place == NONE {
                    *place = route;
                }
            }
        }
        let mut table = Self { statics: ByteMap::new([]), nodes: Vec::new(), leaves: Vec::new() };
        let mut statics = Vec::new();
        for (pattern, routes) in shapes {
            let leaf = u32::try_from(table.leaves.len()).expect("a configuration has fewer than 2^32 routes");
            table.leaves.push(Leaf::new(routes));
            if pattern.is_static() {
                statics.push((pattern.static_path(), leaf));
            } else {
                table.grow(&pattern.segments, leaf);
            }
        }
        table.statics = ByteMap::new(statics);
        table
    }

    /// The leaf of a static path.
    #[inline(always)]
    pub(super) fn find_static(&self, path: &[u8]) -> Option<&Leaf> {
        let leaf = self.statics.find(path)?;
        Some(&self.leaves[leaf as usize])
    }

    /// The leaf of a path with parameters, and where they stand.
    pub(super) fn find_dynamic(&self, path: &[u8]) -> Option<(&Leaf, Captures)> {
        let root = self.nodes.first()?;
        // A request line is far below 4 GiB, but positions are kept in 32 bits.
        if path.first() != Some(&b'/') || u32::try_from(path.len()).is_err() {
            return None;
        }
        let mut captures = Captures::NONE;
        let leaf = self.descend(root, path, 1, &mut captures)?;
        Some((&self.leaves[leaf as usize], captures))
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.find_static(path).is_some() || self.find_dynamic(path).is_some()
    }

    pub(super) fn allowed(&self) -> MethodSet {
        self.leaves.iter().fold(MethodSet::EMPTY, |set, leaf| set.union(leaf.allowed))
    }

    /// `start` is where the next segment begins, or one past the end when the path is used up.
    fn descend(&self, node: &Node, path: &[u8], start: usize, captures: &mut Captures) -> Option<u32> {
        if start > path.len() {
            return (node.leaf != NONE).then_some(node.leaf);
        }
        // Segments are short: a plain loop beats a vector search that has to be set up.
        let end = path[start..].iter().position(|&byte| byte == b'/').map_or(path.len(), |len| start + len);
        let segment = &path[start..end];
        if let Some(child) = node.child(segment) {
            let leaf = self.descend(&self.nodes[child as usize], path, end + 1, captures);
            if leaf.is_some() {
                return leaf;
            }
        }
        if node.param != NONE && !segment.is_empty() {
            captures.push(start, end);
            let leaf = self.descend(&self.nodes[node.param as usize], path, end + 1, captures);
            if leaf.is_some() {
                return leaf;
            }
            captures.len -= 1;
        }
        if node.rest != NONE {
            captures.push(start, path.len());
            return Some(node.rest);
        }
        None
    }

    fn grow(&mut self, segments: &[Segment], leaf: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::new());
        }
        let mut at = 0;
        for segment in segments {
            let known = match segment {
                Segment::Rest => {
                    self.nodes[at].rest = leaf;
                    return;
                }
                Segment::Param => Some(self.nodes[at].param).filter(|&child| child != NONE),
                Segment::Static(bytes) => self.nodes[at].child(bytes),
            };
            at = match known {
                Some(child) => child as usize,
                None => self.add_child(at, segment),
            };
        }
        self.nodes[at].leaf = leaf;
    }

    fn add_child(&mut self, at: usize, segment: &Segment) -> usize {
        let child = u32::try_from(self.nodes.len()).expect("a configuration has fewer than 2^32 segments");
        self.nodes.push(Node::new());
        if let Segment::Static(bytes) = segment {
            let children = &mut self.nodes[at].children;
            children.push((bytes.clone(), child));
            children.sort();
        } else {
            self.nodes[at].param = child;
        }
        child as usize
    }
}

impl Node {
    const fn new() -> Self {
        Self { children: Vec::new(), param: NONE, rest: NONE, leaf: NONE }
    }

    #[inline]
    fn child(&self, segment: &[u8]) -> Option<u32> {
        // A short list is faster to walk than to bisect.
        if self.children.len() <= 8 {
            return self.children.iter().find(|(known, _)| **known == *segment).map(|&(_, child)| child);
        }
        let place = self.children.binary_search_by(|(known, _)| (**known).cmp(segment)).ok()?;
        Some(self.children[place].1)
    }
}

impl Leaf {
    /// HEAD follows GET unless a route claims it; OPTIONS is always allowed because it is answered for the route.
    fn new(mut routes: [u32; METHODS]) -> Self {
        let [get, head] = [crate::Method::Get, crate::Method::Head].map(MethodSet::position);
        if routes[head] == NONE {
            routes[head] = routes[get];
        }
        let allowed = MethodSet::ANY
            .with(crate::Method::Connect)
            .with(crate::Method::Trace)
            .iter()
            .filter(|&method| routes[MethodSet::position(method)] != NONE)
            .collect::<MethodSet>()
            .with(crate::Method::Options);
        Self { routes, allow: allowed.to_string().into(), allowed }
    }
}

impl Captures {
    pub(super) const NONE: Self = Self { ranges: [(0, 0); PARAMS_MAX], len: 0 };

    /// A pattern has at most `PARAMS_MAX` parameters, checked when it was parsed.
    #[inline]
    fn push(&mut self, start: usize, end: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "`find_dynamic` lets no longer path in")]
        let range = (start as u32, end as u32);
        self.ranges[self.len as usize] = range;
        self.len += 1;
    }
}
