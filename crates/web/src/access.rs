//! Who may ask: the name of the host, the origin and the token of a request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::header::{ACCEPT, AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, Uri};

use crate::peer::Peer;
use crate::request::token_of;
use crate::{Once, Response, Token};

#[derive(Clone, Debug, Default)]
pub struct Access {
    token: Option<Token>,
    cookie: Option<String>,
    /// Page for a browser that opens `/` without a valid token.
    door: Option<Arc<str>>,
    once: Option<Arc<Once>>,
}

impl Access {
    /// Anybody who reaches the address. A server refuses to start like this where other machines or users reach it by
    /// TCP.
    pub fn open() -> Self {
        Self::default()
    }

    /// Access for requests with the token: `Authorization: Bearer TOKEN` or `?token=TOKEN`.
    pub fn with_token(token: Token) -> Self {
        Self { token: Some(token), ..Self::default() }
    }

    /// Access as well by a cookie of this name, which `/?token=TOKEN` sets before it leads to `/`: the token is in no
    /// address that the browser keeps or shows.
    pub fn and_cookie(self, name: impl Into<String>) -> Self {
        Self { cookie: Some(name.into()), ..self }
    }

    /// `/?token=ONCE` does the same for this other token, the first time. Precondition: there is a cookie.
    pub fn and_once(self, once: Once) -> Self {
        Self { once: Some(Arc::new(once)), ..self }
    }

    /// A browser that opens `/` without a valid token gets this document instead of JSON, with the same status.
    pub fn and_door(self, html: &str) -> Self {
        Self { door: Some(html.into()), ..self }
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// The answer to a request that no handler may see, or the cookie's.
    pub(crate) fn refusal(
        &self,
        (gate, peer): (Gate, Option<Peer>),
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Option<Response> {
        if method != Method::GET && method != Method::HEAD {
            return Some(Response::error(405, "this server answers GET and HEAD alone").with("allow", "GET, HEAD"));
        }
        // A server that is no proxy needs no host in the address; a rule for one name less.
        if uri.authority().is_some() {
            return Some(Response::error(400, "the address of the request begins with a path"));
        }
        let hosts: Vec<_> = headers.get_all(HOST).iter().collect();
        let [host] = hosts.as_slice() else {
            return Some(Response::error(400, "the request names no host, or several"));
        };
        let Some(host) = host.to_str().ok().filter(|host| gate.admits(host)) else {
            return Some(Response::error(
                403,
                "this server answers to localhost and to addresses of this machine alone",
            ));
        };
        if headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(|origin| is_same(origin, host))) {
            return Some(Response::error(403, "a page of another origin may not ask"));
        }
        let site = HeaderName::from_static("sec-fetch-site");
        if headers.get_all(site).iter().any(|site| site != "same-origin" && site != "none") {
            return Some(Response::error(
                403,
                "a page of another origin may not ask: open the address in a tab of its own",
            ));
        }
        self.missing_token(uri, headers, peer).map(|refusal| self.shown(refusal, uri, headers))
    }

    /// The answer as a browser shows it that opens the page itself.
    fn shown(&self, refusal: Response, uri: &Uri, headers: &HeaderMap) -> Response {
        let is_browser =
            headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).is_some_and(|k| k.contains("text/html"));
        match &self.door {
            Some(door) if refusal.status() == 401 && uri.path() == "/" && is_browser => {
                Response::of("text/html; charset=utf-8", door.to_string())
                    .with_status(401)
                    .with("www-authenticate", "Bearer")
            }
            _ => refusal,
        }
    }

    fn missing_token(&self, uri: &Uri, headers: &HeaderMap, peer: Option<Peer>) -> Option<Response> {
        let token = self.token.as_ref()?;
        if let Some(given) = token_of(uri) {
            let session = match self.once.as_ref().filter(|once| uri.path() == "/" && once.is(&given)) {
                Some(once) => once.exchange(peer),
                None => Some(token).filter(|token| token.is(&given)),
            };
            let Some(session) = session else { return Some(unauthorized()) };
            let name = self.cookie.as_ref().filter(|_| uri.path() == "/")?;
            let cookie = format!("{name}={}; HttpOnly; SameSite=Strict; Path=/", session.text());
            return Some(Response::empty(303).with("location", "/").with("set-cookie", cookie));
        }
        let mut bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| bearer(value.to_str().ok()?));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (Some(name) == self.cookie.as_deref()).then_some(value)
        });
        let is_session = |given: &str| self.once.as_ref().is_some_and(|once| once.is_session(given));
        let known = bearer.any(|given| token.is(given)) || cookies.any(|given| token.is(given) || is_session(given));
        (!known).then(unauthorized)
    }
}

fn unauthorized() -> Response {
    Response::error(401, "the request has no valid token: open the address that mallow printed")
        .with("www-authenticate", "Bearer")
}

/// RFC 6750, with the scheme in any case (RFC 9110).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn is_same(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Names of hosts that a server answers to. A page of another name that leads to this machine (DNS rebinding) has that
/// name in its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    /// Loopback's names alone, with any port: it may be forwarded.
    Loopback,
    /// Any: a token is needed, which a page of another name does not have; or a socket file, which a browser cannot
    /// open.
    Any,
}

impl Gate {
    pub(crate) fn of(address: Option<SocketAddr>) -> Self {
        match address {
            Some(address) if is_loopback(address.ip()) => Self::Loopback,
            _ => Self::Any,
        }
    }

    fn admits(self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => {
                let name = match host.rsplit_once(':') {
                    Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
                    _ => host,
                };
                let v4 = name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
                v4 || name.eq_ignore_ascii_case("localhost") || name == "[::1]"
            }
        }
    }
}

pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::{Gate, is_same};

    #[test]
    fn loopback_has_few_names() {
        for good in ["localhost", "LOCALHOST:80", "127.0.0.1:6060", "127.8.0.1", "[::1]", "[::1]:6060"] {
            assert!(Gate::Loopback.admits(good), "{good}");
        }
        let wrong = [
            "",
            ":80",
            "evil.example",
            "evil.example:6060",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
        ];
        let odd = [
            "127.0.0.1@evil.example",
            "0x7f000001",
            "2130706433",
            "127.1",
            "localhost:80:80",
            "[::1].evil.example",
            "::1",
            "0.0.0.0",
        ];
        for wrong in wrong.into_iter().chain(odd) {
            assert!(!Gate::Loopback.admits(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_scheme_and_host() {
        assert!(is_same("http://127.0.0.1:80", "127.0.0.1:80"));
        for wrong in [
            "null",
            "",
            "http://",
            "127.0.0.1:80",
            "http://127.0.0.1:81",
            "http://127.0.0.1:80.evil.example",
            "file://127.0.0.1:80",
        ] {
            assert!(!is_same(wrong, "127.0.0.1:80"), "{wrong}");
        }
    }
}
