//! A request, as handlers see it.

use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, Uri};

/// A GET or HEAD that may be answered: its token and its host were checked.
#[derive(Clone, Debug)]
pub struct Request {
    head: bool,
    path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
}

impl Request {
    pub(crate) fn new(method: &Method, uri: &Uri, headers: HeaderMap) -> Self {
        Self { head: *method == Method::HEAD, path: uri.path().to_owned(), query: query(uri), headers }
    }

    /// A request for an address like `/api/top?by=bytes`, without headers: for tests of handlers. None: it is no
    /// address.
    pub fn get(address: &str) -> Option<Self> {
        let uri: Uri = address.parse().ok()?;
        Some(Self::new(&Method::GET, &uri, HeaderMap::new()))
    }

    /// The path as it was sent, escapes unresolved.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Names and values of the query, decoded, in their order, without the token.
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The first value of a name of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A header's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(HeaderName::from_bytes(name.as_bytes()).ok()?)?.to_str().ok()
    }

    /// Whether the client asks for the headers alone; the server drops the body by itself.
    pub fn is_head(&self) -> bool {
        self.head
    }
}

fn query(uri: &Uri) -> Vec<(String, String)> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.filter(|(name, _)| name != TOKEN).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// The name of the query that carries a token.
pub(crate) const TOKEN: &str = "token";

/// The token of a query, if it has one.
pub(crate) fn token_of(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.find(|(name, _)| name == TOKEN).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn a_query_is_decoded_and_has_no_token() {
        let request = Request::get("/api/top?focus=%5Estd%3A%3A+x&token=secret&limit=3&empty=&focus=second").unwrap();
        assert_eq!(request.path(), "/api/top");
        assert_eq!(request.parameter("focus"), Some("^std:: x"));
        assert_eq!(request.parameter("empty"), Some(""));
        assert_eq!(request.parameter("token"), None);
        assert_eq!(request.query().len(), 4);
    }

    #[test]
    fn broken_escapes_are_text() {
        let request = Request::get("/?a=%zz%ff%").unwrap();
        assert_eq!(request.parameter("a"), Some("%zz\u{fffd}%"));
    }
}
