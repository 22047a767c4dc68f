//! What is said of samples in profiles, between files and by call path.

mod fleet;
mod hostile;
mod paths;
mod snapshots;
