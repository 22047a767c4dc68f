//! An ELF file that is mapped into a process.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mallow_arch::machine::{self, NAME};
use mallow_proc::Mapping;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader};
use object::{Endianness, LittleEndian, Object as _};

use crate::maps::{Maps, PAGE};
use crate::memory::Memory;
use crate::process::Process;

/// Code of more bytes than this is not read: no module has so much.
const LONGEST: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// The file was removed or replaced after it was mapped.
    #[error("its file was removed or replaced after it was loaded")]
    Replaced,
    /// The file cannot be opened.
    #[error("its file cannot be read: {0}")]
    File(String),
    /// The file is no ELF file of this processor.
    #[error("its file is no ELF file of {NAME}: {0}")]
    Format(String),
    /// The mappings do not fit the file's headers.
    #[error("it is not mapped as its file's headers have it")]
    Layout,
}

#[derive(Debug)]
pub struct Module {
    /// Path of the file as the process has it.
    pub path: String,
    /// The file, as found from here.
    pub file: PathBuf,
    /// Difference of the addresses in the process from those of the file.
    pub bias: u64,
    /// Addresses of the module in the process.
    pub range: Range<u64>,
    /// `DT_SONAME` of the file; empty if it has none.
    pub soname: String,
    /// Sonames of the libraries that the file needs.
    pub needs: Vec<String>,
    /// Whether the file has a dynamic section: a fully static program has none.
    pub dynamic: bool,
    /// Bytes of the module's thread-local storage in each thread, with their alignment.
    pub tls: u64,
    /// Whether the thread-local storage must be in the static area (initial-exec).
    pub static_tls: bool,
    segments: Vec<Segment>,
    pub(crate) bytes: memmap2::Mmap,
}

#[derive(Clone, Debug)]
struct Segment {
    address: u64,
    offset: usize,
    length: usize,
}

/// The code of a module, from its file and from memory.
#[derive(Debug)]
pub struct Text {
    pub address: u64,
    pub file: Vec<u8>,
    /// Bytes of the process; fewer than `file` has where not all can be read.
    pub memory: Vec<u8>,
}

impl Module {
    /// Whether the module is a program of Go's, not a library of it: its threads run on stacks of Go's own.
    pub fn is_go_program(&self) -> bool {
        let Ok(file) = object::File::parse(&*self.bytes) else { return false };
        [".interp", ".note.go.buildid"].iter().all(|name| file.section_by_name(name).is_some())
    }

    /// All modules of a process, in the order of their addresses, and those that cannot be read, by their paths. The
    /// vDSO is not among them.
    pub fn all(process: &Process, maps: &Maps) -> (Vec<Self>, Vec<(String, ModuleError)>) {
        let mut good = Vec::new();
        let mut bad = Vec::new();
        let executable = fs::metadata(format!("/proc/{}/exe", process.pid)).map(|file| (file.dev(), file.ino())).ok();
        let mut mappings: Vec<&Mapping> = maps.iter().filter(|m| m.executable && m.path.starts_with('/')).collect();
        mappings.dedup_by_key(|mapping| (mapping.inode, mapping.path.clone()));
        for code in mappings {
            // The executable is reached even where its file was removed.
            let own = executable.is_some_and(|(_, inode)| inode == code.inode);
            match Self::open(process, maps, code, own) {
                Ok(module) => good.push(module),
                // A file that is mapped for other purposes.
                Err(ModuleError::Format(_)) if !code.path.contains(".so") => {}
                Err(error) => bad.push((code.path.clone(), error)),
            }
        }
        (good, bad)
    }

    fn open(process: &Process, maps: &Maps, code: &Mapping, own: bool) -> Result<Self, ModuleError> {
        let file = match own {
            true => PathBuf::from(format!("/proc/{}/exe", process.pid)),
            false if code.is_deleted() => return Err(ModuleError::Replaced),
            false => process.path(Path::new(&code.path)),
        };
        let fail = |error: io::Error| ModuleError::File(error.to_string());
        let opened = File::open(&file).map_err(fail)?;
        let metadata = opened.metadata().map_err(fail)?;
        if !metadata.is_file() || metadata.ino() != code.inode {
            return Err(ModuleError::Replaced);
        }
        // A path for a user: that of the file, where it is the one that the process has.
        let file = match own && !code.is_deleted() {
            true => process.path(Path::new(&code.path)),
            false => file,
        };
        // SAFETY: the map is private and read-only. A file that is written to meanwhile changes bytes which are treated
        // as hostile anyway.
        let bytes = unsafe { memmap2::Mmap::map(&opened) }.map_err(fail)?;
        let layout = Layout::of(&bytes).map_err(ModuleError::Format)?;
        let first = layout.code.iter().find(|segment| page(segment.offset as u64) == code.offset);
        let first = first.ok_or(ModuleError::Layout)?;
        let bias = code.start.wrapping_sub(page(first.address));
        let range = bias.wrapping_add(layout.range.start)..bias.wrapping_add(layout.range.end);
        let inside = |segment: &Segment| {
            let address = bias.wrapping_add(segment.address);
            maps.iter().any(|m| m.executable && m.inode == code.inode && (m.start..m.end).contains(&address))
        };
        if range.start >= range.end || !layout.code.iter().all(inside) {
            return Err(ModuleError::Layout);
        }
        Ok(Self {
            path: code.path.clone(),
            file,
            bias,
            range,
            soname: layout.soname,
            needs: layout.needs,
            dynamic: layout.dynamic,
            tls: layout.tls,
            static_tls: layout.static_tls,
            segments: layout.code,
            bytes,
        })
    }

    /// The code in the file and in memory, segment by segment: most modules have one.
    pub fn texts(&self, memory: &Memory) -> Vec<Text> {
        self.texts_by(|address, file| memory.read_up_to(address, file.len()))
    }

    /// Code segments with the file's bytes in place of memory, which is not read.
    pub(crate) fn file_texts(&self) -> Vec<Text> {
        self.texts_by(|_, file| file.to_vec())
    }

    fn texts_by(&self, memory: impl Fn(u64, &[u8]) -> Vec<u8>) -> Vec<Text> {
        let text = |segment: &Segment| {
            let file = self.bytes.get(segment.offset..segment.offset.checked_add(segment.length)?)?.to_vec();
            let address = self.bias.wrapping_add(segment.address);
            Some(Text { address, memory: memory(address, &file), file })
        };
        self.segments.iter().filter_map(text).collect()
    }
}

fn page(address: u64) -> u64 {
    address / PAGE * PAGE
}

struct Layout {
    code: Vec<Segment>,
    range: Range<u64>,
    soname: String,
    needs: Vec<String>,
    dynamic: bool,
    tls: u64,
    static_tls: bool,
}

impl Layout {
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let parse = || -> object::Result<Option<Self>> {
            let header = FileHeader64::<Endianness>::parse(bytes)?;
            let endian = header.endian()?;
            if header.e_machine.get(endian) != machine::ELF {
                return Ok(None);
            }
            let segments = header.program_headers(endian, bytes)?;
            let (mut code, mut tls) = (Vec::new(), 0);
            let mut range = Range { start: u64::MAX, end: 0 };
            for segment in segments {
                let (address, size) = (segment.p_vaddr(endian), segment.p_memsz(endian));
                match segment.p_type(endian) {
                    elf::PT_LOAD => {
                        range.start = range.start.min(page(address));
                        range.end = range.end.max(address.saturating_add(size));
                        let length = segment.p_filesz(endian).min(LONGEST) as usize;
                        if segment.p_flags(endian) & elf::PF_X != 0 && length > 0 {
                            let offset = usize::try_from(segment.p_offset(endian)).unwrap_or(usize::MAX);
                            code.push(Segment { address, offset, length });
                        }
                    }
                    elf::PT_TLS => tls = size.saturating_add(segment.p_align(endian).clamp(1, PAGE) - 1),
                    _ => {}
                }
            }
            let mut layout = Self {
                code,
                range,
                soname: String::new(),
                needs: Vec::new(),
                dynamic: segments.iter().any(|segment| segment.p_type(endian) == elf::PT_DYNAMIC),
                tls,
                static_tls: false,
            };
            // Sections may be stripped; then the file has no name for the dynamic linker here.
            if let Ok(sections) = header.sections(endian, bytes)
                && let Ok(Some((entries, link))) = sections.dynamic(endian, bytes)
                && let Ok(strings) = sections.strings(endian, bytes, link)
            {
                for entry in entries {
                    let name = || entry.string(endian, strings).map(|name| String::from_utf8_lossy(name).into_owned());
                    match entry.tag(endian) {
                        elf::DT_NEEDED => layout.needs.extend(name().ok()),
                        elf::DT_SONAME => layout.soname = name().unwrap_or_default(),
                        elf::DT_FLAGS => {
                            layout.static_tls |= entry.val(endian) & u64::from(elf::DF_STATIC_TLS) != 0;
                        }
                        _ => {}
                    }
                }
            }
            Ok(Some(layout))
        };
        match parse() {
            Ok(Some(layout)) => Ok(layout),
            Ok(None) => Err("another processor".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Whether a program asks for a dynamic linker, by the first bytes of its file. None: these do not say.
pub(crate) fn has_interpreter(begin: &[u8]) -> Option<bool> {
    let header = FileHeader64::<LittleEndian>::parse(begin).ok()?;
    let segments = header.program_headers(LittleEndian, begin).ok()?;
    Some(segments.iter().any(|segment| segment.p_type(LittleEndian) == elf::PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_this_process_are_as_their_files_have_them() {
        let process = Process::read(std::process::id()).unwrap();
        let maps = Maps::read(process.pid).unwrap();
        let (modules, bad) = Module::all(&process, &maps);
        assert_eq!(bad, []);
        let libc = modules.iter().find(|module| module.soname == "libc.so.6").unwrap();
        let here = libc::getpid as *const () as u64;
        assert!(libc.range.contains(&here) && libc.dynamic && libc.tls > 0 && libc.static_tls);
        let own = modules.iter().find(|module| module.needs.iter().any(|name| name == "libc.so.6")).unwrap();
        assert!(own.range.contains(&(modules_of_this_process_are_as_their_files_have_them as fn() as usize as u64)));
        for module in &modules {
            let texts = module.texts(&Memory::open(process.pid).unwrap());
            assert!(!texts.is_empty());
            for text in texts {
                assert!(module.range.contains(&text.address));
                assert!(text.memory == text.file, "{} has its text in memory as in its file", module.path);
            }
        }
    }

    #[test]
    fn headers_of_nonsense_are_an_error() {
        assert!(Layout::of(b"").is_err() && Layout::of(b"\x7fELF\x02\x01\x01").is_err());
        assert_eq!(has_interpreter(b"\x7fELF"), None);
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(has_interpreter(&own[..4096]), Some(true));
        for end in (0..4096).step_by(7) {
            let _ = (Layout::of(&own[..end]), has_interpreter(&own[..end]));
        }
    }
}
