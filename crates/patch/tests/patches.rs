//! Patches written into processes that run, and restored.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mallow_patch::{
    Code, Detour, Draft, Function, Gateway, JUMP, Maps, Memory, Module, Placed, Process, Refusal, Unwinder, WriteError,
    stop,
};
use object::{Object, ObjectSymbol, SymbolKind};

const PATIENCE: Duration = Duration::from_secs(20);

/// A process that is killed at the end of a test.
struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Target {
    /// Starts `programs/storm.c`.
    fn start(place: &Path, threads: usize) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/storm.c");
        let output = place.join("storm");
        let built =
            Command::new("cc").args(["-O1", "-fno-builtin", "-pthread", "-o"]).args([&output, &source]).status();
        assert!(built.expect("a C compiler").success());
        let mut storm = Command::new(output);
        storm.arg(threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut target = Self(storm.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        target
    }

    fn module(&self, name: &str) -> Module {
        let process = Process::read(self.0.id()).unwrap();
        let maps = Maps::read(process.pid).unwrap();
        Module::all(&process, &maps).0.into_iter().find(|module| module.path.contains(name)).unwrap()
    }

    /// Whether all of its blocks were as they have to be.
    fn end(mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().unwrap().success()
    }
}

/// The functions of a module by their names, and where all of its functions begin.
fn functions(module: &Module, names: &[&str]) -> (Vec<Function>, Vec<u64>) {
    let bytes = fs::read(&module.file).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols: Vec<_> =
        file.dynamic_symbols().chain(file.symbols()).filter(|s| s.kind() == SymbolKind::Text).collect();
    let find = |name: &&str| {
        let symbol = symbols.iter().find(|symbol| symbol.name() == Ok(*name) && symbol.is_definition()).unwrap();
        Function { address: module.bias + symbol.address(), size: symbol.size(), ifunc: false }
    };
    let starts = symbols.iter().filter(|symbol| symbol.is_definition()).map(|symbol| module.bias + symbol.address());
    (names.iter().map(find).collect(), starts.collect())
}

/// Counts calls, and goes on in the trampoline: `lock incq counter(%rip); jmp *(%r9)`, the counter 64 bytes on.
fn counting_stub() -> Vec<u8> {
    let mut stub = b"\xf0\x48\xff\x05".to_vec();
    stub.extend(56_u32.to_le_bytes());
    stub.extend(b"\x41\xff\x21");
    stub.resize(4096, 0);
    stub
}

/// Tries again while a signal handler is at an entry.
fn write(pid: u32, memory: &Memory, placed: &[Placed]) -> u32 {
    for retries in 0..1000 {
        match stop(pid, PATIENCE, |stopped| stopped.write_patches(memory, placed)).unwrap() {
            Ok(()) => return retries,
            Err(WriteError::Interrupted(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a signal handler is always there");
}

#[test]
fn a_storm_of_allocations_is_patched_and_restored_two_hundred_times() {
    let place = tempfile::tempdir().unwrap();
    let target = Target::start(place.path(), 8);
    let pid = target.0.id();
    let memory = Memory::open_writable(pid).unwrap();
    let libc = target.module("/libc.so.6");
    let before: Vec<_> = libc.texts(&memory);
    let (wanted, starts) = functions(&libc, &["malloc", "calloc", "realloc", "free"]);
    let code = Code::read(&libc, &memory, starts);
    let area = |bytes| Maps::read(pid).unwrap().free_area_near(libc.range.clone(), bytes).unwrap();
    // The replacement may be anywhere; the area is mapped once, as by who attaches again.
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    let map = |address, bytes, rights| {
        let mapped = stop(pid, PATIENCE, |stopped| {
            let gateway = Gateway::find(stopped.pid())?;
            stopped.map(gateway, address, bytes, rights)
        });
        mapped.unwrap().unwrap();
    };
    let stub = area(4096);
    map(stub, 4096, rights | libc::PROT_WRITE);
    memory.write(stub, &counting_stub()).unwrap();
    let detour = |function| Detour { function, to: stub, data: Some(Vec::new()) };
    let (draft, refused) = Draft::of(&code, wanted.iter().copied().map(detour).collect());
    assert_eq!(refused, []);
    let bytes = draft.bytes();
    let placed = [draft.place(area(bytes)).unwrap()];
    map(placed[0].area, bytes, rights);
    let calls = || {
        let mut counter = [0; 8];
        memory.read(stub + 64, &mut counter).unwrap();
        u64::from_le_bytes(counter)
    };
    let mut retries = 0;
    for round in 0..200 {
        let seen = calls();
        retries += write(pid, &memory, &placed);
        let entry = memory.read_up_to(placed[0].writes[0].at, JUMP as usize);
        assert_eq!(entry, placed[0].writes[0].after);
        while calls() < seen + 100 {
            std::thread::yield_now();
        }
        stop(pid, PATIENCE, |stopped| stopped.restore_patches(&memory, &placed)).unwrap().unwrap();
        for write in &placed[0].writes {
            assert_eq!(memory.read_up_to(write.at, JUMP as usize), write.before, "in round {round}");
        }
    }
    for (now, then) in libc.texts(&memory).iter().zip(&before) {
        assert!(now.memory == then.memory, "the text is not what it was");
    }
    println!("{} calls, {retries} attempts met a signal handler at an entry", calls());
    // Nobody returns into a stub or a trampoline: they can go.
    let unwinder = Unwinder::new(std::slice::from_ref(&libc));
    let gone = |ranges: &[std::ops::Range<u64>]| {
        stop(pid, PATIENCE, |stopped| stopped.refers_to(&memory, &unwinder, ranges, &mut HashSet::new()))
            .unwrap()
            .unwrap()
            .is_empty()
    };
    while !gone(&[placed[0].range(), stub..stub + 4096]) {
        std::thread::yield_now();
    }
    assert!(target.end(), "a block was wrong");
}

#[test]
fn what_others_changed_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let target = Target::start(place.path(), 1);
    let pid = target.0.id();
    let memory = Memory::open_writable(pid).unwrap();
    let libc = target.module("/libc.so.6");
    let (wanted, starts) = functions(&libc, &["valloc", "pvalloc", "valloc"]);
    let code = Code::of_file(&libc, starts);
    let detours = wanted.iter().map(|function| Detour { function: *function, to: 0x1234_5678_9abc, data: None });
    let (draft, refused) = Draft::of(&code, detours.collect());
    assert_eq!(refused, []);
    let area = Maps::read(pid).unwrap().free_area_near(libc.range.clone(), draft.bytes()).unwrap();
    let placed = [draft.place(area).unwrap()];
    // Two functions, and the same one again.
    assert_eq!(placed[0].writes.len(), 2);
    assert!(placed[0].trampoline(wanted[0].address).is_some_and(|at| placed[0].range().contains(&at)));
    assert_eq!(placed[0].trampoline(wanted[0].address + 1), None);
    let act =
        |act: &(dyn Fn(&mut mallow_patch::Stopped) -> Result<(), WriteError> + Sync)| stop(pid, PATIENCE, act).unwrap();
    act(&|stopped| {
        let gateway = Gateway::find(stopped.pid())?;
        Ok(stopped.map(gateway, area, draft.bytes(), libc::PROT_READ | libc::PROT_EXEC)?)
    })
    .unwrap();
    let second = &placed[0].writes[1];
    // Somebody else's jump: nothing is written, not even into the first one.
    memory.write(second.at, &[0xe9, 1, 2, 3, 4]).unwrap();
    let changed = act(&|stopped| stopped.write_patches(&memory, &placed)).unwrap_err();
    assert!(matches!(changed, WriteError::Changed(at) if at == second.at), "{changed}");
    assert_eq!(memory.read_up_to(placed[0].writes[0].at, 5), placed[0].writes[0].before);
    memory.write(second.at, &second.before).unwrap();
    // And after the patch: theirs stays, ours goes.
    act(&|stopped| stopped.write_patches(&memory, &placed)).unwrap();
    memory.write(second.at, &[0xe9, 1, 2, 3, 4]).unwrap();
    let changed = act(&|stopped| stopped.restore_patches(&memory, &placed)).unwrap_err();
    assert!(matches!(changed, WriteError::Changed(at) if at == second.at), "{changed}");
    assert_eq!(memory.read_up_to(second.at, 5), [0xe9, 1, 2, 3, 4]);
    assert_eq!(memory.read_up_to(placed[0].writes[0].at, 5), placed[0].writes[0].before);
    memory.write(second.at, &second.before).unwrap();
    assert!(target.end());
}

#[test]
fn refusals_have_the_function() {
    let place = tempfile::tempdir().unwrap();
    let target = Target::start(place.path(), 1);
    let libc = target.module("/libc.so.6");
    let (mut wanted, starts) = functions(&libc, &["malloc", "memcpy"]);
    wanted[1].ifunc = true;
    wanted.push(Function { address: libc.range.end + 4096, size: 0, ifunc: false });
    let detour = |function: &Function| Detour { function: *function, to: 1, data: None };
    let (draft, refused) = Draft::of(&Code::of_file(&libc, starts), wanted.iter().map(detour).collect());
    assert!(!draft.is_empty() && draft.module() == libc.range);
    assert_eq!(refused, [(wanted[1], Refusal::Ifunc), (wanted[2], Refusal::Unreadable)]);
}
