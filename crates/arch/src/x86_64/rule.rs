//! Unwind rules: how the caller's registers follow from a frame's. `preload/arch/x86_64/rule.h` has the same layout,
//! and describes each field.

/// Bytes that [`Rule::to_bytes`] returns.
pub const RULE_BYTES: usize = 48;

pub const QUICK_RULE: u16 = 0x8000;
pub const QUICK_BASE_FP: u16 = 0x0200;
pub const QUICK_CFA_MASK: u16 = 0x01ff;
pub const QUICK_FP_SHIFT: u32 = 10;
pub const QUICK_FP_MASK: u16 = 0x1f;

pub const RULE_NONE: u32 = 0;
pub const RULE_END: u32 = 1;

pub const CFA_NONE: u8 = 0;
pub const CFA_END: u8 = 1;
pub const CFA_OFFSET: u8 = 2;
pub const CFA_DEREF: u8 = 3;
pub const CFA_PLT: u8 = 4;
pub const CFA_GOROUTINE: u8 = 5;

pub const SAVED_SAME: u8 = 0;
pub const SAVED_AT_CFA: u8 = 1;
pub const SAVED_AT_SP: u8 = 2;
pub const SAVED_IS_CFA: u8 = 3;
pub const SAVED_UNDEFINED: u8 = 4;
pub const SAVED_AT_FP: u8 = 5;

pub const CONTEXT_NONE: u8 = 0;
pub const CONTEXT_AT_CFA: u8 = 1;
pub const CONTEXT_IN_REGISTER: u8 = 2;

/// Indices in [`Rule::kind`]: the frame pointer, and what holds the context of an async function of Swift.
pub const FP: usize = 1;
pub const CONTEXT: usize = 4;
/// Index of the return address.
pub const RA: usize = 6;
pub const SAVED_COUNT: usize = 7;
/// The value of [`Rule::cfa_reg`] where the CFA follows from the stack pointer.
pub const CFA_SP: u8 = 7;
/// Place of a call's return address, in bytes from the CFA.
pub const RETURN_SLOT: i32 = -8;

/// `struct mallow_rule`: how to find the caller's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Value of `enum mallow_cfa_kind`.
    pub cfa_kind: u8,
    /// Index of a saved register, or 7 for rsp.
    pub cfa_reg: u8,
    /// 1 where the frame that this rule leads to was interrupted by a signal.
    pub signal_frame: u8,
    /// `enum mallow_saved_kind`, for rbx, rbp, r12 to r15 and the return address.
    pub kind: [u8; SAVED_COUNT],
    /// `enum mallow_context_kind`: where an async function of Swift has its context.
    pub context_kind: u8,
    /// Operand of the `context_kind`.
    pub context_at: u8,
    /// Operand of `cfa_kind`: see `enum mallow_cfa_kind`.
    pub cfa_offset: i32,
    /// Second operand of `cfa_kind`: see `enum mallow_cfa_kind`.
    pub cfa_extra: i32,
    /// Operand of `kind` for each register.
    pub offset: [i32; SAVED_COUNT],
}

impl Rule {
    /// The rule of an address without unwind information.
    pub const NONE: Self = Self {
        cfa_kind: CFA_NONE,
        cfa_reg: 0,
        signal_frame: 0,
        kind: [0; SAVED_COUNT],
        context_kind: CONTEXT_NONE,
        context_at: 0,
        cfa_offset: 0,
        cfa_extra: 0,
        offset: [0; SAVED_COUNT],
    };

    /// The rule of the outermost frame.
    pub const END: Self = Self { cfa_kind: CFA_END, ..Self::NONE };

    /// The 16-bit form, where there is one: it stands for the CFA, rbp and the return address alone. `OFFSET_SP`, with
    /// `AND_RESTORE_BP` where rbp was saved, or `OFFSET_BP` with the same.
    #[inline]
    pub fn quick(&self) -> Option<u16> {
        if self.context_kind != CONTEXT_NONE {
            return None;
        }
        let base = match (self.cfa_kind, self.cfa_reg) {
            (CFA_OFFSET, CFA_SP) => 0,
            (CFA_OFFSET, reg) if usize::from(reg) == FP => QUICK_BASE_FP,
            _ => return None,
        };
        let simple_return = self.kind[RA] == SAVED_AT_CFA && self.offset[RA] == RETURN_SLOT && self.signal_frame == 0;
        let cfa = u16::try_from(self.cfa_offset / 8).ok().filter(|&cfa| cfa <= QUICK_CFA_MASK)?;
        if !simple_return || self.cfa_offset % 8 != 0 {
            return None;
        }
        let rbp = match self.kind[FP] {
            SAVED_SAME => 0,
            SAVED_AT_CFA if self.offset[FP] <= -16 && self.offset[FP] % 8 == 0 => {
                u16::try_from(-i64::from(self.offset[FP]) / 8).ok().filter(|&k| k <= QUICK_FP_MASK)?
            }
            _ => return None,
        };
        Some(rbp << QUICK_FP_SHIFT | base | cfa)
    }

    /// The rule that a quick form stands for, `None` for the index of a rule.
    #[inline]
    pub fn from_quick(quick: u16) -> Option<Self> {
        if quick & QUICK_RULE != 0 {
            return None;
        }
        let mut rule = Self { cfa_kind: CFA_OFFSET, cfa_reg: CFA_SP, ..Self::NONE };
        if quick & QUICK_BASE_FP != 0 {
            rule.cfa_reg = FP as u8;
        }
        rule.cfa_offset = 8 * i32::from(quick & QUICK_CFA_MASK);
        (rule.kind[RA], rule.offset[RA]) = (SAVED_AT_CFA, RETURN_SLOT);
        let rbp = quick >> QUICK_FP_SHIFT & QUICK_FP_MASK;
        if rbp != 0 {
            (rule.kind[FP], rule.offset[FP]) = (SAVED_AT_CFA, -8 * i32::from(rbp));
        }
        Some(rule)
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; RULE_BYTES] {
        let mut bytes = [0; RULE_BYTES];
        bytes[..3].copy_from_slice(&[self.cfa_kind, self.cfa_reg, self.signal_frame]);
        bytes[3..10].copy_from_slice(&self.kind);
        bytes[10..12].copy_from_slice(&[self.context_kind, self.context_at]);
        bytes[12..16].copy_from_slice(&self.cfa_offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.cfa_extra.to_le_bytes());
        for (to, offset) in bytes[20..].chunks_exact_mut(4).zip(self.offset) {
            to.copy_from_slice(&offset.to_le_bytes());
        }
        bytes
    }

    #[inline]
    pub fn from_bytes(bytes: &[u8; RULE_BYTES]) -> Self {
        let word = |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            cfa_kind: bytes[0],
            cfa_reg: bytes[1],
            signal_frame: bytes[2],
            kind: std::array::from_fn(|i| bytes[3 + i]),
            context_kind: bytes[10],
            context_at: bytes[11],
            cfa_offset: word(12),
            cfa_extra: word(16),
            offset: std::array::from_fn(|i| word(20 + 4 * i)),
        }
    }

    /// True where every field has a value that `preload/arch/x86_64/rule.h` names.
    #[inline]
    pub fn is_valid(&self) -> bool {
        let context = match self.context_kind {
            CONTEXT_NONE => self.context_at == 0,
            CONTEXT_AT_CFA => true,
            CONTEXT_IN_REGISTER => usize::from(self.context_at) < RA,
            _ => false,
        };
        context
            && self.cfa_kind <= CFA_GOROUTINE
            && self.cfa_reg <= CFA_SP
            && self.kind.iter().all(|&kind| kind <= SAVED_AT_FP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Values of `#define MALLOW_… n` and of `MALLOW_… = n` in rule.h.
    fn wire_values() -> HashMap<String, i64> {
        let path = format!("{}/../../preload/arch/x86_64/rule.h", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a header of the wire");
        let mut values = HashMap::new();
        for line in text.lines() {
            let mut words = line.trim().trim_start_matches("#define ").split([' ', ',', '=']).filter(|w| !w.is_empty());
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            let value = value.trim_matches(['(', ')']).trim_end_matches(['u', 'l']);
            let parsed = match value.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            if let Ok(parsed) = parsed {
                values.insert(name.to_owned(), parsed);
            }
        }
        values
    }

    #[test]
    fn values_are_those_of_the_wire() {
        let wire = wire_values();
        let mine = [
            ("QUICK_RULE", QUICK_RULE.into()),
            ("QUICK_BASE_RBP", QUICK_BASE_FP.into()),
            ("QUICK_CFA_MASK", QUICK_CFA_MASK.into()),
            ("QUICK_RBP_SHIFT", QUICK_FP_SHIFT.into()),
            ("QUICK_RBP_MASK", QUICK_FP_MASK.into()),
            ("RULE_NONE", RULE_NONE.into()),
            ("RULE_END", RULE_END.into()),
            ("CFA_NONE", CFA_NONE.into()),
            ("CFA_END", CFA_END.into()),
            ("CFA_OFFSET", CFA_OFFSET.into()),
            ("CFA_DEREF", CFA_DEREF.into()),
            ("CFA_PLT", CFA_PLT.into()),
            ("CFA_GOROUTINE", CFA_GOROUTINE.into()),
            ("SAVED_SAME", SAVED_SAME.into()),
            ("SAVED_AT_CFA", SAVED_AT_CFA.into()),
            ("SAVED_AT_RSP", SAVED_AT_SP.into()),
            ("SAVED_IS_CFA", SAVED_IS_CFA.into()),
            ("SAVED_UNDEFINED", SAVED_UNDEFINED.into()),
            ("SAVED_AT_RBP", SAVED_AT_FP.into()),
            ("CFA_RSP", i64::from(CFA_SP)),
            ("RETURN_SLOT", RETURN_SLOT.into()),
            ("CONTEXT_NONE", CONTEXT_NONE.into()),
            ("CONTEXT_AT_CFA", CONTEXT_AT_CFA.into()),
            ("CONTEXT_IN_REGISTER", CONTEXT_IN_REGISTER.into()),
        ];
        for (name, value) in mine {
            assert_eq!(wire.get(&format!("MALLOW_{name}")), Some(&value), "{name}");
        }
    }

    #[test]
    fn every_quick_form_is_the_form_of_its_rule() {
        for quick in 0..QUICK_RULE {
            if quick >> QUICK_FP_SHIFT & QUICK_FP_MASK == 1 {
                continue; // rbp where the return address is: no function does that
            }
            let rule = Rule::from_quick(quick).expect("not an index");
            assert_eq!(rule.quick(), Some(quick));
            assert_eq!(Rule::from_bytes(&rule.to_bytes()), rule);
        }
    }

    #[test]
    fn rules_beyond_the_quick_form_have_none() {
        let simple = Rule::from_quick(0x0802).expect("OFFSET_SP_AND_RESTORE_BP: rsp + 16, rbp at -16");
        let beyond = [
            Rule { cfa_offset: 4096, ..simple },
            Rule { cfa_offset: -8, ..simple },
            Rule { cfa_offset: 12, ..simple },
            Rule { cfa_kind: CFA_DEREF, ..simple },
            Rule { cfa_kind: CFA_PLT, ..simple },
            Rule { cfa_kind: CFA_GOROUTINE, ..simple },
            Rule { cfa_reg: 0, ..simple },
            Rule { signal_frame: 1, ..simple },
            Rule { context_kind: CONTEXT_AT_CFA, context_at: 3, ..simple },
            Rule { kind: [0, SAVED_AT_FP, 0, 0, 0, 0, SAVED_AT_CFA], ..simple },
            Rule { kind: [0, SAVED_AT_CFA, 0, 0, 0, 0, SAVED_AT_SP], ..simple },
            Rule { offset: [0, -256, 0, 0, 0, 0, -8], ..simple },
            Rule { offset: [0, -8, 0, 0, 0, 0, -8], ..simple },
            Rule { offset: [0, i32::MIN, 0, 0, 0, 0, -8], ..simple },
            Rule { offset: [0, -16, 0, 0, 0, 0, -16], ..simple },
            Rule::NONE,
            Rule::END,
        ];
        assert!(simple.quick().is_some());
        for rule in beyond {
            assert_eq!(rule.quick(), None, "{rule:?}");
        }
    }
}
