//! Attaching to servers of many processes while they answer: PostgreSQL's backends and postmaster, nginx's workers and
//! master.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use harness::{Run, directory, mallow, root};
use tempfile::TempDir;

use crate::attach_harness::{Target, attached, attaching, code, counted, finished, interrupt, text};
use crate::watch_harness::until;

/// Who runs PostgreSQL where the tests are root's: it refuses root.
const NOBODY: u32 = 65534;

/// How often a client asks while mallow is attached.
const QUESTIONS: u64 = 20;

/// A server with its files. It is asked to end with the test, and killed with all its processes if it does not.
struct Server {
    child: Child,
    place: TempDir,
}

impl Server {
    fn start(command: &mut Command, place: TempDir) -> Self {
        let errors = fs::File::create(place.path().join("messages")).expect("a file");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0).spawn();
        Self { child: child.expect("a server"), place }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.path("messages")).expect("its messages")
    }

    fn children(&self) -> Vec<u32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).expect("its children");
        children.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.pid() as i32;
        // SAFETY: a system call without pointers.
        unsafe { libc::kill(pid, libc::SIGQUIT) };
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|end| end.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        // SAFETY: a system call without pointers.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// A client that asks without end and checks each answer.
struct Client {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Client {
    fn start(mut ask: impl FnMut(u64) + Send + 'static) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stops, counts) = (stop.clone(), answers.clone());
        let thread = std::thread::spawn(move || {
            while !stops.load(Relaxed) {
                ask(counts.load(Relaxed));
                counts.fetch_add(1, Relaxed);
            }
        });
        Self { stop, answers, thread }
    }

    /// Waits for that many answers to questions that are yet to be asked.
    fn answers(&self, count: u64) {
        let enough = self.answers.load(Relaxed) + count + 1;
        until("answers", || {
            assert!(!self.thread.is_finished(), "the client failed");
            (self.answers.load(Relaxed) >= enough).then_some(())
        });
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("all answers are right");
    }
}

/// Debian keeps PostgreSQL's programs out of PATH, in one directory for each version.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
    found.expect("these tests need PostgreSQL: tests/prerequisites lists what to install")
}

/// A command of PostgreSQL's, of a user who is not root.
fn postgres_command(name: &str) -> Command {
    let mut command = Command::new(postgres_programs().join(name));
    command.env("LC_ALL", "C");
    if root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// A server with an empty database, at a socket in its directory alone.
fn postgres() -> Server {
    let place = directory();
    if root() {
        chown(place.path(), Some(NOBODY), Some(NOBODY)).expect("giving it away");
    }
    let data = place.path().join("data");
    let mut initdb = postgres_command("initdb");
    initdb.args(["--no-sync", "--locale=C", "--encoding=UTF8", "--auth=trust", "--username=tester", "-D"]).arg(&data);
    let made = initdb.current_dir(place.path()).output().expect("initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut server = postgres_command("postgres");
    server.arg("-D").arg(&data).arg("-k").arg(place.path()).args(["-h", ""]);
    server.args(["-c", "fsync=off", "-c", "autovacuum=off", "-c", "jit=off"]).current_dir(place.path());
    let mut server = Server::start(&mut server, place);
    until("PostgreSQL", || {
        assert!(server.child.try_wait().expect("a child").is_none(), "{}", server.messages());
        server.messages().contains("ready to accept connections").then_some(())
    });
    server
}

/// A connection to it, and the process that serves this one alone.
struct Session {
    psql: Target,
    backend: u32,
}

impl Session {
    fn open(server: &Server) -> Self {
        let mut psql = postgres_command("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "tester", "-d", "postgres", "-h"]).arg(server.place.path());
        let mut session = Self { psql: Target::start(&mut psql), backend: 0 };
        session.backend = session.ask("select pg_backend_pid();").parse().expect("a pid");
        session
    }

    fn ask(&mut self, query: &str) -> String {
        let input = self.psql.child.stdin.as_mut().expect("a pipe");
        input.write_all(format!("{query}\n").as_bytes()).expect("psql reads");
        self.psql.line()
    }

    /// Thousands of blocks, and an answer that only the backend can give.
    fn work(&mut self, turn: u64) {
        let sums = format!("sum(g * {turn}), length(string_agg(md5(g::text), ''))");
        let answer = self.ask(&format!("select pg_backend_pid(), {sums} from generate_series(1, 2000) g;"));
        assert_eq!(answer, format!("{}|{}|64000", self.backend, turn * 2_001_000));
    }
}

/// None of its processes ended by a signal, which it would survive.
fn is_sound(server: &Server) {
    let messages = server.messages();
    assert!(!messages.contains("terminated by") && !messages.contains("PANIC"), "{messages}");
}

#[test]
fn a_backend_of_postgresql_is_attached_to_while_it_answers() {
    let (server, place) = (postgres(), directory());
    let mut session = Session::open(&server);
    let backend = session.backend;
    // It loads what its queries need first.
    (0..3).for_each(|turn| session.work(turn));
    let before = text(backend);
    let client = Client::start(move |turn| session.work(turn));
    let stat = &["stat", "--json", "-o", "counts.json"][..];
    for mode in [stat, &["record", "--no-report", "-o", "x.mallow"], stat] {
        let mallow = attaching(mode, backend, place.path());
        client.answers(QUESTIONS);
        interrupt(&mallow);
        let said = finished(mallow);
        assert!(text(backend) == before, "the code is as it was: {said}");
        let counted = counted(mode, place.path());
        // Each md5 allocates.
        assert!(counted["allocations"].as_u64().expect("a number") >= QUESTIONS * 2000, "{counted:#} {said}");
        client.answers(QUESTIONS);
    }
    let top = Run::new(mallow(), place.path()).args(["top", "--by", "allocations", "x.mallow"]).go().out();
    assert!(top.contains("pg_cryptohash_create") && !top.contains("libmallow"), "{top}");
    client.end();
    is_sound(&server);
}

/// Backends that it forks meanwhile are recorded, and go on when mallow has left.
#[test]
fn the_postmaster_of_postgresql_is_attached_to_while_clients_come() {
    let (server, place) = (postgres(), directory());
    let (before, clean) = (text(server.pid()), code(server.pid()));
    for mode in [&["stat"][..], &["record", "-o", "x.mallow"]] {
        let mallow = attaching(mode, server.pid(), place.path());
        let mut session = Session::open(&server);
        (0..QUESTIONS).for_each(|turn| session.work(turn));
        assert!(code(session.backend) != clean, "the backend has the patches of its parent");
        interrupt(&mallow);
        let said = finished(mallow);
        assert!(said.contains("2 processes"), "{said}");
        assert!(text(server.pid()) == before, "the postmaster's code is as it was");
        assert!(code(session.backend) == clean, "the backend's code is as it was");
        (0..QUESTIONS).for_each(|turn| session.work(turn));
        let seen = attached(&["stat", "--for", "100ms"], session.backend, place.path());
        assert_eq!(seen.status, 0, "{}", seen.err());
        session.work(QUESTIONS);
    }
    is_sound(&server);
}

/// nginx with one worker, at a socket in its directory alone.
fn nginx() -> Server {
    let place = directory();
    // Its worker is another user's where the tests are root's.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::write(place.path().join("numbers"), numbers()).expect("a file");
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.iter().map(|name| format!("{name}_temp_path {name};\n")).collect();
    let configuration = format!(
        "daemon off;\nworker_processes 1;\npid pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\n{temporary}access_log off;\nserver {{ listen unix:{0}/socket; root {0}; }}\n}}\n",
        place.path().display()
    );
    fs::write(place.path().join("configuration"), configuration).expect("a file");
    // Debian's PATH of users who are not root lacks it.
    let path = Path::new("/usr/sbin/nginx");
    assert!(path.is_file(), "these tests need nginx: tests/prerequisites lists what to install");
    let mut command = Command::new(path);
    command.args(["-e", "stderr", "-c", "configuration", "-p"]).arg(place.path());
    let mut server = Server::start(&mut command, place);
    until("nginx", || {
        assert!(server.child.try_wait().expect("a child").is_none(), "{}", server.messages());
        (server.path("socket").exists() && server.children().len() == 1).then_some(())
    });
    server
}

/// What it serves: more than it sends at once.
fn numbers() -> String {
    (0..50_000).map(|number| format!("{number}\n")).collect()
}

/// Asks on a connection of its own: nginx allocates for each.
fn get(socket: &Path) {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(180))).expect("a limit");
    stream.write_all(b"GET /numbers HTTP/1.0\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == numbers(), "{head}");
}

/// The one that answers once a reload is over, which `old` does not survive.
fn next_worker(server: &Server, old: u32) -> u32 {
    until("another worker", || match server.children()[..] {
        [only] if only != old => Some(only),
        _ => None,
    })
}

fn reload(server: &Server) {
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(server.pid() as i32, libc::SIGHUP) }, 0);
}

/// No worker ended by a signal, and all that nginx tried worked: it says "alert" of both otherwise.
fn is_well(server: &Server) {
    assert!(!server.messages().contains("[alert]"), "{}", server.messages());
}

#[test]
fn a_worker_of_nginx_is_attached_to_while_it_answers_and_is_replaced() {
    let (server, place) = (nginx(), directory());
    let socket = server.path("socket");
    let client = Client::start(move |_| get(&socket));
    let mut worker = server.children()[0];
    for mode in [&["stat", "--json", "-o", "counts.json"][..], &["record", "--no-report", "-o", "x.mallow"]] {
        client.answers(1);
        let before = text(worker);
        for is_replaced in [false, true] {
            let mallow = attaching(mode, worker, place.path());
            client.answers(QUESTIONS);
            if is_replaced {
                reload(&server);
                worker = next_worker(&server, worker);
                assert!(text(worker) == before, "mallow was not attached to the next worker's parent");
            } else {
                interrupt(&mallow);
            }
            let said = finished(mallow);
            assert!(is_replaced || text(worker) == before, "the code is as it was: {said}");
            let counted = counted(mode, place.path());
            assert!(counted["allocations"].as_u64().expect("a number") >= QUESTIONS, "{counted:#} {said}");
            let _ = fs::remove_file(place.path().join("x.mallow"));
            client.answers(QUESTIONS);
        }
    }
    client.end();
    is_well(&server);
}

/// A worker that it forks meanwhile has its patches, gives up root's rights and is recorded.
#[test]
fn the_master_of_nginx_is_attached_to_while_workers_are_replaced() {
    let (server, place) = (nginx(), directory());
    let socket = server.path("socket");
    let client = Client::start(move |_| get(&socket));
    let mut worker = server.children()[0];
    let (before, clean) = (text(server.pid()), code(server.pid()));
    for mode in [&["stat"][..], &["record", "-o", "x.mallow"]] {
        let mallow = attaching(mode, server.pid(), place.path());
        reload(&server);
        worker = next_worker(&server, worker);
        client.answers(QUESTIONS);
        assert!(code(worker) != clean, "the worker has the patches of its parent");
        interrupt(&mallow);
        let said = finished(mallow);
        assert!(said.contains("2 processes"), "{said}");
        assert!(text(server.pid()) == before, "the master's code is as it was");
        assert!(code(worker) == clean, "the worker's code is as it was");
        client.answers(QUESTIONS);
    }
    client.end();
    is_well(&server);
}
