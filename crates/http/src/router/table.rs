//! The paths of one host: a hash map for static paths, a tree of segments for paths with
//! parameters.
//!
//! For each segment, a look-up prefers static text over `{name}` over `{*name}`, and backtracks if
//! the preferred branch has no match. A node of the tree is visited at most once per look-up, so
//! the work is bounded by the configuration and not by the request.
#![expect(
    clippy::indexing_slicing,
    reason = "node and leaf numbers are indices of existing elements, and positions were found in the path"
)]

use super::map::ByteMap;
use super::methods::{METHODS, MethodSet};
use crate::class;
use crate::pattern::{Pattern, Segment};
use std::collections::HashMap;

/// Number that stands for no route or no child.
pub(super) const NONE: u32 = u32::MAX;

/// The routes of one pattern, by method.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) routes: [u32; METHODS],
    pub(super) allow: Box<str>,
    pub(super) allowed: MethodSet,
}

/// All paths of one host.
#[derive(Clone, Debug)]
pub(super) struct Table {
    statics: ByteMap<false>,
    /// The nodes, beginning with the root. Empty if every path is static.
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
}

#[derive(Clone, Debug)]
struct Node {
    /// The nodes after static text.
    children: ByteMap<false>,
    /// The node after `{name}`.
    param: u32,
    /// The leaf of `{*name}`.
    rest: u32,
    /// The leaf of a pattern that ends at this node.
    leaf: u32,
}

impl Table {
    /// Builds a table. Each route is given by pattern, methods and number. If two routes have the
    /// same pattern and share a method, the first route gets the method.
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
        let (mut tree, mut leaves, mut statics) = (Tree::default(), Vec::new(), Vec::new());
        for (pattern, routes) in shapes {
            let leaf = u32::try_from(leaves.len()).expect("a configuration has fewer than 2^32 routes");
            leaves.push(Leaf::new(routes));
            if pattern.is_static() {
                statics.push((pattern.static_path(), leaf));
            } else {
                tree.grow(&pattern.segments, leaf);
            }
        }
        let nodes = tree.nodes.into_iter().map(Node::of).collect();
        Self { statics: ByteMap::new(statics), nodes, leaves }
    }

    /// The leaf of a static path.
    #[inline(always)]
    pub(super) fn find_static(&self, path: &[u8]) -> Option<&Leaf> {
        let leaf = self.statics.find(path)?;
        Some(&self.leaves[leaf as usize])
    }

    /// The leaf of a path with parameters.
    #[inline(always)]
    pub(super) fn find_dynamic(&self, path: &[u8]) -> Option<&Leaf> {
        let root = self.nodes.first()?;
        if path.first() != Some(&b'/') {
            return None;
        }
        let leaf = self.descend(root, path, 1);
        if leaf == NONE { None } else { Some(&self.leaves[leaf as usize]) }
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.find_static(path).is_some() || self.find_dynamic(path).is_some()
    }

    pub(super) fn allowed(&self) -> MethodSet {
        self.leaves.iter().fold(MethodSet::EMPTY, |set, leaf| set.union(leaf.allowed))
    }

    /// Finds the leaf for the remaining path below `node`. `start` is the start of the next
    /// segment, or one past the end of the path.
    fn descend<'t>(&'t self, mut node: &'t Node, path: &[u8], mut start: usize) -> u32 {
        loop {
            if start > path.len() {
                return node.leaf;
            }
            let end = class::segment_end(path, start);
            let child = node.child(&path[start..end]);
            let param = if end == start { NONE } else { node.param };
            let next = match (child, param) {
                (NONE, NONE) => return node.rest,
                (NONE, next) | (next, NONE) if node.rest == NONE => next,
                (first, second) => {
                    // Several branches are possible: try them in order of preference.
                    let ways =
                        [first, second, node.rest].into_iter().enumerate().filter(|&(_, way)| way != NONE);
                    return ways
                        .map(|(kind, way)| {
                            if kind == 2 {
                                way
                            } else {
                                self.descend(&self.nodes[way as usize], path, end + 1)
                            }
                        })
                        .find(|&leaf| leaf != NONE)
                        .unwrap_or(NONE);
                }
            };
            node = &self.nodes[next as usize];
            start = end + 1;
        }
    }
}

impl Node {
    fn of(draft: DraftNode) -> Self {
        let DraftNode { children, param, rest, leaf } = draft;
        Self {
            children: ByteMap::new(children.into_iter().map(|(name, child)| (name.into(), child))),
            param,
            rest,
            leaf,
        }
    }

    #[inline(always)]
    fn child(&self, segment: &[u8]) -> u32 {
        if self.children.is_empty() { NONE } else { self.children.find(segment).unwrap_or(NONE) }
    }
}

/// The nodes under construction.
#[derive(Default)]
struct Tree {
    nodes: Vec<DraftNode>,
}

struct DraftNode {
    children: Vec<(Box<[u8]>, u32)>,
    param: u32,
    rest: u32,
    leaf: u32,
}

impl Tree {
    fn grow(&mut self, segments: &[Segment], leaf: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(DraftNode::new());
        }
        let mut at = 0;
        for segment in segments {
            let node = &mut self.nodes[at];
            let known = match segment {
                Segment::Rest => {
                    node.rest = leaf;
                    return;
                }
                Segment::Param => Some(node.param).filter(|&child| child != NONE),
                Segment::Static(bytes) => {
                    node.children.iter().find(|(name, _)| name == bytes).map(|&(_, child)| child)
                }
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
        self.nodes.push(DraftNode::new());
        if let Segment::Static(bytes) = segment {
            self.nodes[at].children.push((bytes.clone(), child));
        } else {
            self.nodes[at].param = child;
        }
        child as usize
    }
}

impl DraftNode {
    const fn new() -> Self {
        Self { children: Vec::new(), param: NONE, rest: NONE, leaf: NONE }
    }
}

impl Leaf {
    /// Creates a leaf. HEAD uses the route of GET unless a route has HEAD. OPTIONS is always
    /// allowed, because the router replies to it.
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
