//! What there would be of a file's names, were it recorded now.

use std::path::Path;

use mallow_profile::{Frame, FrameId, Module, ModuleId, ModuleSummary, Profile};
use object::{Object, ObjectSection};

use crate::image::Image;
use crate::options::Options;
use crate::symbolizer::Symbolizer;

/// Number of addresses that are looked at.
const PROBES: u64 = 64;

/// Divisor of the probes: so many of them at least must have lines, as the C library's start-up code and a compiler's
/// runtime bring lines along that are no debug information of the program.
const ENOUGH: u32 = 16;

/// Looks names up at places all over the code of a file. Returns the source of the names: debug information, or what
/// there is instead.
pub fn survey(path: &Path) -> (Module, ModuleSummary) {
    let image = Image::open(path);
    let build_id = image.as_ref().ok().and_then(|image| image.build_id().ok()).unwrap_or_default();
    let module = Module { path: path.to_string_lossy().into_owned(), build_id };
    let code = image.ok().and_then(|image| {
        let text = image.parse().ok()?.section_by_name(".text").map(|text| (text.address(), text.size()));
        text.filter(|&(_, size)| size > 0)
    });
    let mut profile = Profile { modules: vec![module.clone()], ..Profile::default() };
    let (begin, size) = code.unwrap_or((0, 1));
    let probes = PROBES.min(size);
    let places = (0..probes).map(|probe| begin.saturating_add(size / probes * probe + size % probes * probe / probes));
    let frame = |address| Frame::new(Some(ModuleId(0)), address, true);
    profile.frames = places.map(frame).collect();
    let ids: Vec<_> = (0..profile.frames.len() as u32).map(FrameId).collect();
    let mut symbolizer = Symbolizer::new(Options::default());
    let mut summary = symbolizer.module(&mut profile, ModuleId(0), &ids);
    if summary.located < summary.frames / ENOUGH {
        summary.located = 0;
        if let Ok(known) = &*symbolizer.known(&profile, ModuleId(0)) {
            summary.found = known.found.clone();
        }
    }
    (module, summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::NameSource;

    #[test]
    fn a_file_is_known_by_what_most_of_its_code_has() {
        let (module, own) = survey(&std::env::current_exe().unwrap());
        assert_eq!(own.found, NameSource::DebugInformation, "{own:?}");
        assert!(own.named > 32 && own.located >= own.frames / ENOUGH && !module.build_id.is_empty(), "{own:?}");
        let (_, none) = survey(Path::new("/no/such/file"));
        assert!(matches!(none.found, NameSource::FileGone(_)), "{none:?}");
        let (_, script) = survey(Path::new("/etc/passwd"));
        assert!(matches!(script.found, NameSource::Unreadable(_)), "{script:?}");
    }
}
