//! A window as Parca's `WriteRaw` takes it: pprof and labels, by gRPC-Web.
//!
//! ```text
//! body: 0 │ length, 4 bytes, the highest first │ WriteRawRequest
//! WriteRawRequest
//! ├─ 2 series: RawProfileSeries
//! │    ├─ 1 labels: LabelSet
//! │    │    └─ 1 labels: Label { 1 name, 2 value }
//! │    └─ 2 samples: RawSample { 1 raw_profile: pprof }
//! └─ 3 normalized: addresses are those of the files
//! ```
//!
//! gRPC-Web is gRPC over HTTP/1.1, as Parca's own page uses it. Parca's server answers what it does not know by that
//! page, with status 200: only an answer with a status of gRPC's is one.

use prost::Message;

use super::request::Request;
use super::resource::Resource;

pub const PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
pub const CONTENT_TYPE: &str = "application/grpc-web+proto";

#[derive(Clone, PartialEq, Message)]
struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    series: Vec<Series>,
    #[prost(bool, tag = "3")]
    normalized: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, optional, tag = "1")]
    labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
}

/// The request to a store. `pprof`: gzipped.
pub fn request(resource: &Resource, pprof: Vec<u8>) -> Request {
    let mut labels = resource.labels();
    labels.retain(|(name, _)| name != "job" && name != "__name__");
    labels.push(("job".to_owned(), resource.service().to_owned()));
    // Parca's own scraper calls heap profiles so.
    labels.push(("__name__".to_owned(), "memory".to_owned()));
    labels.sort();
    let labels = labels.into_iter().map(|(name, value)| Label { name, value }).collect();
    let series = Series { labels: Some(LabelSet { labels }), samples: vec![RawSample { raw_profile: pprof }] };
    let message = WriteRawRequest { series: vec![series], normalized: true }.encode_to_vec();
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend_from_slice(&message);
    let headers = vec![
        ("content-type", CONTENT_TYPE.to_owned()),
        ("accept", CONTENT_TYPE.to_owned()),
        ("x-grpc-web", "1".to_owned()),
    ];
    Request { path: PATH.to_owned(), headers, body }
}

/// gRPC's status and message in the trailer of a body; None: there is none, or only a part of it.
pub fn trailer(body: &[u8]) -> Option<(u32, String)> {
    const TRAILER: u8 = 0x80;
    let mut rest = body;
    loop {
        let (head, behind) = rest.split_at_checked(5)?;
        let length = u32::from_be_bytes(head[1..].try_into().ok()?) as usize;
        let (frame, behind) = behind.split_at_checked(length)?;
        if head[0] & TRAILER != 0 {
            let text = String::from_utf8_lossy(frame);
            let of = |name: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                lines.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
            };
            return Some((of("grpc-status")?.parse().ok()?, of("grpc-message").unwrap_or_default()));
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::resource::{ProcessFacts, Resource};
    use super::{WriteRawRequest, request, trailer};

    #[test]
    fn the_body_is_one_frame_with_the_labels_in_order() {
        let facts = ProcessFacts { pid: 7, executable: "/bin/x".to_owned(), ..ProcessFacts::default() };
        let sent = request(&Resource::of(&facts), b"gzip".to_vec());
        assert_eq!(sent.body[..5], [0, 0, 0, 0, sent.body.len() as u8 - 5]);
        let message = WriteRawRequest::decode(&sent.body[5..]).expect("a message");
        assert!(message.normalized && message.series[0].samples[0].raw_profile == b"gzip");
        let labels = message.series[0].labels.clone().expect("labels").labels;
        let names: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
        assert_eq!((labels[0].name.as_str(), labels[0].value.as_str()), ("__name__", "memory"));
    }

    #[test]
    fn the_status_is_behind_the_answer() {
        let ok = b"\0\0\0\0\0\x80\0\0\0\x0fgrpc-status:0\r\n";
        assert_eq!(trailer(ok), Some((0, String::new())));
        let refused = b"\x80\0\0\0\x23Grpc-Status: 3\r\ngrpc-message: no\r\n\r\n\r\n";
        assert_eq!(trailer(&refused[..]), Some((3, "no".to_owned())));
        for none in [&b""[..], b"\0\0\0\0\0", b"\x80\0\0\0\x0fgrpc-stat", b"<html>", b"\x80\xff\xff\xff\xff"] {
            assert_eq!(trailer(none), None, "{none:?}");
        }
    }
}
