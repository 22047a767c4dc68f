//! Lengths that the parts of the picture share, and the changes that colours show.

use mallow_report::analysis::{Flame, FlameBox, difference};

/// The picture's width where no script fits it to the window, in pixels.
pub const WIDTH: u32 = 1200;
/// Left and right of the boxes.
pub const EDGE: u32 = 12;
/// A box and the gap to the next one.
pub const ROW: u32 = 17;
pub const BOX: u32 = 16;
/// Width of a character of the boxes' font; wider than in any common one.
pub const CHARACTER: f64 = 7.3;
/// Height of a line of text.
pub const LINE: u32 = 18;
/// Search, and two lines of details.
pub const CONTROLS: u32 = 72;
/// Narrower boxes have no border: one of two pixels would be nothing else.
pub const SLIVER: f64 = 3.0;

/// Boxes narrower than this part of the picture are left out: less than half a pixel.
pub const PARTS: u64 = 2500;

/// The change that the colour of a box shows: its own or, among callers, that of what its call path allocated.
pub fn coloured(flame: &Flame, node: &FlameBox) -> i64 {
    if flame.callers { difference(node.before, node.value) } else { node.change }
}

/// The largest of those changes that `of` is true for; the whole has none of its own among callers.
pub fn largest(flame: &Flame, of: fn(i64) -> bool) -> Option<i64> {
    let boxes = flame.boxes.iter().skip(usize::from(flame.callers));
    boxes.map(|node| coloured(flame, node)).filter(|&change| of(change)).max_by_key(|change| change.unsigned_abs())
}
