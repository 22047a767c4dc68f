//! Lines of a Go program's code, inlined calls included, as the runtime's own table (`pclntab` of Go 1.20 to 1.26) has
//! them.

/// The value of `abi.Go120PCLnTabMagic`.
const MAGIC: u32 = 0xffff_fff1;
/// Index, among a function's tables and among its data, of the inlined calls: `abi.PCDATA_InlTreeIndex` and
/// `abi.FUNCDATA_InlTree`.
const INLINE_INDEX: u32 = 2;
const INLINE_TREE: u32 = 3;
/// Bytes of an inlined call, and where the place of its call stands in it.
const INLINED: u64 = 16;
const PARENT: u64 = 8;
/// Calls within each other are read to this depth: more are damage.
const DEEPEST: usize = 256;

pub(crate) struct GoLines<'a> {
    /// Content of section `.gopclntab`.
    pub table: &'a [u8],
    /// Link-time address at which the program's code begins.
    pub text: u64,
    /// Link-time address at which the data of functions begins.
    pub data: u64,
    /// Reads so many bytes at a link-time address.
    pub bytes: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
}

pub(crate) struct GoFunction {
    entry: u64,
    /// Offset of the function's record in the table.
    at: usize,
    files: u32,
    lines: u32,
    tables: u32,
    /// Offset of the functions' tables in the table.
    tables_at: usize,
}

impl GoLines<'_> {
    /// The function that begins at this link-time address.
    pub fn function(&self, entry: u64) -> Option<GoFunction> {
        if self.half(0)? != MAGIC {
            return None;
        }
        let count = usize::try_from(self.word(8)?).ok()?;
        let (tables_at, functions) = (self.offset(56)?, self.offset(64)?);
        let wanted = u32::try_from(entry.checked_sub(self.text)?).ok()?;
        let row = |index: usize| functions.checked_add(index.checked_mul(8)?);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.half(row(middle)?)?.cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let at = functions.checked_add(self.half(row(middle)?.checked_add(4)?)? as usize)?;
                    let field = |offset: usize| self.half(at.checked_add(offset)?);
                    let (files, lines, tables) = (field(20)?, field(24)?, field(28)?);
                    return Some(GoFunction { entry, at, files, lines, tables, tables_at });
                }
            }
        }
        None
    }

    /// Number of the file and line of a place, and those of the calls through which it was inlined, the innermost
    /// first. Numbers of files are those of the function's own package.
    pub fn chain(&self, function: &GoFunction, address: u64) -> Option<Vec<(i32, i32)>> {
        let index_table = (function.tables > INLINE_INDEX).then(|| self.beside(function, INLINE_INDEX)).flatten();
        let tree = self.tree(function);
        let mut offset = address.checked_sub(function.entry)?;
        let mut chain = Vec::new();
        while chain.len() < DEEPEST {
            let value = |table: u32| self.value(function, table, offset);
            chain.push((value(function.files)?, value(function.lines)?));
            let index = index_table.and_then(value).unwrap_or(-1);
            let (Ok(index), Some(tree)) = (u64::try_from(index), tree) else { return Some(chain) };
            let call = tree.checked_add(index * INLINED + PARENT)?;
            offset = u64::from(u32::from_le_bytes((self.bytes)(call, 4)?.try_into().ok()?));
        }
        None
    }

    /// Link-time address of a function's inlined calls.
    fn tree(&self, function: &GoFunction) -> Option<u64> {
        let count = *self.table.get(function.at.checked_add(43)?)?;
        let index = function.tables.checked_add(INLINE_TREE)?;
        let offset = (u32::from(count) > INLINE_TREE).then(|| self.beside(function, index)).flatten()?;
        (offset != u32::MAX).then(|| self.data.checked_add(u64::from(offset))).flatten()
    }

    /// The number that stands behind a function's record.
    fn beside(&self, function: &GoFunction, index: u32) -> Option<u32> {
        self.half(function.at.checked_add(44)?.checked_add((index as usize).checked_mul(4)?)?)
    }

    /// The value of a function's table at this distance from its entry: differences of values and of distances.
    fn value(&self, function: &GoFunction, table: u32, wanted: u64) -> Option<i32> {
        if table == 0 {
            return None;
        }
        let mut at = function.tables_at.checked_add(table as usize)?;
        let (mut value, mut offset, mut first) = (-1_i32, 0_u64, true);
        loop {
            let difference = self.number(&mut at)?;
            if difference == 0 && !first {
                return None;
            }
            first = false;
            let sign = (difference & 1).wrapping_neg();
            value = value.wrapping_add((sign ^ (difference >> 1)) as i32);
            offset = offset.checked_add(u64::from(self.number(&mut at)?))?;
            if wanted < offset {
                return Some(value);
            }
        }
    }

    fn number(&self, at: &mut usize) -> Option<u32> {
        let mut number = 0_u32;
        for group in 0..5 {
            let byte = *self.table.get(*at)?;
            *at += 1;
            number |= u32::from(byte & 0x7f).wrapping_shl(7 * group);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn half(&self, at: usize) -> Option<u32> {
        self.table.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn word(&self, at: usize) -> Option<u64> {
        self.table.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn offset(&self, at: usize) -> Option<usize> {
        usize::try_from(self.word(at)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_tables_and_damage() {
        let mut table = vec![0; 4];
        // -1 + 6 for 3 bytes, 5 + 130 for 200 bytes, 135 - 1 for one; the end.
        table.extend([12, 3, 0x84, 0x02, 0xc8, 0x01, 1, 1, 0]);
        let lines = GoLines { table: &table, text: 0, data: 0, bytes: &|_, _| None };
        let function = GoFunction { entry: 0, at: 0, files: 0, lines: 0, tables: 0, tables_at: 0 };
        let value = |offset| lines.value(&function, 4, offset);
        assert_eq!([0, 2, 3, 202, 203, 204].map(value), [Some(5), Some(5), Some(135), Some(135), Some(134), None]);
        assert_eq!((lines.value(&function, 0, 0), lines.value(&function, 400, 0)), (None, None));
        assert!(lines.function(0).is_none(), "no magic number");
        let cut = [MAGIC.to_le_bytes().as_slice(), &[8; 30]].concat();
        let lines = GoLines { table: &cut, text: 0, data: 0, bytes: &|_, _| None };
        assert!(lines.function(0).is_none() && lines.function(u64::MAX).is_none(), "cut off");
        let huge = [MAGIC.to_le_bytes().as_slice(), &[0; 4], &[255; 80]].concat();
        let lines = GoLines { table: &huge, text: 0, data: 0, bytes: &|_, _| None };
        assert!(lines.function(0).is_none(), "a number of functions that no file has");
    }
}
