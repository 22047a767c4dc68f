//! What is said of samples, held against programs whose truth is known.

mod coverage;
mod feeding;
mod growth;
mod trend;
