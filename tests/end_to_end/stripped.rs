//! A stripped program: its functions have no names, and unwind information shows where they begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use harness::{Run, directory, mallow, tool};
use serde_json::Value;

use crate::other_tools::ran;

/// Four functions allocate through a wrapper, each at two calls; what is allocated has a size for each.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#define OUT __attribute__((noinline, noclone))
OUT static void *do_xmalloc(size_t n, int gently) {
    void *p = malloc(n);
    if (!p && !gently) abort();
    return memset(p, 1, n);
}
void *volatile kept[16];
OUT static void read_index(void) { kept[0] = do_xmalloc(10000, 0); kept[1] = do_xmalloc(11000, 1); }
OUT static void read_pack(void) { kept[2] = do_xmalloc(20000, 0); kept[3] = do_xmalloc(21000, 1); }
OUT static void read_refs(void) { kept[4] = do_xmalloc(40000, 0); kept[5] = do_xmalloc(41000, 1); }
OUT static void read_tree(void) { kept[6] = do_xmalloc(80000, 0); kept[7] = do_xmalloc(81000, 1); }
int main(void) { read_index(); read_pack(); read_refs(); read_tree(); return 0; }
"#;

const CALLERS: [(&str, u64); 4] =
    [("read_index", 21_000), ("read_pack", 41_000), ("read_refs", 81_000), ("read_tree", 161_000)];

/// The addresses of functions, as nm has them of a build with symbols.
fn addresses(place: &Path, program: &str) -> BTreeMap<String, u64> {
    let text = ran(Run::new(tool("nm"), place).args(["--defined-only", program])).out();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let (address, name) = (words.next()?, words.nth(1)?);
        Some((name.to_owned(), u64::from_str_radix(address, 16).ok()?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_place_is_the_caller_of_a_wrapper_that_has_no_name() {
    let directory = directory();
    let place = directory.path();
    fs::write(place.join("reader.c"), PROGRAM).expect("a source");
    ran(Run::new(tool("cc"), place).args(["-O1", "-o", "named", "reader.c"]));
    ran(Run::new(tool("strip"), place).args(["-o", "reader", "named"]));
    let known = addresses(place, "named");
    ran(Run::new(mallow(), place).args(["record", "-o", "r.mallow", "--"]).arg(place.join("reader")));
    let report = ran(Run::new(mallow(), place).args(["report", "--json", "--limit", "0", "r.mallow"])).out();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let lists = report["largest"].as_array().expect("lists");
    let bytes = lists.iter().find(|list| list["by"] == "bytes").expect("a list of places");
    let row = |row: &Value| Some((row["function"].as_str()?.to_owned(), row["allocated_bytes"].as_u64()?));
    let found: BTreeSet<_> = bytes["largest"].as_array().expect("places").iter().filter_map(row).collect();
    for (name, bytes) in CALLERS {
        let row = (format!("reader+{:#x}", known[name]), bytes);
        assert!(found.contains(&row), "{name}: no {row:?} in {found:#?}");
    }
    let wrapper = format!("reader+{:#x}", known["do_xmalloc"]);
    assert!(found.iter().all(|(function, _)| *function != wrapper), "{found:#?}");
}

/// Stacks show the name by which a program was executed; what is missing of it is missing of the file.
#[test]
fn missing_names_of_a_program_behind_a_link_are_said() {
    let directory = directory();
    let place = directory.path();
    fs::write(place.join("reader.c"), PROGRAM).expect("a source");
    ran(Run::new(tool("cc"), place).args(["-O1", "-s", "-o", "reader", "reader.c"]));
    std::os::unix::fs::symlink("reader", place.join("alias")).expect("a link");
    ran(Run::new(mallow(), place).args(["record", "-o", "r.mallow", "--"]).arg(place.join("alias")));
    let report = ran(Run::new(mallow(), place).args(["report", "--json", "r.mallow"])).out();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let lacking = report["missing_names"].to_string();
    assert!(lacking.contains("/reader\""), "{lacking}");
}
