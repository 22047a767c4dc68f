//! The documents that a path and its query name.

use std::fmt;

/// A longer difference is two requests.
pub const LONGEST_DELTA_S: u32 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// The names of the others, for people.
    Index,
    /// A profile in pprof's format.
    Heap {
        /// The sample type that readers show first.
        shown_first: &'static str,
        /// The profile is of what changes within so many seconds; 0: of everything so far.
        seconds: u32,
    },
    HeapText,
    /// Numbers in Prometheus' text format.
    Metrics,
    Health,
}

/// A query that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuery(String);

impl fmt::Display for BadQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Document {
    /// The document of an address; `parameter` gives the first value of a name of its query. None: there is none.
    pub fn of<'q>(path: &str, parameter: impl Fn(&str) -> Option<&'q str>) -> Option<Result<Self, BadQuery>> {
        let profile = |shown_first| {
            let number = |name: &str| match parameter(name).filter(|text| !text.is_empty()) {
                None => Ok(0),
                Some(text) => text.parse::<u32>().map_err(|_| BadQuery(format!("{name} must be a whole number"))),
            };
            let (debug, seconds) = (number("debug")?, number("seconds")?);
            match (debug, seconds) {
                (_, seconds) if seconds > LONGEST_DELTA_S => {
                    Err(BadQuery(format!("seconds must be {LONGEST_DELTA_S} at most")))
                }
                (0, seconds) => Ok(Self::Heap { shown_first, seconds }),
                (_, 0) => Ok(Self::HeapText),
                // As Go's server says it.
                _ => Err(BadQuery("seconds and debug exclude each other".to_owned())),
            }
        };
        Some(match path {
            "/" | "/debug/pprof" | "/debug/pprof/" => Ok(Self::Index),
            "/debug/pprof/heap" => profile("inuse_space"),
            "/debug/pprof/allocs" => profile("alloc_space"),
            "/metrics" => Ok(Self::Metrics),
            "/healthz" => Ok(Self::Health),
            _ => return None,
        })
    }

    pub fn index() -> &'static str {
        "Mallow watches a program. All numbers are estimates from samples.\n\n\
         /debug/pprof/heap      live blocks, as pprof (go tool pprof reads the address)\n\
         /debug/pprof/allocs    all allocations, as pprof\n\
         \x20   ?seconds=N         what changes within N seconds\n\
         \x20   ?debug=1           text\n\
         /metrics               numbers for Prometheus\n\
         /healthz               whether mallow looks at the program\n"
    }
}

#[cfg(test)]
mod tests {
    use super::Document;

    fn of(address: &'static str) -> Option<Result<Document, String>> {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let find = |name: &str| query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
        Document::of(path, |name| find(name).map(|(_, value)| value))
            .map(|document| document.map_err(|error| error.to_string()))
    }

    #[test]
    fn paths_are_those_of_go() {
        let heap = |seconds| Some(Ok(Document::Heap { shown_first: "inuse_space", seconds }));
        assert_eq!(of("/debug/pprof/heap"), heap(0));
        assert_eq!(of("/debug/pprof/heap?gc=1&debug=0&seconds=30"), heap(30));
        assert_eq!(of("/debug/pprof/allocs?debug=1"), Some(Ok(Document::HeapText)));
        for none in ["/debug/pprof/heap/", "/debug/pprof/goroutine", "/metrics/", "/../metrics", ""] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_query_that_means_nothing_is_refused() {
        for wrong in ["seconds=x", "seconds=-1", "seconds=301", "seconds=4294967296", "debug=1&seconds=1", "debug=a"] {
            let address: &'static str = format!("/debug/pprof/heap?{wrong}").leak();
            assert!(matches!(of(address), Some(Err(_))), "{wrong}");
        }
    }
}
