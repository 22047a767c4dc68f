//! A server and clients that mean it well, badly, or not at all.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mallow_web::{Access, Limits, Listener, Misuse, Once, Request, Response, Server, Token};

const TOKEN: &str = "0123456789abcdef";
/// For tests whose client is to be given up: they wait for the server, however long that takes.
const HASTY: Limits =
    Limits { connections: 8, request: Duration::from_millis(200), reading: Duration::from_millis(200), workers: 2 };

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn serve(access: Access, limits: Limits, handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Server {
    Server::start(Listener::bind(any()).unwrap(), access, limits, handler).unwrap()
}

fn echo(request: &Request) -> Response {
    Response::json(format!("{} {:?}", request.path(), request.query()))
}

fn guarded() -> Access {
    Access::with_token(Token::parse(TOKEN).unwrap()).and_cookie("mallow-test")
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address().unwrap()).unwrap()
}

/// The whole answer to what is sent, until the server closes.
fn send(server: &Server, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The server may close before it has read all: what it answered until then is what counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(server: &Server, path: &str, headers: &[&str]) -> String {
    let port = server.address().unwrap().port();
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let host =
        if headers.to_lowercase().contains("host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
    send(server, &format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n"))
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

#[test]
fn a_request_is_answered_with_headers_that_let_nothing_run() {
    let server = serve(Access::open(), Limits::default(), echo);
    let answer = get(&server, "/api/top?by=bytes", &[]);
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with("/api/top [(\"by\", \"bytes\")]"), "{answer}");
    for header in
        ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "cache-control: no-store"]
    {
        assert!(answer.contains(header), "{header}: {answer}");
    }
}

#[test]
fn a_token_comes_by_header_cookie_or_address() {
    let server = serve(guarded(), Limits::default(), echo);
    for good in [
        "Authorization: Bearer 0123456789abcdef",
        "authorization: bearer 0123456789abcdef",
        "Cookie: other=1; mallow-test=0123456789abcdef",
    ] {
        assert_eq!(status(&get(&server, "/x", &[good])), 200, "{good}");
    }
    let wrong = [
        "Accept: */*",
        "Authorization: Bearer 0123456789abcdeF",
        "Authorization: Basic 0123456789abcdef",
        "Authorization: Bearer",
        "Cookie: mallow-other=0123456789abcdef",
        "Cookie: mallow-test=",
        "Cookie: mallow-test=0123456789abcde; mallow-test=f",
    ];
    for wrong in wrong {
        let answer = get(&server, "/x", &[wrong]);
        assert_eq!(status(&answer), 401, "{wrong}");
        assert!(answer.contains("{\"error\":"), "{answer}");
    }
    assert_eq!(status(&get(&server, "/x?a=1&token=0123456789abcdef", &[])), 200);
    // A wrong token beside a right one was guessed.
    assert_eq!(status(&get(&server, "/x?token=wrong", &["Authorization: Bearer 0123456789abcdef"])), 401);
}

#[test]
fn the_first_address_sets_a_cookie_and_leads_on() {
    let server = serve(guarded(), Limits::default(), echo);
    let answer = get(&server, &format!("/?token={TOKEN}"), &["Sec-Fetch-Site: none"]);
    assert_eq!(status(&answer), 303);
    assert!(answer.contains("location: /\r\n"), "{answer}");
    assert!(
        answer.contains("set-cookie: mallow-test=0123456789abcdef; HttpOnly; SameSite=Strict; Path=/\r\n"),
        "{answer}"
    );
    let wrong = get(&server, "/?token=0123456789abcdeg", &[]);
    assert_eq!(status(&wrong), 401);
    assert!(!wrong.contains("set-cookie"), "{wrong}");
}

/// A page that was open when an earlier server ended is loaded anew with that server's cookie.
#[test]
fn a_browser_without_a_token_gets_a_page_that_says_what_to_do() {
    let server = serve(guarded().and_door("<h1>Open the address</h1>"), Limits::default(), echo);
    let answer = get(&server, "/", &["Accept: text/html,*/*", "Cookie: mallow-test=of-another-server"]);
    assert_eq!(status(&answer), 401);
    assert!(answer.contains("content-type: text/html") && answer.ends_with("<h1>Open the address</h1>"), "{answer}");
    for (path, accept) in [("/", "Accept: */*"), ("/api/about", "Accept: text/html")] {
        let answer = get(&server, path, &[accept]);
        assert!(status(&answer) == 401 && answer.contains("application/json"), "{answer}");
    }
}

#[test]
fn a_token_for_one_time_is_good_once() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let [once, session] = ["fedcba9876543210", "of-this-browser-alone"].map(|text| Token::parse(text).unwrap());
    let access = guarded().and_once(Once::new(once, session, move |misuse| report.lock().unwrap().push(misuse)));
    let server = serve(access, Limits::default(), echo);
    // It opens no document, and is not used up by the attempt.
    assert_eq!(status(&get(&server, "/x?token=fedcba9876543210", &[])), 401);
    assert_eq!(status(&get(&server, "/x", &["Authorization: Bearer fedcba9876543210"])), 401);
    assert_eq!(status(&get(&server, "/?token=fedcba987654321", &[])), 401);
    let answer = get(&server, "/?token=fedcba9876543210", &[]);
    assert!(status(&answer) == 303 && answer.contains("mallow-test=of-this-browser-alone;"), "{answer}");
    let cookie = "Cookie: mallow-test=of-this-browser-alone";
    assert_eq!(status(&get(&server, "/x", &[cookie])), 200);
    assert_eq!(status(&get(&server, "/x", &["Authorization: Bearer of-this-browser-alone"])), 401);
    assert_eq!(*reported.lock().unwrap(), []);
    // One of the two was not the browser: neither may ask, and it is reported once.
    for _ in 0..3 {
        assert_eq!(status(&get(&server, "/?token=fedcba9876543210", &[])), 401);
        assert_eq!(status(&get(&server, "/x", &[cookie])), 401);
    }
    assert_eq!(*reported.lock().unwrap(), [Misuse::Again]);
    assert_eq!(status(&get(&server, &format!("/?token={TOKEN}"), &[])), 303);
    assert_eq!(status(&get(&server, "/x", &[&format!("Cookie: mallow-test={TOKEN}")])), 200);
}

/// For tests in which a client would wait for this: a server that waits for nobody.
const PATIENT: Limits =
    Limits { connections: 8, request: Duration::from_secs(3600), reading: Duration::from_secs(3600), workers: 2 };

/// Reads until the server closes; not for ever.
fn read_to_close(mut stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server closes the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn who_is_refused_keeps_no_connection() {
    let server = serve(guarded(), PATIENT, echo);
    let token = format!("Authorization: Bearer {TOKEN}");
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 401),
        (format!("GET / HTTP/1.1\r\nHost: evil.example\r\n{token}\r\n\r\n"), 403),
        (format!("POST / HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n"), 405),
    ] {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(status(&read_to_close(&stream)), expected);
    }
}

/// Without a token, clients held all connections, and others waited for ever.
#[test]
fn clients_without_a_token_keep_nobody_out() {
    let server = serve(guarded(), PATIENT, echo);
    let token = format!("Authorization: Bearer {TOKEN}");
    // One who may ask, and keeps its connection.
    let mut known = connect(&server);
    let request = format!("GET /known HTTP/1.1\r\nHost: localhost\r\n{token}\r\n\r\n");
    known.write_all(request.as_bytes()).unwrap();
    known.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut first = [0; 12];
    known.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let silent: Vec<TcpStream> = (0..10 * PATIENT.connections).map(|_| connect(&server)).collect();
    let mut stream = connect(&server);
    stream
        .write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{token}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(status(&read_to_close(&stream)), 200);
    // It was not closed.
    known.write_all(request.as_bytes()).unwrap();
    let mut rest = vec![0; 64];
    assert!(known.read(&mut rest).unwrap() > 0);
    drop(silent);
}

#[test]
fn pages_of_other_origins_are_refused_even_with_the_token() {
    let server = serve(guarded(), Limits::default(), echo);
    let port = server.address().unwrap().port();
    let token = "Authorization: Bearer 0123456789abcdef";
    assert_eq!(
        status(&get(
            &server,
            "/",
            &[token, &format!("Origin: http://127.0.0.1:{port}"), "Sec-Fetch-Site: same-origin"]
        )),
        200
    );
    let wrong = [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ];
    for wrong in wrong {
        assert_eq!(status(&get(&server, "/", &[token, wrong])), 403, "{wrong}");
    }
}

#[test]
fn other_names_of_the_host_are_refused() {
    let server = serve(Access::open(), Limits::default(), echo);
    for good in ["Host: localhost:1234", "Host: [::1]:80"] {
        assert_eq!(status(&get(&server, "/", &[good])), 200, "{good}");
    }
    for wrong in ["Host: evil.example", "Host: 127.0.0.1.evil.example", "Host:", "Host: 10.0.0.1"] {
        assert_eq!(status(&get(&server, "/", &[wrong])), 403, "{wrong}");
    }
    assert_eq!(status(&get(&server, "/", &["Host: localhost", "Host: evil.example"])), 400);
    assert_eq!(status(&get(&server, "http://evil.example/", &["Host: localhost"])), 400);
    assert_eq!(status(&send(&server, "GET / HTTP/1.0\r\n\r\n")), 400);
}

#[test]
fn only_get_and_head_without_a_body_are_served() {
    let server = serve(Access::open(), Limits::default(), echo);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"] {
        let target = if method == "CONNECT" { "localhost:80" } else { "/" };
        let answer =
            send(&server, &format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&answer), 405, "{method}");
    }
    let head = send(&server, "HEAD /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&head), 200);
    assert!(head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for body in [
        "Content-Length: 5\r\n\r\nhello",
        "Content-Length: 99999999999\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        assert_eq!(status(&send(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{body}"))), 413, "{body}");
    }
}

#[test]
fn an_endless_header_is_cut_off() {
    let server = serve(Access::open(), Limits::default(), echo);
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    assert_eq!(status(&send(&server, &long)), 431);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: a\r\n".repeat(1000));
    assert_eq!(status(&send(&server, &many)), 431);
    let address = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20));
    assert!([414, 431].contains(&status(&send(&server, &address))));
    // And what is no HTTP.
    assert_eq!(status(&send(&server, "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n")), 400);
    assert_eq!(status(&get(&server, "/", &[])), 200);
}

#[test]
fn clients_that_hang_give_their_room_to_others() {
    let server = serve(Access::open(), HASTY, echo);
    // More than it has room for: half say nothing, half of them a part of a request.
    let hanging: Vec<TcpStream> = (0..4 * HASTY.connections)
        .map(|number| {
            let mut stream = connect(&server);
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: lo").unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(status(&get(&server, "/", &[])), 200);
    for mut stream in hanging {
        // Closed by the server: this ends.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    // More than the buffers of both sides hold.
    let server = serve(Access::open(), HASTY, |request| match request.path() {
        "/large" => Response::of("text/plain", vec![b'a'; 64 << 20]),
        _ => Response::json("{}"),
    });
    let stuck: Vec<TcpStream> = (0..HASTY.connections)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&get(&server, "/", &[])), 200);
    drop(stuck);
}

#[test]
fn a_client_that_leaves_costs_no_answer() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let answered = Arc::new(AtomicUsize::new(0));
    let server = serve(Access::open(), Limits { workers: 1, ..Limits::default() }, {
        let (gate, answered) = (Arc::clone(&gate), Arc::clone(&answered));
        move |request| {
            answered.fetch_add(1, Ordering::SeqCst);
            if request.path() == "/slow" {
                let mut open = gate.0.lock().unwrap();
                while !*open {
                    open = gate.1.wait(open).unwrap();
                }
            }
            Response::json("{}")
        }
    });
    let slow = connect(&server);
    (&slow).write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    while answered.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    for _ in 0..20 {
        let mut stream = connect(&server);
        stream.write_all(b"GET /left HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    }
    // A request that is refused passes no worker: when it is answered, the server has seen those that left.
    for _ in 0..3 {
        assert_eq!(status(&get(&server, "/", &["Host: evil.example"])), 403);
    }
    assert_eq!(server.idle(), Duration::ZERO);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let mut answer = String::new();
    (&slow).read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 200);
    assert_eq!(status(&get(&server, "/last", &[])), 200);
    assert_eq!(answered.load(Ordering::SeqCst), 2, "clients that left were answered");
}

#[test]
fn a_thousand_requests_at_once_are_all_answered() {
    let server = serve(guarded(), Limits { connections: 64, ..Limits::default() }, echo);
    let mut streams: Vec<TcpStream> = Vec::new();
    let request =
        format!("GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n");
    for _ in 0..1000 {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        streams.push(stream);
    }
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), 200);
    }
}

#[test]
fn a_handler_that_fails_ends_one_request() {
    let server = serve(Access::open(), HASTY, |request| match request.path() {
        "/fails" => panic!("on purpose"),
        _ => Response::json("{}"),
    });
    for _ in 0..2 * HASTY.workers {
        assert_eq!(status(&get(&server, "/fails", &[])), 500);
    }
    assert_eq!(status(&get(&server, "/", &[])), 200);
}

#[test]
fn a_stopped_server_is_gone_though_clients_are_not() {
    // An address that no other test listens on while the port is free.
    let listener = Listener::bind("127.0.0.77:0".parse().unwrap()).unwrap();
    let server = Server::start(listener, Access::open(), Limits::default(), echo).unwrap();
    let address = server.address().unwrap();
    let mut idle = connect(&server);
    idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 12]).unwrap();
    server.stop();
    assert!(TcpStream::connect(address).is_err());
    let _ = idle.read_to_end(&mut Vec::new());
    Listener::bind(address).unwrap();
}

#[test]
fn idle_time_begins_after_the_last_request_that_was_allowed() {
    let server = serve(guarded(), Limits::default(), echo);
    get(&server, "/", &["Authorization: Bearer 0123456789abcdef"]);
    let idle = server.idle();
    while server.idle() <= idle {
        std::thread::yield_now();
    }
    let before = server.idle();
    get(&server, "/", &[]);
    assert!(server.idle() >= before, "a request without a token keeps it awake");
}

#[test]
fn other_machines_need_a_token() {
    let everywhere = || Listener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    assert!(Server::start(everywhere(), Access::open(), Limits::default(), echo).is_err());
    let server = Server::start(everywhere(), guarded(), Limits::default(), echo).unwrap();
    let port = server.address().unwrap().port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: build.example:{port}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 200);
}

#[test]
fn a_taken_port_is_an_error() {
    let server = serve(Access::open(), Limits::default(), echo);
    let error = Listener::bind(server.address().unwrap()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn a_socket_file_is_its_owners_and_vanishes() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let start = || Server::start(Listener::bind_file(&path).unwrap(), Access::open(), Limits::default(), echo).unwrap();
    let ask = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /x HTTP/1.1\r\nHost: mallow\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        status(&answer)
    };
    let server = start();
    assert_eq!(ask(), 200);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Listener::bind_file(&path).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    server.stop();
    assert!(!path.exists());
    // A server that was killed leaves its file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = start();
    assert_eq!(ask(), 200);
    server.stop();
    // What is no socket stays.
    std::fs::write(&path, "precious").unwrap();
    assert!(Listener::bind_file(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
