//! How stores are served, in Prometheus' text format.

use std::fmt::Write;

use crate::label;

/// Fates of the profiles for one store.
#[derive(Clone, Copy, Debug, Default)]
pub struct PushCounts<'a> {
    /// Name of the store's kind: `otlp`, for instance.
    pub store: &'a str,
    pub url: &'a str,
    /// Fates, `sent` for instance, with the number of profiles of each.
    pub results: &'a [(&'static str, u64)],
    /// Profiles in the queue.
    pub waiting: u64,
}

/// The series, behind those of a watch.
pub fn push_metrics(stores: &[PushCounts<'_>]) -> String {
    let mut text = String::new();
    let labels = |of: &PushCounts<'_>| format!("store=\"{}\",url=\"{}\"", label::value(of.store), label::value(of.url));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "# HELP mallow_push_profiles_total Profiles for stores, by what became of them.\n# TYPE mallow_push_profiles_total counter"
    );
    for of in stores {
        for (result, number) in of.results {
            let _ = writeln!(text, "mallow_push_profiles_total{{{},result=\"{result}\"}} {number}", labels(of));
        }
    }
    let _ = writeln!(
        text,
        "# HELP mallow_push_waiting Profiles that wait for their store.\n# TYPE mallow_push_waiting gauge"
    );
    for of in stores {
        let _ = writeln!(text, "mallow_push_waiting{{{}}} {}", labels(of), of.waiting);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{PushCounts, push_metrics};

    #[test]
    fn each_result_is_a_series() {
        let of = PushCounts { store: "otlp", url: "http://h", results: &[("sent", 3), ("unknown", 0)], waiting: 2 };
        let text = push_metrics(&[of]);
        assert!(
            text.contains("\nmallow_push_profiles_total{store=\"otlp\",url=\"http://h\",result=\"sent\"} 3\n"),
            "{text}"
        );
        assert!(text.ends_with("\nmallow_push_waiting{store=\"otlp\",url=\"http://h\"} 2\n"), "{text}");
    }
}
