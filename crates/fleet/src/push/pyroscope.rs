//! A window as Pyroscope's `/ingest` takes it: pprof and what its sample types mean, as a form of two files.

use super::ledger::Window;
use super::request::Request;
use super::resource::Resource;

/// Labels of a series, at the most: Pyroscope refuses more than 30, and adds its own.
const LABELS: usize = 24;

/// Live memory is averaged over time, allocations are summed up; both are whole numbers already, not shares of a
/// sampling rate.
const SAMPLE_TYPES: &str = r#"{
  "inuse_space": {"units": "bytes", "aggregation": "average", "display-name": "inuse_space", "sampled": false},
  "inuse_objects": {"units": "objects", "aggregation": "average", "display-name": "inuse_objects", "sampled": false},
  "alloc_space": {"units": "bytes", "aggregation": "sum", "display-name": "alloc_space", "sampled": false},
  "alloc_objects": {"units": "objects", "aggregation": "sum", "display-name": "alloc_objects", "sampled": false}
}"#;

/// The request. Without `format`: with `format=pprof` Pyroscope takes the whole body for the profile, form and all
/// (`readInputRawDataFromRequest`). `pprof`: gzipped. `id`: what no other window has.
pub fn request(window: &Window, resource: &Resource, id: [u8; 16], pprof: &[u8]) -> Request {
    let boundary: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("name", &name(resource))
        .append_pair("from", &(window.began_ms / 1000).to_string())
        .append_pair("until", &window.ended_ms.div_ceil(1000).to_string())
        .append_pair("sampleRate", "100")
        .append_pair("spyName", "mallow")
        .finish();
    let mut body = Vec::with_capacity(pprof.len() + 2048);
    let mut part = |name: &str, content_type: &str, content: &[u8]| {
        body.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        let disposition = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n");
        body.extend_from_slice(disposition.as_bytes());
        body.extend_from_slice(format!("Content-Type: {content_type}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    };
    part("profile", "application/octet-stream", pprof);
    part("sample_type_config", "application/json", SAMPLE_TYPES.as_bytes());
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    Request { path: format!("/ingest?{query}"), headers: vec![("content-type", content_type)], body }
}

/// `service{host_name=h,process_pid=4711}`: what would end a name or a value is `_`.
fn name(resource: &Resource) -> String {
    let plain = |text: &str| -> String {
        let stays = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '+');
        text.chars().map(|c| if stays(c) { c } else { '_' }).collect()
    };
    let labels = resource.labels().into_iter().take(LABELS);
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", plain(&value))).collect();
    format!("{}{{{}}}", plain(resource.service()), labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Window;
    use super::super::resource::{ProcessFacts, Resource};
    use super::request;

    #[test]
    fn nothing_in_a_name_ends_it() {
        let environment = b"OTEL_SERVICE_NAME=a{b}\0OTEL_RESOURCE_ATTRIBUTES=k=1%2C2%7D\0".to_vec();
        let facts = ProcessFacts { pid: 7, environment, ..ProcessFacts::default() };
        let window = Window { began_ms: 1999, ended_ms: 3001, ..Window::default() };
        let sent = request(&window, &Resource::of(&facts), [255; 16], b"gzip");
        let query = sent.path.strip_prefix("/ingest?").expect("its path");
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let of = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!(of("name"), Some("a_b_{k=1_2_,process_pid=7,service_instance_id=-7-0}"));
        assert_eq!((of("from"), of("until"), of("format")), (Some("1"), Some("4"), None));
        let boundary = "ff".repeat(16);
        assert_eq!(sent.headers, [("content-type", format!("multipart/form-data; boundary={boundary}"))]);
        let text = String::from_utf8(sent.body).expect("text");
        assert!(text.starts_with(&format!("--{boundary}\r\n")) && text.ends_with(&format!("\r\n--{boundary}--\r\n")));
        assert!(text.contains("name=\"profile\"") && text.contains("\r\n\r\ngzip\r\n--"), "{text}");
    }
}
