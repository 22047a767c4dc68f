//! What the numbers of a recording lack, in one form: `Incomplete: ` and a sentence, before anything else.

use mallow_profile::Process;
use mallow_report::analysis::{AllocatorInsideRow, CustomAllocatorRow};

use super::page::{Line, Page};
use super::units::{of, plural};

/// Limit of programs with allocators above malloc that are named.
const SHOWN: usize = 3;

pub const INCOMPLETE: &str = "Incomplete: ";

/// A sentence for each allocator above malloc, among so many processes.
pub fn allocators(allocators: &[CustomAllocatorRow], processes: usize) -> impl Iterator<Item = String> {
    let more = allocators.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{} more", of(more as u64, "program")));
    allocators.iter().take(SHOWN).map(move |row| sentence(row, processes)).chain(more)
}

/// A phrase for each allocator inside of a program or a library whose calls are counted.
pub fn inside(allocators: &[AllocatorInsideRow]) -> impl Iterator<Item = String> {
    let more = allocators.len().saturating_sub(SHOWN);
    let phrase =
        |row: &AllocatorInsideRow| format!("{} inside {}, found by {}", row.allocator, row.module, row.found_by);
    allocators
        .iter()
        .take(SHOWN)
        .map(phrase)
        .chain((more > 0).then(|| format!("{more} more {} inside", plural(more as u64, "allocator"))))
}

/// A sentence for each program that the command executed and that was not recorded, as far as they are named.
pub fn unrecorded(sentences: &[String]) -> impl Iterator<Item = String> {
    some_of(sentences, |more| format!("{} more not recorded", of(more, "program")))
}

/// A sentence for each thing that a file of another format says it lacks: a program, or an allocator, of one of the
/// files that it was made from.
pub fn imported(sentences: &[String]) -> impl Iterator<Item = String> {
    some_of(sentences, |more| format!("{more} more like these"))
}

fn some_of(sentences: &[String], more: impl Fn(u64) -> String) -> impl Iterator<Item = String> {
    let rest = sentences.len().saturating_sub(SHOWN) as u64;
    sentences.iter().take(SHOWN).cloned().chain((rest > 0).then(|| more(rest)))
}

pub fn show(sentences: impl IntoIterator<Item = String>, page: &mut Page) {
    for text in sentences {
        page.hanging(Line::new().warning(INCOMPLETE), &text);
    }
}

/// One sentence for each thing: the file stops before the run did, events are lost, records made no sense.
pub fn lacks(cut_short: Option<&str>, lost: u64, damaged: u64) -> impl Iterator<Item = String> {
    let cut = cut_short.map(|why| format!("the recording is cut short: {why}; numbers are those up to the cut"));
    let lost = (lost > 0).then(|| lost_events(lost));
    let damaged =
        (damaged > 0).then(|| format!("{} skipped, because the target had written over it", of(damaged, "record")));
    [cut, lost, damaged].into_iter().flatten()
}

/// Events that are in no number. Those of frees make blocks live that are not.
pub fn lost_events(lost: u64) -> String {
    format!("{} could not be recorded; totals are higher, and blocks that seem live may be freed", of(lost, "event"))
}

/// The sentence about processes that waited in vain for unwind tables.
pub fn late_tables(processes: &[Process]) -> Option<String> {
    let late: Vec<u64> = processes.iter().map(|process| process.late_tables).filter(|&late| late > 0).collect();
    let (what, whose) = match (&late[..], processes.len()) {
        ([], _) => return None,
        (&[one], 1) => (format!("the unwind tables of {} were", of(one, "module")), String::new()),
        (some, all) => ("unwind tables were".to_owned(), format!(", for {} of {all} processes", some.len())),
    };
    Some(format!(
        "{what} not ready in time, or out of the program's reach{whose}: call paths that pass through these modules \
         lack their callers; record again, on a machine that is less busy, or as the program's own user"
    ))
}

fn sentence(row: &CustomAllocatorRow, processes: usize) -> String {
    let CustomAllocatorRow { executable, found, remedy, .. } = row;
    let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
    let who = match processes {
        0 | 1 => String::new(),
        all => {
            let name = executable.rsplit('/').next().unwrap_or(executable);
            format!(" ({name}, {} of {})", row.processes, of(all as u64, "process"))
        }
    };
    format!("{found}{who}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_came_too_late_are_reported() {
        let of = |late_tables| Process { late_tables, ..Process::default() };
        assert_eq!(late_tables(&[of(0)]), None);
        let rest = "call paths that pass through these modules lack their callers; record again, on a machine that is \
                    less busy, or as the program's own user";
        let one = late_tables(&[of(1)]).expect("a sentence");
        assert_eq!(
            one,
            format!("the unwind tables of 1 module were not ready in time, or out of the program's reach: {rest}")
        );
        let some = late_tables(&[of(3), of(0), of(2)]).expect("a sentence");
        assert_eq!(
            some,
            format!(
                "unwind tables were not ready in time, or out of the program's reach, for 2 of 3 processes: {rest}"
            )
        );
    }

    #[test]
    fn what_is_left_out_of_imported_gaps_is_no_program() {
        let sentences: Vec<String> = (1..=5).map(|n| format!("run{n}: Python allocates in arenas")).collect();
        let last = |all: Vec<String>| all.last().cloned().unwrap_or_default();
        assert_eq!(last(unrecorded(&sentences).collect()), "2 programs more not recorded");
        assert_eq!(last(imported(&sentences).collect()), "2 more like these");
        assert_eq!(last(imported(&sentences[..3]).collect()), sentences[2]);
    }

    #[test]
    fn a_sentence_names_the_program_where_there_are_several_processes() {
        let row = CustomAllocatorRow {
            executable: "/usr/bin/python3.11".to_owned(),
            processes: 2,
            found: "Python allocates in arenas".to_owned(),
            remedy: "set X".to_owned(),
        };
        assert_eq!(sentence(&row, 1), "Python allocates in arenas; set X");
        assert_eq!(sentence(&row, 5), "Python allocates in arenas (python3.11, 2 of 5 processes); set X");
        let bare = CustomAllocatorRow { remedy: String::new(), ..row };
        assert_eq!(sentence(&bare, 1), "Python allocates in arenas");
    }
}
