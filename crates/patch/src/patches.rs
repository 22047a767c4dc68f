//! The patches of a module's functions, laid out in an area within ±2 GiB of it.
//!
//! ```text
//!  module                     area, 32 bytes aligned for each function
//!
//!  f:  jmp ──────────────►    hop:         lea  data(%rip),%r9       only where there is data
//!      …                                   jmp  *0(%rip)  ──────►    the replacement, anywhere
//!      …                                   .quad replacement
//!  f+9: …  ◄──────────────    trampoline:  displaced instructions, jmp f+9
//!                             data:        .quad trampoline, constants of the caller
//! ```
//!
//! How patches are written into a process:
//!
//! 1. [`Code::read`] decodes a module, [`Draft::of`] plans the patches of its functions and names those that are
//!    refused. Functions at one address are patched once. Nothing is stopped for it.
//! 2. [`crate::Maps::free_area_near`] finds room for [`Draft::bytes`], and [`Draft::place`] lays the patches out there.
//! 3. In [`crate::stop`]: [`crate::Stopped::map`] maps the area, readable and executable, and
//!    [`crate::Stopped::write_patches`] fills it and writes the jumps: all of them, or none.
//! 4. [`Placed::trampoline`] is what the replacement calls in place of the function.
//! 5. [`crate::Stopped::restore_patches`] puts the entries back. The area stays mapped while a thread may be in it or
//!    in a replacement: see [`crate::Stopped::refers_to`].
//!
//! A process in which nothing else runs may write all of it itself: [`Placed::code`] to [`Placed::area`], then each
//! [`Write`] if [`Write::before`] is what it finds there.

use std::collections::BTreeMap;
use std::ops::Range;

use mallow_arch::entry;

use crate::code::{Code, Function};
use crate::entry::{JUMP, Patch};
use crate::maps::PAGE;
use crate::memory::Memory;
use crate::refusal::Refusal;

/// A function whose calls go to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    pub function: Function,
    /// The one that replaces it: it has its arguments and its return address.
    pub to: u64,
    /// Constants for the replacement, which finds their address in a register ([`entry::append_hop`]): only for
    /// functions of at most five arguments, none of which is on the stack. The address of the trampoline is put before
    /// them, as 8 bytes.
    pub data: Option<Vec<u8>>,
}

#[derive(Debug)]
pub struct Draft {
    module: Range<u64>,
    patches: Vec<(u64, Patch, u64, Option<Vec<u8>>)>,
}

/// Patches with an area for their code.
#[derive(Clone, Debug)]
pub struct Placed {
    pub area: u64,
    /// Content of the area: whole pages.
    pub code: Vec<u8>,
    pub writes: Vec<Write>,
    trampolines: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Address of the jump.
    pub at: u64,
    /// Bytes that the jump replaces.
    pub before: [u8; JUMP as usize],
    pub after: [u8; JUMP as usize],
    pub function: u64,
    /// The code that does what the function does.
    pub original: u64,
    /// The bytes that are not executed there afterwards.
    pub(crate) displaced: Range<u64>,
    /// Displaced instructions, and where in the trampoline they are.
    pub(crate) moves: Vec<(u64, Option<u64>)>,
}

const ALIGNMENT: usize = 32;

/// The most that a hop with its trampoline takes, in bytes.
const LONGEST: usize = 160;

impl Draft {
    /// Plans the patches of functions of one module. Those that cannot be patched are returned with the reason. Of
    /// functions at one address the first one counts.
    pub fn of(code: &Code, detours: Vec<Detour>) -> (Self, Vec<(Function, Refusal)>) {
        let mut planned: BTreeMap<u64, (Patch, u64, Option<Vec<u8>>)> = BTreeMap::new();
        let mut refused: BTreeMap<u64, (Function, Refusal)> = BTreeMap::new();
        for detour in detours {
            let address = detour.function.address;
            if planned.contains_key(&address) || refused.contains_key(&address) {
                continue;
            }
            match code.plan(&detour.function) {
                Ok(patch) => drop(planned.insert(address, (patch, detour.to, detour.data))),
                Err(why) => drop(refused.insert(address, (detour.function, why))),
            }
        }
        // One entry can lie within the bytes that another one displaces: a function of a few bytes, and its neighbour.
        let mut patches: Vec<(u64, Patch, u64, Option<Vec<u8>>)> = Vec::new();
        for (address, (patch, to, data)) in planned {
            let range = patch.range();
            match patches.last() {
                Some((_, before, ..)) if before.range().end > range.start => {
                    let function = Function { address, size: 0, ifunc: false };
                    refused.insert(address, (function, Refusal::NeighbourInside(range.start - before.range().start)));
                }
                _ => patches.push((address, patch, to, data)),
            }
        }
        (Self { module: code.range(), patches }, refused.into_values().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.patches.is_empty()
    }

    /// The addresses of the module.
    pub fn module(&self) -> Range<u64> {
        self.module.clone()
    }

    /// Bytes of the area that [`Self::place`] needs: whole pages.
    pub fn bytes(&self) -> u64 {
        let data = |data: &Option<Vec<u8>>| data.as_ref().map_or(0, |data| data.len() + 8);
        let all: usize = self.patches.iter().map(|(.., d)| (LONGEST + data(d)).next_multiple_of(ALIGNMENT)).sum();
        (all as u64).next_multiple_of(PAGE)
    }

    /// Bytes that the patch of the function at this address displaces. None where it is not patched.
    pub fn displaced_bytes(&self, address: u64) -> Option<u64> {
        let (_, patch, ..) = self.patches.iter().find(|(at, ..)| *at == address)?;
        let range = patch.range();
        Some(range.end - range.start)
    }

    pub fn place(&self, area: u64) -> Result<Placed, Refusal> {
        let mut placed = Placed { area, code: Vec::new(), writes: Vec::new(), trampolines: BTreeMap::new() };
        for (address, patch, to, data) in &self.patches {
            let code = &mut placed.code;
            entry::fill(code, code.len().next_multiple_of(ALIGNMENT));
            let hop = area + code.len() as u64;
            let reference = entry::append_hop(code, *to, data.is_some());
            let trampoline = area + code.len() as u64;
            let moved = patch.moved_to(trampoline)?;
            code.extend(moved.code);
            if let (Some(data), Some(reference)) = (data, reference) {
                entry::fill(code, code.len().next_multiple_of(8));
                reference.resolve(code);
                code.extend(trampoline.to_le_bytes());
                code.extend(data);
            }
            let (before, after) = (*patch.original(), patch.jump(hop)?);
            let displaced = patch.range();
            let (at, function, original, moves) = (displaced.start, *address, trampoline, moved.moves);
            placed.writes.push(Write { at, before, after, function, original, displaced, moves });
            placed.trampolines.insert(*address, trampoline);
        }
        if placed.code.len() as u64 > self.bytes() {
            return Err(Refusal::NotRelocatable("it becomes too long".to_owned()));
        }
        entry::fill(&mut placed.code, self.bytes() as usize);
        Ok(placed)
    }
}

impl Placed {
    /// The code that does what the function at `entry` does. None: it is not patched.
    pub fn trampoline(&self, entry: u64) -> Option<u64> {
        self.trampolines.get(&entry).copied()
    }

    /// Whether the first patched function has its bytes of before: a module that was loaded anew at the same address
    /// has no patches.
    pub fn is_undone(&self, memory: &Memory) -> bool {
        self.writes.first().is_some_and(|write| memory.read_up_to(write.at, write.before.len()) == write.before)
    }

    pub fn range(&self) -> Range<u64> {
        self.area..self.area + self.code.len() as u64
    }
}
