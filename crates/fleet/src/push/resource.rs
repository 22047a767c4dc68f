//! Whose profile it is, in OpenTelemetry's words: from what the process's own environment says and what the kernel
//! knows of it.

use std::collections::BTreeMap;

/// Attributes of a resource, at the most, and characters of each value.
const ATTRIBUTES: usize = 64;
const CHARACTERS: usize = 1024;

/// Attributes, and the variables that manifests of Kubernetes commonly put them into.
const DOWNWARD: [(&str, &str); 3] =
    [("k8s.namespace.name", "POD_NAMESPACE"), ("k8s.pod.name", "POD_NAME"), ("k8s.container.name", "CONTAINER_NAME")];
/// Labels of a process's series, and the attributes that they have, the first one that is known.
const WORKLOAD: [(&str, &[&str]); 5] = [
    ("namespace", &["k8s.namespace.name"]),
    ("pod", &["k8s.pod.name"]),
    ("pod_uid", &["k8s.pod.uid"]),
    ("container", &["k8s.container.name", "container.name"]),
    ("container_id", &["container.id"]),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// Properties of a process that other processes can read.
#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    pub pid: u32,
    /// Start of the process in ticks since the machine's start: with `boot` and `pid` it names this process and no
    /// other one.
    pub start_ticks: u64,
    /// Boot id of the machine's current start.
    pub boot: String,
    /// Path of the executable.
    pub executable: String,
    /// Environment as the kernel has it: `NAME=value`, a 0 behind each.
    pub environment: Vec<u8>,
    pub cgroup: String,
    pub host: String,
}

/// Attributes of the process that a profile belongs to. No command line is among them: arguments may be secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    attributes: BTreeMap<String, Value>,
}

impl Resource {
    /// The resource of a process. Its environment comes first, save for what the kernel knows better.
    pub fn of(facts: &ProcessFacts) -> Self {
        let mut attributes = BTreeMap::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                attributes.insert(key.to_owned(), Value::Text(cut(value)));
            }
        };
        let name = facts.executable.rsplit('/').next().unwrap_or_default();
        text("service.name", if name.is_empty() { "unknown_service" } else { name });
        text("service.instance.id", &format!("{}-{}-{}", facts.boot, facts.pid, facts.start_ticks));
        text("host.name", &facts.host);
        text("container.id", container_id(&facts.cgroup).unwrap_or_default());
        text("k8s.pod.uid", &pod_uid(&facts.cgroup).unwrap_or_default());
        let variable = |name: &str| {
            let mut all = facts.environment.split(|byte| *byte == 0);
            let value = all.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        for (key, name) in DOWNWARD {
            text(key, &variable(name).unwrap_or_default());
        }
        let listed = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (key, value) in pairs(&listed).into_iter().take(ATTRIBUTES) {
            text(&key, &value);
        }
        text("service.name", &variable("OTEL_SERVICE_NAME").unwrap_or_default());
        text("process.executable.name", name);
        text("process.executable.path", &facts.executable);
        attributes.insert("process.pid".to_owned(), Value::Number(facts.pid.into()));
        Self { attributes }
    }

    /// The attributes that several processes that ended have in common.
    pub fn common(all: &[&Self]) -> Self {
        let mut attributes = all.first().map(|first| first.attributes.clone()).unwrap_or_default();
        attributes.retain(|key, value| all.iter().all(|other| other.attributes.get(key) == Some(value)));
        attributes.entry("service.name".to_owned()).or_insert(Value::Text("unknown_service".to_owned()));
        Self { attributes }
    }

    /// Attributes by their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.attributes.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Namespace, pod and container, as far as they are known, by the label that series of Kubernetes have for each. No
    /// value is empty.
    pub fn workload(&self) -> BTreeMap<&'static str, String> {
        let value = |key: &&str| match self.attributes.get(*key) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        WORKLOAD.into_iter().filter_map(|(label, keys)| Some((label, keys.iter().find_map(value)?))).collect()
    }

    pub fn service(&self) -> &str {
        match self.attributes.get("service.name") {
            Some(Value::Text(name)) => name,
            _ => "unknown_service",
        }
    }

    /// Keys as Prometheus' kind of labels has them, without the service's name: `process_pid`. Of two that become the
    /// same the first one stays.
    pub fn labels(&self) -> Vec<(String, String)> {
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (key, value) in self.iter().filter(|(key, _)| *key != "service.name") {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let mut name: String = key.chars().map(plain).collect();
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                name.insert(0, '_');
            }
            let value = match value {
                Value::Text(text) => text.clone(),
                Value::Number(number) => number.to_string(),
            };
            labels.entry(name).or_insert(value);
        }
        labels.into_iter().collect()
    }
}

fn cut(value: &str) -> String {
    value.chars().take(CHARACTERS).collect()
}

/// `key=value` between commas, percent-encoded. What cannot be read makes all of it void, as OpenTelemetry wants it.
fn pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let all: Option<Vec<_>> = parts
        .map(|part| {
            let (key, value) = part.split_once('=')?;
            let key = decoded(key.trim())?;
            (!key.is_empty()).then_some((key, decoded(value.trim())?))
        })
        .collect();
    all.unwrap_or_default()
}

/// None: a `%` without two hexadecimal digits, or no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || (rest.next()? as char).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

/// The last name of 64 hexadecimal digits: `docker-ID.scope`, `cri-containerd-ID.scope`, `…/docker/ID`.
fn container_id(cgroup: &str) -> Option<&str> {
    let mut words = cgroup.split(|c: char| !c.is_ascii_hexdigit());
    words.rfind(|word| word.len() == 64 && !word.contains(|c: char| c.is_ascii_uppercase()))
}

/// `…/kubepods-burstable-podUID.slice/…` of systemd has `_` in place of `-`, `…/kubepods/burstable/podUID/…` has not.
/// In a namespace of control groups the path begins with that of mallow's own: `/../../podUID/…`.
fn pod_uid(cgroup: &str) -> Option<String> {
    const LENGTH: usize = 36;
    let (_, pods) = cgroup.split_once("kubepods").or_else(|| cgroup.split_once(":/.."))?;
    let starts = pods.match_indices("pod").map(|(at, _)| &pods[at + 3..]);
    let mut uids = starts.filter_map(|rest| rest.get(..LENGTH)).map(|uid| uid.replace('_', "-"));
    uids.find(|uid| {
        let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        uid.bytes().enumerate().all(|(at, byte)| if dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
    })
}

#[cfg(test)]
mod tests {
    use super::{ProcessFacts, Resource, Value, pairs};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn text<'a>(resource: &'a Resource, key: &str) -> Option<&'a str> {
        match resource.attributes.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn facts(environment: &str, cgroup: &str) -> ProcessFacts {
        ProcessFacts {
            pid: 4711,
            start_ticks: 99,
            boot: "b".to_owned(),
            executable: "/usr/bin/redis-server".to_owned(),
            environment: environment.replace('|', "\0").into_bytes(),
            cgroup: cgroup.to_owned(),
            host: "h".to_owned(),
        }
    }

    #[test]
    fn the_environment_of_the_process_names_the_service() {
        let plain = Resource::of(&facts("PATH=/bin", "0::/"));
        assert_eq!((plain.service(), text(&plain, "service.version")), ("redis-server", None));
        assert_eq!(plain.attributes["process.pid"], Value::Number(4711));
        assert_eq!(text(&plain, "service.instance.id"), Some("b-4711-99"));
        assert_eq!(text(&plain, "container.id"), None);
        let listed =
            "A=1|OTEL_RESOURCE_ATTRIBUTES=service.name=a,service.version=1%2C2, k8s.pod.name=p%20q,process.pid=1";
        let named = Resource::of(&facts(listed, ""));
        assert_eq!((named.service(), text(&named, "service.version")), ("a", Some("1,2")));
        assert_eq!(text(&named, "k8s.pod.name"), Some("p q"));
        // The kernel knows better.
        assert_eq!(named.attributes["process.pid"], Value::Number(4711));
        let both = Resource::of(&facts(&format!("{listed}|OTEL_SERVICE_NAME=b"), ""));
        assert_eq!(both.service(), "b");
        assert!(!both.attributes.contains_key("process.command_line"), "{both:?}");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_void() {
        assert_eq!(pairs("a=1,b=2"), [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        for wrong in ["a=1,b", "a=%4", "a=%zz", "=1", "a=%ff"] {
            assert!(pairs(wrong).is_empty(), "{wrong}");
        }
        assert!(pairs("").is_empty() && pairs(" , ,").is_empty());
    }

    #[test]
    fn containers_and_pods_are_in_the_path() {
        let of = |path: &str| {
            let resource = Resource::of(&facts("", path));
            let text = |key| text(&resource, key).map(str::to_owned);
            (text("container.id"), text("k8s.pod.uid"))
        };
        let id = Some(ID.to_owned());
        assert_eq!(of(&format!("0::/system.slice/docker-{ID}.scope\n")), (id.clone(), None));
        assert_eq!(of(&format!("5:cpu:/docker/{ID}\n")), (id.clone(), None));
        let uid = Some("c1e2a3b4-0000-1111-2222-333344445555".to_owned());
        let slice = "kubepods-burstable-podc1e2a3b4_0000_1111_2222_333344445555.slice";
        let path = format!("0::/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope\n");
        assert_eq!(of(&path), (id.clone(), uid.clone()));
        assert_eq!(
            of(&format!("1:x:/kubepods/podc1e2a3b4-0000-1111-2222-333344445555/{ID}\n")),
            (id.clone(), uid.clone())
        );
        // As a mallow in a pod sees another pod.
        assert_eq!(of(&format!("0::/../../podc1e2a3b4-0000-1111-2222-333344445555/{ID}\n")), (id, uid));
        assert_eq!(of("0::/user.slice/podman.scope\n"), (None, None));
        assert_eq!(of("0::/kubepods/podü1e2a3b4-0000-1111-2222-333344445555"), (None, None));
    }

    #[test]
    fn a_workload_is_what_the_manifest_and_the_kernel_say() {
        let of = |environment: &str, cgroup: &str| Resource::of(&facts(environment, cgroup)).workload();
        assert!(of("PATH=/bin|POD_NAME=", "0::/").is_empty());
        let pod = format!("0::/kubepods/podc1e2a3b4-0000-1111-2222-333344445555/{ID}");
        let all = of("POD_NAMESPACE=shop|POD_NAME=web-1|CONTAINER_NAME=app", &pod);
        let pairs: Vec<(&str, &str)> = all.iter().map(|(label, value)| (*label, value.as_str())).collect();
        let uid = ("pod_uid", "c1e2a3b4-0000-1111-2222-333344445555");
        assert_eq!(pairs, [("container", "app"), ("container_id", ID), ("namespace", "shop"), ("pod", "web-1"), uid]);
        // OpenTelemetry's own list is the more specific one.
        let listed = "POD_NAME=a|OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=b,container.name=c";
        let all = of(listed, "");
        assert_eq!((all["pod"].as_str(), all["container"].as_str(), all.len()), ("b", "c", 2));
    }

    #[test]
    fn labels_are_plain_and_each_comes_once() {
        let resource = Resource::of(&facts("OTEL_RESOURCE_ATTRIBUTES=a.b=1,a-b=2,1x=3", ""));
        let labels = resource.labels();
        let of = |name: &str| labels.iter().filter(|(key, _)| key == name).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
        assert_eq!((of("a_b"), of("_1x"), of("service_name")), (vec!["2"], vec!["3"], vec![]));
        assert_eq!(of("process_pid"), ["4711"]);
    }

    #[test]
    fn several_share_what_is_the_same() {
        let one = Resource::of(&facts("OTEL_SERVICE_NAME=s", ""));
        let other = Resource::of(&ProcessFacts { pid: 2, ..facts("OTEL_SERVICE_NAME=s", "") });
        let common = Resource::common(&[&one, &other]);
        assert_eq!((common.service(), common.attributes.get("process.pid")), ("s", None));
        assert_eq!(text(&common, "host.name"), Some("h"));
        assert_eq!(Resource::common(&[]).service(), "unknown_service");
    }
}
