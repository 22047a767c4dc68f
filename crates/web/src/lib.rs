//! A small HTTP server for what Mallow shows itself: documents to read, for the user of this machine.
//!
//! It answers GET and HEAD alone, from a thread of its own, and bounds what a client can hold: connections, the size of
//! a request, the time for it, and the time in which a client reads nothing. It knows nothing of recordings and of
//! processes.
//!
//! A page of another origin cannot read it: names of other hosts, other origins and missing tokens are refused before a
//! handler sees the request.

// What a client sends ends in an answer.
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

mod access;
mod activity;
mod connection;
mod listener;
mod once;
mod peer;
mod request;
mod response;
mod server;
mod strangers;
mod token;

pub use access::Access;
pub use listener::Listener;
pub use once::{Misuse, Once};
pub use request::Request;
pub use response::Response;
pub use server::{Limits, Server};
pub use token::Token;
