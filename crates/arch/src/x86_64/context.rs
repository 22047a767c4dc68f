//! Async functions of Swift: which functions they are, and where each has its context.
//!
//! An async function does not return to its caller. It is called with its context in r14, and ends by a jump to the
//! function that the context names, with the caller's context in r14:
//!
//! ```text
//!   r14 ──► context of fetch              context of handle
//!          | 0: caller's context  ──────► | 0: its caller's
//!          | 8: handle, resumed here      | 8: …
//! ```
//!
//! A function keeps its context in a register or in its frame. With a frame pointer, that is the word below the saved
//! rbp (LLVM's "Swift async frame layout"); the prologue shows it. Otherwise the symbols say which functions are async,
//! and their instructions where r14 went ([`super::state`]).

use super::rule::*;

/// `push rbp; push r14; lea rbp, [rsp + 8]`: a frame with the context below the saved rbp. `bts rbp, 60` may come
/// before it, where the frame is to be marked for debuggers.
const PROLOGUE: [u8; 8] = [0x55, 0x41, 0x56, 0x48, 0x8d, 0x6c, 0x24, 0x08];
/// Bytes of a function's beginning in which [`PROLOGUE`] begins: the mark, and what the compiler moved before it.
const PROLOGUE_WITHIN: usize = 32;

/// The place of an async function's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The word below the saved rbp, where that was saved.
    Framed,
    /// Distance below the CFA, in words.
    AtCfa(u8),
    /// A register, by its index in [`Rule::kind`].
    InRegister(u8),
}

impl Context {
    /// `rule` with this context. A rule that finds no CFA has none.
    #[inline]
    pub fn add_to(self, rule: Rule) -> Rule {
        let place = match self {
            Self::Framed => words_to_frame(&rule).map(|words| (CONTEXT_AT_CFA, words)),
            Self::AtCfa(words) => Some((CONTEXT_AT_CFA, words)),
            Self::InRegister(index) => Some((CONTEXT_IN_REGISTER, index)),
        };
        match place.filter(|_| rule.cfa_kind == CFA_OFFSET && rule.signal_frame == 0) {
            Some((context_kind, context_at)) => Rule { context_kind, context_at, ..rule },
            None => rule,
        }
    }
}

/// Words from the CFA down to the one below the saved rbp; None where it is not saved, or was restored.
fn words_to_frame(rule: &Rule) -> Option<u8> {
    let saved = rule.offset[FP];
    let is_saved = rule.kind[FP] == SAVED_AT_CFA && saved % 8 == 0 && saved < 0;
    let stands = usize::from(rule.cfa_reg) == FP || i64::from(rule.cfa_offset) >= 8 - i64::from(saved);
    u8::try_from(1 - i64::from(saved) / 8).ok().filter(|_| is_saved && stands)
}

/// Offset in a function, in bytes, from which its frame holds the context; None where the prologue does not show it.
#[inline]
pub fn framed_from(code: &[u8]) -> Option<u64> {
    let first = code.get(..code.len().min(PROLOGUE_WITHIN + PROLOGUE.len()))?;
    let at = first.windows(PROLOGUE.len()).position(|bytes| bytes == PROLOGUE)?;
    Some((at + PROLOGUE.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prologue_is_found_with_and_without_the_mark() {
        let mark = [0x48, 0x0f, 0xba, 0xed, 0x3c];
        assert_eq!(framed_from(&PROLOGUE), Some(8));
        assert_eq!(framed_from(&[&mark[..], &PROLOGUE, &[0x90; 100]].concat()), Some(13));
        assert_eq!(framed_from(&[&[0x90; 60][..], &PROLOGUE].concat()), None);
        assert_eq!(framed_from(&PROLOGUE[..7]), None);
        assert_eq!(framed_from(&[]), None);
    }

    #[test]
    fn frames_hold_their_context_between_prologue_and_epilogue() {
        let by_rbp = Rule::from_quick(0x0a02).expect("OFFSET_BP_AND_RESTORE_BP: a frame pointer");
        let returning = Rule::from_quick(0x0801).expect("rsp + 8, rbp restored already");
        assert_eq!(Context::Framed.add_to(by_rbp), Rule { context_kind: CONTEXT_AT_CFA, context_at: 3, ..by_rbp });
        assert_eq!(Context::Framed.add_to(returning), returning);
        let passing = Rule { cfa_offset: 32, offset: [0, -32, 0, 0, 0, 0, -8], ..by_rbp };
        assert_eq!(Context::Framed.add_to(passing), Rule { context_kind: CONTEXT_AT_CFA, context_at: 5, ..passing });
        assert_eq!(Context::InRegister(4).add_to(returning).context_kind, CONTEXT_IN_REGISTER);
        assert_eq!(Context::InRegister(4).add_to(Rule::END), Rule::END);
        assert_eq!(Context::InRegister(4).add_to(Rule::NONE), Rule::NONE);
    }
}
