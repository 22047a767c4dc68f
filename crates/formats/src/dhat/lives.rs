//! What DHAT wants to know of blocks and sums do not contain: how long they lived, and how many of a stack were live at
//! once.

use mallow_profile::{Block, Event, Moment, Profile, StackId};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Milliseconds that the stack's blocks lived, added up.
    pub lived_ms: u64,
    /// Most bytes that were live at once, and the blocks of that moment; of equal bytes the most blocks.
    pub most: (u64, u64),
}

/// A site's live blocks. The same stack in several processes is one stack, and the blocks end with each process.
#[derive(Clone, Copy, Debug)]
struct Site {
    stack: u32,
    end_ms: u64,
    live: u64,
    /// Milliseconds at which the live blocks were allocated, added up.
    since_ms: u64,
}

/// The lives of all stacks' blocks. Events are to be added in their order.
#[derive(Clone, Debug)]
pub struct Lives {
    stacks: FxHashMap<StackId, u32>,
    sites: Vec<Site>,
    lives: Vec<Life>,
    /// By stack, live bytes and blocks.
    live: Vec<(u64, u64)>,
}

impl Lives {
    pub fn new(profile: &Profile) -> Self {
        let mut stacks = FxHashMap::default();
        let sites = profile.sites.iter().map(|site| {
            let next = stacks.len() as u32;
            let stack = *stacks.entry(site.stack).or_insert(next);
            let process = profile.processes.get(site.process.0 as usize);
            Site {
                stack,
                end_ms: process.map_or(profile.duration_ms, |process| process.done_ms()),
                live: 0,
                since_ms: 0,
            }
        });
        let sites = sites.collect();
        let (lives, live) = (vec![Life::default(); stacks.len()], vec![(0, 0); stacks.len()]);
        Self { stacks, sites, lives, live }
    }

    pub fn add(&mut self, at: Moment, event: Event) {
        match event {
            Event::Allocate(call) => self.begin(call.site, call.size, at.ms),
            Event::Reallocate { call, old, .. } => {
                old.inspect(|old| self.end(old, at.ms));
                self.begin(call.site, call.size, at.ms);
            }
            Event::Free(block) | Event::ReallocFree(block) => {
                block.inspect(|block| self.end(block, at.ms));
            }
            Event::UnseenFree(block) => self.end(&block, at.ms),
            Event::Region { .. } | Event::EndProcess => {}
        }
    }

    fn begin(&mut self, site: u32, size: u64, ms: u64) {
        let Some(site) = self.sites.get_mut(site as usize) else { return };
        site.live += 1;
        site.since_ms = site.since_ms.saturating_add(ms);
        let live = &mut self.live[site.stack as usize];
        *live = (live.0.saturating_add(size), live.1 + 1);
        let most = &mut self.lives[site.stack as usize].most;
        *most = (*most).max(*live);
    }

    fn end(&mut self, block: &Block, ms: u64) {
        let Some(site) = self.sites.get_mut(block.site as usize) else { return };
        site.live = site.live.saturating_sub(1);
        site.since_ms = site.since_ms.saturating_sub(block.ms);
        let live = &mut self.live[site.stack as usize];
        *live = (live.0.saturating_sub(block.size), live.1.saturating_sub(1));
        let life = &mut self.lives[site.stack as usize];
        life.lived_ms = life.lived_ms.saturating_add(ms.saturating_sub(block.ms));
    }

    /// Call it after the last event: live blocks live to the end of their process.
    pub fn finish(&mut self) {
        for site in &mut self.sites {
            let until_end = site.end_ms.saturating_mul(site.live).saturating_sub(site.since_ms);
            let life = &mut self.lives[site.stack as usize];
            life.lived_ms = life.lived_ms.saturating_add(until_end);
            (site.live, site.since_ms) = (0, 0);
        }
    }

    pub fn of(&self, stack: StackId) -> Life {
        self.stacks.get(&stack).and_then(|&at| self.lives.get(at as usize)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Block, Call, Event, Moment};

    use super::Lives;
    use mallow_report::testing::{Builder, blocks};

    #[test]
    fn lives_are_added_up_by_stack() {
        let mut b = Builder::default();
        let (first, second) = (b.process(1, &["a"], 100), b.process(2, &["a"], 50));
        let stack = b.site(first, &["f", "main"], blocks(3, 1, 0, 0)).stack;
        b.site(second, &["f", "main"], blocks(1, 1, 0, 0));
        let mut lives = Lives::new(&b.profile);
        let at = |ms| Moment { process: 0, thread: 0, ms };
        let call = |site, size| Call { family: 0, site, size };
        let block = |size, ms| Block { sequence: 0, site: 0, size, ms, thread: 0 };
        lives.add(at(10), Event::Allocate(call(0, 100)));
        lives.add(at(20), Event::Allocate(call(0, 50)));
        lives.add(at(25), Event::Allocate(call(1, 7)));
        lives.add(at(30), Event::Free(Some(block(100, 10))));
        lives.add(at(40), Event::Reallocate { call: call(0, 60), old: Some(block(50, 20)), moved: true });
        lives.finish();
        let life = lives.of(stack);
        // 20 and 20 ms, what is left since 40 until 100, and the other process's since 25 until 50.
        assert_eq!((life.lived_ms, life.most), (20 + 20 + 60 + 25, (157, 3)));
        assert_eq!(lives.of(mallow_profile::Stacks::ROOT).most, (0, 0));
    }
}
