//! `mallow watch --push`: what stores get. They are strict ones, in Go, with the codecs of the real ones:
//! `tests/stores`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use harness::{directory, mallow, program, workspace};
use serde_json::Value;

use crate::go_pprof::{Raw, go};
use crate::other_tools::ran;
use crate::watch_harness::{Alive, lines_of_another, occasion, reports, site, until, until_or, wait_for};

/// The stores' program, which is built once.
fn stores() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let workspace = workspace().canonicalize().expect("its path");
        let built = workspace.join("build/stores");
        ran(go(&workspace.join("tests/stores")).args(["build", "-o"]).arg(&built).arg("."));
        built
    })
}

/// A store that runs until it is dropped.
pub struct Store {
    process: Alive,
    /// `127.0.0.1:43210`.
    pub address: String,
    kind: &'static str,
    /// The start of its files' names.
    name: PathBuf,
}

impl Store {
    /// With these flags; its files begin with `name`.
    pub fn start(place: &Path, name: &str, kind: &'static str, flags: &[&str]) -> Self {
        let name = place.join(name);
        let file = |what: &str| name.with_extension(what);
        let _ = fs::remove_file(file("address"));
        let mut command = Command::new(stores());
        command.args(["-kind", kind, "-address-file"]).arg(file("address"));
        command.arg("-out").arg(file("out")).arg("-refused").arg(file("refused"));
        command.arg("-requests").arg(file("requests")).args(flags);
        let process = Alive::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        let address = until("the store's address", || fs::read_to_string(file("address")).ok());
        Self { process, address, kind, name }
    }

    /// It is gone.
    pub fn kill(&mut self) {
        self.process.signal("KILL");
        self.process.end();
    }

    /// The flag's value that names it.
    pub fn flag(&self, scheme: &str) -> String {
        format!("{}={scheme}://{}", self.kind, self.address)
    }

    /// A line for each request.
    pub fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.name.with_extension("requests")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The profiles that it took. None of them was wrong.
    pub fn taken(&self) -> Vec<Value> {
        let refused = fs::read_to_string(self.name.with_extension("refused")).unwrap_or_default();
        assert_eq!(refused, "", "{} refuses", self.kind);
        lines_of_another(&self.name.with_extension("out"))
    }
}

/// The sum of a sample type over profiles.
pub fn sum(taken: &[Value], kind: &str) -> i64 {
    taken.iter().map(|one| one["sums"][kind].as_i64().expect("a sum")).sum()
}

/// A program that is watched, and pushed.
pub struct Pushed {
    /// Mallow.
    pub mallow: Alive,
    place: PathBuf,
}

impl Pushed {
    /// With these flags, in this directory.
    pub fn start(place: &Path, flags: &[&str], command: &[&str]) -> Self {
        let errors = fs::File::create(place.join("errors")).expect("a file");
        let mut mallow = Command::new(mallow());
        mallow.args(["watch", "--period", "16KiB", "--every", "300ms", "--older-than", "0", "--json", "-o"]);
        mallow.arg(place.join("reports")).arg("--snapshots").arg(place.join("snapshots"));
        mallow.args(["--push-every", "200ms"]).args(flags).arg("--").args(command);
        mallow
            .env("OTEL_SERVICE_NAME", "shop")
            .env("OTEL_RESOURCE_ATTRIBUTES", "service.version=1%2C2,k8s.pod.name=p%201");
        let mallow = Alive::start(mallow.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors));
        Self { mallow, place: place.to_owned() }
    }

    /// The server that leaks, with an argument that is nobody's business.
    pub fn server(place: &Path, flags: &[&str]) -> Self {
        Self::start(place, flags, &[program("server").to_str().expect("a path"), "--password=hunter2"])
    }

    /// Its reports.
    pub fn reports(&self) -> PathBuf {
        self.place.join("reports")
    }

    /// What it says on standard error.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.place.join("errors")).expect("its errors")
    }

    /// Ends it, and returns its last words of each store.
    pub fn end(&mut self) -> Vec<Value> {
        self.mallow.signal("TERM");
        assert_eq!(self.mallow.end(), 0, "{}", self.errors());
        let last = reports(&self.reports()).pop().expect("reports");
        assert!(occasion("push")(&last), "{last}");
        last["push"]["stores"].as_array().expect("stores").clone()
    }

    /// All that was allocated, by the last snapshot.
    pub fn allocated(&self) -> i64 {
        let snapshots = fs::read_dir(self.place.join("snapshots")).expect("snapshots").flatten();
        let last = snapshots.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "gz")).max();
        let last = last.expect("a snapshot");
        Raw::of(&self.place, last.to_str().expect("a path")).sum("alloc_space") as i64
    }

    /// Waits until the stores' figures in a report are as they should be.
    pub fn wait_for(&self, what: &str, good: impl Fn(&[Value]) -> bool) {
        wait_for(&self.reports(), what, |report| {
            report["push"]["stores"].as_array().is_some_and(|stores| good(stores))
        });
    }
}

#[test]
fn stores_get_what_the_reports_say() {
    let place = directory();
    let kinds = ["otlp", "pyroscope", "parca"];
    let stores = kinds.map(|kind| Store::start(place.path(), kind, kind, &[]));
    let flags = stores.each_ref().map(|store| store.flag("http"));
    let mut pushed = Pushed::server(place.path(), &["--push", &flags[0], "--push", &flags[1], "--push", &flags[2]]);
    until("profiles", || stores.iter().all(|store| store.taken().len() >= 4).then_some(()));
    let said = pushed.end();
    let end = reports(&pushed.reports()).into_iter().rfind(occasion("end")).expect("the report of the end");
    let allocated = pushed.allocated();
    for (store, figures) in stores.iter().zip(&said) {
        let taken = store.taken();
        assert_eq!(figures["sent"], taken.len(), "{figures}");
        for none in ["rejected", "unknown", "waiting", "unsent", "merged"] {
            assert_eq!(figures[none], 0, "{figures}");
        }
        // Each byte once.
        assert_eq!(sum(&taken, "alloc_space"), allocated, "{}", store.kind);
        for (before, after) in taken.iter().zip(&taken[1..]) {
            assert_eq!(before["until_ms"], after["from_ms"], "{}", store.kind);
        }
        // What is live at the end, whole and by site.
        let last = taken.last().expect("profiles");
        let live = end["live_bytes"]["value"].as_f64().expect("bytes");
        let rounding = end["sites"].as_array().expect("sites").len() as f64;
        assert!((sum(std::slice::from_ref(last), "inuse_space") as f64 - live).abs() <= rounding, "{last} {live}");
        let named = last["sites"]["inuse_space"].as_object().expect("sites");
        for function in ["keep_request", "fill_cache"] {
            let of_report = site(&end, function).expect("the site")["live_bytes"]["value"].as_f64().expect("bytes");
            let path = format!("{function}<serve<main<");
            let pushed = named.iter().find(|(stack, _)| stack.starts_with(&path)).expect("the stack").1;
            assert!((pushed.as_f64().expect("bytes") - of_report).abs() <= 1.0, "{function}: {pushed} {of_report}");
        }
        assert_eq!(last["period"], 16384);
        let file = program("server").canonicalize().expect("its path");
        let build_id = &last["build_ids"][file.to_str().expect("a path")];
        assert!(build_id.as_str().is_some_and(|id| id.len() >= 16), "{}", last["build_ids"]);
    }
    // Whose it is.
    let of = |store: usize, key: &str| stores[store].taken()[0]["resource"][key].as_str().map(str::to_owned);
    assert_eq!(of(0, "service.name").as_deref(), Some("shop"));
    assert_eq!(of(0, "service.version").as_deref(), Some("1,2"));
    assert_eq!(of(0, "k8s.pod.name").as_deref(), Some("p 1"));
    assert_eq!(of(0, "process.executable.name").as_deref(), Some("server"));
    assert_eq!(of(0, "process.pid"), end["processes"][0]["pid"].as_u64().map(|pid| pid.to_string()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the host's name");
    assert_eq!(of(0, "host.name").as_deref(), Some(host.trim()));
    assert!(of(0, "service.instance.id").is_some_and(|id| id.len() > 36));
    assert_eq!((of(1, "service.name").as_deref(), of(1, "k8s_pod_name").as_deref()), (Some("shop"), Some("p_1")));
    assert_eq!((of(2, "job").as_deref(), of(2, "service_version").as_deref()), (Some("shop"), Some("1,2")));
    for kind in kinds {
        let all = fs::read_to_string(place.path().join(kind).with_extension("out")).expect("profiles");
        assert!(!all.contains("hunter2"), "{all}");
    }
    let errors = pushed.errors();
    assert!(errors.contains("profiles to otlp at http://127.0.0.1:"), "{errors}");
}

/// Processes that come and go: the sums of those that ended are one sum in the watch.
#[test]
fn each_process_has_profiles_of_its_own_and_no_byte_comes_twice() {
    let place = directory();
    let store = Store::start(place.path(), "store", "otlp", &[]);
    let grows = "x = [bytes(5000) for _ in range(4000)]; import time; time.sleep(1)";
    let script = format!(
        "for n in 1 2 3; do python3 -c '{grows}' & python3 -c '{grows}'; wait; done; exec {} leak",
        program("server").display()
    );
    let mut pushed = Pushed::start(place.path(), &["--push", &store.flag("http")], &["sh", "-c", &script]);
    let is_server = |one: &Value| one["resource"]["process.executable.name"] == "server";
    let look = || (store.taken().iter().filter(|one| is_server(one)).count() >= 3).then_some(());
    until_or(look, || {
        panic!("no server among {:#?}", store.taken().iter().map(|one| &one["resource"]).collect::<Vec<_>>())
    });
    let figures = pushed.end();
    let taken = store.taken();
    assert_eq!(figures[0]["sent"], taken.len(), "{figures:?}");
    // The sum of processes that ended is rounded once, and each of them was.
    let rounding: usize = taken.iter().map(|one| one["sites"]["alloc_space"].as_object().expect("sites").len()).sum();
    let (all, allocated) = (sum(&taken, "alloc_space"), pushed.allocated());
    assert!((all - allocated).unsigned_abs() as usize <= rounding, "{all} of {allocated}");
    let pids: BTreeSet<&str> = taken.iter().filter_map(|one| one["resource"]["process.pid"].as_str()).collect();
    assert!(pids.len() >= 3, "{pids:?}");
    // One that ended before mallow looked has no environment any more.
    let mut of_server = taken.iter().filter(|one| is_server(one));
    assert!(of_server.all(|one| one["resource"]["service.name"] == "shop"));
}

#[test]
fn stores_that_look_names_up_get_addresses_and_build_ids() {
    let place = directory();
    let store = Store::start(place.path(), "store", "otlp", &[]);
    let mut pushed = Pushed::server(place.path(), &["--push", &store.flag("http"), "--symbols", "store"]);
    until("profiles", || (store.taken().len() >= 2).then_some(()));
    pushed.end();
    let last = store.taken().pop().expect("a profile");
    assert!(last["sums"]["inuse_space"].as_i64() > Some(0), "{last}");
    assert!(!last.to_string().contains("keep_request"), "{last}");
    assert!(
        last["build_ids"].as_object().is_some_and(|ids| ids.keys().any(|file| file.ends_with("/libc.so.6"))),
        "{last}"
    );
}
