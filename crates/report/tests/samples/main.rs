//! What is said of samples, held against programs whose truth is known.

mod coverage;
mod simulation;
