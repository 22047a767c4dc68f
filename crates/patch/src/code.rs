//! The code of a module, decoded once for the plans of many patches.

use std::ops::Range;

use crate::branches::Branches;
use crate::entry::{Entry, Patch, plan};
use crate::memory::Memory;
use crate::module::{Module, Text};
use crate::refusal::Refusal;

/// A function. Addresses are those of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    pub address: u64,
    /// Size of the symbol in bytes; 0 if unknown.
    pub size: u64,
    /// Whether the symbol is an `STT_GNU_IFUNC`.
    pub ifunc: bool,
}

/// The code of a module, with its branches and the addresses at which its functions begin.
#[derive(Debug)]
pub struct Code {
    texts: Vec<(Text, Branches)>,
    starts: Vec<u64>,
    range: Range<u64>,
}

impl Code {
    /// Reads and decodes the code of `module`. `starts` are the addresses at which its functions begin, in the process.
    /// About 10 ns a byte.
    pub fn read(module: &Module, memory: &Memory, starts: Vec<u64>) -> Self {
        Self::of(module, module.texts(memory), starts)
    }

    /// The code by the module's file alone. Whoever writes a patch compares the bytes of the process with
    /// [`crate::Write::before`] first.
    pub fn of_file(module: &Module, starts: Vec<u64>) -> Self {
        Self::of(module, module.file_texts(), starts)
    }

    fn of(module: &Module, texts: Vec<Text>, mut starts: Vec<u64>) -> Self {
        starts.sort_unstable();
        starts.dedup();
        let branches = |text: Text| {
            let branches = Branches::of(&text.file, text.address, &starts);
            (text, branches)
        };
        let texts = texts.into_iter().map(branches).collect();
        Self { texts, starts, range: module.range.clone() }
    }

    /// The addresses of the module.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The addresses at which its functions begin, sorted.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The patch of a function's entry.
    pub fn plan(&self, function: &Function) -> Result<Patch, Refusal> {
        let Function { address, size, ifunc } = *function;
        let offset = |text: &Text| {
            let offset = address.checked_sub(text.address)?;
            (offset < text.file.len() as u64).then_some(offset as usize)
        };
        let found = self.texts.iter().find_map(|(text, branches)| Some((offset(text)?, text, branches)));
        let (offset, text, branches) = found.ok_or(Refusal::Unreadable)?;
        let end = text.address + text.file.len() as u64;
        let next = self.starts[self.starts.partition_point(|start| *start <= address)..].first();
        let next = next.copied().unwrap_or(end).min(end);
        let last = (next.max(address.saturating_add(size).min(end)) - text.address) as usize;
        let memory = text.memory.get(offset..last.min(text.memory.len())).unwrap_or_default();
        let file = text.file.get(offset..last.min(text.file.len())).unwrap_or_default();
        let module = (self.range.start, self.range.end);
        plan(&Entry { address, size, next, ifunc, memory, file, module }, branches)
    }
}
