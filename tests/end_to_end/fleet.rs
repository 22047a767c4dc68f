//! `mallow watch --listen`: what scrapers get, and what they cannot do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{directory, mallow, program, tool};

use crate::go_pprof::{Raw, go, pprof};
use crate::watch_harness::{Alive, occasion, reports, samples, until, wait_for};

/// A server that is watched, and answers.
pub struct Watched {
    /// Mallow.
    pub mallow: Alive,
    /// `127.0.0.1:43210`.
    pub address: String,
}

impl Watched {
    /// With these flags, in this directory: reports go to `reports`.
    pub fn start(place: &Path, flags: &[&str]) -> Self {
        Self::of(place, flags, &program("server"), &["leak"], Stdio::null())
    }

    /// Another program than the server.
    pub fn of(place: &Path, flags: &[&str], program: &Path, arguments: &[&str], input: Stdio) -> Self {
        let errors = fs::File::create(place.join("errors")).expect("a file");
        let mut command = Command::new(mallow());
        command.args(["watch", "--period", "16KiB", "--every", "1s", "--older-than", "0", "--json", "-o"]);
        command.arg(place.join("reports")).args(flags).arg("--").arg(program).args(arguments);
        command.stdin(input).stdout(Stdio::null()).stderr(errors);
        let mallow = Alive::start(&mut command);
        let address = until("the address", || {
            let errors = fs::read_to_string(place.join("errors")).expect("the file");
            let line = errors.lines().find_map(|line| line.split_once("scrapers: "))?.1.to_owned();
            Some(line.strip_suffix("/metrics and /debug/pprof/heap")?.replace("http://", ""))
        });
        Self { mallow, address }
    }

    /// Status and body of a document.
    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        get(&self.address, path, "Host: localhost\r\n")
    }

    /// A document that is there.
    pub fn text(&self, path: &str) -> String {
        let (status, body) = self.get(path);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 200, "{path}: {text}");
        text
    }
}

/// Status and body of an answer to a request with these headers.
pub fn get(address: &str, path: &str, headers: &str) -> (u16, Vec<u8>) {
    match address.strip_prefix("unix:") {
        Some(file) => exchange(UnixStream::connect(file).expect("a server"), path, headers),
        None => {
            let stream = TcpStream::connect(address).expect("a server");
            stream.set_read_timeout(Some(Duration::from_secs(90))).expect("a limit");
            exchange(stream, path, headers)
        }
    }
}

fn exchange(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, Vec<u8>) {
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("headers");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer[end + 4..].to_vec())
}

/// The number of a series; its labels are a part of the name.
pub fn number(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|text| text.parse().expect("a number"))
}

/// Whether a program read this from its standard input without complaint.
fn accepts(command: &mut Command, input: &str) -> bool {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait().expect("its status").success()
}

#[test]
fn scrapers_get_what_the_reports_say() {
    let place = directory();
    let mut watched = Watched::start(place.path(), &["--listen", "127.0.0.1:0"]);
    let file = place.path().join("reports");
    wait_for(&file, "many samples", |report| samples(report, "keep_request") >= 100);

    let metrics = watched.text("/metrics");
    assert!(accepts(Command::new(tool("promtool")).args(["check", "metrics"]), &metrics), "{metrics}");
    let of = |series: &str| number(&metrics, series).unwrap_or_else(|| panic!("no {series} in {metrics}"));
    let (low, live, high) = (of("mallow_live_bytes_low"), of("mallow_live_bytes"), of("mallow_live_bytes_high"));
    assert!(low < live && live < high && high < 2.0 * low, "{low} {live} {high}");
    assert_eq!(of("mallow_processes"), 1.0);
    assert_eq!(of("mallow_sample_period_bytes"), 16384.0);
    assert_eq!(of("mallow_lost_total{kind=\"picks\"}"), 0.0);
    assert!(of("mallow_resident_bytes") > live);
    // The reports before and after it are of earlier and later moments of a program that grows.
    let at_ms = of("mallow_report_timestamp_seconds") * 1000.0;
    let later = wait_for(&file, "a later moment", |report| report["at_unix_ms"].as_f64() > Some(at_ms));
    let earlier = reports(&file).into_iter().rfind(|report| report["at_unix_ms"].as_f64() < Some(at_ms)).expect("one");
    let bytes = |report: &serde_json::Value| report["live_bytes"]["value"].as_f64().expect("bytes");
    // The cache, which does not grow, goes up and down by some samples.
    assert!(bytes(&earlier) * 0.9 < live && live < bytes(&later) * 1.1, "{earlier} {live} {later}");
    let again = until("more allocations", || {
        let now = number(&watched.text("/metrics"), "mallow_allocated_bytes_total").expect("a number");
        (now > of("mallow_allocated_bytes_total")).then_some(now)
    });
    assert!(again > live, "{again}");
    assert_eq!(watched.text("/healthz"), "ok\n");

    let url = |path: &str| format!("http://{}/debug/pprof/{path}", watched.address);
    for (path, first) in [("heap", "inuse_space"), ("allocs", "alloc_space")] {
        let top = pprof(place.path(), &["-top", &url(path)]);
        assert!(top.contains("keep_request") && top.contains(&format!("Type: {first}")), "{top}");
    }
    let raw = Raw::of(place.path(), &url("heap"));
    assert!(raw.types.iter().any(|name| name.starts_with("inuse_objects")), "{:?}", raw.types);
    let kept = raw.samples.iter().find(|(stack, _)| stack[0] == "keep_request").expect("the site");
    assert_eq!(kept.0[1..3], ["serve", "main"]);
    assert!(raw.sum("inuse_space") as f64 > low, "{}", raw.sum("inuse_space"));
    let mut delta = None;
    until("a difference", || {
        let changed = Raw::of(place.path(), &url("allocs?seconds=1"));
        let sum = changed.sum("alloc_space");
        delta = (sum > 0).then_some(sum);
        delta
    });
    let all = Raw::of(place.path(), &url("allocs")).sum("alloc_space");
    assert!(delta < Some(all), "{delta:?} of {all}");
    assert!(watched.text("/debug/pprof/heap?debug=1").contains("\tkeep_request\t"));

    let mut diff = Command::new(mallow());
    let same = diff.args(["diff", &url("heap"), &url("heap")]).output().expect("mallow");
    let said = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(same.status.success() && said.contains("live bytes"), "{said}");

    watched.mallow.signal("TERM");
    assert_eq!(watched.mallow.end(), 0);
    assert!(reports(&file).last().is_some_and(|report| occasion("end")(report)));
}

#[test]
fn stores_that_look_names_up_get_addresses_and_build_ids() {
    let place = directory();
    let watched = Watched::start(place.path(), &["--listen", "127.0.0.1:0", "--symbols", "store"]);
    wait_for(&place.path().join("reports"), "samples", |report| samples(report, "keep_request") >= 10);
    let (status, profile) = watched.get("/debug/pprof/heap");
    assert_eq!(status, 200);
    fs::write(place.path().join("heap.pb.gz"), profile).expect("a file");
    let raw = go(place.path()).args(["tool", "pprof", "-symbolize=none", "-raw", "heap.pb.gz"]).go().out();
    assert!(!raw.contains("keep_request") && raw.contains("/server "), "{raw}");
    let build_id = raw.lines().find(|line| line.contains("libc.so.6")).and_then(|line| line.split("libc.so.6 ").nth(1));
    assert!(build_id.is_some_and(|id| id.trim().len() >= 40), "{raw}");
}

#[test]
fn who_may_not_ask_is_refused() {
    let place = directory();
    let refused = |flags: &[&str]| {
        let mut command = Command::new(mallow());
        let marker = place.path().join("started");
        command.arg("watch").args(flags).args(["--", "touch"]).arg(&marker);
        let ended = command.stdin(Stdio::null()).output().expect("mallow");
        assert!(!marker.exists(), "{flags:?}: the command started");
        assert_ne!(ended.status.code(), Some(0), "{flags:?}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let said = refused(&["--listen", "0.0.0.0:0"]);
    assert!(said.contains("--listen-publicly allows that"), "{said}");
    let said = refused(&["--listen", "0.0.0.0:0", "--listen-publicly"]);
    assert!(said.contains("--token"), "{said}");
    let token = place.path().join("token");
    fs::write(&token, "short\n").expect("a file");
    let token = token.to_str().expect("a path");
    let said = refused(&["--listen", "127.0.0.1:0", "--token", token]);
    assert!(said.contains("16 characters") && !said.contains("short"), "{said}");
    fs::write(token, "a-token-of-24-characters\n").expect("a file");

    let watched = Watched::start(place.path(), &["--listen", "127.0.0.1:0", "--token", token]);
    let said = refused(&["--listen", &watched.address]);
    assert!(said.contains("cannot listen on"), "{said}");
    let status = |headers: &str| get(&watched.address, "/metrics", headers).0;
    assert_eq!(status("Host: localhost\r\n"), 401);
    assert_eq!(status("Host: localhost\r\nAuthorization: Bearer another-token-of-24\r\n"), 401);
    let authorized = "Authorization: Bearer a-token-of-24-characters\r\n";
    assert_eq!(status(&format!("Host: localhost\r\n{authorized}")), 200);
    assert_eq!(status(&format!("Host: evil.example\r\n{authorized}")), 403);
    assert_eq!(status(&format!("Host: localhost\r\nOrigin: http://evil.example\r\n{authorized}")), 403);
    let paths =
        ["/", "/debug/pprof/heap?token=a-token-of-24-characters", "/debug/pprof/heap?seconds=301", "/etc/passwd"];
    let answers = paths.map(|path| get(&watched.address, path, &format!("Host: localhost\r\n{authorized}")).0);
    assert_eq!(answers, [200, 200, 400, 404]);
}

#[test]
fn a_socket_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = directory();
    let socket = place.path().join("socket");
    let flag = format!("unix:{}", socket.display());
    let mut watched = Watched::start(place.path(), &["--listen", &flag]);
    assert_eq!(socket.metadata().expect("the socket").permissions().mode() & 0o777, 0o600);
    assert_eq!(watched.text("/healthz"), "ok\n");
    watched.mallow.signal("TERM");
    assert_eq!(watched.mallow.end(), 0);
    assert!(!socket.exists(), "the socket stays");
}

/// Clients that ask all at once, that wait for differences, and that ask and never read.
#[test]
fn scrapers_cannot_hold_the_watch_up() {
    let place = directory();
    let mut watched = Watched::start(place.path(), &["--listen", "127.0.0.1:0"]);
    let file = place.path().join("reports");
    let hanging: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(&watched.address).expect("a server");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n").expect("half a request");
            stream
        })
        .collect();
    let address = &watched.address;
    let statuses = |count: usize, path: &'static str| {
        std::thread::scope(|scope| {
            let ask = || get(address, path, "Host: localhost\r\n").0;
            let asking: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|one| one.join().expect("an answer")).collect::<Vec<u16>>()
        })
    };
    let deltas = statuses(6, "/debug/pprof/heap?seconds=2");
    assert!(deltas.iter().all(|status| [200, 503].contains(status)), "{deltas:?}");
    assert!((1..=4).contains(&deltas.iter().filter(|status| **status == 200).count()), "{deltas:?}");
    assert_eq!(statuses(100, "/metrics"), [200; 100]);
    // Many of one second are one document.
    let seen = reports(&file).len();
    until("reports go on", || (reports(&file).len() > seen + 1).then_some(()));
    drop(hanging);
    watched.mallow.signal("TERM");
    assert_eq!(watched.mallow.end(), 0);
}
