//! What becomes of a request, by the store's answer.

use std::time::Duration;

use prost::Message;

use super::otlp_messages::ExportResponse;
use super::parca;
use super::store::StoreKind;

/// More of an answer is not read.
pub const MOST_OF_AN_ANSWER: u64 = 64 << 10;
/// Characters of a store's own words that are repeated.
const WORDS: usize = 200;

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub retry_after: Option<Duration>,
    /// gRPC's status and message, where the headers have them.
    pub grpc: Option<(u32, String)>,
    /// The body; None: it did not end in time, or was too long.
    pub body: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Sent,
    /// The store does not have it, and may take it later.
    Later {
        /// The time for which the store asks.
        after: Option<Duration>,
        why: String,
    },
    /// The store does not want it: once more would be the same.
    Rejected(String),
    /// The store may have it or not: once more may be twice.
    Unknown(String),
}

impl Answer {
    pub fn fate(&self, kind: StoreKind) -> Fate {
        let why = words(&format!("the store answers with status {}", self.status), self.first_line());
        match self.status {
            200..=299 => self.fate_of_success(kind),
            // Whoever takes a request to another address takes its headers along.
            300..=399 => Fate::Rejected(format!("{why}: it is at another address")),
            408 | 429 | 500 | 502 | 503 => Fate::Later { after: self.retry_after, why },
            // Somebody before the store has lost patience with it.
            504 => Fate::Unknown(why),
            _ => Fate::Rejected(why),
        }
    }

    /// The first line of a body that is text, as a refusal gives its reason; empty where it is a page for people, or no
    /// text.
    fn first_line(&self) -> &str {
        let text = self.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if line.starts_with('<') { "" } else { line }
    }

    fn fate_of_success(&self, kind: StoreKind) -> Fate {
        match kind {
            StoreKind::Pyroscope => Fate::Sent,
            StoreKind::Otlp => {
                // The status is the answer; a body that says nothing else, or never ends, changes nothing.
                let body = self.body.as_deref().and_then(|body| ExportResponse::decode(body).ok());
                match body.and_then(|response| response.partial_success).filter(|part| part.rejected_profiles > 0) {
                    None => Fate::Sent,
                    Some(part) => Fate::Rejected(words("the store rejects profiles", &part.error_message)),
                }
            }
            StoreKind::Parca => {
                if !self.content_type.starts_with("application/grpc") {
                    return Fate::Rejected("no store of Parca's kind answers there".to_owned());
                }
                let in_body = || self.body.as_deref().and_then(parca::trailer);
                match self.grpc.clone().or_else(in_body) {
                    Some((0, _)) => Fate::Sent,
                    // Resource exhausted, aborted, unavailable.
                    Some((status @ (8 | 10 | 14), _)) => Fate::Later {
                        after: self.retry_after,
                        why: format!("the store answers with gRPC status {status}"),
                    },
                    // Deadline exceeded.
                    Some((4, message)) => Fate::Unknown(words("the store took too long", &message)),
                    Some((status, message)) => {
                        Fate::Rejected(words(&format!("the store answers with gRPC status {status}"), &message))
                    }
                    None => Fate::Unknown("the store's answer does not end".to_owned()),
                }
            }
        }
    }
}

/// A store's own words behind ours, plain and short.
fn words(ours: &str, theirs: &str) -> String {
    let theirs: String = theirs.chars().filter(|c| !c.is_control()).take(WORDS).collect();
    match theirs.trim() {
        "" => ours.to_owned(),
        theirs => format!("{ours}: {theirs}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost::Message;

    use super::super::otlp_messages::{ExportResponse, PartialSuccess};
    use super::super::store::StoreKind::{Otlp, Parca, Pyroscope};
    use super::{Answer, Fate};

    fn answer(status: u16) -> Answer {
        Answer { status, body: Some(Vec::new()), ..Answer::default() }
    }

    #[test]
    fn only_what_may_be_better_later_is_tried_again() {
        for kind in [Otlp, Pyroscope, Parca] {
            for status in [408, 429, 500, 502, 503] {
                assert!(matches!(answer(status).fate(kind), Fate::Later { .. }), "{status}");
            }
            for status in [301, 307, 400, 401, 403, 404, 413, 415, 501, 505, 700] {
                assert!(matches!(answer(status).fate(kind), Fate::Rejected(_)), "{status}");
            }
            assert!(matches!(answer(504).fate(kind), Fate::Unknown(_)));
        }
        let after = Some(Duration::from_secs(7));
        let busy = Answer { retry_after: after, ..answer(429) };
        assert!(matches!(busy.fate(Otlp), Fate::Later { after: Some(seven), .. } if Some(seven) == after));
    }

    #[test]
    fn a_refusal_gives_its_reason() {
        let said = |status: u16, body: &[u8]| Answer { body: Some(body.to_vec()), ..answer(status) }.fate(Pyroscope);
        let refused = Fate::Rejected("the store answers with status 422: failed to parse".to_owned());
        assert_eq!(said(422, b"\n failed to parse\nat line 3\n"), refused);
        assert_eq!(said(404, b"<html>"), Fate::Rejected("the store answers with status 404".to_owned()));
        assert_eq!(said(400, b"\xff\xfe"), Fate::Rejected("the store answers with status 400".to_owned()));
        let later = said(503, b"starting");
        assert!(matches!(later, Fate::Later { why, .. } if why.ends_with("status 503: starting")));
    }

    #[test]
    fn a_success_without_an_end_is_one() {
        for kind in [Otlp, Pyroscope] {
            assert_eq!(Answer { body: None, ..answer(200) }.fate(kind), Fate::Sent);
            assert_eq!(answer(204).fate(kind), Fate::Sent);
        }
        assert_eq!(Answer { body: Some(b"<html>".to_vec()), ..answer(200) }.fate(Otlp), Fate::Sent);
    }

    #[test]
    fn profiles_that_the_store_rejects_are_not_sent() {
        let part = PartialSuccess { rejected_profiles: 4, error_message: "too\nlong".to_owned() };
        let body = ExportResponse { partial_success: Some(part) }.encode_to_vec();
        let said = Answer { body: Some(body), ..answer(200) }.fate(Otlp);
        assert_eq!(said, Fate::Rejected("the store rejects profiles: toolong".to_owned()));
        let warning = PartialSuccess { rejected_profiles: 0, error_message: "hm".to_owned() };
        let body = ExportResponse { partial_success: Some(warning) }.encode_to_vec();
        assert_eq!(Answer { body: Some(body), ..answer(200) }.fate(Otlp), Fate::Sent);
    }

    #[test]
    fn parca_says_it_in_words_of_grpc() {
        let grpc = |status: u32| Answer {
            content_type: "application/grpc-web+proto".to_owned(),
            grpc: Some((status, String::new())),
            ..answer(200)
        };
        assert_eq!(grpc(0).fate(Parca), Fate::Sent);
        assert!(matches!(grpc(14).fate(Parca), Fate::Later { .. }));
        assert!(matches!(grpc(4).fate(Parca), Fate::Unknown(_)));
        assert!(matches!(grpc(3).fate(Parca), Fate::Rejected(_)));
        let cut_short = Answer { grpc: None, body: Some(b"\x80\0\0".to_vec()), ..grpc(0) };
        assert!(matches!(cut_short.fate(Parca), Fate::Unknown(_)));
        // A page for people.
        assert!(matches!(answer(200).fate(Parca), Fate::Rejected(_)));
    }
}
