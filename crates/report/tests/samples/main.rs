//! What is said of samples, held against programs whose truth is known.

mod coverage;
mod fleet;
mod growth;
mod hostile;
mod paths;
mod server;
mod simulation;
mod snapshots;
mod trend;
