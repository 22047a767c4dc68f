//! What a handler answers.

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};

/// JSON as documents of Mallow have it.
const JSON: &str = "application/json; charset=utf-8";

/// Headers of each answer that the handler did not set itself: nothing of it runs, is stored, framed, or sent on.
const DEFAULTS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
];

/// An answer: status, type, headers and body.
#[derive(Clone, Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Response {
    /// A response with status 200 and a body of this type.
    pub fn of(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self { status: 200, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }

    /// A response with status 200 and a JSON document.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::of(JSON, body)
    }

    /// `{"error": "one sentence"}` with a status of 400 to 599.
    pub fn error(status: u16, sentence: &str) -> Self {
        Self { status, ..Self::json(serde_json::json!({ "error": sentence }).to_string() + "\n") }
    }

    /// No body, with a status like 204 or 304.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// One more header, or another value of a default. A value that cannot stand in a header is left out.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn into_hyper(self) -> hyper::Response<Full<Bytes>> {
        let mut answer = hyper::Response::new(Full::new(self.body));
        *answer.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = answer.headers_mut();
        for (name, value) in DEFAULTS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
                headers.insert(name, value);
            }
        }
        if !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::Response;

    #[test]
    fn an_error_is_json_whatever_it_says() {
        let answer = Response::error(400, "no \"by\" like that:\n</script>");
        assert_eq!(answer.body(), b"{\"error\":\"no \\\"by\\\" like that:\\n</script>\"}\n");
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_left_out() {
        let answer = Response::json("{}").with("etag", "a\nb").with("cache-control", "no-cache").into_hyper();
        assert!(!answer.headers().contains_key("etag"));
        assert_eq!(answer.headers()["cache-control"], "no-cache");
        assert_eq!(answer.headers().get_all("cache-control").iter().count(), 1);
    }
}
