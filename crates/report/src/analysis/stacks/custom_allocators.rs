//! Allocators above malloc that processes use, by executable.

use mallow_profile::{AllocatorInside, AllocatorKind, CustomAllocator, ProcessId, Profile};
use serde::{Deserialize, Serialize};

/// An allocator above malloc, in all processes that have it and run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CustomAllocatorRow {
    /// Path of the executable.
    pub executable: String,
    /// Process images that have the allocator.
    pub processes: u64,
    /// Requests that the allocator serves, as a sentence without a full stop.
    pub found: String,
    /// Way to make the allocator's blocks visible, a clause; left out where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// One row for each executable and allocator, in the order of the first process that has it. `executable` returns the
/// path of a process by its number.
pub fn custom_allocators<'a>(
    all: &[CustomAllocator],
    executable: impl Fn(usize) -> Option<&'a str>,
) -> Vec<CustomAllocatorRow> {
    let mut rows: Vec<CustomAllocatorRow> = Vec::new();
    for allocator in all {
        let executable = executable(allocator.process.0 as usize).unwrap_or_default();
        match rows.iter_mut().find(|row| row.executable == executable && row.found == allocator.found) {
            Some(row) => row.processes += 1,
            None => rows.push(CustomAllocatorRow {
                executable: executable.to_owned(),
                processes: 1,
                found: allocator.found.clone(),
                remedy: allocator.remedy.clone(),
            }),
        }
    }
    rows
}

/// Whether a process is an interpreter of Python whose objects are blocks of malloc (`PYTHONMALLOC=malloc`): where it
/// has arenas of its own, the recording says so.
pub(in crate::analysis) fn has_python_malloc(profile: &Profile, process: ProcessId) -> bool {
    let executable = profile.processes.get(process.0 as usize).map_or("", |process| process.executable.as_str());
    let name = executable.rsplit('/').next().unwrap_or_default();
    let is_python =
        name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let has_arenas = |one: &CustomAllocator| one.process == process && one.kind == AllocatorKind::Python;
    profile.origin.is_none() && is_python && !profile.custom_allocators.iter().any(has_arenas)
}

/// An allocator inside of an executable or a library whose calls are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllocatorInsideRow {
    /// Path of the executable.
    pub executable: String,
    /// Path of the file that has the allocator inside: the executable or a library.
    pub module: String,
    /// Name of the allocator.
    pub allocator: String,
    /// Source of the functions' addresses: `.symtab`, for instance.
    pub found_by: String,
    /// Functions of the allocator that are patched.
    pub functions: u32,
}

/// The allocators in programs and libraries whose calls are counted. A library of an allocator is left out: its calls
/// are seen in any case. [`custom_allocators`] has those whose calls are not counted.
pub fn allocators_inside(all: &[AllocatorInside]) -> Vec<AllocatorInsideRow> {
    let row = |one: &AllocatorInside| AllocatorInsideRow {
        executable: one.program.clone(),
        module: one.module.clone(),
        allocator: one.name.clone(),
        found_by: one.found_by.clone(),
        functions: one.functions,
    };
    all.iter().filter(|one| one.functions > 0 && !one.is_library).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_program_are_one_row() {
        let of = |process, found: &str| CustomAllocator {
            process: ProcessId(process),
            kind: AllocatorKind::Other,
            found: found.to_owned(),
            remedy: "set it".to_owned(),
        };
        let all = [of(0, "arenas"), of(1, "arenas"), of(1, "jemalloc"), of(2, "arenas")];
        let rows = custom_allocators(&all, |number| ["/bin/a", "/bin/a", "/bin/b"].get(number).copied());
        let shown: Vec<_> = rows.iter().map(|r| (r.executable.as_str(), r.processes, r.found.as_str())).collect();
        assert_eq!(shown, [("/bin/a", 2, "arenas"), ("/bin/a", 1, "jemalloc"), ("/bin/b", 1, "arenas")]);
    }
}
