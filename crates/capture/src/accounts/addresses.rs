//! Return addresses to frames. Frames are relative to modules, so that all processes share them.

use super::catalog::Catalog;
use crate::chunk::ModuleStart;
use crate::wire::EXACT_PC;
use mallow_profile::{Frame, FrameId, Module, ModuleId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Modules of one process that are kept to be found; a process that announces more loses the oldest ones.
const MODULES: usize = 1 << 14;
/// Views of one process that are kept. Rings lag behind each other by one or two generations at most.
const VIEWS: usize = 8;

/// Numbers of modules and frames by their content: equal ones have one number in all processes.
#[derive(Debug, Default)]
pub struct Interner {
    modules: FxHashMap<Module, ModuleId>,
    frames: FxHashMap<(Space, u64, bool), FrameId>,
}

/// The owner of an address: the same address outside of modules is not the same place in two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    Module(ModuleId),
    Process(u32),
}

impl Interner {
    fn module(&mut self, catalog: &mut Catalog, module: Module) -> ModuleId {
        *self.modules.entry(module).or_insert_with_key(|module| {
            catalog.modules.push(module.clone());
            ModuleId((catalog.modules.len() - 1) as u32)
        })
    }

    fn frame(&mut self, catalog: &mut Catalog, owner: Space, address: u64, exact: bool) -> FrameId {
        *self.frames.entry((owner, address, exact)).or_insert_with(|| {
            let module = match owner {
                Space::Module(module) => Some(module),
                Space::Process(_) => None,
            };
            catalog.frames.push(Frame::new(module, address, exact));
            FrameId((catalog.frames.len() - 1) as u32)
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    base_svma: u64,
    generation: u32,
    module: ModuleId,
}

/// The modules that count from one generation on, without overlaps, and what was looked up among them.
#[derive(Debug, Default)]
struct View {
    /// The highest generation of its modules.
    generation: u32,
    ranges: BTreeMap<u64, Mapping>,
    frames: FxHashMap<u64, FrameId>,
}

impl View {
    /// The mapping covers whatever was there before.
    fn cover(&mut self, new: Mapping) {
        let first = self.ranges.range(..=new.start).next_back().map_or(new.start, |(&start, _)| start);
        let touched: Vec<Mapping> =
            self.ranges.range(first..new.end).map(|(_, m)| *m).filter(|m| m.end > new.start).collect();
        for mut old in touched {
            self.ranges.remove(&old.start);
            let (start, end) = (old.start, old.end);
            if start < new.start {
                old.end = new.start;
                self.ranges.insert(start, old);
            }
            if end > new.end {
                old.base_svma = old.base_svma.wrapping_add(new.end - start);
                (old.start, old.end) = (new.end, end);
                self.ranges.insert(new.end, old);
            }
        }
        self.ranges.insert(new.start, new);
        self.frames.retain(|pc, _| !(new.start..=new.end).contains(&(pc & !EXACT_PC)));
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        self.ranges.range(..=address).next_back().map(|(_, m)| m).filter(|m| address < m.end)
    }
}

/// The modules of one process over time.
#[derive(Debug, Default)]
pub struct AddressMap {
    /// Sorted by generation; beyond [`MODULES`], the one of the lowest generation is dropped.
    mappings: Vec<Mapping>,
    views: Vec<View>,
}

impl AddressMap {
    pub fn add(&mut self, interner: &mut Interner, catalog: &mut Catalog, module: &ModuleStart) {
        let id = interner.module(catalog, Module { path: module.path.clone(), build_id: module.build_id.clone() });
        let &ModuleStart { start, end, base_svma, generation, .. } = module;
        if start >= end {
            return;
        }
        let mapping = Mapping { start, end, base_svma, generation, module: id };
        if self.mappings.len() >= MODULES {
            self.mappings.remove(0);
        }
        let at = self.mappings.partition_point(|m| m.generation <= generation);
        self.mappings.insert(at, mapping);
        // A view of this very generation goes on with one range more; one of a later generation is made anew.
        self.views.retain(|view| view.generation <= generation);
        if let Some(view) = self.views.iter_mut().find(|view| view.generation == generation) {
            view.cover(mapping);
        }
    }

    /// The frame of a ring's `pc` among the modules of a generation; without [`EXACT_PC`], `pc` is a return address.
    #[inline]
    pub fn frame(
        &mut self,
        interner: &mut Interner,
        catalog: &mut Catalog,
        process: u32,
        generation: u32,
        pc: u64,
    ) -> FrameId {
        let view = self.view(generation);
        if let Some(&frame) = view.frames.get(&pc) {
            return frame;
        }
        let exact = pc & EXACT_PC != 0;
        let address = pc & !EXACT_PC;
        // A return address may be the first one past a module whose last instruction is a call.
        let frame = match view.find(if exact { address } else { address.saturating_sub(1) }) {
            Some(m) => {
                let svma = address.wrapping_sub(m.start).wrapping_add(m.base_svma);
                interner.frame(catalog, Space::Module(m.module), svma, exact)
            }
            None => interner.frame(catalog, Space::Process(process), address, exact),
        };
        view.frames.insert(pc, frame);
        frame
    }

    /// The view of a generation; it becomes the last one of `views`.
    #[inline]
    fn view(&mut self, generation: u32) -> &mut View {
        let current = self.mappings.last().is_none_or(|m| m.generation <= generation);
        let wanted = match (current, self.mappings.last()) {
            (true, last) => last.map_or(0, |m| m.generation),
            (false, _) => {
                let known = self.mappings.partition_point(|m| m.generation <= generation);
                known.checked_sub(1).map_or(0, |i| self.mappings[i].generation)
            }
        };
        if self.views.last().is_none_or(|view| view.generation != wanted) {
            self.bring(wanted);
        }
        let last = self.views.len() - 1;
        &mut self.views[last]
    }

    #[cold]
    fn bring(&mut self, generation: u32) {
        let view = match self.views.iter().position(|view| view.generation == generation) {
            Some(at) => self.views.remove(at),
            None => {
                let mut view = View { generation, ..View::default() };
                for mapping in self.mappings.iter().take_while(|m| m.generation <= generation) {
                    view.cover(*mapping);
                }
                view
            }
        };
        if self.views.len() >= VIEWS {
            self.views.remove(0);
        }
        self.views.push(view);
    }
}
