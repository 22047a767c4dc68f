//! A watched program as the engines of a fleet read it: documents for scrapers, in the formats of pprof and Prometheus.
//!
//! Documents are pure: this crate knows no server, no process and no layout of the wire.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod document;
mod label;
mod many;
pub mod metrics;
mod profiles;
pub mod push;
mod push_metrics;

pub use document::{BadQuery, Document, LONGEST_DELTA_S};
pub use many::{FleetMeasurement, fleet_metrics};
pub use metrics::{Measurement, metrics};
pub use profiles::{heap, heap_text};
pub use push_metrics::{PushCounts, push_metrics};
