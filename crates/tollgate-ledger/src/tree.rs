//! The Merkle tree of RFC 6962 §2.1 over the records' hashes: its root, and which parts of it a proof is made of. It
//! holds no records and reads none.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// A hash in the tree.
pub(crate) type Node = [u8; 32];

/// The hash of a leaf whose data is `data`.
pub(crate) fn leaf(data: &[u8]) -> Node {
    Sha256::new().chain_update([0]).chain_update(data).finalize().into()
}

fn parent(left: &Node, right: &Node) -> Node {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The right edge of a growing tree: the roots of its perfect subtrees, largest first. It is all that is needed to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    size: u64,
    peaks: Vec<Node>,
}

impl Frontier {
    /// The frontier of a tree with `size` leaves; none where so many peaks do not fit that size.
    pub(crate) fn new(size: u64, peaks: Vec<Node>) -> Option<Self> {
        (u64::from(size.count_ones()) == peaks.len() as u64).then_some(Self { size, peaks })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn peaks(&self) -> &[Node] {
        &self.peaks
    }

    /// Adds a leaf, given as its hash.
    pub(crate) fn push(&mut self, leaf: Node) {
        let mut node = leaf;
        // A new leaf joins as many perfect subtrees as the size ends in ones.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = parent(&left, &node);
            }
        }
        self.peaks.push(node);
        self.size += 1;
    }

    pub(crate) fn root(&self) -> Node {
        let mut peaks = self.peaks.iter().rev();
        match peaks.next() {
            None => Sha256::digest([]).into(),
            Some(last) => peaks.fold(*last, |right, left| parent(left, &right)),
        }
    }
}

/// Where a tree of `size` leaves, at least two, is divided: the largest power of two below its size.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// The ranges of leaves whose roots are the audit path (RFC 6962 §2.1.1) of leaf `index`, from 0, in a tree of `size`.
pub(crate) fn inclusion(index: u64, size: u64) -> Vec<Range<u64>> {
    let mut path = Vec::new();
    let (mut from, mut to) = (0, size);
    while to - from > 1 {
        let middle = from + split(to - from);
        if index < middle {
            path.push(middle..to);
            to = middle;
        } else {
            path.push(from..middle);
            from = middle;
        }
    }
    path.reverse();
    path
}

/// The ranges of leaves whose roots are the consistency proof (RFC 6962 §2.1.2) from `old` to `size` leaves.
pub(crate) fn consistency(old: u64, size: u64) -> Vec<Range<u64>> {
    if old == 0 || old >= size {
        return Vec::new();
    }
    let mut path = Vec::new();
    let (mut from, mut to) = (0, size);
    // As long as the old tree ends within the range. It ends with it at last, and the range itself comes first in the
    // proof then, unless it is the whole old tree, whose root the asker has.
    while to > old {
        let middle = from + split(to - from);
        if old <= middle {
            path.push(middle..to);
            to = middle;
        } else {
            path.push(from..middle);
            from = middle;
        }
    }
    if from > 0 {
        path.push(from..to);
    }
    path.reverse();
    path
}

/// Takes the leaves of a tree in their order, and gives the roots of some ranges of them.
pub(crate) struct Roots {
    wanted: Vec<(Range<u64>, Frontier)>,
}

impl Roots {
    pub(crate) fn of(ranges: Vec<Range<u64>>) -> Self {
        Self { wanted: ranges.into_iter().map(|range| (range, Frontier::default())).collect() }
    }

    pub(crate) fn push(&mut self, index: u64, leaf: Node) {
        for (_, frontier) in self.wanted.iter_mut().filter(|(range, _)| range.contains(&index)) {
            frontier.push(leaf);
        }
    }

    /// The roots, in the order of the ranges.
    pub(crate) fn finish(self) -> Vec<Node> {
        self.wanted.into_iter().map(|(_, frontier)| frontier.root()).collect()
    }
}

/// The root that an audit path leads to; none where the path cannot be one.
pub(crate) fn root_of_inclusion(index: u64, size: u64, leaf: Node, path: &[Node]) -> Option<Node> {
    let ranges = inclusion_ranges(index, size, path)?;
    Some(ranges.zip(path).fold(
        leaf,
        |node, (range, sibling)| {
            if range.start > index { parent(&node, sibling) } else { parent(sibling, &node) }
        },
    ))
}

fn inclusion_ranges(index: u64, size: u64, path: &[Node]) -> Option<impl Iterator<Item = Range<u64>>> {
    let ranges = if index < size { inclusion(index, size) } else { return None };
    (ranges.len() == path.len()).then(|| ranges.into_iter())
}

/// Whether the tree of `old` leaves with the root `old_root` is the beginning of that of `size` leaves with `root`.
pub(crate) fn is_consistent(old: u64, old_root: Node, size: u64, root: Node, path: &[Node]) -> bool {
    let ranges = consistency(old, size);
    // Of an empty tree there is nothing to say.
    if old == 0 || old > size || ranges.len() != path.len() {
        return false;
    }
    if old == size {
        return old_root == root;
    }
    // The first part that the proof is built on is the old tree's own last one.
    let is_whole = ranges.first().is_none_or(|range| range.start >= old);
    let mut parts = ranges.iter().zip(path);
    let first = if is_whole { Some(old_root) } else { parts.next().map(|(_, node)| *node) };
    let Some(first) = first else { return false };
    let (mut then, mut now) = (first, first);
    for (range, node) in parts {
        if range.start >= old {
            now = parent(&now, node);
        } else {
            (then, now) = (parent(node, &then), parent(node, &now));
        }
    }
    then == old_root && now == root
}

#[cfg(test)]
mod tests;
