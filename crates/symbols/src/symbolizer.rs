//! The whole: frames of a profile, module by module.

use std::collections::BTreeMap;
use std::sync::Arc;

use mallow_profile::{FrameId, Module, ModuleId, ModuleSummary, NameSource, Profile, Summary};
use rustc_hash::FxHashMap;

use crate::code::{Code, CodeError};
use crate::module::{ModuleSymbols, UNKNOWN};
use crate::options::Options;

/// Finds names and lines. It keeps the symbol tables of modules that it has seen; debug information is read again by
/// each call that needs it, and released at its end.
pub struct Symbolizer {
    options: Options,
    /// By path and build-id, and by when the recording ended where there is no build-id, so that one symbolizer may
    /// serve several profiles.
    modules: FxHashMap<(Module, u64), Arc<Result<ModuleSymbols, NameSource>>>,
}

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
    pub(crate) fn known(&mut self, profile: &Profile, id: ModuleId) -> Arc<Result<ModuleSymbols, NameSource>> {
        let module = &profile.modules[id.0 as usize];
        let ended_unix_ms = profile.started_unix_ms.saturating_add(profile.duration_ms);
        let key = (module.clone(), if module.build_id.is_empty() { ended_unix_ms } else { 0 });
        let open = || Arc::new(ModuleSymbols::new(module, ended_unix_ms, &self.options));
        self.modules.entry(key).or_insert_with(open).clone()
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
