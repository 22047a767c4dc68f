//! Runs of measured regions: what REGION events refer to.
//!
//! One column: for each run its number, run × 2 + 1 for a warm-up, operations, name.

use super::bytes::{Cursor, Nonsense, put, put_bytes};
use mallow_profile::Region;

pub fn write(regions: &[Region]) -> Vec<Vec<u8>> {
    let mut column = Vec::new();
    for region in regions {
        put(&mut column, u64::from(region.number));
        put(&mut column, u64::from(region.run) << 1 | u64::from(region.warmup));
        put(&mut column, region.operations);
        put_bytes(&mut column, region.name.as_bytes());
    }
    vec![column]
}

pub fn read(columns: &mut [Cursor]) -> Result<Vec<Region>, Nonsense> {
    let [column] = columns else { return Err(Nonsense("a block of regions has another number of columns")) };
    let mut regions = Vec::new();
    while !column.is_empty() {
        let number = column.small()?;
        let run = column.number()?;
        regions.push(Region {
            number,
            run: u32::try_from(run >> 1).map_err(|_| Nonsense("no such run"))?,
            warmup: run & 1 != 0,
            operations: column.number()?,
            name: column.string()?,
        });
    }
    Ok(regions)
}
