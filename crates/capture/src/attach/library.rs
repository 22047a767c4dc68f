//! Mallow's library in a process that was not started under mallow: loaded from memory, found again, spoken to.

use super::arrival;
use super::error::AttachError;
use super::library_file::{LibraryFile, is_library};
use super::sandbox;
use super::threads::FreeThreads;
use crate::library::{LIBRARY, without_libdl};
use crate::preflight;
use crate::wire::{self, LIBRARY_NAME, attachment};
use mallow_patch::{Call, Gateway, Maps, Memory, Module, Obstacle, Process, Room, Thread};
use object::{Object, ObjectSegment, ObjectSymbol};
use rustix::fd::OwnedFd;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The symbol of `struct mallow_attachment`.
const SYMBOL: &str = "mallow_attachment";

/// How long a function of the dynamic linker may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct LoadedLibrary {
    pub range: Range<u64>,
    /// Addresses from the first to the last executable segment.
    pub code: Range<u64>,
    /// Address of `struct mallow_attachment`.
    at: u64,
    pub tls_bytes: u64,
}

/// Addresses of functions of a process's dynamic linker and C library.
#[derive(Clone, Copy, Debug)]
pub struct CLibrary {
    pub dlopen: u64,
    /// 0 if there is none.
    pub dlerror: u64,
    pub errno: u64,
    /// `dlopen` and related functions are in a library of their own, libdl (glibc before 2.34).
    pub has_libdl: bool,
}

/// A function that is to be patched.
#[derive(Clone, Copy, Debug)]
pub struct LateEntry {
    pub function: u64,
    /// Address of the library's function that replaces `function`.
    pub replacement: u64,
}

struct Layout {
    /// Link-time address of `struct mallow_attachment`, of which `offset` is the place in the file.
    at: u64,
    offset: usize,
    /// Link-time address after the last segment.
    bytes: u64,
    /// Link-time addresses from the first to the last executable segment.
    code: Range<u64>,
    tls_bytes: u64,
}

fn layout() -> Result<Layout, AttachError> {
    let invalid = || AttachError::Unsupported("the library has no attachment".to_owned());
    let file = object::File::parse(LIBRARY).map_err(|_| invalid())?;
    let at = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(SYMBOL)).ok_or_else(invalid)?.address();
    let segment = file.segments().find(|segment| (segment.address()..segment.address() + segment.size()).contains(&at));
    let (start, length) = segment.as_ref().ok_or_else(invalid)?.file_range();
    let offset = at - segment.ok_or_else(invalid)?.address();
    if offset + attachment::BYTES as u64 > length {
        return Err(invalid());
    }
    let bytes = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
    use object::read::elf::ProgramHeader;
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(LIBRARY).map_err(|_| invalid())?;
    let (endian, headers) = (elf.endian(), elf.elf_program_headers());
    let tls_bytes = headers.iter().find(|h| h.p_type(endian) == object::elf::PT_TLS).map(|h| h.p_memsz(endian));
    let is_code = |h: &&_| {
        let h: &object::elf::ProgramHeader64<_> = h;
        h.p_type(endian) == object::elf::PT_LOAD && h.p_flags(endian) & object::elf::PF_X != 0
    };
    let code = headers.iter().filter(is_code).map(|h| (h.p_vaddr(endian), h.p_vaddr(endian) + h.p_memsz(endian)));
    let code = code.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).ok_or_else(invalid)?;
    let (offset, code, tls_bytes) = ((start + offset) as usize, code.0..code.1, tls_bytes.unwrap_or(0));
    Ok(Layout { at, offset, bytes, code, tls_bytes })
}

impl CLibrary {
    pub fn of(modules: &[Module]) -> Result<Self, AttachError> {
        let musl = modules.iter().find(|module| {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            name == "libc.so" || name.starts_with("ld-musl") || name.starts_with("libc.musl")
        });
        if let Some(musl) = musl {
            return Err(AttachError::Unsupported(format!(
                "its C library is {} (musl): mallow attaches to programs with glibc alone; build the program for glibc",
                musl.path
            )));
        }
        if modules.iter().any(Module::is_go_program) {
            return Err(AttachError::Unsupported(format!(
                "it is written in Go: its threads may be on stacks of Go's own, where no library can be loaded, and its heap is not malloc's; \
                 {}; only what its C code allocates is seen if it is started under mallow",
                preflight::GO_HEAP
            )));
        }
        let named = |name: &str| modules.iter().find(|module| module.soname == name);
        let libc = named("libc.so.6");
        let libc = libc.ok_or_else(|| AttachError::Unsupported("its C library is not glibc".to_owned()))?;
        let own = libc.export("dlopen");
        let dlopen = own.or_else(|| named("libdl.so.2")?.export("dlopen"));
        let dlopen = dlopen.or_else(|| libc.export("__libc_dlopen_mode"));
        let dlerror = libc.export("dlerror").or_else(|| named("libdl.so.2")?.export("dlerror")).unwrap_or(0);
        match (dlopen, libc.export("__errno_location")) {
            (Some(dlopen), Some(errno)) => Ok(Self { dlopen, errno, dlerror, has_libdl: own.is_none() }),
            _ => Err(AttachError::Unsupported("its C library has no dlopen".to_owned())),
        }
    }
}

impl LoadedLibrary {
    /// The library that an earlier mallow of this build loaded into the process. None: there is none. An error: it is
    /// of another build, or the process was started under mallow.
    pub fn find(pid: u32, maps: &Maps, memory: &Memory) -> Result<Option<Self>, AttachError> {
        let is_ours = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.starts_with(LIBRARY_NAME) || is_library(path)
        };
        let mapped: Vec<_> = maps.iter().filter(|mapping| is_ours(&mapping.path)).collect();
        let Some(first) = mapped.iter().map(|mapping| mapping.start).min() else { return Ok(None) };
        let is_late = mapped.iter().any(|mapping| is_library(&mapping.path));
        if !is_late {
            return Err(AttachError::Joined(pid));
        }
        let layout = layout()?;
        let found = Self::at(first, &layout);
        let known = found.word(memory, attachment::MAGIC)? == attachment::MAGIC_VALUE
            && found.word(memory, attachment::VERSION)? == wire::VERSION
            // Builds of one version may differ: what the code is says so.
            && found.is_same(memory, maps)?;
        match known {
            true => Ok(Some(found)),
            false => Err(AttachError::Unsupported(
                "another version of mallow was attached to it before: use that one, or restart the program".to_owned(),
            )),
        }
    }

    /// Whether the library's code in the process is that of this build.
    fn is_same(&self, memory: &Memory, maps: &Maps) -> io::Result<bool> {
        let Some(code) = maps.iter().find(|m| m.executable && self.range.contains(&m.start)) else { return Ok(false) };
        let offset = code.offset as usize;
        let length = ((code.end - code.start) as usize).min(LIBRARY.len().saturating_sub(offset));
        Ok(LIBRARY.get(offset..offset + length) == Some(memory.read_up_to(code.start, length).as_slice()))
    }

    pub fn load(free: &mut FreeThreads, library: &CLibrary) -> Result<Self, AttachError> {
        let (pid, layout) = (free.pid(), layout()?);
        let mut bytes = if library.has_libdl { LIBRARY.to_vec() } else { without_libdl() };
        // The word that says that it is loaded late.
        let late = layout.offset + attachment::LATE;
        bytes[late..late + 4].copy_from_slice(&1_u32.to_le_bytes());
        let start = free.with(|thread, gateway, memory| {
            let room = thread.enter_room(gateway, memory)?;
            let loaded = (|| {
                let (file, path) = LibraryFile::make(pid, &bytes, (&mut *thread, gateway, memory, &room))?;
                let opened = memory
                    .write(room.name(), format!("{path}\0").as_bytes())
                    .map_err(AttachError::from)
                    .and_then(|()| {
                        let call = Call {
                            function: library.dlopen,
                            arguments: [room.name(), (libc::RTLD_NOW | libc::RTLD_LOCAL) as u64, 0],
                            errno: library.errno,
                        };
                        let map = thread.call(&room, memory, &call, PATIENCE)?;
                        if map != 0 || library.dlerror == 0 {
                            return Ok(map);
                        }
                        // Asked for here, it is not found by the thread later.
                        let why = thread.call(&room, memory, &Call { function: library.dlerror, ..call }, PATIENCE)?;
                        Err(AttachError::NotLoaded(text(memory, why)))
                    });
                if let Err(AttachError::Call(mallow_patch::CallError::Late(_))) = opened {
                    // The thread needs all of it still.
                    return opened;
                }
                file.remove(thread, gateway)?;
                opened
            })();
            if !matches!(loaded, Err(AttachError::Call(mallow_patch::CallError::Late(_)))) {
                thread.leave_room(&room)?;
            }
            match loaded? {
                0 => Err(AttachError::NotLoaded(String::new())),
                // `l_addr` of struct link_map: its first field.
                map => {
                    let mut bytes = [0; 8];
                    memory.read(map, &mut bytes)?;
                    Ok(u64::from_le_bytes(bytes))
                }
            }
        })?;
        Ok(Self::at(start, &layout))
    }

    fn at(start: u64, layout: &Layout) -> Self {
        let code = start + layout.code.start..start + layout.code.end;
        Self { range: start..start + layout.bytes, code, at: start + layout.at, tls_bytes: layout.tls_bytes }
    }

    fn word(&self, memory: &Memory, offset: usize) -> io::Result<u32> {
        let mut bytes = [0; 4];
        memory.read(self.at + offset as u64, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn long(&self, memory: &Memory, offset: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        memory.read(self.at + offset as u64, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn set(&self, memory: &Memory, offset: usize, value: u64) -> io::Result<()> {
        memory.write(self.at + offset as u64, &value.to_le_bytes())
    }

    /// Whether the library's constructor has ended.
    pub fn is_ready(&self, memory: &Memory) -> io::Result<bool> {
        // What its constructor writes last.
        Ok(self.long(memory, attachment::LEAVE)? != 0)
    }

    /// Whether the library takes part in a run.
    pub fn is_joined(&self, memory: &Memory) -> io::Result<bool> {
        Ok(self.word(memory, attachment::STATE)? == attachment::JOINED)
    }

    /// The directory of the run that the library joined last, as the process reaches it.
    pub fn directory(&self, memory: &Memory) -> io::Result<String> {
        let mut bytes = [0; attachment::DIRECTORY_BYTES];
        memory.read(self.at + attachment::DIRECTORY as u64, &mut bytes)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Sets the directory of the run to join. A path of `DIRECTORY_BYTES` or more is an error.
    pub fn set_directory(&self, memory: &Memory, directory: &[u8]) -> Result<(), AttachError> {
        if directory.len() >= attachment::DIRECTORY_BYTES {
            let directory = String::from_utf8_lossy(directory).into_owned();
            return Err(AttachError::Unreached { directory, reason: "its name is too long".to_owned() });
        }
        let bytes = [directory, b"\0"].concat();
        Ok(memory.write(self.at + attachment::DIRECTORY as u64, &bytes)?)
    }

    /// The functions that are to be patched, with their indices in the library's table; without those that the process
    /// does not have.
    pub fn entries(&self, memory: &Memory) -> io::Result<Vec<(usize, LateEntry)>> {
        let entry = |index: usize| -> io::Result<LateEntry> {
            let at = attachment::ENTRIES + index * attachment::ENTRY_BYTES;
            Ok(LateEntry { function: self.long(memory, at)?, replacement: self.long(memory, at + 8)? })
        };
        let all = (0..attachment::LATE_MOST).map(|index| entry(index).map(|entry| (index, entry)));
        let all: io::Result<Vec<_>> = all.collect();
        Ok(all?.into_iter().filter(|(_, entry)| entry.function != 0).collect())
    }

    /// Addresses of the library's stubs, indexed by `enum mallow_stub`.
    pub fn stubs(&self, memory: &Memory) -> io::Result<Vec<u64>> {
        (0..attachment::STUBS).map(|index| self.long(memory, attachment::STUB + 8 * index)).collect()
    }

    /// Address of the patches' code for the module that starts at `module`, now or at the last attachment. None: it has
    /// none.
    pub fn area(&self, memory: &Memory, module: u64) -> io::Result<Option<u64>> {
        let all = self.patched(memory)?;
        Ok(all.into_iter().find(|&(start, area)| start == module && area != 0).map(|(_, area)| area))
    }

    /// Notes the [`area`](Self::area) of the module that starts at `module`. False: there is no room for more modules.
    pub fn set_area(&self, memory: &Memory, module: u64, area: u64) -> io::Result<bool> {
        let all = self.patched(memory)?;
        let own = all.iter().position(|&(start, area)| start == module && area != 0);
        let Some(index) = own.or_else(|| all.iter().position(|&(_, area)| area == 0)) else { return Ok(false) };
        let at = attachment::PATCHED + index * attachment::PATCHED_BYTES;
        self.set(memory, at, module)?;
        self.set(memory, at + 8, area)?;
        Ok(true)
    }

    fn patched(&self, memory: &Memory) -> io::Result<Vec<(u64, u64)>> {
        let at = |index| attachment::PATCHED + index * attachment::PATCHED_BYTES;
        let entry = |index| Ok((self.long(memory, at(index))?, self.long(memory, at(index) + 8)?));
        (0..attachment::PATCHED_MOST).map(entry).collect()
    }

    /// Sets the code that does what function `index` of the library's table does without its patch. 0: it has no patch.
    pub fn set_trampoline(&self, memory: &Memory, index: usize, address: u64) -> io::Result<()> {
        self.set(memory, attachment::ENTRIES + index * attachment::ENTRY_BYTES + 16, address)
    }

    /// Sets the code whose calls are none of the program's, Mallow's own first. Refused beyond `INSIDE_MOST` ranges:
    /// the calls of one that is left out would count as the program's.
    pub fn set_inside(&self, memory: &Memory, ranges: &[Range<u64>]) -> Result<(), AttachError> {
        if ranges.len() > attachment::INSIDE_MOST {
            return Err(AttachError::Unsupported(format!(
                "its memory functions are of {} modules, and mallow attaches where they are of at most {}: start it \
                 under mallow (mallow record -- COMMAND)",
                ranges.len() - 1,
                attachment::INSIDE_MOST - 1
            )));
        }
        for index in 0..attachment::INSIDE_MOST {
            let at = attachment::INSIDE + index * attachment::INSIDE_BYTES;
            let range = ranges.get(index).cloned().unwrap_or(0..0);
            self.set(memory, at, range.start)?;
            self.set(memory, at + 8, range.end - range.start)?;
        }
        Ok(())
    }

    /// The process's descriptor of the socket by which the library waits for the run directory. None: it does not wait.
    fn socket(&self, memory: &Memory) -> io::Result<Option<i32>> {
        Ok(i32::try_from(self.word(memory, attachment::SOCKET)?)
            .ok()
            .and_then(|socket| socket.checked_sub(1))
            .filter(|&socket| socket >= 0))
    }

    /// Has the library join the run of its directory: by the path, or by a descriptor that is sent to it. False: it
    /// cannot.
    pub fn join(
        &self,
        free: &mut FreeThreads,
        library: &CLibrary,
        directory: Option<&OwnedFd>,
    ) -> Result<bool, AttachError> {
        let (pid, memory, over) = (free.pid(), free.memory(), AtomicBool::new(false));
        memory.write(self.at + attachment::ARRIVAL as u64, &u32::from(directory.is_some()).to_le_bytes())?;
        std::thread::scope(|scope| {
            let over = &over;
            let sender = directory
                .map(|directory| scope.spawn(move || arrival::send(pid, &|| self.socket(memory), directory, over)));
            let joined = free.with(|thread, gateway, memory| {
                let function = self.long(memory, attachment::JOIN)?;
                Ok(call(thread, gateway, memory, function, library)? == 0)
            });
            over.store(true, Ordering::Release);
            match sender.map(|sender| sender.join()) {
                Some(Ok(Err(error))) => Err(error.into()),
                _ => joined,
            }
        })
    }

    /// Has the library leave the run. `thread` is one of a stopped process that has no thread in the library.
    pub fn leave(
        &self,
        thread: &mut Thread,
        (gateway, room): (Gateway, Option<Room>),
        memory: &Memory,
        library: &CLibrary,
    ) -> Result<(), AttachError> {
        let function = self.long(memory, attachment::LEAVE)?;
        match room {
            Some(room) => {
                let call = Call { function, arguments: [0; 3], errno: library.errno };
                thread.call(&room, memory, &call, PATIENCE)?;
            }
            None => drop(call(thread, gateway, memory, function, library)?),
        }
        Ok(())
    }

    /// Zeroes the library's variables of each of these threads, as they are at its start.
    pub fn clear<'a>(&self, threads: impl Iterator<Item = &'a Thread>, memory: &Memory) -> io::Result<()> {
        let (tls, zeros) = (self.long(memory, attachment::TLS)?, vec![0; self.tls_bytes as usize]);
        for thread in threads {
            memory.write(thread.thread_pointer()?.wrapping_add(tls), &zeros)?;
        }
        Ok(())
    }
}

fn call(
    thread: &mut Thread,
    gateway: Gateway,
    memory: &Memory,
    function: u64,
    library: &CLibrary,
) -> Result<u64, AttachError> {
    let room = thread.enter_room(gateway, memory)?;
    let result = thread.call(&room, memory, &Call { function, arguments: [0; 3], errno: library.errno }, PATIENCE);
    if !matches!(result, Err(mallow_patch::CallError::Late(_))) {
        thread.leave_room(&room)?;
    }
    Ok(result?)
}

/// Whether a mallow has attached to the process, now or before: the library stays in it.
pub fn is_loaded(pid: u32) -> bool {
    Maps::read(pid).is_ok_and(|maps| maps.iter().any(|mapping| is_library(&mapping.path)))
}

/// `: ` and the text at an address of the process, at most 300 bytes; nothing if that is empty.
fn text(memory: &Memory, at: u64) -> String {
    let bytes = memory.read_up_to(at, 300);
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    match String::from_utf8_lossy(&bytes[..end]) {
        none if none.is_empty() => String::new(),
        why => format!(": {why}"),
    }
}

/// Whether a process is a mallow: this program, or one of its name.
fn is_mallow(pid: u32) -> bool {
    let identity = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let own = identity("/proc/self/exe");
    own.is_some() && own == identity(&format!("/proc/{pid}/exe"))
        || Process::read(pid).is_ok_and(|process| process.name == "mallow")
}

/// Why the process cannot be attached to, as far as that can be seen without stopping it. Where seccomp restricts it,
/// its threads are stopped for a moment each.
pub fn obstacle(pid: u32) -> Option<AttachError> {
    let grave = |obstacle: &Obstacle| match obstacle {
        // One that waits for a disk goes on by itself.
        Obstacle::Uninterruptible(_) => false,
        // Another mallow traces for some milliseconds.
        Obstacle::Traced { tracer, .. } => !is_mallow(*tracer),
        _ => true,
    };
    if let Some(obstacle) = Obstacle::all(pid).into_iter().find(grave) {
        // The program's file says more: what it is, and what shows its memory instead.
        let program = || {
            let process = Process::read(pid).ok().filter(|_| obstacle == Obstacle::Static)?;
            preflight::file(&process.path(&process.executable().ok()?))
        };
        if let Some(finding) = program() {
            return Some(AttachError::Unsupported(finding.sentence()));
        }
        return Some(AttachError::Obstacle(obstacle));
    }
    sandbox::check(pid).err()
}
