//! The server of `mallow view`: who may ask, and when it ends.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use harness::{Case, Recorded, Run, Viewer, mallow, not_run, program, root};

use crate::watch_harness::until;

fn served(record: &Recorded, arguments: &[&str]) -> Viewer {
    let path = record.file.to_str().expect("a path");
    Viewer::start(record.directory.path(), &[arguments, &[path]].concat())
}

fn calls() -> Recorded {
    Case::target("calls").record()
}

#[test]
fn only_who_knows_the_token_may_ask() {
    let record = calls();
    let viewer = served(&record, &[]);
    let token = viewer.token();
    let cookie = format!("Cookie: mallow-{}={token}", viewer.port());
    let bearer = format!("Authorization: Bearer {token}");
    for path in ["/", "/api/about", "/api/top", "/page/style.css", "/api/no-such", "/../../etc/passwd"] {
        assert_eq!(viewer.get_with(path, &[]).status, 401, "{path}");
        assert_eq!(
            viewer.get_with(path, &["Authorization: Bearer 00000000000000000000000000000000"]).status,
            401,
            "{path}"
        );
        assert_eq!(viewer.get_with(path, &[&bearer, "Origin: http://evil.example"]).status, 403, "{path}");
        assert_eq!(viewer.get_with(path, &[&cookie, "Sec-Fetch-Site: cross-site"]).status, 403, "{path}");
        assert_eq!(viewer.get_with(path, &[&bearer, "Host: evil.example"]).status, 403, "{path}");
    }
    assert_eq!(viewer.get_with("/api/about", &[&cookie]).status, 200);
    let first = viewer.get_with(&format!("/?token={token}"), &[]);
    assert_eq!(first.status, 303);
    assert!(
        first
            .headers
            .contains(&format!("set-cookie: mallow-{}={token}; HttpOnly; SameSite=Strict; Path=/", viewer.port()))
    );
    let page = viewer.get_with("/", &[&cookie]);
    assert_eq!(page.status, 200);
    assert!(
        page.headers.contains("content-security-policy: default-src 'none'; script-src 'self';"),
        "{}",
        page.headers
    );
}

#[test]
fn nothing_but_the_page_and_its_documents_is_served() {
    let record = calls();
    let viewer = served(&record, &[]);
    for path in [
        "/../Cargo.toml",
        "/page/../../Cargo.toml",
        "/page/%2e%2e/mod.rs",
        "//etc/passwd",
        "/page//etc/passwd",
        "/api/../page",
        "/api/record",
        "/api/export",
    ] {
        assert_eq!(viewer.get(path).status, 404, "{path}");
    }
    for query in ["output=/tmp/x", "base=/etc/passwd", "suppressions=/etc/passwd", "command=true"] {
        assert_eq!(viewer.get(&format!("/api/top?{query}")).status, 400, "{query}");
    }
    let post = format!(
        "POST /api/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        viewer.token()
    );
    assert_eq!(viewer.send(&post).status, 405);
}

#[test]
fn a_file_of_the_page_is_sent_once() {
    let record = calls();
    let viewer = served(&record, &[]);
    let bearer = format!("Authorization: Bearer {}", viewer.token());
    let page = viewer.get("/");
    let tag = page.headers.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag");
    let again = viewer.get_with("/", &[&bearer, &format!("If-None-Match: {tag}")]);
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(viewer.get_with("/", &[&bearer, "If-None-Match: \"0\""]).status, 200);
}

#[test]
fn a_thousand_requests_and_clients_that_hang_are_all_met() {
    let record = calls();
    let viewer = served(&record, &[]);
    // They hold their connections, and say nothing or half of it.
    let hanging: Vec<_> = (0..100)
        .map(|number| {
            let mut stream = viewer.connect();
            if number % 2 == 0 {
                stream.write_all(b"GET /api/top HTTP/1.1\r\nHost: 127").expect("half a request");
            }
            stream
        })
        .collect();
    let expected = viewer.get("/api/tree").body;
    let request = format!(
        "GET /api/tree HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        viewer.token()
    );
    let mut waiting = Vec::new();
    for _ in 0..1000 {
        let mut stream = viewer.connect();
        stream.write_all(request.as_bytes()).expect("a request");
        waiting.push(stream);
    }
    // A client that is killed after its request.
    drop(waiting.drain(..100));
    for mut stream in waiting {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.ends_with(&expected), "{}", String::from_utf8_lossy(&answer));
    }
    drop(hanging);
}

#[test]
fn two_at_once_do_not_meet() {
    let record = calls();
    let (first, second) = (served(&record, &[]), served(&record, &[]));
    assert_ne!((first.port(), first.token()), (second.port(), second.token()));
    let others = format!("Authorization: Bearer {}", first.token());
    assert_eq!(second.get_with("/api/about", &[&others]).status, 401);
    assert_eq!(first.get("/api/top").body, second.get("/api/top").body);
}

#[test]
fn a_taken_port_is_named() {
    let record = calls();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let run = Run::new(mallow(), record.directory.path());
    let run = run.args(["view", "--no-browser", "--port", &port]).arg(&record.file).go();
    assert_eq!(run.status, 1);
    assert_eq!(run.err(), format!("mallow: port {port} is taken: choose another one, or leave --port out\n"));
    assert_eq!(run.out(), "");
}

#[test]
fn it_ends_when_nobody_asks() {
    let record = calls();
    let run = Run::new(mallow(), record.directory.path());
    let run = run.args(["view", "--no-browser", "--idle", "100ms"]).arg(&record.file).go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.err().ends_with("mallow: nobody looked at the page any more: ended\n"), "{}", run.err());
}

#[test]
fn it_opens_the_browser_with_an_address_that_is_good_once() {
    use std::os::unix::fs::PermissionsExt;
    let record = calls();
    let place = record.directory.path();
    let browser = place.join("browser");
    std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened.part && mv opened.part opened\n").expect("a program");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let messages = std::fs::File::create(place.join("messages")).expect("a file");
    let viewer = Viewer::of(
        Command::new(mallow())
            .arg("view")
            .arg(&record.file)
            .env("BROWSER", &browser)
            .current_dir(place)
            .stderr(messages),
    );
    let messages = || std::fs::read_to_string(place.join("messages")).expect("what it says");
    let opened = place.join("opened");
    let address = until("the browser to be started", || std::fs::read_to_string(&opened).ok());
    let path = address.trim_end().strip_prefix(&format!("http://127.0.0.1:{}", viewer.port())).expect("its address");
    assert!(!path.contains(viewer.token()), "the lasting token is in a command line");
    // Another user reads command lines, and is there before the browser.
    if root() {
        let ask = "import http.client, sys\n\
                   c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n\
                   c.request('GET', sys.argv[2])\n\
                   print(c.getresponse().status)";
        let thief = Run::new(program("with"), place).args(["uid=65534", "--", "/usr/bin/python3", "-c", ask]);
        let thief = thief.args([&viewer.port().to_string(), path]).go();
        assert_eq!(thief.out(), "401\n", "{}", thief.err());
        assert!(messages().contains("user 65534 of this machine had the address"), "{}", messages());
    } else {
        not_run("it_opens_the_browser_with_an_address_that_is_good_once: another user", "it needs root");
    }
    let first = viewer.get_with(path, &[]);
    assert!(first.status == 303 && !first.headers.contains(viewer.token()), "{}", first.headers);
    let cookie = first.headers.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    let cookie = format!("Cookie: {}", cookie.expect("a cookie"));
    assert_eq!(viewer.get_with("/api/about", &[&cookie]).status, 200);
    // A second use is somebody else's, or the first one was: neither reads the recording any more.
    assert_eq!(viewer.get_with(path, &[]).status, 401);
    assert_eq!(viewer.get_with("/api/about", &[&cookie]).status, 401);
    assert!(messages().contains("was used a second time: what the first one got ends now"), "{}", messages());
    assert_eq!(viewer.get("/api/about").status, 200);
}

/// A client without a token asked again and again on each of its connections, and nobody else got one.
#[test]
fn clients_without_a_token_hold_no_connections() {
    let record = calls();
    let viewer = served(&record, &[]);
    let twice = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    let mut held: Vec<_> = (0..300).map(|_| viewer.connect()).collect();
    held.iter_mut().for_each(|stream| drop(stream.write_all(&twice)));
    for stream in &mut held {
        let mut answer = Vec::new();
        // One that was closed to make room has no answer.
        let _ = stream.read_to_end(&mut answer);
        assert!(String::from_utf8_lossy(&answer).matches("HTTP/1.1 401 ").count() <= 1, "asked twice");
    }
    assert_eq!(viewer.get("/api/about").status, 200);
    // And those that say nothing.
    let silent: Vec<_> = (0..600).map(|_| viewer.connect()).collect();
    assert_eq!(viewer.get("/api/about").status, 200);
    drop(silent);
}

#[test]
fn a_browser_that_is_missing_is_a_line() {
    let record = calls();
    let place = record.directory.path();
    let run = Run::new(mallow(), place).args(["view", "--idle", "100ms"]).arg(&record.file);
    let run = run.env("BROWSER", Some("/no/such/browser")).go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.err().contains("cannot start /no/such/browser"), "{}", run.err());
    assert!(run.out().starts_with("http://127.0.0.1:"), "{}", run.out());
}
