//! What is sent to a store.

/// A POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Behind the store's address, with its query.
    pub path: String,
    /// Headers that say what the body is.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}
