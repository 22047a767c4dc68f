//! What is sent to a store.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Behind the store's address, with its query.
    pub path: String,
    /// Headers that say what the body is.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}
