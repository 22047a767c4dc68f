//! Stacks as paths in a trie: a stack is its innermost frame and its caller's stack.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Index of a frame in `Profile::frames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A stack: a node of the trie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: StackId,
    frame: FrameId,
    /// Twice the number of frames, and one more where the outermost ones are missing: large profiles have millions of
    /// nodes.
    depth_and_cut: u32,
}

impl Node {
    fn depth(&self) -> u32 {
        self.depth_and_cut >> 1
    }

    fn is_cut(&self) -> bool {
        self.depth_and_cut & 1 == 1
    }
}

/// All stacks. Two equal stacks have one id.
#[derive(Clone, Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    /// Found by what they consist of, which stands in `nodes` alone.
    children: HashTable<StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        let node = |cut| Node { parent: Self::ROOT, frame: FrameId(u32::MAX), depth_and_cut: u32::from(cut) };
        Self { nodes: vec![node(false), node(true)], children: HashTable::new() }
    }
}

impl Stacks {
    /// The empty stack: the root of all complete stacks.
    pub const ROOT: StackId = StackId(0);
    /// The root of the stacks whose outermost frames are missing.
    pub const CUT_ROOT: StackId = StackId(1);

    /// The stack of `frame` called from `parent`.
    #[expect(clippy::expect_used, reason = "memory ends before the numbers do: a node takes 12 bytes")]
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let nodes = &mut self.nodes;
        let hash = hash(parent, frame);
        let same = |id: &StackId| {
            let node = &nodes[id.0 as usize];
            node.parent == parent && node.frame == frame
        };
        if let Some(&id) = self.children.find(hash, same) {
            return id;
        }
        let id = StackId(u32::try_from(nodes.len()).expect("fewer than 2^32 stacks: they would take 48 GiB"));
        let depth_and_cut = nodes[parent.0 as usize]
            .depth_and_cut
            .checked_add(2)
            .expect("fewer than 2^31 frames in a stack: each is a node of 12 bytes");
        nodes.push(Node { parent, frame, depth_and_cut });
        let hash_of = |id: &StackId| self::hash(nodes[id.0 as usize].parent, nodes[id.0 as usize].frame);
        self.children.insert_unique(hash, id, hash_of);
        id
    }

    /// The innermost frame, and its caller's stack; None for the roots and for ids of another set.
    pub fn top(&self, stack: StackId) -> Option<(FrameId, StackId)> {
        let node = self.nodes.get(stack.0 as usize)?;
        (node.depth() > 0).then_some((node.frame, node.parent))
    }

    /// Frames of the stack, the innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (frame, parent) = self.top(at)?;
            at = parent;
            Some(frame)
        })
    }

    /// How many frames the stack has.
    pub fn depth(&self, stack: StackId) -> u32 {
        self.nodes.get(stack.0 as usize).map_or(0, Node::depth)
    }

    /// True where the stack's outermost frames are missing.
    pub fn is_cut(&self, stack: StackId) -> bool {
        self.nodes.get(stack.0 as usize).is_some_and(Node::is_cut)
    }

    /// How many nodes there are, the two roots included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// False: the roots are always there.
    pub fn is_empty(&self) -> bool {
        false
    }
}

fn hash(parent: StackId, frame: FrameId) -> u64 {
    FxBuildHasher.hash_one((parent.0, frame.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_share_a_node() {
        let mut stacks = Stacks::default();
        let main = stacks.push(Stacks::ROOT, FrameId(7));
        let f = stacks.push(main, FrameId(9));
        let again = stacks.push(Stacks::ROOT, FrameId(7));
        assert_eq!(stacks.push(again, FrameId(9)), f);
        assert_eq!(stacks.frames(f).collect::<Vec<_>>(), [FrameId(9), FrameId(7)]);
        assert_eq!(stacks.depth(f), 2);
        assert!(!stacks.is_cut(f));
        let cut = stacks.push(Stacks::CUT_ROOT, FrameId(7));
        assert_ne!(cut, main);
        assert!(stacks.is_cut(cut));
    }
}
