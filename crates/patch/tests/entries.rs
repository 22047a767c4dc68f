//! Entries of real libraries: planned, moved, compared, and executed.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::path::{Path, PathBuf};
use std::{fs, ptr, slice};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use mallow_patch::{Branches, Entry, JUMP, Memory, Patch, Refusal, plan};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// A library, as if it were loaded at an address.
struct Library {
    text: Vec<u8>,
    /// Where its text is loaded.
    address: u64,
    module: (u64, u64),
    branches: Branches,
    /// Where functions begin, sorted.
    starts: Vec<u64>,
    functions: BTreeMap<String, Function>,
}

#[derive(Clone, Copy)]
struct Function {
    address: u64,
    size: u64,
    ifunc: bool,
}

/// A library that is loaded at `bias`, or None where this machine does not have it.
fn library(path: &Path, bias: u64) -> Option<Library> {
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).unwrap();
    let start = file.section_by_name(".text").unwrap().address();
    let holds = |segment: &object::Segment| (segment.address()..segment.address() + segment.size()).contains(&start);
    let text = file.segments().find(holds).unwrap();
    let (first, last) = (text.address(), text.address() + text.size());
    let mut functions = BTreeMap::new();
    for symbol in file.dynamic_symbols().chain(file.symbols()).filter(|s| !s.is_undefined()) {
        let object::SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let kind = st_info & 15;
        let inside = (first..last).contains(&symbol.address());
        if inside && (kind == object::elf::STT_FUNC || kind == object::elf::STT_GNU_IFUNC) {
            let function = Function {
                address: symbol.address() + bias,
                size: symbol.size(),
                ifunc: kind == object::elf::STT_GNU_IFUNC,
            };
            functions.insert(symbol.name().unwrap().to_owned(), function);
        }
    }
    let mut starts: Vec<u64> = functions.values().map(|function| function.address).collect();
    starts.sort_unstable();
    starts.dedup();
    let text = text.data().unwrap().to_vec();
    let branches = Branches::of(&text, first + bias, &starts);
    Some(Library { text, address: first + bias, module: (bias, bias + (64 << 20)), branches, starts, functions })
}

impl Library {
    fn plan(&self, function: Function) -> Result<Patch, Refusal> {
        let end = self.address + self.text.len() as u64;
        let next = self.starts[self.starts.partition_point(|start| *start <= function.address)..].first();
        let code = &self.text[(function.address - self.address) as usize..];
        let entry = Entry {
            address: function.address,
            size: function.size,
            next: next.copied().unwrap_or(end),
            ifunc: function.ifunc,
            memory: code,
            file: code,
            module: self.module,
        };
        plan(&entry, &self.branches)
    }
}

/// Allocators that this machine may have, with their functions.
fn allocators() -> Vec<(PathBuf, &'static [&'static str])> {
    const STANDARD: [&str; 9] =
        ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"];
    const NEW: [&str; 6] = ["_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZnwmSt11align_val_t"];
    const JEMALLOC: [&str; 6] = ["mallocx", "rallocx", "xallocx", "dallocx", "sdallocx", "nallocx"];
    const TCMALLOC: [&str; 6] = ["tc_malloc", "tc_free", "tc_calloc", "tc_realloc", "tc_new", "tc_delete"];
    const MIMALLOC: [&str; 8] = [
        "mi_malloc",
        "mi_free",
        "mi_calloc",
        "mi_zalloc",
        "mi_realloc",
        "mi_malloc_aligned",
        "mi_heap_malloc",
        "mi_new",
    ];
    let of = |name: &str| Path::new(LIBRARIES).join(name);
    vec![
        (of("libc.so.6"), &STANDARD),
        (PathBuf::from("/lib/ld-musl-x86_64.so.1"), &STANDARD[..4]),
        (of("libjemalloc.so.2"), &STANDARD[..8]),
        (of("libjemalloc.so.2"), &JEMALLOC),
        (of("libjemalloc.so.2"), &NEW[..5]),
        (of("libtcmalloc_minimal.so.4"), &STANDARD),
        (of("libtcmalloc_minimal.so.4"), &TCMALLOC),
        (of("libtcmalloc_minimal.so.4"), &NEW),
        (of("libmimalloc.so.2"), &STANDARD),
        (of("libmimalloc.so.2"), &MIMALLOC),
        (of("libstdc++.so.6"), &NEW),
    ]
}

const BIAS: u64 = 0x7f12_3450_0000;

#[test]
fn each_entry_of_an_allocator_can_be_patched() {
    let mut planned = 0;
    for (path, names) in allocators() {
        let Some(library) = library(&path, BIAS) else {
            eprintln!("not run: {} is not here", path.display());
            continue;
        };
        for name in names {
            let function = library.functions.get(*name).copied();
            let function = function.unwrap_or_else(|| panic!("{} has no {name}", path.display()));
            let patch = library.plan(function).unwrap_or_else(|why| panic!("{}: {name}: {why}", path.display()));
            let displaced = patch.range().end - patch.range().start;
            assert!((JUMP..=20).contains(&displaced), "{name}: {displaced} bytes");
            same_as_original(&library, &patch, library.module.1 + 0x1000);
            planned += 1;
        }
    }
    assert!(planned >= 9, "glibc's at least");
}

/// Every function of large libraries: what is planned does what it did, and writes five bytes of that function alone.
#[test]
fn what_is_planned_for_any_function_is_the_same_code() {
    let names = ["libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "libm.so.6", "libjemalloc.so.2", "libmimalloc.so.2"];
    for name in names {
        let Some(library) = library(&Path::new(LIBRARIES).join(name), BIAS) else {
            eprintln!("not run: {name} is not here");
            continue;
        };
        let mut refused: BTreeMap<String, u32> = BTreeMap::new();
        let mut planned = 0_u32;
        for function in library.functions.values() {
            match library.plan(*function) {
                Ok(patch) => {
                    planned += 1;
                    for place in [library.module.1 + 0x1000, library.module.0 - 0x10_0000] {
                        same_as_original(&library, &patch, place);
                    }
                    let range = patch.range();
                    let after = library.starts.partition_point(|start| *start <= function.address);
                    assert!(library.starts.get(after).is_none_or(|next| *next >= range.start + JUMP));
                    let at = (range.start - library.address) as usize;
                    assert_eq!(patch.original(), &library.text[at..at + JUMP as usize]);
                }
                Err(why) => *refused.entry(format!("{why:?}")).or_default() += 1,
            }
        }
        println!("{name}: {planned} of {} planned; refused: {refused:?}", library.functions.len());
        assert!(f64::from(planned) > 0.6 * library.functions.len() as f64, "{name}: {refused:?}");
    }
}

/// Compares a trampoline's instructions with those that it stands for.
fn same_as_original(library: &Library, patch: &Patch, place: u64) {
    let moved = patch.trampoline(place).unwrap();
    let mut moved = Decoder::with_ip(64, &moved, place, DecoderOptions::NONE).into_iter();
    let range = patch.range();
    let code = &library.text[(range.start - library.address) as usize..];
    let mut ip = range.start;
    for original in Decoder::with_ip(64, code, range.start, DecoderOptions::NONE) {
        let after = moved.next().unwrap();
        assert_eq!(meaning(&original), meaning(&after), "{original} at {:#x}", original.ip());
        ip = original.next_ip();
        let ends = matches!(
            original.flow_control(),
            iced_x86::FlowControl::UnconditionalBranch
                | iced_x86::FlowControl::IndirectBranch
                | iced_x86::FlowControl::Return
        );
        if ends {
            assert_eq!(moved.next(), None);
            return;
        }
        if ip >= range.start + JUMP {
            break;
        }
    }
    let back = moved.next().unwrap();
    assert_eq!((back.mnemonic(), back.near_branch_target()), (Mnemonic::Jmp, ip));
    assert_eq!(moved.next(), None);
}

/// What an instruction does, wherever it is.
fn meaning(instruction: &Instruction) -> (Mnemonic, Vec<String>) {
    let operand = |index| match instruction.op_kind(index) {
        OpKind::NearBranch64 | OpKind::NearBranch32 => format!("{:#x}", instruction.near_branch_target()),
        OpKind::Memory => format!(
            "{:?} {:?}+{:?}*{}+{:#x} {:?}",
            instruction.segment_prefix(),
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64(),
            instruction.memory_size(),
        ),
        OpKind::Register => format!("{:?}", instruction.op_register(index)),
        kind => match instruction.try_immediate(index) {
            Ok(value) => format!("{value:#x}"),
            Err(_) => format!("{kind:?}"),
        },
    };
    (instruction.mnemonic(), (0..instruction.op_count()).map(operand).collect())
}

/// A library that is loaded into this process, with what the dynamic linker says of it.
struct Loaded {
    handle: *mut c_void,
    library: Library,
}

impl Loaded {
    fn open(name: &str) -> Option<Self> {
        let path = CString::new(format!("{LIBRARIES}/{name}")).unwrap();
        // SAFETY: the path is a string; these libraries' initialisers do no harm.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror returns a string after a failure.
            eprintln!("not run: {}", unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy());
            return None;
        }
        let file = library(Path::new(path.to_str().unwrap()), 0)?;
        let (name, function) = file.functions.iter().find(|(_, f)| !f.ifunc && f.size > 0)?;
        let name = CString::new(name.split('@').next().unwrap()).unwrap();
        // SAFETY: the handle is open, and the name is a string.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) } as u64;
        let library = library(Path::new(path.to_str().unwrap()), address.wrapping_sub(function.address))?;
        Some(Self { handle, library })
    }

    fn function(&self, name: &str) -> Function {
        self.library.functions[name]
    }
}

/// A page that can be executed, near a module.
fn page_near(module: (u64, u64)) -> *mut u8 {
    for _ in 0..100 {
        // Anew each time: another test may have taken the page.
        let maps = mallow_patch::Maps::read(std::process::id()).unwrap();
        let page = maps.free_area_near(module.0..module.1, 4096).unwrap();
        let (rights, flags) =
            (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: nothing is mapped there, and nothing is replaced.
        let got = unsafe { libc::mmap(page as *mut c_void, 4096, rights, flags | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        if got != libc::MAP_FAILED {
            return got.cast();
        }
    }
    panic!("no page");
}

/// The trampoline of a function of a loaded library, in a page of its own.
fn moved(loaded: &Loaded, name: &str) -> *mut u8 {
    let patch = loaded.library.plan(loaded.function(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    let page = page_near(loaded.library.module);
    let code = patch.trampoline(page as u64).unwrap();
    // SAFETY: the page is fresh and large enough.
    unsafe { ptr::copy_nonoverlapping(code.as_ptr(), page, code.len()) };
    page
}

/// Trampolines of functions of the C library give what the functions give.
#[test]
fn trampolines_of_pure_functions_give_equal_results() {
    let libc = Loaded::open("libc.so.6").unwrap();
    type OfNumber = extern "C" fn(c_int) -> c_int;
    type OfLong = extern "C" fn(c_long) -> c_long;
    type OfText = unsafe extern "C" fn(*const c_char) -> c_long;
    // SAFETY: dlsym and a plan agree on where the function is; its type is C's.
    unsafe {
        let original = |name: &str| libc::dlsym(libc.handle, CString::new(name).unwrap().as_ptr());
        for name in ["abs", "ffs", "toupper", "tolower", "isalpha", "isdigit", "isspace", "toascii", "htonl"] {
            let plain: OfNumber = std::mem::transmute(original(name));
            let trampoline: OfNumber = std::mem::transmute(moved(&libc, name));
            for number in -1..256 {
                assert_eq!(plain(number), trampoline(number), "{name}({number})");
            }
        }
        for name in ["labs", "llabs", "ffsl"] {
            let plain: OfLong = std::mem::transmute(original(name));
            let trampoline: OfLong = std::mem::transmute(moved(&libc, name));
            for number in [0, 1, -1, 1 << 40, i64::MAX, i64::MIN + 1] {
                assert_eq!(plain(number), trampoline(number), "{name}({number})");
            }
        }
        for name in ["atoi", "atol", "atoll"] {
            let plain: OfText = std::mem::transmute(original(name));
            let trampoline: OfText = std::mem::transmute(moved(&libc, name));
            for text in [c"0", c" -17", c"99999999", c"", c"x", c"12x"] {
                assert_eq!(plain(text.as_ptr()), trampoline(text.as_ptr()), "{name}({text:?})");
            }
        }
        type Malloc = extern "C" fn(usize) -> *mut u8;
        type Free = unsafe extern "C" fn(*mut u8);
        let (malloc, free) = (moved(&libc, "malloc"), moved(&libc, "free"));
        let malloc: Malloc = std::mem::transmute(malloc);
        let free: Free = std::mem::transmute(free);
        for size in [0, 1, 100, 5000, 1 << 20] {
            let block = malloc(size);
            assert!(!block.is_null() && libc::malloc_usable_size(block.cast()) >= size);
            ptr::write_bytes(block, 7, size);
            free(block);
        }
    }
}

/// Patches of a whole allocator, written into a library that this process has loaded: each call comes through its stub,
/// and the text is as before at the end.
#[test]
fn a_patched_allocator_works_and_is_restored_byte_for_byte() {
    let Some(loaded) = Loaded::open("libmimalloc.so.2") else { return };
    let memory = Memory::open_writable(std::process::id()).unwrap();
    let text = |library: &Library| memory.read_up_to(library.address, library.text.len());
    let before = text(&loaded.library);
    assert!(before == loaded.library.text, "the text is that of the file");
    let names = ["mi_malloc", "mi_calloc", "mi_realloc", "mi_free", "mi_zalloc", "mi_malloc_aligned"];
    let mut patches = Vec::new();
    let stubs = page_near(loaded.library.module);
    for (index, name) in names.iter().enumerate() {
        let patch = loaded.library.plan(loaded.function(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        // A counter, and `lock incq counter(%rip)` followed by the trampoline.
        let (counter, stub) = (stubs as u64 + 8 * index as u64, stubs as u64 + 256 + 128 * index as u64);
        let mut code = b"\xf0\x48\xff\x05".to_vec();
        code.extend((counter.wrapping_sub(stub + 8) as i32).to_le_bytes());
        code.extend(patch.trampoline(stub + code.len() as u64).unwrap());
        assert!(code.len() < 128);
        memory.write(stub, &code).unwrap();
        memory.write(patch.range().start, &patch.jump(stub).unwrap()).unwrap();
        patches.push(patch);
    }
    let after = text(&loaded.library);
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!((1..=names.len() * JUMP as usize).contains(&changed), "{changed} bytes");
    // SAFETY: the functions' types are those of mimalloc's header, and blocks are freed once.
    unsafe {
        let get = |name: &str| libc::dlsym(loaded.handle, CString::new(name).unwrap().as_ptr());
        let malloc: extern "C" fn(usize) -> *mut u8 = std::mem::transmute(get("mi_malloc"));
        let calloc: extern "C" fn(usize, usize) -> *mut u8 = std::mem::transmute(get("mi_calloc"));
        let realloc: unsafe extern "C" fn(*mut u8, usize) -> *mut u8 = std::mem::transmute(get("mi_realloc"));
        let free: unsafe extern "C" fn(*mut u8) = std::mem::transmute(get("mi_free"));
        let aligned: extern "C" fn(usize, usize) -> *mut u8 = std::mem::transmute(get("mi_malloc_aligned"));
        for size in 1..2000_usize {
            let block = malloc(size);
            ptr::write_bytes(block, size as u8, size);
            let block = realloc(block, size * 3);
            assert!(slice::from_raw_parts(block, size).iter().all(|byte| *byte == size as u8));
            let zeros = calloc(size, 2);
            assert!(slice::from_raw_parts(zeros, size * 2).iter().all(|byte| *byte == 0));
            let even = aligned(size, 64);
            assert_eq!(even as usize % 64, 0);
            for block in [block, zeros, even] {
                free(block);
            }
        }
        let counters = slice::from_raw_parts(stubs.cast::<u64>(), names.len());
        for (name, (count, least)) in names.iter().zip(counters.iter().zip([1999, 1999, 1999, 3 * 1999, 0, 1999])) {
            assert!(*count >= least, "{name}: {count}");
        }
    }
    for patch in &patches {
        memory.write(patch.range().start, patch.original()).unwrap();
    }
    assert!(text(&loaded.library) == before, "the text is restored");
}
