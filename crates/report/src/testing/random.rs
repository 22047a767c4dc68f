//! Profiles of random stacks, for tests of properties: inlined functions, recursion, functions that are looked past or
//! have no name, stacks that are cut.

use mallow_profile::{Profile, Stacks};
use proptest::prelude::*;

use super::{Builder, blocks};

const NAMES: [&str; 12] = [
    "main",
    "f@a.c:1",
    "f@a.c:2",
    "g@a.c:3 | f@a.c:4",
    "h@b.c:5",
    "k | h@b.c:5 | f@a.c:6",
    "operator new(unsigned long)!libstdc++.so.6",
    "std::vector<int>::push_back@/usr/include/c++/12/v.h:9 | h@b.c:7",
    "x_open!libx.so",
    "+0x10!libx.so",
    "+0x20!libx.so",
    "+0x30",
];

prop_compose! {
    pub fn profile()(
        stacks in proptest::collection::vec((proptest::collection::vec(0..NAMES.len(), 0..9), 1..500u64, any::<bool>()), 0..40),
    ) -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for (frames, allocations, cut) in stacks {
            let frames: Vec<_> = frames.into_iter().map(|at| NAMES[at]).collect();
            let whole = b.site(p, &frames, blocks(allocations, 8, 0, allocations / 3)).stack;
            if cut {
                let ids: Vec<_> = b.profile.stacks.frames(whole).collect();
                let stacks = &mut b.profile.stacks;
                let stack = ids.iter().rev().fold(Stacks::CUT_ROOT, |to, &frame| stacks.push(to, frame));
                b.profile.sites.last_mut().into_iter().for_each(|site| site.stack = stack);
            }
        }
        b.profile
    }
}
