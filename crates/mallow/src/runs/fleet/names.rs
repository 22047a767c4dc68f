//! Names of frames for many processes: each module is read once, whoever has it loaded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use mallow_profile::{Frame, FrameId, Line, Module, ModuleId, Profile};
use mallow_report::analysis::name_emergency_pool;
use mallow_symbols::{Options, Symbolizer};

/// Frames that are kept with their names: some hundred bytes each. Above that all are looked up anew.
const FRAMES: usize = 1 << 20;

/// Frames of all processes, by module and address.
pub struct Names {
    symbolizer: Symbolizer,
    known: Profile,
    modules: HashMap<Module, ModuleId>,
    frames: HashMap<(ModuleId, u64, bool), FrameId>,
}

impl Names {
    pub fn new() -> Self {
        Self {
            symbolizer: Symbolizer::new(Options::default()),
            known: Profile::default(),
            modules: HashMap::new(),
            frames: HashMap::new(),
        }
    }

    /// Looks up the frames of these profiles, of each from a number on. Debug information of a module is read once for
    /// all of them.
    pub fn fill(&mut self, profiles: &mut [(&mut Profile, usize)]) {
        if self.known.frames.len() > FRAMES {
            *self = Self::new();
        }
        let before = self.known.frames.len();
        let mut all: Vec<Vec<(usize, FrameId)>> = Vec::new();
        for (profile, from) in profiles.iter() {
            all.push(self.note(profile, *from));
        }
        let new = before as u32..self.known.frames.len() as u32;
        if !new.is_empty() {
            self.symbolizer.symbolize(&mut self.known, &mut new.map(FrameId));
        }
        for ((profile, from), noted) in profiles.iter_mut().zip(all) {
            for (frame, known) in noted {
                self.copy(known, profile, frame);
            }
            // Modules without a build-id are different files wherever they lie: each time by themselves.
            let rest = *from as u32..profile.frames.len() as u32;
            let rest: Vec<FrameId> = rest.map(FrameId).filter(|id| is_without_build_id(profile, *id)).collect();
            if !rest.is_empty() {
                Symbolizer::new(Options::default()).symbolize(profile, &mut rest.into_iter());
            }
            name_emergency_pool(profile);
        }
    }

    /// Frames of a profile, and which of the known ones they are.
    fn note(&mut self, profile: &Profile, from: usize) -> Vec<(usize, FrameId)> {
        let mut noted = Vec::new();
        for (at, frame) in profile.frames.iter().enumerate().skip(from).filter(|(_, frame)| frame.lines.is_empty()) {
            let module = frame.module.and_then(|module| profile.modules.get(module.0 as usize));
            let Some(module) = module.filter(|module| !module.build_id.is_empty()) else { continue };
            let module = match self.modules.get(module) {
                Some(id) => *id,
                None => {
                    let id = ModuleId(self.known.modules.len() as u32);
                    self.known.modules.push(module.clone());
                    self.modules.insert(module.clone(), id);
                    id
                }
            };
            let id = match self.frames.entry((module, frame.address, frame.exact)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let id = FrameId(self.known.frames.len() as u32);
                    self.known.frames.push(Frame::new(Some(module), frame.address, frame.exact));
                    *new.insert(id)
                }
            };
            noted.push((at, id));
        }
        noted
    }

    fn copy(&self, from: FrameId, profile: &mut Profile, to: usize) {
        let Some(known) = self.known.frames.get(from.0 as usize) else { return };
        let (texts, strings) = (&self.known.strings, &mut profile.strings);
        let mut lines = Vec::with_capacity(known.lines.len());
        for line in &known.lines {
            let function = strings.intern(texts.get(line.function));
            let file = line.file.map(|file| strings.intern(texts.get(file)));
            lines.push(Line { function, file, line: line.line });
        }
        let folded = known.folded.map(|folded| strings.intern(texts.get(folded)));
        if let Some(frame) = profile.frames.get_mut(to) {
            (frame.lines, frame.start, frame.folded) = (lines, known.start, folded);
        }
    }
}

fn is_without_build_id(profile: &Profile, id: FrameId) -> bool {
    let Some(frame) = profile.frames.get(id.0 as usize).filter(|frame| frame.lines.is_empty()) else { return false };
    let module = frame.module.and_then(|module| profile.modules.get(module.0 as usize));
    module.is_some_and(|module| module.build_id.is_empty())
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Frame, Module, ModuleId, Profile};

    use super::Names;

    fn profile(build_id: &[u8], addresses: &[u64]) -> Profile {
        let module = Module { path: "/none/such".to_owned(), build_id: build_id.to_vec() };
        let frame = |address: &u64| Frame::new(Some(ModuleId(0)), *address, false);
        Profile { modules: vec![module], frames: addresses.iter().map(frame).collect(), ..Profile::default() }
    }

    #[test]
    fn a_frame_that_several_processes_have_is_looked_up_once() {
        let mut names = Names::new();
        let (mut a, mut b, mut other) = (profile(&[1], &[10, 20]), profile(&[1], &[20, 30]), profile(&[2], &[10]));
        names.fill(&mut [(&mut a, 0), (&mut b, 0), (&mut other, 0)]);
        assert_eq!((names.known.frames.len(), names.known.modules.len()), (4, 2));
        let mut again = profile(&[1], &[10, 20, 40]);
        names.fill(&mut [(&mut again, 0)]);
        assert_eq!(names.known.frames.len(), 5);
        names.fill(&mut [(&mut again, 3)]);
        assert_eq!(names.known.frames.len(), 5);
    }
}
