//! A target played by the test: it writes a process file as `preload/base/wire.h` lays it out.

use super::{Turn, Watch, WatchError};
use crate::rundir::directory::{Mode, Regions, RunDirectory, Scans, Settings, monotonic_ns, tick_ns};
use crate::session::leftovers;
use crate::wire::{self, Shared, control, end, module, process, sampling, slot, stack};
use mallow_profile::{Lost, SampleEvent};
use std::fs::{self, File, OpenOptions};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

const SLOTS: u32 = 8;
const ENDS: u32 = 4;
const STACK_BYTES: u64 = 4096;
const SAMPLING: usize = process::BYTES + wire::MAX_MODULES as usize * module::BYTES + 4096;
const SLOTS_AT: usize = SAMPLING + sampling::BYTES;
const ENDS_AT: usize = SLOTS_AT + SLOTS as usize * slot::BYTES;
const STACKS_AT: usize = ENDS_AT + ENDS as usize * end::BYTES;
const FILE_BYTES: usize = STACKS_AT + STACK_BYTES as usize;

fn mapped(path: &std::path::Path, bytes: usize) -> Shared {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    if file.metadata().unwrap().len() < bytes as u64 {
        file.set_len(bytes as u64).unwrap();
    }
    Shared::map(&file, bytes).unwrap()
}

struct Target {
    file: Shared,
    ended: u64,
    stacks: u64,
}

fn directory() -> TempDir {
    let place = tempfile::Builder::new().prefix("mallow-").tempdir().unwrap();
    fs::write(place.path().join("about"), format!("1 {}\nserver\0", monotonic_ns())).unwrap();
    fs::create_dir(place.path().join("tables")).unwrap();
    let control = mapped(&place.path().join("control"), control::FILE_BYTES);
    control.set32(control::MAGIC, wire::CONTROL_MAGIC);
    control.set32(control::VERSION, wire::VERSION);
    control.set32(control::MODE, wire::MODE_SAMPLE);
    control.set64(control::PERIOD, 4096);
    place
}

impl Target {
    fn new(place: &TempDir, pid: u32, parent: u32) -> Self {
        let file = mapped(&place.path().join(format!("p-{pid}-0")), FILE_BYTES);
        for (at, value) in [
            (process::MAGIC, wire::PROCESS_MAGIC),
            (process::VERSION, wire::VERSION),
            (process::PID, pid),
            (process::PARENT_PID, parent),
            (process::MAX_THREADS, 1),
            (process::LARGE_RING_WORDS, 1),
            (process::SMALL_RING_WORDS, 1),
            (SAMPLING + sampling::MAX_SLOTS, SLOTS),
            (SAMPLING + sampling::MAX_ENDS, ENDS),
        ] {
            file.set32(at, value);
        }
        for (at, value) in [
            (process::START_NS, start_ns() + 5),
            (process::MODULES_OFFSET, process::BYTES as u64),
            (process::THREADS_OFFSET, (SAMPLING - 4096) as u64),
            (process::RINGS_OFFSET, SAMPLING as u64),
            (process::SAMPLING, SAMPLING as u64),
            (SAMPLING + sampling::SLOTS_OFFSET, SLOTS_AT as u64),
            (SAMPLING + sampling::ENDS_OFFSET, ENDS_AT as u64),
            (SAMPLING + sampling::STACKS_OFFSET, STACKS_AT as u64),
            (SAMPLING + sampling::STACKS_BYTES, STACK_BYTES),
        ] {
            file.set64(at, value);
        }
        file.set32(process::STATE, wire::PROCESS_READY);
        Self { file, ended: 0, stacks: 8 }
    }

    fn sample(&self, at: usize, sequence: u64, size: u64, stack: u32, flags: u8) {
        self.file.set64(at + slot::ADDRESS, 0x1000 + size);
        self.file.set64(at + slot::SIZE, size);
        self.file.set64(at + slot::BEGAN_NS, start_ns() + 100);
        self.file.set32(at + slot::PERIOD, 4096);
        self.file.set32(at + slot::TID, 7);
        self.file.set32(at + slot::STACK, stack);
        self.file.set32(at + slot::FAMILY, u32::from(flags) << 8);
        self.file.set64(at + slot::SEQUENCE, sequence);
    }

    fn allocate(&self, index: u32, generation: u64, size: u64, stack: u32, flags: u8) {
        let at = SLOTS_AT + index as usize * slot::BYTES;
        self.sample(at, generation << 2 | slot::STATE_LIVE, size, stack, flags);
        let used = self.file.get32(SAMPLING + sampling::SLOTS).max(index + 1);
        self.file.set32(SAMPLING + sampling::SLOTS, used);
    }

    fn release(&mut self, index: u32, generation: u64, size: u64, kind: u32) {
        self.vanish(index, generation);
        self.ended += 1;
        let at = ENDS_AT + ((self.ended - 1) % u64::from(ENDS)) as usize * end::BYTES;
        self.sample(at + end::SAMPLE, generation << 2 | slot::STATE_LIVE, size, 0, 0);
        self.file.set64(at + end::ENDED_NS, start_ns() + 200 + self.ended);
        self.file.set32(at + end::TID, 8);
        self.file.set32(at + end::SLOT, index);
        self.file.set32(at + end::KIND, kind);
        self.file.set64(at + end::NUMBER, self.ended);
        self.file.set64(SAMPLING + sampling::ENDED, self.ended);
    }

    fn vanish(&self, index: u32, generation: u64) {
        self.file.set64(SLOTS_AT + index as usize * slot::BYTES, (generation << 2) | slot::STATE_FREE);
    }

    /// The number of a stack with these return addresses, the outermost first.
    fn stack(&mut self, pcs: &[u64]) -> u32 {
        let at = STACKS_AT + self.stacks as usize;
        self.file.set32(at + stack::DEPTH, pcs.len() as u32);
        for (index, pc) in pcs.iter().enumerate() {
            self.file.set64(at + stack::PC + 8 * index, *pc);
        }
        let number = self.stacks / 8;
        self.stacks += stack::BYTES as u64 + 8 * pcs.len() as u64;
        self.file.set64(SAMPLING + sampling::STACKS_USED, self.stacks);
        number as u32
    }
}

/// The events of a look, as text.
fn look(watch: &mut Watch) -> Vec<String> {
    let mut events = Vec::new();
    watch.poll(&mut |event| {
        events.push(match event {
            SampleEvent::ProcessBegan { process, at_ns } => {
                format!("process {} from {}", process.0, at_ns.saturating_sub(start_ns()))
            }
            SampleEvent::Allocated { key, sample } => {
                format!("{} in {}: {} of {}", key.generation, key.slot, sample.size, sample.thread)
            }
            SampleEvent::Freed { key, release } => {
                format!("{} freed at {}", key.generation, release.at_ns - start_ns())
            }
            SampleEvent::Reallocated { key, .. } => format!("{} reallocated", key.generation),
            SampleEvent::Gone { key, .. } => format!("{} gone", key.generation),
            SampleEvent::Lost {
                lost: Lost { events, picks, stacks, damaged, left, filtered, foreign, unsampled },
                ..
            } => {
                format!("lost {events} {picks} {stacks} {damaged} {left} {filtered} {foreign} {unsampled}")
            }
            SampleEvent::ProcessEnded { process, .. } => format!("process {} ended", process.0),
        });
    });
    events
}

/// What the times of the played target count from: this process, which plays it, is older, and the clock has ticked
/// since.
fn start_ns() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| {
        let now_ns = monotonic_ns();
        until_it_ticks(now_ns + 1000);
        now_ns
    })
}

fn until_it_ticks(after_ns: u64) {
    while tick_ns() <= after_ns {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A child of this process, which has the same files mapped.
struct Child(libc::pid_t);

impl Child {
    fn fork() -> Self {
        // SAFETY: the child does nothing but wait for a signal, which any thread's copy may do.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        assert!(pid > 0);
        Self(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours that nobody else waits for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn own() -> u32 {
    std::process::id()
}

/// The coarse clock lags behind: by the times alone these would be from before all that is known.
#[test]
fn samples_are_not_older_than_their_image() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    target.allocate(0, 1, 100, 0, 0);
    target.file.set64(SLOTS_AT + slot::BEGAN_NS, start_ns() + 1);
    target.release(3, 1, 300, end::FREED);
    target.file.set64(ENDS_AT + end::SAMPLE + slot::BEGAN_NS, start_ns() + 1);
    target.file.set64(ENDS_AT + end::ENDED_NS, start_ns() + 2);
    let mut times = Vec::new();
    Watch::open(place.path()).unwrap().poll(&mut |event| match event {
        SampleEvent::ProcessBegan { at_ns, .. } => times.push(at_ns),
        SampleEvent::Allocated { sample, .. } => times.push(sample.at_ns),
        SampleEvent::Freed { release, .. } => times.push(release.at_ns),
        _ => {}
    });
    assert_eq!(times, [start_ns() + 5; 4]);
}

#[test]
fn what_happens_during_a_look_waits_for_the_next_one() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    target.allocate(0, 1, 100, 0, 0);
    target.allocate(1, 1, 50, 0, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    // As a target writes them that goes on while it is read: one more sample, one that comes and goes, and an end.
    let began = |slot: u32| SLOTS_AT + slot as usize * slot::BYTES + slot::BEGAN_NS;
    let ended = |number: usize| ENDS_AT + (number - 1) * end::BYTES;
    target.allocate(2, 1, 200, 0, 0);
    target.release(0, 1, 100, end::FREED);
    target.release(3, 1, 300, end::FREED);
    let soon_ns = monotonic_ns() + 1_000_000_000;
    target.file.set64(began(2), soon_ns);
    target.file.set64(ended(1) + end::ENDED_NS, soon_ns);
    target.file.set64(ended(2) + end::SAMPLE + slot::BEGAN_NS, soon_ns);
    target.file.set64(ended(2) + end::ENDED_NS, soon_ns);
    // Slot 0 was empty when it was first seen: its sample stands in the end alone.
    assert_eq!(look(&mut watch), ["process 0 from 5", "1 in 1: 50 of 7", "1 in 0: 100 of 7"]);
    let looked = watch.looked();
    until_it_ticks(soon_ns);
    let freed = format!("1 freed at {}", soon_ns - start_ns());
    assert_eq!(look(&mut watch), ["1 in 2: 200 of 7", &freed, "1 in 3: 300 of 7", &freed]);
    assert!(looked.at_ns < soon_ns && watch.looked().at_ns > soon_ns && watch.looked().unix_ms > looked.unix_ms);
    assert!(look(&mut watch).is_empty());
}

/// A target counts a sample before it writes it. A glance reads counts alone, and must find it nevertheless.
#[test]
fn a_glance_passes_over_what_is_quiet_and_misses_nothing() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    let mut watch = Watch::open(place.path()).unwrap();
    look(&mut watch);
    let glance = |watch: &mut Watch| {
        let mut events = 0;
        watch.glance(&Turn::now(), &mut |_| events += 1);
        events
    };
    target.file.set64(SAMPLING + sampling::BEGUN, 1);
    assert_eq!(glance(&mut watch), 0, "counted, and under way");
    target.allocate(0, 1, 100, 0, 0);
    assert_eq!(glance(&mut watch), 1, "nothing more was counted");
    target.file.set64(SAMPLING + sampling::BEGUN, 2);
    target.allocate(1, 1, 100, 0, 0);
    assert_eq!((glance(&mut watch), glance(&mut watch)), (1, 0));
    // Not counted: as if its thread had been stopped for long after it counted.
    target.allocate(2, 1, 100, 0, 0);
    assert!(glance(&mut watch) == 0 && (0..100).any(|_| glance(&mut watch) == 1), "now and then all is read");
    target.release(0, 1, 100, end::FREED);
    assert_eq!(glance(&mut watch), 1);
    assert!(!watch.rang());
    let control = mapped(&place.path().join("control"), control::FILE_BYTES);
    control.set32(control::DOORBELL, 7);
    assert!(watch.rang() && !watch.rang());
}

#[test]
fn samples_are_reported_once_with_their_end() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    let number = target.stack(&[0x1111, 0x2222]);
    target.allocate(0, 1, 100, number, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    assert_eq!(look(&mut watch), ["process 0 from 5", "1 in 0: 100 of 7"]);
    assert!(look(&mut watch).is_empty());
    let profile = watch.profile();
    assert_eq!((profile.frames.len(), profile.stacks.len() > 2), (2, true));

    // The slot is used again before anybody looks, another is free again, and a third came and went.
    target.release(0, 1, 100, end::FREED);
    target.allocate(0, 2, 200, number, 0);
    target.allocate(1, 3, 300, 0, 0);
    target.release(1, 3, 300, end::REALLOCATED);
    let events = look(&mut watch);
    assert_eq!(events, ["2 in 0: 200 of 7", "1 freed at 201", "3 in 1: 300 of 7", "3 reallocated"]);
    assert!(look(&mut watch).is_empty());
}

#[test]
fn what_was_overwritten_is_counted_and_live_samples_stay_known() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    target.allocate(0, 1, 100, 0, 0);
    target.allocate(1, 2, 100, 0, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    look(&mut watch);
    target.release(0, 1, 100, end::FREED);
    for generation in 10..14 {
        target.allocate(2, generation, 64, 0, 0);
        target.release(2, generation, 64, end::FREED);
    }
    let events = look(&mut watch);
    assert!(events.contains(&"lost 1 0 0 0 0 0 0 0".to_owned()) && events.contains(&"1 gone".to_owned()), "{events:?}");
    assert_eq!(events.iter().filter(|text| text.contains("freed")).count(), 4, "{events:?}");
    assert!(!events.iter().any(|text| text.starts_with("2 ")), "{events:?}");

    // Without an end it is waited for, for a while.
    target.vanish(1, 2);
    assert!(look(&mut watch).is_empty() && look(&mut watch).is_empty());
    assert_eq!(look(&mut watch), ["2 gone"]);
    target.file.set64(SAMPLING + sampling::WITHOUT_SLOT, 3);
    target.file.set64(SAMPLING + sampling::MISSED, 2);
    target.file.set64(SAMPLING + sampling::WITHOUT_STACK, 4);
    assert_eq!(look(&mut watch), ["lost 0 5 4 0 0 0 0 0"]);
}

#[test]
fn who_joins_late_knows_from_when_on() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    for generation in 1..=6 {
        target.allocate(0, generation, 64, 0, 0);
        target.release(0, generation, 64, end::FREED);
    }
    target.allocate(0, 7, 64, 0, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    let events = look(&mut watch);
    // Six ended, and four are remembered: that is no loss, it was before.
    assert_eq!(events[..2], ["process 0 from 203", "7 in 0: 64 of 7"]);
    assert_eq!(events.iter().filter(|text| text.contains("freed")).count(), 4, "{events:?}");
    assert!(!events.iter().any(|text| text.starts_with("lost")), "{events:?}");
}

#[test]
fn inherited_samples_are_the_parents_while_it_lives() {
    let place = directory();
    let parent = own();
    let target = Target::new(&place, parent, 1);
    target.allocate(0, 1, 100, 0, 0);
    // It writes its file as p-0-0 before it is known which pid it has.
    let child = Target::new(&place, 0, parent);
    let forked = Child::fork();
    fs::rename(place.path().join("p-0-0"), place.path().join(format!("p-{}-0", forked.0))).unwrap();
    child.file.set32(process::PID, forked.0 as u32);
    let born_ns = monotonic_ns();
    child.file.set64(process::START_NS, born_ns);
    child.allocate(0, 1, 100, 0, slot::INHERITED);
    child.allocate(1, 1, 50, 0, 0);
    child.file.set64(SLOTS_AT + slot::BYTES + slot::BEGAN_NS, born_ns);
    until_it_ticks(born_ns);
    let mut watch = Watch::open(place.path()).unwrap();
    let events = look(&mut watch);
    assert_eq!(events.iter().filter(|text| text.ends_with("100 of 7")).count(), 1, "{events:?}");
    assert_eq!(events.iter().filter(|text| text.ends_with("50 of 7")).count(), 1, "{events:?}");
    // As if the parent had executed something that is not watched, and this image were another's.
    target.file.set32(process::PID, parent);
    watch.images.retain(|image| image.source.pid != parent);
    assert_eq!(look(&mut watch), ["1 in 0: 100 of 7"]);
}

#[test]
fn what_was_left_behind_is_read_to_its_end() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    target.allocate(0, 1, 100, 0, 0);
    target.allocate(1, 2, 64, 0, 0);
    target.release(1, 2, 64, end::FREED);
    let mut watch = Watch::left(place.path()).unwrap();
    let events = look(&mut watch);
    assert_eq!(
        events,
        ["process 0 from 5", "1 in 0: 100 of 7", "2 in 1: 64 of 7", "2 freed at 201", "process 0 ended"]
    );
    assert!(place.path().join(format!("p-{}-0", own())).exists());
}

/// As it is with a run directory that a killed process left, once its pid was given to another one.
#[test]
fn a_file_of_an_earlier_process_with_the_same_pid_is_over() {
    let place = directory();
    let target = Target::new(&place, own(), 1);
    target.allocate(0, 1, 100, 0, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    look(&mut watch);
    assert_eq!(watch.running(), 1);
    drop(watch);
    target.file.set64(process::START_NS, 1);
    let mut watch = Watch::open(place.path()).unwrap();
    look(&mut watch);
    assert_eq!(watch.running(), 0);
    assert!(watch.ended_abruptly(own()));
}

#[test]
fn one_mallow_watches_and_leaves_it_dormant() {
    let place = directory();
    let watch = Watch::open(place.path()).unwrap();
    let control = mapped(&place.path().join("control"), control::FILE_BYTES);
    assert_eq!(control.get32(control::READER_PID), own());
    watch.control().set_period(77);
    assert_eq!((control.get64(control::PERIOD), watch.control().sampling()), (77, true));
    watch.leave();
    assert_eq!((control.get32(control::READER_PID), control.get32(control::MODE)), (0, wire::MODE_DORMANT));

    control.set32(control::MODE, wire::MODE_TRACE);
    assert!(matches!(Watch::open(place.path()), Err(WatchError::NotSampled(_))));
    File::create(place.path().join("control")).unwrap().set_len(10).unwrap();
    assert!(matches!(Watch::open(place.path()), Err(WatchError::Directory { .. })));
}

/// Another mallow would restore the code of an attached process where nobody reads.
#[test]
fn a_run_has_a_reader_while_it_is_left_to_a_watch() {
    let settings = Settings {
        mode: Mode::Sample,
        max_depth: 16,
        children: true,
        regions: Regions::default(),
        scan: Scans::None,
        memory: false,
        arguments: true,
    };
    let run = RunDirectory::create(&settings, &["server".to_owned()]).unwrap();
    let path = run.path().to_owned();
    let reader = || leftovers::reader(&path, &leftovers::control(&path).unwrap());
    let watch = run.leave_to(|path| {
        assert_eq!(reader(), Some(own()));
        Watch::open(path)
    });
    assert_eq!(reader(), Some(own()));
    let presence = mapped(&path.join("control"), control::FILE_BYTES).get32(control::READER);
    assert!(presence != 0 && presence != own(), "a thread answers those that ask");
    watch.unwrap().leave();
    assert_eq!(reader(), None);
    fs::remove_dir_all(path).unwrap();
}

/// Whatever a target scribbles, it is read without a panic, and within bounds.
#[test]
fn garbage_is_data() {
    let place = directory();
    let mut target = Target::new(&place, own(), 1);
    let number = target.stack(&[1, 2, 3]);
    target.allocate(0, 1, 100, number, 0);
    let mut watch = Watch::open(place.path()).unwrap();
    look(&mut watch);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    target.file.set64(SAMPLING + sampling::ENDED, u64::MAX);
    look(&mut Watch::left(place.path()).unwrap());
    for round in 0..3000 {
        let at = SAMPLING + ((next() as usize % (FILE_BYTES - SAMPLING)) & !7);
        target.file.set64(at, if round % 2 == 0 { next() } else { next() % 64 });
        let events = look(&mut watch);
        assert!(events.len() <= 3 * (SLOTS + ENDS) as usize + 2, "{}", events.len());
    }
    assert_eq!(watch.profile().check(), Ok(()));
    // Numbers that nothing can be added to.
    for counter in [sampling::ENDED, sampling::WITHOUT_SLOT, sampling::MISSED, sampling::WITHOUT_STACK] {
        target.file.set64(SAMPLING + counter, u64::MAX);
    }
    look(&mut watch);
    // The layout, too, for one that looks for the first time.
    for _ in 0..300 {
        let at = (next() as usize % (SAMPLING + sampling::BYTES)) & !7;
        if !(process::BYTES..SAMPLING).contains(&at) {
            target.file.set64(at, next());
            target.file.set32(process::STATE, wire::PROCESS_READY);
            look(&mut Watch::left(place.path()).unwrap());
        }
    }
}
