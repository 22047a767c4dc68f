//! `mallow watch --push` where stores fail, lie, or are not who they should be; and where secrets go.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use harness::{directory, mallow};
use serde_json::Value;

use crate::fleet::number;
use crate::fleet_push::{Pushed, Store, sum};
use crate::watch_harness::{reports, until};

fn figure(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or_else(|| panic!("no {name} in {figures}"))
}

/// Fails twice, dies, comes back at the same address: what is lost is counted, and nothing comes twice.
#[test]
fn after_an_outage_nothing_comes_twice_and_nothing_is_lost_uncounted() {
    let place = directory();
    let mut store = Store::start(place.path(), "store", "otlp", &["-fail", "2", "-retry-after", "1"]);
    let flag = store.flag("http");
    let mut pushed = Pushed::server(place.path(), &["--push", &flag]);
    until("profiles after failures", || (store.taken().len() >= 3).then_some(()));
    store.kill();
    let failed = |least: u64| move |stores: &[Value]| figure(&stores[0], "failed_attempts") >= least;
    pushed.wait_for("failures", failed(4));
    let before = store.taken().len();
    let store = Store::start(place.path(), "store", "otlp", &["-address", &store.address.clone()]);
    until("profiles after the outage", || (store.taken().len() >= before + 5).then_some(()));
    pushed.wait_for("an empty queue", |stores| {
        figure(&stores[0], "sent") > before as u64 + 2 && figure(&stores[0], "waiting") <= 1
    });
    let said = pushed.end().remove(0);
    let taken = store.taken();
    let windows: BTreeSet<(i64, String)> = taken
        .iter()
        .map(|one| (one["from_ms"].as_i64().expect("a time"), one["resource"]["process.pid"].to_string()))
        .collect();
    assert_eq!(windows.len(), taken.len(), "a window comes twice");
    let (sent, unknown) = (figure(&said, "sent"), figure(&said, "unknown"));
    // The store may have died between taking one and saying so.
    assert!((sent..=sent + unknown).contains(&(taken.len() as u64)), "{said}: {} taken", taken.len());
    assert_eq!([figure(&said, "rejected"), figure(&said, "unsent"), figure(&said, "waiting")], [0; 3], "{said}");
    assert!(unknown <= 1, "{said}: {}", pushed.errors());
    let missing = sent + unknown - taken.len() as u64;
    let (all, allocated) = (sum(&taken, "alloc_space"), pushed.allocated());
    assert!(if missing == 0 { all == allocated } else { all < allocated }, "{all} of {allocated}: {said}");
    let errors = pushed.errors();
    assert!(errors.contains("the store answers with status 503"), "{errors}");
}

/// All at once, and a good one among them.
#[test]
fn stores_that_misbehave_harm_nothing() {
    let place = directory();
    let behaviours = ["silent", "drip", "endless", "redirect", "die", "accept-drip"];
    let stores = behaviours.map(|behaviour| Store::start(place.path(), behaviour, "otlp", &["-behave", behaviour]));
    let refuses = Store::start(place.path(), "refuses", "pyroscope", &["-status", "413"]);
    let page = Store::start(place.path(), "page", "parca", &["-status", "200"]);
    let good = Store::start(place.path(), "good", "otlp", &[]);
    let all: Vec<&Store> = stores.iter().chain([&refuses, &page, &good]).collect();
    let named: Vec<String> = all.iter().map(|store| store.flag("http")).collect();
    let flags: Vec<&str> = named.iter().flat_map(|flag| ["--push", flag.as_str()]).collect();
    let mut pushed = Pushed::server(place.path(), &[&flags[..], &["--listen", "127.0.0.1:0"]].concat());
    until("profiles of the good one", || (good.taken().len() >= 10).then_some(()));
    pushed.wait_for("fates", |stores| {
        let of = |at: usize, name: &str| figure(&stores[at], name) > 0;
        of(0, "unknown")
            && of(1, "unknown")
            && of(2, "rejected")
            && of(3, "rejected")
            && of(4, "unknown")
            && of(5, "sent")
            && of(6, "rejected")
            && of(7, "rejected")
    });
    let errors = pushed.errors();
    let address =
        errors.lines().find_map(|line| line.split_once("scrapers: http://")?.1.split('/').next()).expect("it");
    let text = crate::fleet::get(address, "/metrics", "Host: localhost\r\n").1;
    let text = String::from_utf8_lossy(&text).into_owned();
    let series =
        format!("mallow_push_profiles_total{{store=\"otlp\",url=\"http://{}\",result=\"unknown\"}}", stores[0].address);
    assert!(number(&text, &series).is_some_and(|unknown| unknown >= 1.0), "{text}");
    let said = pushed.end();
    // Each profile has one fate, whatever the store did.
    let fates = |figures: &Value| {
        ["sent", "rejected", "unknown", "unsent"].map(|name| figure(figures, name)).iter().sum::<u64>()
    };
    let made = fates(said.last().expect("stores"));
    for figures in &said {
        assert_eq!(figure(figures, "waiting"), 0, "{figures}");
        assert_eq!(fates(figures), made, "{figures}");
    }
    assert_eq!(figure(said.last().expect("stores"), "sent"), good.taken().len() as u64);
    // Each request went to the address that was named.
    let elsewhere = stores[3].requests().into_iter().find(|line| line != "POST /v1development/profiles");
    assert_eq!(elsewhere, None);
    assert!(errors.contains("it is at another address"), "{errors}");
}

#[test]
fn a_certificate_that_nobody_trusts_gets_nothing() {
    let place = directory();
    let path = |name: &str| place.path().join(name).to_str().expect("a path").to_owned();
    let run = |number: u32| {
        let run = place.path().join(number.to_string());
        fs::create_dir(&run).expect("a directory");
        run
    };
    let store = Store::start(place.path(), "store", "otlp", &["-ca", &path("ca.pem")]);
    let other = Store::start(place.path(), "other", "otlp", &["-ca", &path("other.pem"), "-host", "192.0.2.1"]);
    let mut pushed = Pushed::server(&run(1), &["--push", &store.flag("https"), "--push-ca", &path("other.pem")]);
    pushed.wait_for("failures", |stores| figure(&stores[0], "failed_attempts") >= 2);
    let said = pushed.end().remove(0);
    assert_eq!([figure(&said, "sent"), figure(&said, "unknown")], [0, 0], "{said}");
    assert!(figure(&said, "unsent") > 0 && store.requests().is_empty(), "{said}");
    assert!(said["trouble"].as_str().is_some_and(|why| why.to_lowercase().contains("certificate")), "{said}");

    // The right authority, but the certificate of somebody else.
    let mut pushed = Pushed::server(&run(2), &["--push", &other.flag("https"), "--push-ca", &path("other.pem")]);
    pushed.wait_for("failures", |stores| figure(&stores[0], "failed_attempts") >= 2);
    assert_eq!((figure(&pushed.end()[0], "sent"), other.requests().len()), (0, 0));

    let mut pushed = Pushed::server(&run(3), &["--push", &store.flag("https"), "--push-ca", &path("ca.pem")]);
    until("profiles", || (store.taken().len() >= 2).then_some(()));
    assert_eq!(figure(&pushed.end()[0], "sent"), store.taken().len() as u64);
}

#[test]
fn secrets_go_to_the_store_and_nowhere_else() {
    const SECRET: &str = "s3cr3t-t0ken-of-the-store";
    let place = directory();
    let file = place.path().join("headers");
    let header = format!("Authorization: Bearer {SECRET}");
    fs::write(&file, format!("# the store's\n{header}\n")).expect("a file");
    let file = file.to_str().expect("a path");
    let store = Store::start(place.path(), "store", "otlp", &["-header", &header]);
    // It says what it was sent.
    let echo = Store::start(place.path(), "echo", "parca", &["-behave", "echo"]);
    let rejects = Store::start(place.path(), "rejects", "otlp", &["-behave", "echo"]);
    let flags = [store.flag("http"), echo.flag("http"), rejects.flag("http")];
    let (of_otlp, of_parca) = (format!("otlp={file}"), format!("parca={file}"));
    let mut pushed = Pushed::server(
        place.path(),
        &[
            &["--push", &flags[0], "--push", &flags[1], "--push", &flags[2]][..],
            &["--push-header-file", &of_otlp, "--push-header-file", &of_parca],
        ]
        .concat(),
    );
    until("profiles", || (store.taken().len() >= 2).then_some(()));
    pushed.wait_for("rejections", |stores| stores[1..].iter().all(|one| figure(one, "rejected") > 0));
    let shown = |name: &str| fs::read(format!("/proc/{}/{name}", pushed.mallow.child.id())).expect("of mallow");
    let seen = [shown("cmdline"), shown("environ")];
    pushed.end();
    // A token that is not there gets nothing.
    assert!(!store.requests().is_empty());
    let texts = [pushed.errors(), fs::read_to_string(pushed.reports()).expect("reports")];
    let all = seen.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).chain(texts);
    for text in all {
        assert!(!text.contains(SECRET), "{text}");
    }
    let said = reports(&pushed.reports()).pop().expect("reports");
    let trouble = said["push"]["stores"][2]["trouble"].as_str().expect("why").to_owned();
    assert_eq!(trouble, "the store rejects profiles: ***");
}

#[test]
fn what_would_show_a_secret_is_refused_before_the_command_starts() {
    let place = directory();
    let marker = place.path().join("started");
    let refused = |flags: &[&str]| {
        let mut command = Command::new(mallow());
        command.arg("watch").args(flags).args(["--", "touch"]).arg(&marker);
        let ended = command.stdin(Stdio::null()).output().expect("mallow");
        assert!(!marker.exists(), "{flags:?}: the command started");
        assert_ne!(ended.status.code(), Some(0), "{flags:?}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!said.contains("hunter2"), "{said}");
        said
    };
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let headers = file("headers", "Authorization: Bearer hunter2");
    let said = refused(&["--push", "otlp=http://user:hunter2@127.0.0.1:4318"]);
    assert!(said.contains("no user and no password"), "{said}");
    assert!(refused(&["--push", "otlp=http://127.0.0.1/?token=hunter2"]).contains("no ?"));
    assert!(refused(&["--push", "zipkin=http://127.0.0.1"]).contains("pyroscope=URL"));
    let said = refused(&["--push", "otlp=http://192.0.2.1:4318", "--push-header-file", &headers]);
    assert!(said.contains("give https://"), "{said}");
    let two =
        ["--push", "otlp=http://127.0.0.1:1", "--push", "parca=http://127.0.0.1:2", "--push-header-file", &headers];
    assert!(refused(&two).contains("STORE=FILE says which"));
    let wrong = file("wrong", "hunter2");
    let said = refused(&["--push", "otlp=http://127.0.0.1:1", "--push-header-file", &wrong]);
    assert!(said.contains("line 1 is no header"), "{said}");
    let said = refused(&["--push", "otlp=https://127.0.0.1:1", "--push-ca", &wrong]);
    assert!(said.contains("certificates"), "{said}");
    assert!(refused(&["--push-every", "1s"]).contains("--push"));
    // With many processes, too: before anybody is watched.
    let mut many = Command::new(mallow());
    many.args(["watch", "--match", "nobody", "--push", "otlp=http://user:hunter2@127.0.0.1:1"]);
    let ended = many.stdin(Stdio::null()).output().expect("mallow");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("no user and no password"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
