//! Profiles for stores that take them: what changed since the last one, whose it is, and the request that carries it.

mod answer;
mod backoff;
mod ledger;
mod otlp;
mod otlp_messages;
mod parca;
mod pyroscope;
mod request;
mod resource;
mod store;

pub use answer::{Answer, Fate, MOST_OF_AN_ANSWER};
pub use backoff::{Backoff, spread};
pub use ledger::{PushLedger, Window};
pub use request::Request;
pub use resource::{ProcessFacts, Resource, Value};
pub use store::{BadAddress, Store, StoreKind};
