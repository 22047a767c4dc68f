//! `mallow watch --match` among processes of one program: chosen by control group and environment, and labelled by
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{mallow, not_run, program, tool};
use serde_json::Value;

use crate::fleet::get;
use crate::fleet_match::{Fleet, member, members, pid};
use crate::watch_harness::{Alive, quiet, until, until_or, wait_for};

const UID: &str = "c1e2a3b4-0000-1111-2222-333344445555";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The server under `mallow run`, or alone, with variables.
fn start(fleet: &Fleet, how: &[&str], variables: &[(&str, &str)]) -> Alive {
    let link = fleet.path("chosen");
    if !link.exists() {
        std::os::unix::fs::symlink(program("server"), &link).expect("a link");
    }
    let mut command = match how {
        ["run"] => Command::new(mallow()),
        _ => Command::new(&link),
    };
    if let ["run"] = how {
        command.args(["run", "--"]).arg(&link);
    }
    for name in ["POD_NAMESPACE", "POD_NAME", "CONTAINER_NAME", "OTEL_RESOURCE_ATTRIBUTES"] {
        command.env_remove(name);
    }
    let started = Alive::start(quiet(command.arg("leak").envs(variables.iter().copied())));
    let line = || fs::read_to_string(format!("/proc/{}/cmdline", started.pid())).unwrap_or_default();
    until("the program", || line().split('\0').next().is_some_and(|path| path.ends_with("/chosen")).then_some(()));
    started
}

fn pids(report: &Value) -> Vec<u64> {
    let mut pids: Vec<u64> = members(report).iter().filter_map(|member| member["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids
}

#[test]
fn a_namespace_and_a_pod_are_chosen_by_the_environment() {
    let fleet = Fleet::new();
    let shop = |name| [("POD_NAMESPACE", "shop"), ("POD_NAME", name)];
    let web = start(&fleet, &["run"], &shop("web-1"));
    let alone = start(&fleet, &["alone"], &shop("web-2"));
    let others = [
        start(&fleet, &["run"], &shop("db-1")),
        start(&fleet, &["run"], &[("POD_NAMESPACE", "workshop"), ("POD_NAME", "web-3")]),
        start(&fleet, &["alone"], &[("POD_NAME", "web-4")]),
    ];
    let flags = ["--match-env", "POD_NAMESPACE=shop", "--match-env", "POD_NAME=web-*", "--attach", "--limit", "0"];
    let mut watch = fleet.watch("reports", "chosen", &flags);
    let file = fleet.path("reports");
    let mut both = vec![pid(&web), pid(&alone)];
    both.sort_unstable();
    let report = wait_for(&file, "both", |report| pids(report) == both);
    let labels = |process: &Alive| member(&report, pid(process)).expect("it")["labels"].clone();
    assert_eq!(labels(&web), serde_json::json!({ "namespace": "shop", "pod": "web-1" }));
    assert_eq!(labels(&alone), serde_json::json!({ "namespace": "shop", "pod": "web-2" }));
    let pattern = report["pattern"].as_str().expect("a pattern");
    assert!(pattern.ends_with(" with POD_NAMESPACE=shop and POD_NAME=web-*"), "{pattern}");
    // One that comes later, and a report after it.
    let later = start(&fleet, &["run"], &shop("web-5"));
    let after = wait_for(&file, "a third", |report| pids(report).contains(&pid(&later)));
    assert!(others.iter().all(|other| member(&after, pid(other)).is_none()), "{after:#}");
    assert_eq!(after["unwatched"], serde_json::json!([]));
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
}

/// A control group with the names that a kubelet gives, which is removed at the end.
struct Pod {
    top: PathBuf,
    container: PathBuf,
}

impl Pod {
    fn make(test: &str) -> Option<Self> {
        for root in ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            let top = Path::new(root).join(format!("kubepods-mallow-test-{}", std::process::id()));
            let container = top.join(format!("pod{UID}")).join(ID);
            let made = fs::create_dir_all(&container).is_ok();
            if made && container.join("cgroup.procs").exists() {
                return Some(Self { top, container });
            }
            let _ = fs::remove_dir_all(&top);
        }
        not_run(test, "no control group can be made here");
        None
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // Its processes have ended; a directory of the kernel's is removed with the files in it.
        for place in [&self.container, &self.top.join(format!("pod{UID}")), &self.top] {
            for _ in 0..100 {
                if fs::remove_dir(place).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_pod_is_chosen_by_its_control_group_and_labels_its_series() {
    let Some(pod) = Pod::make("a_pod_is_chosen_by_its_control_group_and_labels_its_series") else { return };
    let fleet = Fleet::new();
    let inside = start(&fleet, &["alone"], &[("CONTAINER_NAME", "app\"\\\n{}")]);
    fs::write(pod.container.join("cgroup.procs"), inside.pid()).expect("its process");
    let outside = start(&fleet, &["alone"], &[]);
    let group = format!("/pod{UID}/");
    let flags = ["--match-cgroup", &group, "--attach", "--listen", "127.0.0.1:0"];
    let mut watch = fleet.watch("reports", "chosen", &flags);
    let report = wait_for(&fleet.path("reports"), "it", |report| pids(report) == [pid(&inside)]);
    assert!(member(&report, pid(&outside)).is_none());
    let address = fleet.address("reports");
    let metrics = || String::from_utf8_lossy(&get(&address, "/metrics", "Host: localhost\r\n").1).into_owned();
    let labels = format!("container=\"app\\\"\\\\\\n{{}}\",container_id=\"{ID}\",pod_uid=\"{UID}\"");
    let series = format!("mallow_process_live_bytes{{program=\"chosen\",pid=\"{}\",{labels}}} ", inside.pid());
    until_or(|| metrics().contains(&series).then_some(()), || panic!("{series} is not in {}", metrics()));
    let growth = format!("mallow_place_live_bytes{{program=\"chosen\",pid=\"{}\",{labels},function=", inside.pid());
    until_or(|| metrics().contains(&growth).then_some(()), || panic!("{growth} is not in {}", metrics()));
    // What Prometheus's own linter says of the document.
    let mut check = Command::new(tool("promtool"));
    let mut check =
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("promtool");
    std::io::Write::write_all(&mut check.stdin.take().expect("a pipe"), metrics().as_bytes()).expect("the document");
    let said = check.wait_with_output().expect("promtool");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    drop((inside, outside));
}

#[test]
fn conditions_that_nothing_meets_are_named() {
    let fleet = Fleet::new();
    let _one = start(&fleet, &["run"], &[]);
    let flags = ["--match-cgroup", "/no/such/group$", "--match-env", "POD_NAME=*"];
    let mut watch = fleet.watch("reports", "chosen", &flags);
    fleet.wait_for_line("reports", "with cgroup /no/such/group$ and POD_NAME=*: under mallow run: ");
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
}
