//! Operators new and delete: by which one a block was allocated and freed, and why a program's are not seen.

use super::finding::{Freeing, Mismatch, Operator};
use crate::rundir::process_file::ProcessFile;
use crate::wire::guard::{self, finding};
use memchr::memmem;
use std::fs::File;
use std::io::Read;

/// The name of an exception's type, which is in each program that is linked statically with libstdc++'s operator new.
const THROWN: &[u8] = b"St9bad_alloc\0";

impl Operator {
    /// The operator of a number of `enum mallow_operation`. None: a function of malloc's family, or not known.
    pub fn of(operation: u8) -> Option<Self> {
        match operation {
            guard::OPERATION_NEW | guard::OPERATION_NEW_EITHER => Some(Self::One),
            guard::OPERATION_NEW_ARRAY => Some(Self::Array),
            _ => None,
        }
    }
}

impl Mismatch {
    /// Decodes what the target writes of a mismatch. None: the bytes make no sense.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let byte = |at: usize| bytes.get(at).copied();
        let alignment = |at| byte(at)?.checked_sub(1).and_then(|log| 1_u64.checked_shl(log.into()));
        let freed = match byte(finding::FREEING)? {
            guard::FREEING_FREE => Freeing::Free,
            guard::FREEING_REALLOC => Freeing::Realloc,
            guard::FREEING_DELETE => Freeing::Delete(Operator::One),
            guard::FREEING_DELETE_ARRAY => Freeing::Delete(Operator::Array),
            _ => return None,
        };
        let size = bytes.first_chunk().copied().map(u64::from_le_bytes);
        Some(Self {
            allocated: Operator::of(byte(finding::OPERATION)?),
            freed,
            size: size.filter(|_| byte(finding::HAS_SIZE) == Some(1)),
            alignment: alignment(finding::NEW_ALIGNMENT),
            freed_alignment: alignment(finding::DELETE_ALIGNMENT),
        })
    }
}

/// The executable of an image, opened while that runs: a path is another file's after an upgrade.
pub struct Program(Option<File>);

impl Program {
    pub fn of(pid: u32) -> Self {
        Self(File::open(format!("/proc/{pid}/exe")).ok())
    }

    /// Whether the executable has a C++ runtime inside.
    fn has_runtime(self) -> bool {
        let Some(mut file) = self.0 else { return false };
        let mut bytes = vec![0; 1 << 20];
        let mut kept = 0;
        while let Ok(read @ 1..) = file.read(&mut bytes[kept..]) {
            let end = kept + read;
            if memmem::find(&bytes[..end], THROWN).is_some() {
                return true;
            }
            let rest = end.min(THROWN.len() - 1);
            bytes.copy_within(end - rest..end, 0);
            kept = rest;
        }
        false
    }
}

/// Why allocations and frees of an image were not compared. None: they were, or there are no operators.
pub fn uncompared(source: &ProcessFile, state: u32, program: Program) -> Option<String> {
    const LIBRARY: &[u8] = b"/libstdc++.so";
    let comes_later = || {
        let modules = (0..source.modules()).map(|number| source.module(number, number).path);
        modules.into_iter().any(|path| memmem::find(path.as_bytes(), LIBRARY).is_some())
    };
    let why = match state {
        guard::OPERATORS_SEEN => return None,
        guard::OPERATORS_REPLACED => "others than libstdc++'s operators new and delete serve",
        guard::OPERATORS_UNFIT => "libstdc++'s operators new and delete could not be replaced",
        _ if program.has_runtime() => {
            "its operators new and delete are within the program, and call malloc and free without a symbol"
        }
        _ if comes_later() => "a library brought the C++ runtime after the start",
        _ => return None,
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_what_the_target_wrote() {
        let mut bytes = [0_u8; 16];
        bytes[..8].copy_from_slice(&48_u64.to_le_bytes());
        bytes[8..13].copy_from_slice(&[1, guard::OPERATION_NEW_ARRAY, guard::FREEING_DELETE, 7, 0]);
        let found = Mismatch::of(&bytes).expect("a description");
        assert_eq!((found.allocated, found.freed), (Some(Operator::Array), Freeing::Delete(Operator::One)));
        assert_eq!((found.size, found.alignment, found.freed_alignment), (Some(48), Some(64), None));
        bytes[8..13].copy_from_slice(&[0, guard::OPERATION_MALLOC, guard::FREEING_REALLOC, 200, 65]);
        let found = Mismatch::of(&bytes).expect("a description");
        assert_eq!((found.allocated, found.size, found.alignment), (None, None, None));
        assert_eq!([Mismatch::of(&[]), Mismatch::of(&[9; 16])], [None, None]);
    }
}
