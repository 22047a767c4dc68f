//! The whole: frames of a profile, module by module.

use std::collections::BTreeMap;
use std::sync::Arc;

use mallow_profile::{FrameId, Module, ModuleId, ModuleSummary, NameSource, Profile, Summary};
use rustc_hash::FxHashMap;

use crate::code::{Code, CodeError};
use crate::module::{ModuleSymbols, UNKNOWN};
use crate::options::Options;

/// Limit of processes that are asked for a file which is no longer at its path.
const PROCESSES: usize = 64;

/// Finds names and lines. It keeps the symbol tables of modules that it has seen; debug information is read again by
/// each call that needs it, and released at its end.
pub struct Symbolizer {
    options: Options,
    /// Modules by path and build-id, so that one symbolizer may serve several profiles. Where there is no build-id, the
    /// file is another one to a recording that ended at another time: the last one is kept, as a watch ends anew with
    /// each look.
    modules: FxHashMap<Module, (u64, Known)>,
}

/// A module's symbols, or why there are none.
type Known = Arc<Result<ModuleSymbols, NameSource>>;

impl Symbolizer {
    /// A symbolizer that has read nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, modules: FxHashMap::default() }
    }

    /// Fills the lines of all frames of the profile.
    pub fn symbolize_all(&mut self, profile: &mut Profile) -> Summary {
        let all = u32::try_from(profile.frames.len()).unwrap_or(u32::MAX);
        self.symbolize(profile, &mut (0..all).map(FrameId))
    }

    /// Fills the lines of `frames`. Those that have lines keep them; ids of another profile are passed over. Each call
    /// reads the debug information of its modules anew, so ask for many frames at once.
    pub fn symbolize(&mut self, profile: &mut Profile, frames: &mut dyn Iterator<Item = FrameId>) -> Summary {
        let mut summary = Summary::default();
        let mut seen = vec![false; profile.frames.len()];
        let mut modules: BTreeMap<ModuleId, Vec<FrameId>> = BTreeMap::new();
        for id in frames {
            let Some(frame) = profile.frames.get(id.0 as usize) else { continue };
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            match frame.module.filter(|module| profile.modules.len() > module.0 as usize) {
                Some(module) => modules.entry(module).or_default().push(id),
                None => {
                    summary.without_module += 1;
                    summary.without_module_named += u32::from(!frame.lines.is_empty());
                }
            }
        }
        for (module, frames) in modules {
            summary.modules.push(self.module(profile, module, &frames));
        }
        summary
    }

    /// The machine code of a module of the profile.
    pub fn code(&mut self, profile: &Profile, id: ModuleId) -> Result<Code, CodeError> {
        match profile.modules.get(id.0 as usize) {
            Some(_) => Code::new(self.known(profile, id)),
            None => Err(CodeError::Module(NameSource::Nothing)),
        }
    }

    /// Precondition: the profile has the module.
    pub(crate) fn known(&mut self, profile: &Profile, id: ModuleId) -> Known {
        let module = &profile.modules[id.0 as usize];
        let ended_unix_ms = profile.started_unix_ms.saturating_add(profile.duration_ms);
        let version = if module.build_id.is_empty() { ended_unix_ms } else { 0 };
        if let Some((of, known)) = self.modules.get(module)
            && *of == version
        {
            return Arc::clone(known);
        }
        let pids: Vec<u32> = profile.processes.iter().map(|process| process.pid).take(PROCESSES).collect();
        let known = Arc::new(ModuleSymbols::new(module, ended_unix_ms, &self.options, &pids));
        self.modules.insert(module.clone(), (version, Arc::clone(&known)));
        known
    }

    pub(crate) fn module(&mut self, profile: &mut Profile, id: ModuleId, frames: &[FrameId]) -> ModuleSummary {
        let known = self.known(profile, id);
        let mut summary = ModuleSummary {
            module: id,
            found: NameSource::Nothing,
            debug_file: None,
            notes: Vec::new(),
            frames: frames.len() as u32,
            named: 0,
            located: 0,
            remedy: None,
        };
        match &*known {
            Err(found) => summary.found = found.clone(),
            Ok(known) => {
                summary.found = known.found.clone();
                summary.debug_file = known.files.separate.as_ref().map(|image| image.path.clone());
                summary.notes.clone_from(&known.files.notes);
                known.fill(profile, frames, &mut summary.notes);
            }
        }
        for frame in frames {
            let lines = &profile.frames[frame.0 as usize].lines;
            summary.named += u32::from(lines.iter().any(|line| profile.strings.get(line.function) != UNKNOWN));
            summary.located += u32::from(lines.iter().any(|line| line.file.is_some()));
        }
        // A program without debug information has a little all the same, of the C library's start-up code.
        if summary.located > 0 {
            summary.found = NameSource::DebugInformation;
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch asks again and again, each time at another moment.
    #[test]
    fn one_version_of_a_module_without_build_id_is_kept() {
        let module = |build_id: &[u8]| Module { path: "/nowhere/program".into(), build_id: build_id.to_vec() };
        let mut profile = Profile { modules: vec![module(b""), module(b"id")], ..Profile::default() };
        let mut symbolizer = Symbolizer::new(Options::default());
        let mut with_id = Vec::new();
        for duration_ms in 0..100 {
            profile.duration_ms = duration_ms;
            let first = symbolizer.known(&profile, ModuleId(0));
            assert!(Arc::ptr_eq(&first, &symbolizer.known(&profile, ModuleId(0))), "the same moment");
            with_id.push(symbolizer.known(&profile, ModuleId(1)));
        }
        assert_eq!(symbolizer.modules.len(), 2);
        assert!(with_id.windows(2).all(|two| Arc::ptr_eq(&two[0], &two[1])));
    }
}
