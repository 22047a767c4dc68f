//! What samples say of everything that was not sampled, and how sure that is.

mod estimate;
mod limits;

pub use estimate::{Estimate, Sum, picked};
