//! `mimalloc-inside N SIZE`: loses N blocks of SIZE bytes, in a program with mimalloc 3 inside.

use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[inline(never)]
fn lose(blocks: usize, size: usize) {
    for number in 1..=blocks {
        std::mem::forget(vec![number as u8; size]);
    }
}

/// Overwrites what is left on the stack.
#[inline(never)]
fn scrub(depth: u64) -> u64 {
    let frame = [depth; 64];
    if depth == 0 { black_box(&frame)[3] } else { scrub(depth - 1) + black_box(&frame)[1] }
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    lose(arguments[0], arguments[1]);
    println!("{}", scrub(200));
}
