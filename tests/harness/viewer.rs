//! A running `mallow view`, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::mallow;

/// How long an answer may take, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server that ends with it.
#[derive(Debug)]
pub struct Viewer {
    child: Child,
    port: u16,
    token: String,
}

/// What it answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 200 and others.
    pub status: u16,
    /// All lines of the headers.
    pub headers: String,
    /// What follows them.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Viewer {
    /// `mallow view --no-browser` with these arguments, once it has printed its address.
    pub fn start(place: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(mallow());
        command.arg("view").arg("--no-browser").args(arguments).current_dir(place);
        Self::of(&mut command)
    }

    /// The same of a command that starts it.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("mallow view");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("its address");
        let address = line.trim_end().strip_prefix("http://").unwrap_or_else(|| panic!("no address: {line:?}"));
        let (host, token) = address.split_once("/?token=").expect("a token");
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        Self { child, port, token: token.to_owned() }
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its process, to wait for or to kill.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The address to open in a browser.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// The answer to a request with the token.
    pub fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[&format!("Authorization: Bearer {}", self.token)])
    }

    /// The answer to one with these headers alone.
    pub fn get_with(&self, path: &str, headers: &[&str]) -> Answer {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let named = headers.iter().any(|header| header.starts_with("Host:"));
        let headers: String =
            headers.iter().copied().chain((!named).then_some(&*host)).map(|header| format!("{header}\r\n")).collect();
        self.send(&format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"))
    }

    /// The answer to this text.
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end =
            answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer to {request}"));
        let headers = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, headers, body: answer.split_off(end + 4) }
    }

    /// A connection on which nothing was sent. An answer that does not come fails the test.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        stream
    }

    /// Time as `/api/time` has it, once the events were read.
    pub fn time(&self) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let time = self.get("/api/time").json();
            if time["state"] != "reading" {
                return time;
            }
            assert!(Instant::now() < end, "the events are still being read: {time}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A value of a query, every byte escaped that could mean something.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
