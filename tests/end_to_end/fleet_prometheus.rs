//! Prometheus scrapes a watched program, answers PromQL and each query of the dashboard, and fires the alert of
//! `examples/deploy/`.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use harness::{directory, tool, workspace};
use serde_json::Value;

use crate::fleet::Watched;
use crate::watch_harness::{Alive, until_or};

pub fn promtool(arguments: &[&str]) -> String {
    let ended = Command::new(tool("promtool")).args(arguments).output().expect("promtool");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn the_shipped_alerts_fire_on_growth_and_their_tests_find_rules_that_cannot() {
    let shipped = |name: &str| fs::read_to_string(workspace().join("examples/deploy").join(name)).expect(name);
    let (rules, tests) = (shipped("prometheus-rules.yml"), shipped("prometheus-rules-test.yml"));
    let passes = |rules: &str| {
        let place = directory();
        fs::write(place.path().join("prometheus-rules.yml"), rules).expect("a file");
        let path = place.path().join("tests.yml");
        fs::write(&path, &tests).expect("a file");
        let ended = Command::new(tool("promtool")).args(["test", "rules"]).arg(&path).output().expect("promtool");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        (ended.status.success(), said)
    };
    let (passed, said) = passes(&rules);
    assert!(passed, "{said}");
    // A verdict or a series that is never served, a threshold that nothing reaches, a wait that is never over, a
    // condition that no longer asks for significance.
    for (right, wrong) in [
        ("{verdict=\"growing\"}", "{verdict=\"grows\"}"),
        ("mallow_place_growth_bytes_per_hour_low", "mallow_growing_places"),
        ("> 1e6", "> 1e16"),
        ("> 1e6", "> 1e5"),
        ("for: 5m", "for: 5h"),
        ("{verdict=\"growing\"}", "{verdict=~\"growing|so_far\"}"),
        ("increase(mallow_lost_total[10m])", "increase(mallow_losses_total[10m])"),
        ("{result!=\"sent\"}", "{result=\"refused\"}"),
        ("{result!=\"sent\"}", ""),
        ("mallow_unwatched_processes > 0", "mallow_unwatched_processes > 2"),
        ("up{job=\"mallow\"}", "up"),
    ] {
        assert!(rules.contains(right), "{right}");
        let (passed, said) = passes(&rules.replace(right, wrong));
        assert!(!passed && said.contains("FAILED"), "{wrong} instead of {right}: {said}");
    }
}

#[test]
fn prometheus_names_the_function_that_leaks() {
    let place = directory();
    let rules = workspace().join("examples/deploy/prometheus-rules.yml");
    promtool(&["check", "rules", rules.to_str().expect("a path")]);
    // The same alerts, without the wait that spares people.
    let text = fs::read_to_string(&rules).expect("the rules");
    assert!(text.contains("for: 5m"), "{text}");
    fs::write(place.path().join("rules.yml"), text.replace("for: 5m", "for: 0s")).expect("a file");

    let watched = Watched::start(place.path(), &["--listen", "127.0.0.1:0", "--warm-up", "1s"]);
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n  \
         - job_name: mallow\n    static_configs: [{{targets: ['{}']}}]\n",
        watched.address
    );
    let path = place.path().join("prometheus.yml");
    fs::write(&path, config).expect("a file");
    promtool(&["check", "config", path.to_str().expect("a path")]);
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let server = format!("http://127.0.0.1:{port}");
    let log = fs::File::create(place.path().join("log")).expect("a file");
    let mut command = Command::new(tool("prometheus"));
    command.current_dir(place.path()).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus = Alive::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log));

    let query = |query: &str| {
        let arguments = ["query", "instant", "--format", "json", &server, query];
        let ended = Command::new(tool("promtool")).args(arguments).output().expect("promtool");
        serde_json::from_slice::<Value>(&ended.stdout).ok()?.as_array()?.first().cloned()
    };
    let in_vain = |what: &str| -> Value {
        let (log, errors) =
            (fs::read_to_string(place.path().join("log")), fs::read_to_string(place.path().join("errors")));
        panic!("no {what}: {log:?} {errors:?}\n{}", watched.text("/metrics"))
    };
    let interval = "mallow_live_bytes > mallow_live_bytes_low and mallow_live_bytes < mallow_live_bytes_high";
    until_or(|| query(interval), || in_vain("interval"));
    until_or(|| query("rate(mallow_allocated_bytes_total[10s]) > 1000"), || in_vain("rate"));
    let alert =
        until_or(|| query("ALERTS{alertname=\"MallowMemoryGrows\",alertstate=\"firing\"}"), || in_vain("alert"));
    assert_eq!(alert["metric"]["function"], "keep_request", "{alert}");
    assert!(alert["metric"]["location"].as_str().is_some_and(|at| at.starts_with("server.c:")), "{alert}");
    assert_eq!(query("count(mallow_place_growth_bytes_per_hour) > 20"), None);
    // Each query of the dashboard has an answer while the program grows and the alert fires.
    let queries = dashboard_queries();
    assert!(queries.len() > 10, "{queries:?}");
    for text in queries {
        until_or(|| query(&text), || in_vain(&text));
    }
}

/// The dashboard's queries, of all jobs and instances.
fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(workspace().join("examples/deploy/grafana-dashboard.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids: Vec<i64> = panels.iter().map(|panel| panel["id"].as_i64().expect("a number")).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("queries"));
    let queries = targets.map(|target| target["expr"].as_str().expect("a query").to_owned());
    let known = [("$job", ".*"), ("$instance", ".*"), ("$__rate_interval", "10s")];
    let queries = queries.map(|query| known.iter().fold(query, |query, (name, value)| query.replace(name, value)));
    let queries: Vec<String> = queries.collect();
    assert!(queries.iter().all(|query| !query.contains('$')), "{queries:?}");
    queries
}
