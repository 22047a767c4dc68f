//! Reading a table file, with every bound checked.

use super::error::TableError;
use super::layout::*;

#[derive(Clone, Copy, Debug)]
pub struct TableView<'data> {
    base_svma: u64,
    pcs: &'data [[u8; 4]],
    quicks: &'data [[u8; 2]],
    fulls: &'data [[u8; 4]],
    rules: &'data [[u8; RULE_BYTES]],
}

impl<'data> TableView<'data> {
    /// Reads the header, which must fit the file exactly. Rows and rules are not checked: see [`check`](Self::check).
    pub fn parse(data: &'data [u8]) -> Result<Self, TableError> {
        Self::parts(data).ok_or(TableError::NotTable)
    }

    fn parts(data: &'data [u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
        let offset = |at: usize| usize::try_from(long(at)?).ok();
        if word(0)? != MAGIC || word(4)? != WIRE_VERSION || offset(48)? != data.len() {
            return None;
        }
        let (rows, rules) = (word(8)? as usize, word(12)? as usize);
        let part = |from: usize, bytes: usize| data.get(from..from.checked_add(bytes)?);
        let view = Self {
            base_svma: long(16)?,
            pcs: part(HEADER_BYTES, rows.checked_mul(4)?)?.as_chunks().0,
            quicks: part(offset(24)?, rows.checked_mul(2)?)?.as_chunks().0,
            fulls: part(offset(32)?, rows.checked_mul(4)?)?.as_chunks().0,
            rules: part(offset(40)?, rules.checked_mul(RULE_BYTES)?)?.as_chunks().0,
        };
        let aligned = offset(24)? % 2 == 0 && offset(32)? % 4 == 0 && offset(40)? % 4 == 0;
        (aligned && rows > 0 && view.pcs[0] == [0; 4]).then_some(view)
    }

    /// Checks every row and rule, so that a reader needs no checks of its own. About 1 ns a row.
    pub fn check(&self) -> Result<(), TableError> {
        let rules = self.rules.len();
        let is_index = |index: u32| (index as usize) < rules;
        let sound = self.pcs.is_sorted_by(|a, b| u32::from_le_bytes(*a) < u32::from_le_bytes(*b))
            && self.fulls.iter().all(|full| is_index(u32::from_le_bytes(*full)))
            && self
                .quicks
                .iter()
                .map(|quick| u16::from_le_bytes(*quick))
                .all(|quick| quick & QUICK_RULE == 0 || is_index(u32::from(quick & !QUICK_RULE)))
            && self.rules.iter().all(|rule| Rule::from_bytes(rule).is_valid())
            && self.rule(RULE_NONE) == Some(Rule::NONE)
            && self.rule(RULE_END) == Some(Rule::END);
        sound.then_some(()).ok_or(TableError::NotTable)
    }

    /// Link-time address of the module's first mapped page.
    pub fn base_svma(&self) -> u64 {
        self.base_svma
    }

    pub fn rows(&self) -> usize {
        self.pcs.len()
    }

    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// The whole rule for a link-time address. None below the base or where the file is damaged.
    pub fn rule_at(&self, svma: u64) -> Option<Rule> {
        self.rule(u32::from_le_bytes(*self.fulls.get(self.row_of(svma)?)?))
    }

    /// The rule that the quick form of a link-time address stands for.
    pub fn quick_rule_at(&self, svma: u64) -> Option<Rule> {
        let quick = u16::from_le_bytes(*self.quicks.get(self.row_of(svma)?)?);
        Rule::from_quick(quick).or_else(|| self.rule(u32::from(quick & !QUICK_RULE)))
    }

    fn rule(&self, index: u32) -> Option<Rule> {
        self.rules.get(index as usize).map(Rule::from_bytes)
    }

    fn row_of(&self, svma: u64) -> Option<usize> {
        let pc = u32::try_from(svma.checked_sub(self.base_svma)?).ok()?;
        self.pcs.partition_point(|row| u32::from_le_bytes(*row) <= pc).checked_sub(1)
    }
}
