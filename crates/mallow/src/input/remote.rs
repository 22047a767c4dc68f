//! A profile that a server gives: Go's `http://HOST:PORT/debug/pprof/heap`, and what else answers a plain GET.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tempfile::NamedTempFile;
use ureq::Agent;

use crate::output::progress::Spinner;

/// Time limits of the steps of a request.
struct Patience {
    /// Time until the server accepts the connection.
    connect: Duration,
    /// Time until the answer begins, beyond the seconds that the server was asked to gather (`?seconds=30`).
    answer: Duration,
    /// Time from the answer's beginning until the whole profile is here.
    body: Duration,
}

/// Go's server answers in milliseconds; 60 s bring 60 MB over a line of 1 MB/s.
const PATIENCE: Patience =
    Patience { connect: Duration::from_secs(10), answer: Duration::from_secs(15), body: Duration::from_secs(60) };
/// More than this is no heap profile.
const LARGEST: u64 = 256 << 20;

/// The file with what the address gives, if it is an address; it vanishes when dropped.
pub fn fetch(path: &Path) -> Result<Option<NamedTempFile>> {
    let Some(url) = path.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
    if !url.starts_with("http://") {
        bail!("{url} is no http:// address: fetch it with another program, and name the file");
    }
    get(url, &PATIENCE).with_context(|| format!("cannot read {url}")).map(Some)
}

fn get(url: &str, patience: &Patience) -> Result<NamedTempFile> {
    let working = Spinner::new();
    working.at(&format!("waiting for {url}"));
    // No redirects and no proxy: what answers is what was named.
    let agent: Agent = Agent::config_builder()
        .timeout_connect(Some(patience.connect))
        .timeout_recv_response(Some(patience.answer + asked(url)))
        .timeout_recv_body(Some(patience.body))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .http_status_as_error(false)
        .build()
        .into();
    let mut answer = agent.get(url).call().map_err(|error| match error {
        ureq::Error::Timeout(ureq::Timeout::RecvResponse) => {
            anyhow!("the server did not answer within {} s", (patience.answer + asked(url)).as_secs_f32())
        }
        ureq::Error::Timeout(_) => anyhow!("nobody accepts the connection"),
        other => other.into(),
    })?;
    if answer.status() != 200 {
        bail!("the server answers {}", answer.status());
    }
    let mut file = tempfile::Builder::new().prefix("mallow-").tempfile().context("cannot make a file")?;
    let copied = std::io::copy(&mut answer.body_mut().as_reader().take(LARGEST + 1), &mut file);
    let copied = copied.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(ureq::Error::Timeout(_)) => {
            let arrived = file.as_file().metadata().map_or(0, |metadata| metadata.len());
            let seconds = patience.body.as_secs_f32();
            anyhow!("the profile was not whole after {seconds} s: {arrived} bytes arrived")
        }
        _ => error.into(),
    })?;
    if copied > LARGEST {
        bail!("it has more than {} MiB", LARGEST >> 20);
    }
    file.flush()?;
    Ok(file)
}

/// Time for which Go's server gathers allocations before it answers.
fn asked(url: &str) -> Duration {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let seconds = query.split('&').find_map(|part| part.strip_prefix("seconds="));
    Duration::from_secs(seconds.and_then(|n| n.parse::<u32>().ok()).unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::time::Duration;

    use super::{Patience, asked, fetch, get};

    #[test]
    fn a_server_that_gathers_is_waited_for() {
        let of = |url| asked(url).as_secs();
        assert_eq!(of("http://h/debug/pprof/allocs?debug=0&seconds=30"), 30);
        assert_eq!((of("http://h/heap"), of("http://h/heap?seconds=x")), (0, 0));
        assert_eq!(asked("http://h?seconds=99999999999"), Duration::ZERO);
    }

    /// What comes of an answer.
    fn answered(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/debug/pprof/heap", server.local_addr().expect("its address"));
        let served = std::thread::spawn(move || {
            let (mut client, _) = server.accept().expect("a client");
            let mut asked = [0; 2048];
            let n = client.read(&mut asked).expect("a request");
            client.write_all(answer).expect("an answer");
            String::from_utf8_lossy(&asked[..n]).into_owned()
        });
        let got = fetch(Path::new(&url));
        let asked = served.join().expect("the server");
        assert!(asked.starts_with("GET /debug/pprof/heap HTTP/1.1\r\n"), "{asked}");
        let file = got.map_err(|error| format!("{error:#}"))?.expect("an address");
        Ok(std::fs::read(file.path()).expect("the file"))
    }

    #[test]
    fn what_the_server_gives_is_in_a_file() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Ok(b"abc".to_vec()));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(answered(chunked), Ok(b"abc".to_vec()));
        assert_eq!(fetch(Path::new("/tmp/heap.pb.gz")).expect("a path").map(drop), None);
    }

    /// What is said of a server that sends these pieces, one in 100 ms, and then nothing more.
    fn slow(pieces: &'static [&'static [u8]]) -> String {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/heap", server.local_addr().expect("its address"));
        let over = std::sync::Arc::new(std::sync::Barrier::new(2));
        let waits = std::sync::Arc::clone(&over);
        let served = std::thread::spawn(move || {
            let (mut client, _) = server.accept().expect("a client");
            for piece in pieces {
                // Whoever gave up closes the connection.
                let _ = client.write_all(piece);
                std::thread::sleep(Duration::from_millis(100));
            }
            waits.wait();
        });
        let limit = Duration::from_millis(500);
        let patience = Patience { connect: limit, answer: limit, body: limit };
        let error = get(&url, &patience).expect_err("it never ends");
        over.wait();
        served.join().expect("the server");
        format!("{error:#}")
    }

    #[test]
    fn a_server_that_is_silent_or_drips_is_left() {
        assert_eq!(slow(&[]), "the server did not answer within 0.5 s");
        const HEADER: &[u8] = b"X";
        let mut drips = [HEADER; 20];
        drips[0] = b"HTTP/1.1 200 OK\r\n";
        assert_eq!(slow(Box::leak(Box::new(drips))), "the server did not answer within 0.5 s");
        let said = slow(&[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"a", b"b"]);
        assert_eq!(said, "the profile was not whole after 0.5 s: 2 bytes arrived");
        const DRIP: &[u8] = b"1\r\na\r\n";
        let mut drips = [DRIP; 20];
        drips[0] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let said = slow(Box::leak(Box::new(drips)));
        assert!(said.starts_with("the profile was not whole after 0.5 s: "), "{said}");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (answer, why) in [
            (&b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..], "the server answers 404 Not Found"),
            (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "answers 302 Found"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "cannot read http://127.0.0.1:"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "cannot read http://127.0.0.1:"),
        ] {
            let error = answered(answer).expect_err("it is no profile");
            assert!(error.contains(why), "{error}");
        }
        let error = fetch(Path::new("https://example.com/heap")).expect_err("not plain").to_string();
        assert!(error.contains("is no http:// address"), "{error}");
    }
}
