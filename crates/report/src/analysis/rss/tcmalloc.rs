//! Size classes of gperftools' tcmalloc: made by a rule when it starts, as `SizeMap::Init` does.

use std::sync::OnceLock;

/// Largest request, in bytes, that has a class.
const MOST: u64 = 256 << 10;
const PAGE: u64 = 8 << 10;
const LEAST_ALIGNMENT: u64 = 16;
/// Bytes that a thread's cache and the central list exchange at once.
const BATCH_BYTES: u64 = 64 << 10;

/// The usable size of a request; None where it overflows.
pub fn class(requested: u64) -> Option<u64> {
    if requested > MOST {
        return requested.checked_add(PAGE - 1).map(|n| n & !(PAGE - 1));
    }
    static CLASSES: OnceLock<Vec<u64>> = OnceLock::new();
    let classes = CLASSES.get_or_init(classes);
    classes.get(classes.partition_point(|&class| class < requested)).copied()
}

fn classes() -> Vec<u64> {
    // Of each class its size, the pages of its spans and the blocks in one.
    let mut classes: Vec<(u64, u64, u64)> = Vec::new();
    let mut size = 8;
    while size <= MOST {
        let blocks_to_move = batch(size) / 4;
        let mut span = 0;
        loop {
            span += PAGE;
            // At most an eighth of a span may be left over.
            while span % size > span >> 3 {
                span += PAGE;
            }
            if span / size >= blocks_to_move {
                break;
            }
        }
        let (pages, blocks) = (span / PAGE, span / size);
        match classes.last_mut() {
            // A larger block for nothing: the class before gives way.
            Some(last) if last.1 == pages && last.2 == blocks => last.0 = size,
            _ => classes.push((size, pages, blocks)),
        }
        size += alignment(size);
    }
    let mut sizes: Vec<u64> = classes.into_iter().map(|(size, ..)| size).collect();
    if sizes.last() != Some(&MOST) {
        sizes.push(MOST);
    }
    sizes
}

fn batch(size: u64) -> u64 {
    (BATCH_BYTES / size).clamp(2, 32)
}

fn alignment(size: u64) -> u64 {
    match size {
        _ if size > MOST => PAGE,
        128.. => ((1 << size.ilog2()) / 8).min(PAGE),
        16.. => LEAST_ALIGNMENT,
        _ => 8,
    }
}
