//! What allocated a block and what freed it, where the two do not belong together.

use mallow_capture::guard::{Block, Freeing, Mismatch, Operator};
use serde::Serialize;

use super::steps::family;
use crate::output::text::units::of;

/// Operations that do not belong together: what allocated a block, and what freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Operations {
    /// Function or operator that allocated the block.
    pub allocated: &'static str,
    /// Function or operator that freed the block.
    pub freed: &'static str,
    /// Size that operator delete was called with; null where it was called without one.
    pub freed_size: Option<u64>,
    /// Alignment that operator new was called with; null where it was called without one.
    pub allocated_alignment: Option<u64>,
    /// Alignment that operator delete was called with; null where it was called without one.
    pub freed_alignment: Option<u64>,
}

impl Operations {
    pub fn of(block: &Block, mismatch: Mismatch) -> Self {
        Self {
            allocated: family(block),
            freed: match mismatch.freed {
                Freeing::Free => "free",
                Freeing::Realloc => "realloc",
                Freeing::Delete(Operator::One) => "operator delete",
                Freeing::Delete(Operator::Array) => "operator delete[]",
            },
            freed_size: mismatch.size,
            allocated_alignment: mismatch.alignment,
            freed_alignment: mismatch.freed_alignment,
        }
    }
}

/// The block, and what does not fit: the operations, else the alignments, else the sizes.
pub fn place(block: &Block, mismatch: Mismatch) -> String {
    let Operations { allocated, freed, .. } = Operations::of(block, mismatch);
    let size = of(block.size, "byte");
    let fits = matches!((block.operator, mismatch.freed), (Some(new), Freeing::Delete(delete)) if new == delete);
    let asked = |alignment: Option<u64>| match alignment {
        Some(alignment) => format!("with an alignment of {}", of(alignment, "byte")),
        None => "without an alignment".to_owned(),
    };
    match mismatch.size {
        _ if fits && mismatch.alignment != mismatch.freed_alignment => format!(
            "a block of {size} that {allocated} allocated {}, and {freed} freed {}",
            asked(mismatch.alignment),
            asked(mismatch.freed_alignment)
        ),
        Some(other) if fits => {
            format!("a block of {size} that {allocated} allocated, and {freed} freed as one of {}", of(other, "byte"))
        }
        _ => format!("a block of {size} that {allocated} allocated, and {freed} freed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_what_does_not_fit() {
        let plain = Mismatch {
            allocated: None,
            freed: Freeing::Delete(Operator::One),
            size: Some(4),
            alignment: None,
            freed_alignment: None,
        };
        let block = |operator| Block { address: 16, size: 40, family: 0, operator, ..Block::default() };
        assert_eq!(place(&block(None), plain), "a block of 40 bytes that malloc allocated, and operator delete freed");
        let one = block(Some(Operator::One));
        let text = "a block of 40 bytes that operator new allocated, and operator delete freed as one of 4 bytes";
        assert_eq!(place(&one, plain), text);
        let aligned = Mismatch { alignment: Some(64), ..plain };
        let text = "a block of 40 bytes that operator new allocated with an alignment of 64 bytes, and operator delete freed without an alignment";
        assert_eq!(place(&one, aligned), text);
        let text = "a block of 40 bytes that operator new[] allocated, and operator delete freed";
        assert_eq!(place(&block(Some(Operator::Array)), aligned), text);
    }
}
