//! Makes a profile of another tool one that names can be looked up for.

use std::path::Path;

use mallow_profile::{Frame, Profile};
use object::{Object, ObjectSegment};

use crate::demangle::{Style, demangle, is_mangled};
use crate::image::Image;
use crate::options::Options;

/// Takes the files of today for those of the profile, where it has no build-id: there is nothing to compare, and every
/// reader of such profiles does the same. Files that the user named come first. With `offsets`, addresses are places in
/// those files, and become link-time ones.
pub fn adopt(profile: &mut Profile, offsets: bool, options: &Options) {
    let mut frames: Vec<Vec<usize>> = vec![Vec::new(); profile.modules.len()];
    for (index, frame) in profile.frames.iter().enumerate() {
        if let Some(of_module) = frame.module.and_then(|module| frames.get_mut(module.0 as usize)) {
            of_module.push(index);
        }
    }
    for (module, frames) in profile.modules.iter_mut().zip(frames) {
        if frames.is_empty() {
            continue;
        }
        let given = options.given.as_ref().and_then(|given| given.image(module));
        let Some(image) = given.or_else(|| Image::open(Path::new(&module.path)).ok()) else { continue };
        if module.build_id.is_empty() {
            module.build_id = image.build_id().unwrap_or_default();
        }
        let Ok(file) = image.parse() else { continue };
        let segments: Vec<_> = file.segments().map(|segment| (segment.file_range(), segment.address())).collect();
        for frame in frames.into_iter().filter(|_| offsets) {
            let frame: &mut Frame = &mut profile.frames[frame];
            // A return address may be the first one behind its segment.
            let inside = frame.address.saturating_sub(u64::from(!frame.exact));
            let at = segments.iter().find(|((start, length), _)| inside >= *start && inside - start < *length);
            if let Some(((start, _), address)) = at {
                frame.address = (frame.address - start).wrapping_add(*address);
            }
        }
    }
}

/// Gives the functions of a profile of another tool the names that this crate gives. With `verbatim`, names that are
/// not mangled stay as they are: those of Go.
pub fn rename(profile: &mut Profile, verbatim: bool) {
    let all = profile.strings.len();
    let mut names = vec![None; all];
    for line in profile.frames.iter_mut().flat_map(|frame| &mut frame.lines) {
        let Some(known) = names.get_mut(line.function.0 as usize) else { continue };
        let name = *known.get_or_insert_with(|| {
            let raw = profile.strings.get(line.function);
            if !is_mangled(raw) && (verbatim || !is_symbol(raw)) {
                return line.function;
            }
            let demangled = demangle(raw, Style::default()).into_owned();
            profile.strings.intern(&demangled)
        });
        line.function = name;
    }
}

/// Whether the name is as linkers have it: a demangled one already has parentheses, spaces or colons.
fn is_symbol(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'$'))
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Frame, Line, Profile};

    use super::rename;

    fn renamed(name: &str, verbatim: bool) -> String {
        let mut profile = Profile::default();
        let function = profile.strings.intern(name);
        let line = Line { function, file: None, line: 3 };
        profile.frames.push(Frame { lines: vec![line, line], ..Frame::new(None, 0, true) });
        rename(&mut profile, verbatim);
        let lines = &profile.frames[0].lines;
        assert_eq!(lines[0], lines[1]);
        profile.strings.get(lines[0].function).to_owned()
    }

    #[test]
    fn names_become_those_of_a_recording() {
        for (raw, expected) in [
            ("_ZN3app5parseEi", "app::parse(int)"),
            ("__GI__IO_doallocbuf", "_IO_doallocbuf"),
            ("parse_row.constprop.0", "parse_row"),
            ("puts@@GLIBC_2.2.5", "puts"),
            ("thunk for @escaping @callee_guaranteed () -> ()", "thunk for @escaping @callee_guaranteed () -> ()"),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
        ] {
            assert_eq!(renamed(raw, false), expected);
        }
        assert_eq!(renamed("main.cold", true), "main.cold", "a function of Go's");
        assert_eq!(renamed("_ZN3app5parseEi", true), "app::parse(int)");
    }
}
