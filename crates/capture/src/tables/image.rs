//! The file that the target maps: rows and rules laid out as `preload/base/wire.h` says.

use super::error::TableError;
use super::layout::*;
use super::rows::{Row, Rules};
use super::stats::TableStats;

/// The bytes of the file. Rows whose rule got no number that the quick form can hold count as unrepresentable.
pub(super) fn lay_out(
    base_svma: u64,
    rows: &[Row],
    rules: &Rules,
    stats: &mut TableStats,
) -> Result<Vec<u8>, TableError> {
    let numbers = number(rules);
    let quick_offset = HEADER_BYTES + 4 * rows.len();
    let full_offset = (quick_offset + 2 * rows.len()).next_multiple_of(8);
    let rules_offset = (full_offset + 4 * rows.len()).next_multiple_of(8);
    let file_bytes = rules_offset + RULE_BYTES * rules.all.len();
    let count = |n: usize| u32::try_from(n).map_err(|_| TableError::TooLarge);

    let mut image = vec![0; file_bytes];
    let (header, rest) = image.split_at_mut(HEADER_BYTES);
    let words = [MAGIC, WIRE_VERSION, count(rows.len())?, count(rules.all.len())?];
    let longs = [base_svma, quick_offset as u64, full_offset as u64, rules_offset as u64, file_bytes as u64, 0]
        .map(u64::to_le_bytes);
    header[..16].copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
    header[16..].copy_from_slice(longs.as_flattened());

    let (pcs, rest) = rest.split_at_mut(quick_offset - HEADER_BYTES);
    let (quicks, rest) = rest.split_at_mut(full_offset - quick_offset);
    let (fulls, rule_bytes) = rest.split_at_mut(rules_offset - full_offset);
    let cells = pcs.chunks_exact_mut(4).zip(quicks.chunks_exact_mut(2)).zip(fulls.chunks_exact_mut(4));
    for (row, ((pc, quick), full)) in rows.iter().zip(cells) {
        let number = numbers[row.rule as usize];
        stats.unrepresentable_rows += usize::from(number.quick.is_none());
        pc.copy_from_slice(&row.pc.to_le_bytes());
        quick.copy_from_slice(&number.quick.unwrap_or(QUICK_RULE | RULE_NONE as u16).to_le_bytes());
        full.copy_from_slice(&number.full.to_le_bytes());
    }
    for (rule, number) in rules.all.iter().zip(&numbers) {
        let at = RULE_BYTES * number.full as usize;
        rule_bytes[at..at + RULE_BYTES].copy_from_slice(&rule.to_bytes());
    }
    Ok(image)
}

#[derive(Clone, Copy)]
struct Number {
    full: u32,
    /// None where a rule without a quick form has a number above 15 bits.
    quick: Option<u16>,
}

/// Numbers of the rules in the file: first those without a quick form, in their old order, so that NONE stays 0, END 1.
fn number(rules: &Rules) -> Vec<Number> {
    let quicks: Vec<Option<u16>> = rules.all.iter().map(Rule::quick).collect();
    let mut next_slow = 0;
    let mut next_quick = quicks.iter().filter(|quick| quick.is_none()).count() as u32;
    let take = |next: &mut u32| {
        *next += 1;
        *next - 1
    };
    quicks
        .into_iter()
        .map(|quick| match quick {
            Some(_) => Number { full: take(&mut next_quick), quick },
            None => {
                let full = take(&mut next_slow);
                let quick = u16::try_from(full).ok().filter(|&n| n < QUICK_RULE).map(|n| QUICK_RULE | n);
                Number { full, quick }
            }
        })
        .collect()
}
