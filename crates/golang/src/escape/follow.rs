//! Where a function that is called lets go what it gets.

use std::collections::{BTreeSet, HashMap};

use super::Escapes;
use crate::chain;
use crate::model::Reason;
use crate::read::{Diagnostics, Leak};

/// Depth in functions to which flows are followed; a flow through more ends with the last of them.
const DEEPEST: usize = 3;

/// Flows of parameters, as far as the compiler was asked for their functions.
struct Leaks<'a> {
    by_function: HashMap<(&'a str, &'a str), Vec<&'a Leak>>,
    by_name: HashMap<&'a str, BTreeSet<&'a str>>,
}

/// The name that a package has in code, as far as its import path shows: `yaml` of `gopkg.in/yaml.v3`, `chi` of
/// `github.com/go-chi/chi/v5`.
pub fn name_of(import_path: &str) -> &str {
    let version = |part: &str| part.strip_prefix('v').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let mut parts = import_path.rsplit('/');
    let last = parts.next().unwrap_or(import_path);
    let last = if version(last) { parts.next().unwrap_or(last) } else { last };
    last.rsplit_once('.').filter(|(_, end)| version(end)).map_or(last, |(name, _)| name)
}

/// The package's name and the function of `io.ReadAtLeast`; no package where it is the caller's own.
fn parts(callee: &str) -> (Option<&str>, &str) {
    match callee.split_once('.') {
        Some((package, function)) if !package.starts_with('(') && !package.contains('[') => (Some(package), function),
        _ => (None, callee),
    }
}

impl Escapes {
    /// Names of packages whose functions let go what they get.
    pub fn leaking_packages(&self) -> BTreeSet<&str> {
        let callees = self.sites.iter().filter_map(|site| match &site.reason {
            Reason::Passed { callee, .. } => parts(callee).0,
            _ => None,
        });
        callees.collect()
    }

    /// Continues each escape flow that ends in a call with what the called function does.
    pub fn follow(&mut self, found: &[Diagnostics]) {
        let leaks = Leaks::of(found);
        for site in &mut self.sites {
            if let Reason::Passed { callee, .. } = &site.reason {
                site.chain.extend(leaks.behind(&site.package, callee, 0));
            }
        }
    }
}

impl<'a> Leaks<'a> {
    fn of(found: &'a [Diagnostics]) -> Self {
        let mut leaks = Self { by_function: HashMap::new(), by_name: HashMap::new() };
        for leak in found.iter().flat_map(|diagnostics| &diagnostics.leaks).filter(|leak| leak.to == "{heap}") {
            let Some(function) = leak.function.as_deref() else { continue };
            leaks.by_function.entry((&leak.package, function)).or_default().push(leak);
            leaks.by_name.entry(name_of(&leak.package)).or_default().insert(&leak.package);
        }
        leaks
    }

    /// The steps behind a call. Only their order shows which argument the compiler means, and that order is not known:
    /// where parameters have different flows, there are none.
    fn behind(&self, caller: &str, callee: &str, depth: usize) -> Vec<String> {
        let (name, function) = parts(callee);
        let known = |package: &&'a str| self.by_function.contains_key(&(*package, function));
        let package = match name {
            None => Some(caller),
            Some(name) => {
                let mut packages = self.by_name.get(name).into_iter().flatten().copied().filter(known);
                packages.next().filter(|_| packages.next().is_none())
            }
        };
        let Some(leaks) = package.and_then(|package| self.by_function.get(&(package, function))) else {
            return Vec::new();
        };
        let flows: BTreeSet<Vec<String>> = leaks.iter().map(|leak| self.flow(leak, depth)).collect();
        match flows.len() {
            1 => flows.into_iter().next().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    fn flow(&self, leak: &Leak, depth: usize) -> Vec<String> {
        // Lines have their files: they are another function's.
        let mut flow = chain::words(&leak.flow);
        if depth + 1 < DEEPEST
            && let Reason::Passed { callee, .. } = Reason::of(crate::model::Kind::Variable, &leak.flow)
        {
            flow.extend(self.behind(&leak.package, &callee, depth + 1));
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;

    #[test]
    fn names_of_packages() {
        for (path, name) in [
            ("io", "io"),
            ("encoding/json", "json"),
            ("github.com/go-chi/chi/v5", "chi"),
            ("gopkg.in/yaml.v3", "yaml"),
            ("v2", "v2"),
        ] {
            assert_eq!(name_of(path), name);
        }
        assert_eq!(parts("io.ReadAtLeast"), (Some("io"), "ReadAtLeast"));
        assert_eq!(parts("strings.(*Builder).Grow"), (Some("strings"), "(*Builder).Grow"));
        assert_eq!(parts("(*T).m"), (None, "(*T).m"));
        assert_eq!(parts("Make[go.shape.int]"), (None, "Make[go.shape.int]"));
    }

    /// What Go says of a call, and of two functions behind it.
    const CALLER: &str = "\
./a.go:5:2: x escapes to heap in F:
./a.go:5:2:   flow: {heap} ← &x:
./a.go:5:2:     from lib.Keep(&x) (call parameter) at ./a.go:6:10
./a.go:5:2: moved to heap: x
";
    const LIBRARY: &str = "\
./lib.go:3:11: parameter p leaks to {heap} for Keep with derefs=0:
./lib.go:3:11:   flow: {heap} ← p:
./lib.go:3:11:     from keep(p) (call parameter) at ./lib.go:4:6
./lib.go:7:11: parameter q leaks to {heap} for keep with derefs=0:
./lib.go:7:11:   flow: {heap} ← q:
./lib.go:7:11:     from kept = q (assign) at ./lib.go:8:7
";

    fn flows(library: &str) -> Vec<String> {
        let packages = ["example.com/a".to_owned()];
        let own = read(&packages[0], "/a", &[], CALLER).expect("text");
        let library = read("example.com/lib/v2", "/lib", &[], library).expect("text");
        let mut escapes = Escapes::of("go1.26", std::slice::from_ref(&own), &packages, "/a");
        assert_eq!(escapes.leaking_packages(), BTreeSet::from(["lib"]));
        escapes.follow(&[own, library]);
        escapes.sites.remove(0).chain
    }

    #[test]
    fn a_call_is_followed_to_where_its_parameter_goes() {
        let call = "argument of lib.Keep at 6, which leaks it to the heap";
        let expected = [call, "argument of keep at lib.go:4, which leaks it to the heap", "stored in kept at lib.go:8"];
        assert_eq!(flows(LIBRARY), expected);
        // Two parameters with different flows: nothing says which is meant.
        let second = LIBRARY
            .lines()
            .take(3)
            .map(|line| format!("{}\n", line.replace(" p ", " r ").replace("keep(p)", "other = p")));
        assert_eq!(flows(&format!("{}{LIBRARY}", second.collect::<String>())), [call]);
        assert_eq!(flows(""), [call]);
    }
}
