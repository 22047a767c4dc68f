//! `mallow symbols --fetch`: debug files of servers, honest and hostile ones.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Outcome, Run, directory, mallow, program, tool};
use serde_json::Value;
use tempfile::TempDir;

use crate::watch_harness::until;

/// A recording of a stripped program, its debug file, and an empty cache.
struct Stripped {
    place: TempDir,
    build_id: String,
    debug: PathBuf,
}

impl Stripped {
    fn new() -> Self {
        let place = directory();
        let stripped = Self::strip(place.path(), "calls");
        let (build_id, debug) = stripped;
        let recorded =
            Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "x.mallow", "./calls"]).go();
        assert_eq!(recorded.status, 0, "{}", recorded.err());
        Self { place, build_id, debug }
    }

    /// Strips a copy of a target. Returns its build-id and its debug file.
    fn strip(place: &Path, name: &str) -> (String, PathBuf) {
        let (copy, debug) = (place.join(name), place.join(format!("{name}.debug")));
        fs::copy(program(name), &copy).expect("a copy");
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&copy).arg(&debug));
        run(Command::new("objcopy").args(["--strip-all"]).arg(&copy));
        let notes = run(Command::new("readelf").arg("--notes").arg(&copy));
        let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build-id");
        (id.to_owned(), debug)
    }

    fn cache(&self) -> PathBuf {
        self.place.path().join("cache")
    }

    fn fetched(&self) -> PathBuf {
        self.cache().join(&self.build_id).join("debuginfo")
    }

    fn mallow(&self, servers: Option<&str>, arguments: &[&str]) -> Outcome {
        self.mallow_with(servers, arguments, &[])
    }

    fn mallow_with(&self, servers: Option<&str>, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let mut run = Run::new(mallow(), self.place.path()).args(arguments).arg("x.mallow");
        run = run.env("DEBUGINFOD_URLS", servers).env("DEBUGINFOD_CACHE_PATH", Some(self.cache()));
        for name in ["DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXSIZE", "DEBUGINFOD_MAXTIME", "http_proxy", "all_proxy"] {
            run = run.env(name, None::<&str>);
        }
        environment.iter().fold(run, |run, (name, value)| run.env(name, Some(value))).go()
    }

    fn fetch(&self, servers: &str) -> Outcome {
        self.mallow(Some(servers), &["symbols", "--fetch"])
    }

    /// Whatever is in the cache.
    fn files(&self) -> Vec<PathBuf> {
        fn walk(directory: &Path, into: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { walk(&path, into) } else { into.push(path) }
            }
        }
        let mut files = Vec::new();
        walk(&self.cache(), &mut files);
        files
    }
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A server whose answers are what a function writes; it notes the paths that it was asked for.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (notes, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (notes, answer) = (Arc::clone(&notes), Arc::clone(&answer));
                let mut client = client.expect("a client");
                thread::spawn(move || {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if client.read(&mut byte).unwrap_or(0) == 0 {
                            return;
                        }
                        request.push(byte[0]);
                    }
                    let path = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap_or_default().to_owned();
                    notes.lock().expect("notes").push(path.clone());
                    answer(&path, &mut client);
                });
            }
        });
        Self { url, asked }
    }

    /// One that has this file alone.
    fn with(build_id: &str, file: &Path) -> Self {
        let path = format!("/buildid/{build_id}/debuginfo");
        let bytes = fs::read(file).expect("the debug file");
        Self::new(move |asked, client| if asked == path { whole(&bytes, client) } else { missing(client) })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("notes").clone()
    }
}

fn whole(bytes: &[u8], client: &mut TcpStream) {
    // Who has seen enough closes the connection.
    let _ = write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
    let _ = client.write_all(bytes);
}

fn missing(client: &mut TcpStream) {
    let _ = client.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found");
}

#[test]
fn missing_names_are_fetched_and_used() {
    let stripped = Stripped::new();
    let server = Server::with(&stripped.build_id, &stripped.debug);
    let program = stripped.place.path().join("calls").canonicalize().expect("its path").display().to_string();

    // Without a server, no command is offered, and there is nobody to ask.
    let report = stripped.mallow(None, &["report", "--all"]);
    assert!(report.out().contains(&format!("No names of {program}: dynamic symbols alone; ")), "{}", report.out());
    assert!(!report.out().contains("--fetch"), "{}", report.out());
    let nobody = stripped.mallow(None, &["symbols", "--fetch"]);
    assert_eq!(nobody.status, 1, "{}", nobody.out());
    assert!(nobody.err().starts_with("mallow: DEBUGINFOD_URLS names no server; "), "{}", nobody.err());

    // With one, the report offers the command, and nothing is fetched by anything else.
    let offer = format!("No names of {program}: dynamic symbols alone; try mallow symbols --fetch x.mallow; ");
    for view in [&["report"][..], &["report", "--all"], &["list", "."]] {
        let shown = stripped.mallow(Some(&server.url), view);
        assert!(shown.out().replace('\n', " ").contains(&offer), "{view:?}: {}", shown.out());
    }
    let listed = stripped.mallow(Some(&server.url), &["symbols"]);
    let (out, id) = (listed.out(), &stripped.build_id);
    assert!(out.contains(&format!("{program}\n  build-id  {id}\n  names     dynamic symbols alone\n")), "{out}");
    assert!(out.contains("  missing   names; try mallow symbols --fetch x.mallow; a build with -g "), "{out}");
    assert_eq!((server.asked(), stripped.files()), (Vec::new(), Vec::new()));

    // It fetches, into the cache of all tools, and the next view has the names.
    let fetched = stripped.fetch(&server.url);
    assert_eq!(fetched.status, 0, "{}", fetched.err());
    assert!(fetched.err().contains(&format!(" for {program} from {}\n", server.url)), "{}", fetched.err());
    let names = format!("  names     debug information of {}\n", stripped.fetched().display());
    assert!(fetched.out().contains(&names), "{}", fetched.out());
    let path = format!("/buildid/{id}/debuginfo");
    assert_eq!(server.asked().iter().filter(|asked| **asked == path).count(), 1, "{:?}", server.asked());
    assert_eq!(stripped.files(), [stripped.fetched()]);
    assert_eq!(fs::read(stripped.fetched()).expect("fetched"), fs::read(&stripped.debug).expect("the original"));
    let mode = fs::metadata(stripped.fetched()).expect("fetched").permissions().mode();
    assert_eq!(mode & 0o777, 0o400);
    let report = stripped.mallow(Some(&server.url), &["report", "--all"]);
    assert!(report.out().contains("shared calls.c:") && !report.out().contains(&program), "{}", report.out());

    // It is asked for once.
    let before = server.asked();
    let again = stripped.mallow(Some(&server.url), &["symbols", "--fetch", "--json"]);
    let json: Value = serde_json::from_str(&again.out()).expect("JSON");
    let modules = json["modules"].as_array().expect("modules");
    let row = modules.iter().find(|row| row["module"] == program.as_str()).expect("the program");
    assert_eq!((&row["build_id"], &row["missing"]), (&Value::from(id.as_str()), &Value::Null), "{row:#}");
    assert!(row["debug_file"].as_str().is_some_and(|file| Path::new(file) == stripped.fetched()), "{row:#}");
    assert!(!server.asked()[before.len()..].contains(&path), "{:?}", server.asked());

    // elfutils' client takes it from there, without a server.
    let find = Run::new(tool("debuginfod-find"), stripped.place.path())
        .args(["debuginfo", id])
        .env("DEBUGINFOD_URLS", Some("http://127.0.0.1:1"))
        .env("DEBUGINFOD_CACHE_PATH", Some(stripped.cache()))
        .go();
    assert_eq!((find.status, find.out().trim()), (0, stripped.fetched().to_str().expect("a path")), "{}", find.err());
}

/// A server ends when the test does.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn elfutils_server_is_understood() {
    let stripped = Stripped::new();
    let served = stripped.place.path().join("served");
    fs::create_dir(&served).expect("a directory");
    fs::rename(&stripped.debug, served.join("calls.debug")).expect("moving it");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let server = Command::new(tool("debuginfod"))
        .args(["-F", "-d", ":memory:", "-p", &port.to_string()])
        .arg(&served)
        .env("DEBUGINFOD_URLS", "")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("debuginfod");
    let _server = Ended(server);
    let url = format!("http://127.0.0.1:{port}");
    let began = Instant::now();
    // It looks through its files first.
    while !stripped.fetched().exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "debuginfod does not serve its file");
        thread::sleep(Duration::from_millis(200));
        let _ = stripped.fetch(&url);
    }
    let report = stripped.mallow(None, &["report", "--all"]);
    assert!(report.out().contains("shared calls.c:"), "{}", report.out());
}

#[test]
fn hostile_servers_leave_nothing_behind() {
    let stripped = Stripped::new();
    let bytes = fs::read(&stripped.debug).expect("the debug file");
    let (_, other) = Stripped::strip(stripped.place.path(), "exact");
    let other = fs::read(other).expect("another debug file");
    type Answer = Box<dyn Fn(&str, &mut TcpStream) + Send + Sync>;
    let ok = "HTTP/1.1 200 OK\r\n";
    let half = bytes[..bytes.len() / 2].to_vec();
    let secure = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tls = format!("https://{}/", secure.local_addr().expect("its address"));
    let cases: Vec<(&str, Answer)> = vec![
        (
            "the server answers 500 ",
            Box::new(|_, client| {
                let _ = client.write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
            }),
        ),
        (
            "the server redirects more than 5 times",
            Box::new(|asked, client| {
                let _ = write!(
                    client,
                    "HTTP/1.1 302 Found\r\nLocation: {asked}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                );
            }),
        ),
        (
            "the server redirects to https://: name that address",
            Box::new(move |_, client| {
                let _ = write!(
                    client,
                    "HTTP/1.1 302 Found\r\nLocation: {tls}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                );
            }),
        ),
        ("the debug file of another build, ", Box::new(move |_, client| whole(&other, client))),
        ("no debug file: not an ELF file", Box::new(|_, client| whole(b"<html>sign in</html>", client))),
        ("no debug file: ", Box::new(|_, client| whole(b"", client))),
        ("the connection broke: ", {
            let (half, length) = (half.clone(), bytes.len());
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Content-Length: {length}\r\n\r\n").and_then(|()| client.write_all(&half));
            })
        }),
        (
            "no debug file: ",
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Connection: close\r\n\r\n").and_then(|()| client.write_all(&half));
            }),
        ),
        // Neither begins nor ends.
        ("0 bytes arrived in 1 s (DEBUGINFOD_TIMEOUT)", Box::new(|_, _| thread::sleep(Duration::from_secs(60)))),
        (
            " bytes arrived in 1 s (DEBUGINFOD_TIMEOUT)",
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Content-Length: 99999\r\n\r\n");
                while client.write_all(b"\x7f").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            }),
        ),
        (
            "the file has more than 1000000 bytes (DEBUGINFOD_MAXSIZE)",
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Content-Length: 999999999999\r\n\r\n");
            }),
        ),
        (
            "the file has more than 1000000 bytes (DEBUGINFOD_MAXSIZE)",
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Transfer-Encoding: chunked\r\n\r\n");
                let chunk = [b"10000\r\n".to_vec(), vec![0; 0x10000], b"\r\n".to_vec()].concat();
                while client.write_all(&chunk).is_ok() {}
            }),
        ),
        (
            "the file was not whole after 2 s (DEBUGINFOD_MAXTIME)",
            Box::new(move |_, client| {
                let _ = write!(client, "{ok}Transfer-Encoding: chunked\r\n\r\n");
                while client.write_all(b"1\r\n\x7f\r\n").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            }),
        ),
    ];
    for (expected, answer) in cases {
        // Only the limit that is expected is short: a slow machine reaches no other one first.
        let seconds = |name, short| (name, if expected.contains(name) { short } else { "60" });
        let limits =
            [seconds("DEBUGINFOD_TIMEOUT", "1"), seconds("DEBUGINFOD_MAXTIME", "2"), ("DEBUGINFOD_MAXSIZE", "1000000")];
        let id = stripped.build_id.clone();
        let server =
            Server::new(move |asked, client| if asked.contains(&id) { answer(asked, client) } else { missing(client) });
        let outcome = stripped.mallow_with(Some(&server.url), &["symbols", "--fetch"], &limits);
        let err = outcome.err();
        let line = err.lines().find(|line| line.starts_with(&format!("mallow: {}, asked for ", server.url)));
        assert!(line.is_some_and(|line| line.contains(expected)), "{expected}: {err}");
        assert_eq!(outcome.status, 1, "{expected}: {err}");
        assert_eq!(stripped.files(), Vec::<PathBuf>::new(), "{expected}");
        assert!(outcome.out().contains("  names     dynamic symbols alone\n"), "{expected}: {}", outcome.out());
    }
}

#[test]
fn the_next_server_is_asked_and_a_miss_is_not_remembered() {
    let stripped = Stripped::new();
    let empty = Server::new(|_, client| missing(client));
    let none = stripped.fetch(&empty.url);
    assert_eq!(none.status, 0, "{}", none.err());
    assert!(none.err().contains(&format!("calls at {}\n", empty.url)), "{}", none.err());
    assert_eq!(stripped.files(), Vec::<PathBuf>::new());
    // What another client remembers of a miss is no file of another build, and makes way.
    fs::create_dir_all(stripped.fetched().parent().expect("a directory")).expect("a directory");
    fs::write(stripped.fetched(), "").expect("a mark");
    let listed = stripped.mallow(None, &["symbols"]);
    assert!(!listed.out().contains("another build"), "{}", listed.out());
    let server = Server::with(&stripped.build_id, &stripped.debug);
    let servers = format!("{} http://127.0.0.1:1 {}/", empty.url, server.url);
    let fetched = stripped.fetch(&servers);
    assert!(fetched.err().contains("http://127.0.0.1:1, asked for "), "{}", fetched.err());
    assert_eq!(fetched.status, 1, "one of the servers could not be asked");
    assert_eq!(fs::read(stripped.fetched()).expect("fetched"), fs::read(&stripped.debug).expect("the original"));
    assert_eq!(stripped.files(), [stripped.fetched()]);
}

#[test]
fn an_interrupted_download_leaves_nothing() {
    for signal in ["INT", "KILL"] {
        let stripped = Stripped::new();
        let bytes = fs::read(&stripped.debug).expect("the debug file");
        let server = Server::new(move |_, client| {
            let _ = write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
            let _ = client.write_all(&bytes[..bytes.len() - 1]);
            thread::sleep(Duration::from_secs(60));
        });
        let mut child = Command::new(mallow())
            .args(["symbols", "--fetch", "x.mallow"])
            .current_dir(stripped.place.path())
            .env("DEBUGINFOD_URLS", &server.url)
            .env("DEBUGINFOD_CACHE_PATH", stripped.cache())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mallow");
        while server.asked().is_empty() {
            assert_eq!(child.try_wait().expect("its state"), None, "it ended before it asked");
            thread::sleep(Duration::from_millis(5));
        }
        let files = format!("/proc/{}/fd", child.id());
        let begun = |file: &PathBuf| fs::read_link(file).is_ok_and(|to| to.starts_with(stripped.cache()));
        until("a part of the file", || {
            let files = fs::read_dir(&files).ok()?.flatten().map(|entry| entry.path());
            files.filter(begun).find(|file| fs::metadata(file).is_ok_and(|about| about.len() > 0))
        });
        run(Command::new("kill").args(["-s", signal, &child.id().to_string()]));
        assert!(!child.wait().expect("its end").success());
        assert_eq!(stripped.files(), Vec::<PathBuf>::new(), "{signal}");
    }
}

/// mallow has no TLS: elfutils' program asks those servers, and what it brings is verified in the same way.
#[test]
fn https_servers_are_asked_by_debuginfod_find() {
    let stripped = Stripped::new();
    let programs = stripped.place.path().join("bin");
    fs::create_dir(&programs).expect("a directory");
    let without = stripped.mallow_with(
        Some("https://debug.invalid"),
        &["symbols", "--fetch"],
        &[("PATH", programs.to_str().expect("a path"))],
    );
    assert_eq!(without.status, 1, "{}", without.out());
    assert!(without.err().contains("install debuginfod-find"), "{}", without.err());

    let stand_in = programs.join("debuginfod-find");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let by = |body: &str| {
        fs::write(&stand_in, format!("#!/bin/sh\n{body}\n")).expect("a script");
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).expect("a script");
        stripped.mallow_with(
            Some("https://debug.invalid/x"),
            &["symbols", "--fetch"],
            &[("PATH", &path), ("DEBUGINFOD_MAXSIZE", "1000000")],
        )
    };
    let entry = "mkdir -p $DEBUGINFOD_CACHE_PATH/$2 && cd $DEBUGINFOD_CACHE_PATH/$2 || exit 9";
    for (body, status, expected) in [
        ("echo 'Server query failed: No such file or directory' >&2; exit 1".to_owned(), 0, "no debug file for "),
        ("echo 'Server query failed: Timer expired' >&2; exit 1".to_owned(), 1, "debuginfod-find: Timer expired"),
        (format!("{entry}; cat /dev/zero > debuginfo.x & wait"), 1, "is too large"),
        (format!("{entry}; cp /bin/true debuginfo"), 1, "the debug file of another build, "),
        ("exit 0".to_owned(), 1, "debuginfod-find left no file"),
    ] {
        let outcome = by(&body);
        assert_eq!(outcome.status, status, "{body}: {}", outcome.err());
        assert!(outcome.err().contains(expected), "{body}: {}", outcome.err());
        assert_eq!(stripped.files(), Vec::<PathBuf>::new(), "{body}");
    }
    let asked = stripped.place.path().join("asked");
    let outcome = by(&format!(
        "[ $2 = {} ] || exit 8; echo $1 $2 $DEBUGINFOD_URLS > {}; {entry}; cp {} debuginfo",
        stripped.build_id,
        asked.display(),
        stripped.debug.display()
    ));
    assert!(stripped.fetched().is_file(), "{}", outcome.err());
    let asked = fs::read_to_string(asked).expect("what was asked");
    assert_eq!(asked, format!("debuginfo {} https://debug.invalid/x\n", stripped.build_id));
    assert_eq!(stripped.files(), [stripped.fetched()]);
}

/// dwz moves what debug files share into one more, which has a build-id of its own.
#[test]
fn the_file_that_debug_files_share_is_fetched_too() {
    let place = directory();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    for copy in [&one, &two] {
        let source = harness::workspace().join("tests/targets/calls.c");
        run(Command::new("cc").args(["-g", "-O2", "-Wl,--build-id=sha1", "-o"]).arg(copy).arg(source).arg(format!(
            "-Wl,--defsym=distinct_{}=0",
            copy.file_name().and_then(|name| name.to_str()).expect("a name")
        )));
    }
    let (built, shared) = (one.clone(), place.path().join("shared.dwz"));
    run(Command::new("dwz").arg("-m").arg(&shared).args([&one, &two]));
    let debug = place.path().join("one.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&built).arg(&debug));
    run(Command::new("objcopy").args(["--strip-all"]).arg(&built));
    let id = |file: &Path| {
        let notes = run(Command::new("readelf").arg("--notes").arg(file));
        notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build-id").to_owned()
    };
    let files = [(id(&built), debug), (id(&shared), shared.clone())];
    let contents: Vec<(String, Vec<u8>)> =
        files.iter().map(|(id, file)| (format!("/buildid/{id}/debuginfo"), fs::read(file).expect("it"))).collect();
    fs::remove_file(&shared).expect("removing it");
    let server = Server::new(move |asked, client| match contents.iter().find(|(path, _)| path == asked) {
        Some((_, bytes)) => whole(bytes, client),
        None => missing(client),
    });
    let recorded = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "x.mallow"]).arg(&one).go();
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    let stripped = Stripped { build_id: files[0].0.clone(), debug: files[0].1.clone(), place };
    let fetched = stripped.fetch(&server.url);
    assert_eq!(fetched.status, 0, "{}", fetched.err());
    let shared = stripped.cache().join(&files[1].0).join("debuginfo");
    assert!(stripped.fetched().is_file() && shared.is_file(), "{:?}: {}", server.asked(), fetched.err());
    let report = stripped.mallow(None, &["report", "--all"]);
    assert!(report.out().contains("shared calls.c:") && !report.out().contains("No names"), "{}", report.out());
}
