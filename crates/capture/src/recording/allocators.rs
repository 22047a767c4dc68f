//! Allocators above malloc that processes use.
//!
//! Two columns: for each the number of its process, what it serves, and what makes that visible; and which one it is, 0
//! or 1 for CPython's arenas. Earlier recordings lack the second one.

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::{AllocatorInside, AllocatorKind, CustomAllocator, ProcessId};

pub fn write(allocators: &[CustomAllocator]) -> Vec<Vec<u8>> {
    let (mut column, mut kinds) = (Vec::new(), Vec::new());
    for allocator in allocators {
        put(&mut column, allocator.process.0.into());
        put_bytes(&mut column, allocator.found.as_bytes());
        put_bytes(&mut column, allocator.remedy.as_bytes());
        put(&mut kinds, if allocator.kind == AllocatorKind::Python { 1 } else { 0 });
    }
    vec![column, kinds]
}

/// `processes` is their number: an allocator of another one is nonsense.
pub fn read(columns: &mut [Cursor], processes: usize) -> Result<Vec<CustomAllocator>, Nonsense> {
    let (column, mut kinds) = match columns {
        [column] => (column, None),
        [column, kinds] => (column, Some(kinds)),
        _ => return Err(Nonsense("a block of allocators has another number of columns")),
    };
    let mut allocators = Vec::new();
    while !column.is_empty() {
        let process = column.small()?;
        if process as usize >= processes {
            return Err(Nonsense("an allocator of no process"));
        }
        let (found, remedy) = (column.string()?, column.string()?);
        let kind = match kinds.as_mut().map(|kinds| kinds.number()).transpose()? {
            Some(0) => AllocatorKind::Other,
            Some(1) => AllocatorKind::Python,
            // Before, only the sentence said which one it is.
            None if found.starts_with("Python allocates ") => AllocatorKind::Python,
            None => AllocatorKind::Other,
            Some(_) => return Err(Nonsense("an allocator of no known kind")),
        };
        allocators.push(CustomAllocator { process: ProcessId(process), kind, found, remedy });
    }
    Ok(allocators)
}

/// The columns of a block of allocators inside of executables and libraries: in the first one program, file, name, what
/// it was found by, why no function is patched, a remedy, and how many are patched; in the second one the variable that
/// it reads, and whether it is a library; in the third one options that are compiled into it. None where there are
/// none.
pub fn write_inside(allocators: &[AllocatorInside]) -> Option<Vec<Vec<u8>>> {
    let (mut column, mut settings, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for one in allocators {
        put_bytes(&mut options, one.options.as_bytes());
        put_bytes(&mut settings, one.environment.as_bytes());
        put(&mut settings, one.is_library.into());
        for text in [&one.program, &one.module, &one.name, &one.found_by, &one.problem, &one.remedy] {
            put_bytes(&mut column, text.as_bytes());
        }
        put(&mut column, one.functions.into());
    }
    (!column.is_empty()).then(|| vec![column, settings, options])
}

pub fn read_inside(columns: &mut [Cursor]) -> Result<Vec<AllocatorInside>, Nonsense> {
    let (column, mut settings, mut options) = match columns {
        [column] => (column, None, None),
        [column, settings] => (column, Some(settings), None),
        [column, settings, options] => (column, Some(settings), Some(options)),
        _ => return Err(Nonsense("a block of allocators inside has another number of columns")),
    };
    let mut all = Vec::new();
    while !column.is_empty() {
        let mut text = || column.string();
        let (program, module, name, found_by) = (text()?, text()?, text()?, text()?);
        let (problem, remedy) = (text()?, text()?);
        let functions = column.small()?;
        let (environment, is_library) = match &mut settings {
            Some(settings) => (settings.string()?, settings.number()? != 0),
            None => (String::new(), false),
        };
        let options = options.as_mut().map(|options| options.string()).transpose()?.unwrap_or_default();
        all.push(AllocatorInside {
            program,
            module,
            name,
            found_by,
            functions,
            problem,
            remedy,
            environment,
            options,
            is_library,
        });
    }
    let is_read = [settings, options].into_iter().flatten().all(|column| column.is_empty());
    if is_read { Ok(all) } else { Err(Nonsense("settings of no allocator")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_come_back_and_belong_to_a_process() {
        let all = [(0, AllocatorKind::Python), (2, AllocatorKind::Other)].map(|(process, kind)| CustomAllocator {
            process: ProcessId(process),
            kind,
            found: "It allocates".into(),
            remedy: String::new(),
        });
        let columns = write(&all);
        let cursors = || columns.iter().cloned().map(Cursor::new).collect::<Vec<_>>();
        let read_of = |processes| read(&mut cursors(), processes);
        assert_eq!(read_of(3).ok().as_deref(), Some(&all[..]));
        // An earlier recording's.
        let sentence = CustomAllocator { found: "Python allocates objects".into(), ..all[0].clone() };
        let earlier = read(&mut [Cursor::new(write(std::slice::from_ref(&sentence))[0].clone())], 1);
        assert_eq!(earlier.ok().as_deref(), Some(&[sentence][..]));
        assert!(read_of(2).is_err());
    }

    #[test]
    fn allocators_inside_come_back() {
        let text = str::to_owned;
        let counted = AllocatorInside {
            program: text("/bin/a"),
            module: text("/lib/b.so"),
            name: text("jemalloc"),
            found_by: text(".symtab"),
            functions: 20,
            environment: text("JE_B_MALLOC_CONF"),
            options: text("background_thread:true"),
            is_library: true,
            ..AllocatorInside::default()
        };
        let missed =
            AllocatorInside { functions: 0, problem: text("stripped"), remedy: text("do not"), ..counted.clone() };
        let all = [counted, missed];
        let columns = write_inside(&all).expect("allocators");
        let cursors = || columns.iter().cloned().map(Cursor::new).collect::<Vec<_>>();
        assert_eq!(read_inside(&mut cursors()).ok().as_deref(), Some(&all[..]));
        assert!(read_inside(&mut []).is_err());
        assert_eq!(write_inside(&[]), None);
    }
}
