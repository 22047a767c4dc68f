//! Requests to a store, each with limits of time and size.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use mallow_fleet::push::{Answer, Fate, MOST_OF_AN_ANSWER, Request, Store};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Timeout};

use super::headers::HeaderFile;

/// Time limits of the steps of a request.
const CONNECT: Duration = Duration::from_secs(5);
const SEND: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(10);
const BODY: Duration = Duration::from_secs(3);

pub struct StoreClient {
    store: Store,
    agent: Agent,
    headers: Option<HeaderFile>,
}

impl StoreClient {
    /// A client with these headers, which trusts these certificates.
    pub fn new(store: Store, headers: Option<HeaderFile>, trusted: Option<RootCerts>) -> Self {
        let tls = trusted.map(|roots| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build()
        });
        // No redirects and no proxy: what takes the secrets is what was named. No connection is kept: one that the
        // store has closed meanwhile would leave open whether a request arrived.
        let agent: Agent = Agent::config_builder()
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(SEND))
            .timeout_send_body(Some(SEND))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(BODY))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .user_agent(concat!("mallow/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .tls_config(tls.unwrap_or_default())
            .build()
            .into();
        Self { store, agent, headers }
    }

    /// Sends the request once. No text of the fate has a secret in it.
    pub fn send(&mut self, request: &Request) -> Fate {
        let mut post = self.agent.post(format!("{}{}", self.store.url, request.path));
        for (name, value) in &request.headers {
            post = post.header(*name, value);
        }
        for (name, value) in self.headers.iter_mut().flat_map(HeaderFile::now) {
            post = post.header(name, value);
        }
        let fate = match post.send(&request.body[..]) {
            Ok(mut response) => answer(&mut response).fate(self.store.kind),
            Err(error) => fate_of_failure(&error),
        };
        let redact = |text: String| self.headers.as_ref().map_or(text.clone(), |headers| headers.redact(&text));
        match fate {
            Fate::Sent => Fate::Sent,
            Fate::Later { after, why } => Fate::Later { after, why: redact(why) },
            Fate::Rejected(why) => Fate::Rejected(redact(why)),
            Fate::Unknown(why) => Fate::Unknown(redact(why)),
        }
    }
}

fn answer(response: &mut ureq::http::Response<ureq::Body>) -> Answer {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut answer = Answer {
        status: response.status().as_u16(),
        content_type: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after").and_then(|text| wait_of(&text, SystemTime::now())),
        grpc: header("grpc-status")
            .and_then(|status| Some((status.parse().ok()?, header("grpc-message").unwrap_or_default()))),
        body: None,
    };
    let mut body = Vec::new();
    let read = response.body_mut().as_reader().take(MOST_OF_AN_ANSWER + 1).read_to_end(&mut body);
    answer.body = read.is_ok_and(|read| read as u64 <= MOST_OF_AN_ANSWER).then_some(body);
    answer
}

/// The header's time from `now` on, in seconds or as a date. None: it is neither.
fn wait_of(text: &str, now: SystemTime) -> Option<Duration> {
    match text.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// A request that never left, or left in part, can be sent again. Of another one nobody knows.
fn fate_of_failure(error: &ureq::Error) -> Fate {
    use std::io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let not_sent = match error {
        ureq::Error::Timeout(step) => {
            matches!(step, Timeout::Resolve | Timeout::Connect | Timeout::SendRequest | Timeout::SendBody)
        }
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
            true
        }
        ureq::Error::Io(error) => {
            let refused = [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable];
            refused.contains(&error.kind()) || is_distrusted(error)
        }
        _ => false,
    };
    let why = match error {
        ureq::Error::Timeout(Timeout::RecvResponse) => "the store does not answer".to_owned(),
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            "the store does not accept the connection".to_owned()
        }
        ureq::Error::Timeout(_) => "the store does not read".to_owned(),
        other => other.to_string(),
    };
    match not_sent {
        true => Fate::Later { after: None, why },
        false => Fate::Unknown(why),
    }
}

/// A handshake that failed over the store's certificate: before the request.
fn is_distrusted(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(_)))
}

/// The certificates of a file, or those of the system.
pub fn trusted(file: Option<&Path>) -> Result<RootCerts> {
    let Some(path) = file else {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            bail!("this system trusts no certificates: --push-ca FILE has some");
        }
        let certificates = found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
        return Ok(certificates.collect::<Vec<_>>().into());
    };
    let name = path.display();
    let pem = std::fs::read(path).with_context(|| format!("cannot read the certificates in {name}"))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(_) => bail!("{name} is no file of certificates (PEM)"),
        }
    }
    if certificates.is_empty() {
        bail!("{name} has no certificates (PEM)");
    }
    Ok(certificates.into())
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::time::{Duration, SystemTime};

    use mallow_fleet::push::Fate;
    use ureq::Timeout;

    use super::{fate_of_failure, wait_of};

    #[test]
    fn what_may_have_arrived_is_not_sent_again() {
        let io = |kind: ErrorKind| ureq::Error::Io(io::Error::from(kind));
        for again in [
            ureq::Error::Timeout(Timeout::Connect),
            ureq::Error::Timeout(Timeout::SendBody),
            ureq::Error::HostNotFound,
            io(ErrorKind::ConnectionRefused),
        ] {
            assert!(matches!(fate_of_failure(&again), Fate::Later { .. }), "{again:?}");
        }
        for never in [
            ureq::Error::Timeout(Timeout::RecvResponse),
            io(ErrorKind::ConnectionReset),
            io(ErrorKind::BrokenPipe),
            io(ErrorKind::UnexpectedEof),
        ] {
            assert!(matches!(fate_of_failure(&never), Fate::Unknown(_)), "{never:?}");
        }
    }

    #[test]
    fn stores_ask_for_seconds_or_name_a_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(wait_of("7", now), Some(Duration::from_secs(7)));
        assert_eq!(wait_of("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(wait_of("Sun, 06 Nov 1994 08:49:30 GMT", now), Some(Duration::ZERO));
        assert_eq!((wait_of("soon", now), wait_of("-1", now)), (None, None));
    }
}
