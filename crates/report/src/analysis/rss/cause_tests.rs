//! Whose the free pages are, and what was changed for the recording.

use mallow_profile::{AllocatorKind, CustomAllocator, ProcessId};

use super::PartKind;
use super::tests::{Made, glibc};

#[test]
fn a_python_without_its_arenas_is_another_program() {
    let mut made = Made::new(glibc(200, 120), &[]);
    let mut says = |executable: &str, has_arenas: bool| {
        made.profile.processes[0].executable = executable.to_owned();
        let (found, remedy) = ("Objects lie in arenas".to_owned(), String::new());
        let arenas = CustomAllocator { process: ProcessId(0), kind: AllocatorKind::Python, found, remedy };
        made.profile.custom_allocators = if has_arenas { vec![arenas] } else { Vec::new() };
        made.report().account.changed.iter().any(|sentence| sentence.contains("PYTHONMALLOC=malloc"))
    };
    assert_eq!([says("/usr/bin/python3.11", false), says("/v/bin/python", false)], [true, true]);
    assert_eq!([says("/usr/bin/python3.11", true), says("/bin/pythonic", false)], [false, false]);
}

/// 40 MB at the peak in one block, of which 1.6 MB of free pages cannot be: it was mapped, and went back to the kernel.
#[test]
fn free_pages_are_of_blocks_that_fit_into_them() {
    let mut made = Made::new(glibc(400, 400), &[]);
    for (site, (blocks, bytes)) in made.profile.sites.iter_mut().zip([(1, 40_000_000), (1000, 1_000_000), (0, 0)]) {
        (site.counts.peak, site.counts.peak_bytes) = (blocks, bytes);
    }
    let cause = made.report().account.cause.expect("a cause");
    assert_eq!(cause.part, PartKind::FreePages);
    assert_eq!(cause.place.map(|place| (place.frame.function, place.bytes)), Some(("second".to_owned(), 1_000_000)));
}
