//! Stacks as paths in a trie: a stack is its innermost frame and its caller's stack.

use rustc_hash::FxHashMap;

/// Index of a frame in `Profile::frames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A stack: a node of the trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    parent: StackId,
    frame: FrameId,
    depth: u32,
    cut: bool,
}

/// All stacks. Two equal stacks have one id.
#[derive(Clone, Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    children: FxHashMap<(StackId, FrameId), StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        let node = |cut| Node { parent: Self::ROOT, frame: FrameId(u32::MAX), depth: 0, cut };
        Self { nodes: vec![node(false), node(true)], children: FxHashMap::default() }
    }
}

impl Stacks {
    /// The empty stack: the root of all complete stacks.
    pub const ROOT: StackId = StackId(0);
    /// The root of the stacks whose outermost frames are missing.
    pub const CUT_ROOT: StackId = StackId(1);

    /// The stack of `frame` called from `parent`.
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if let Some(&id) = self.children.get(&(parent, frame)) {
            return id;
        }
        let id = StackId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 stacks"));
        let Node { depth, cut, .. } = self.nodes[parent.0 as usize];
        self.nodes.push(Node { parent, frame, depth: depth + 1, cut });
        self.children.insert((parent, frame), id);
        id
    }

    /// The innermost frame, and its caller's stack; None for the roots and for ids of another set.
    pub fn top(&self, stack: StackId) -> Option<(FrameId, StackId)> {
        let node = self.nodes.get(stack.0 as usize)?;
        (node.depth > 0).then_some((node.frame, node.parent))
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
        self.nodes.get(stack.0 as usize).map_or(0, |n| n.depth)
    }

    /// True where the stack's outermost frames are missing.
    pub fn is_cut(&self, stack: StackId) -> bool {
        self.nodes.get(stack.0 as usize).is_some_and(|n| n.cut)
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
