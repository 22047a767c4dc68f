//! What numbers lack because a program allocates past malloc: the first lines of a report.

use mallow_report::analysis::CustomAllocatorRow;

use crate::output::text::units::of;
use crate::output::text::{Line, Page};

/// So many programs are named.
const SHOWN: usize = 3;

/// A line for each allocator above malloc, among so many processes.
pub fn show(allocators: &[CustomAllocatorRow], processes: usize, page: &mut Page) {
    for row in allocators.iter().take(SHOWN) {
        page.hanging(Line::new().warning("Incomplete: "), &sentence(row, processes));
    }
    if allocators.len() > SHOWN {
        let more = of((allocators.len() - SHOWN) as u64, "program");
        page.line(Line::new().warning(format!("Incomplete: {more} more")));
    }
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
