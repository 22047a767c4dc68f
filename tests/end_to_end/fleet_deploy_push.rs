//! The files of `examples/deploy-push/`: the unit and the manifests with a store, which both have to let through.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{directory, mallow, tool, workspace};

use crate::fleet_deploy::{deploy, judged, listens_and_ends, text};

fn path(name: &str) -> PathBuf {
    workspace().join("examples/deploy-push").join(name)
}

fn drop_in() -> String {
    fs::read_to_string(path("mallow-watch.service.d/push.conf")).expect("the drop-in")
}

/// The value of the last line with this key: an empty one before it empties the unit's.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().filter_map(|line| line.strip_prefix(key)).next_back().expect(key)
}

#[test]
fn systemd_accepts_the_drop_in_and_it_allows_the_store() {
    let place = directory();
    let here = |text: &str| text.replace("/usr/local/bin/mallow", mallow().to_str().expect("a path"));
    let unit = place.path().join("mallow-watch.service");
    fs::write(&unit, here(&text("mallow-watch.service"))).expect("a file");
    fs::create_dir(place.path().join("mallow-watch.service.d")).expect("a directory");
    let verified = |conf: &str| {
        fs::write(place.path().join("mallow-watch.service.d/push.conf"), here(conf)).expect("a file");
        let mut analyze = Command::new(tool("systemd-analyze"));
        let ended = analyze.args(["verify", "--man=no"]).arg(&unit).output().expect("systemd-analyze");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        (ended.status.success() && !said.contains("mallow-watch"), said)
    };
    let conf = drop_in();
    assert_eq!(verified(&conf), (true, String::new()));
    let (accepted, said) = verified(&conf.replace("IPAddressAllow=", "IPAddressAllow=collector"));
    assert!(!accepted && said.contains("collector192.0.2.10"), "a fault is reported: {said}");
    // The unit denies all addresses: the store's is the one that is allowed.
    assert!(text("mallow-watch.service").contains("\nIPAddressDeny=any\n"));
    let store = value(&conf, "Environment=MALLOW_STORE=otlp=http://");
    assert_eq!(store.rsplit_once(':').expect("a port").0, value(&conf, "IPAddressAllow="));
}

/// But for the store, the drop-in starts mallow as the unit does, and mallow starts so.
#[test]
fn mallow_accepts_the_flags_of_the_drop_in() {
    let (unit, conf) = (text("mallow-watch.service"), drop_in());
    let start = value(&conf, "ExecStart=");
    assert_eq!(start.replace(" --push ${MALLOW_STORE}", ""), value(&unit, "ExecStart="));
    let place = directory();
    let mut words: Vec<String> = start.split(' ').skip(1).map(str::to_owned).collect();
    for word in &mut words {
        *word = match word.as_str() {
            "${MALLOW_MATCH}" => "^/no/such/program$".to_owned(),
            "${MALLOW_LISTEN}" => "127.0.0.1:0".to_owned(),
            // Nobody listens there.
            "${MALLOW_STORE}" => "otlp=http://127.0.0.1:9".to_owned(),
            file if file.starts_with("/var/log/") => place.path().join("reports").display().to_string(),
            other => other.to_owned(),
        };
    }
    assert_eq!(words[0], "watch");
    listens_and_ends(place.path(), &words[1..]);
}

#[test]
fn the_overlay_pushes_and_its_policy_lets_it() {
    let built = Command::new(tool("kubectl")).arg("kustomize").arg(path("")).output().expect("kubectl");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let place = directory();
    let whole = place.path().join("whole.yaml");
    fs::write(&whole, &built.stdout).expect("a file");
    let found = judged(place.path(), &deploy("compose.yaml"), &whole);
    assert_eq!(found["faults"], serde_json::json!([]));
    let of_daemon_set = found["commands"][1].as_array().expect("a command");
    let at = of_daemon_set.iter().position(|word| word == "--push").expect("--push");
    let store = of_daemon_set[at + 1].as_str().expect("a store");
    let (host, port) = store.strip_prefix("otlp=http://").and_then(|rest| rest.split_once(':')).expect("an address");
    let namespace = host.split('.').nth(1).expect("a namespace");
    let manifests = String::from_utf8_lossy(&built.stdout).into_owned();
    let (_, egress) = manifests.split_once("\n  egress:\n").expect("the policy");
    for expected in
        [format!("port: {port}"), format!("kubernetes.io/metadata.name: {namespace}"), "port: 53".to_owned()]
    {
        assert!(egress.contains(&expected), "{expected}: {egress}");
    }
}

/// Variables that mallow reads, and the flags that its README and guide show with them.
#[test]
fn a_service_says_which_pod_it_is() {
    let place = directory();
    let found = judged(place.path(), &deploy("compose.yaml"), &deploy("kubernetes-downward-api.yaml"));
    assert_eq!((&found["faults"], &found["kinds"]), (&serde_json::json!([]), &serde_json::json!(["Deployment"])));
    let manifest = text("kubernetes-downward-api.yaml");
    let guide = fs::read_to_string(workspace().join("docs/guide/containers.md")).expect("the guide");
    for name in ["POD_NAMESPACE", "POD_NAME", "POD_TEAM", "CONTAINER_NAME"] {
        assert!(manifest.contains(&format!("- name: {name}\n")) && guide.contains(name), "{name}");
    }
}
