//! Allocators above malloc that processes use.
//!
//! One column: for each the number of its process, what it serves, and what makes that visible.

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::{CustomAllocator, ProcessId};

/// A block of allocators.
pub fn write(allocators: &[CustomAllocator]) -> Vec<Vec<u8>> {
    let mut column = Vec::new();
    for allocator in allocators {
        put(&mut column, allocator.process.0.into());
        put_bytes(&mut column, allocator.found.as_bytes());
        put_bytes(&mut column, allocator.remedy.as_bytes());
    }
    vec![column]
}

/// Reads it. `processes`: how many there are.
pub fn read(columns: &mut [Cursor], processes: usize) -> Result<Vec<CustomAllocator>, Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of allocators has another number of columns")) };
    let mut allocators = Vec::new();
    while !column.is_empty() {
        let process = column.small()?;
        if process as usize >= processes {
            return Err(Nonsense("an allocator of no process"));
        }
        let (found, remedy) = (column.string()?, column.string()?);
        allocators.push(CustomAllocator { process: ProcessId(process), found, remedy });
    }
    Ok(allocators)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_come_back_and_belong_to_a_process() {
        let all = [0, 2].map(|process| CustomAllocator {
            process: ProcessId(process),
            found: "Python allocates".into(),
            remedy: String::new(),
        });
        let columns = write(&all);
        let read_of = |processes| read(&mut [Cursor::new(columns[0].clone())], processes);
        assert_eq!(read_of(3).ok().as_deref(), Some(&all[..]));
        assert!(read_of(2).is_err());
    }
}
