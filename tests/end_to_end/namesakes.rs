//! Functions of a user's program that are called as those of other people's libraries are: they are places all the
//! same.

use std::fs;
use std::path::Path;

use harness::{Run, directory, mallow, tool};
use serde_json::Value;

/// Each function asks for memory at the lines of `main` alone, so no shape makes a wrapper of it.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#define OUT __attribute__((noinline, noclone))
OUT static void *take(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
struct ARENA { void *p; OUT void grow(size_t n) { p = malloc(n); memset(p, 1, n); } };
struct CHUNK { OUT void *operator new(size_t n) { return memset(malloc(n), 1, n); } char bytes[30000]; };
template <class T> struct TABLE { T *p; OUT void expand(size_t n) { p = (T *)malloc(n); memset(p, 1, n); } };
namespace CORE { OUT static void *load(size_t n) { return memset(malloc(n), 1, n); } }
extern "C" { OUT void *SAFE(size_t n) { return memset(malloc(n), 1, n); } }
int main() {
    ARENA arena = {};
    arena.grow(100000);
    TABLE<int> table = {};
    table.expand(90000);
    void *safe = SAFE(80000), *core = CORE::load(70000), *mine = take(60000);
    CHUNK *chunk = new CHUNK;
    free(arena.p), free(table.p), free(safe), free(core), free(mine), free(chunk);
}
"#;

const THEIRS: [&str; 5] = ["ARENA=Arena", "CHUNK=Chunk", "TABLE=hash_table", "CORE=core", "SAFE=safe_malloc"];
const OURS: [&str; 5] = ["ARENA=Pool", "CHUNK=Piece", "TABLE=my_table", "CORE=engine", "SAFE=my_safe"];

/// The places by peak of the program with these names, as `function of bytes`, in the names that it was given.
fn places(place: &Path, name: &str, names: [&str; 5], debug: bool) -> Vec<(String, u64)> {
    let source = place.join("namesakes.cc");
    fs::write(&source, PROGRAM).expect("a source");
    let flags = names.map(|name| format!("-D{name}"));
    let built = Run::new(tool("c++"), place).args(["-O1", "-rdynamic", "-o", name]).args(&flags);
    let built = built.args(debug.then_some("-g")).arg(&source).go();
    assert_eq!(built.status, 0, "{}", built.err());
    let file = format!("{name}.mallow");
    let run = Run::new(mallow(), place).args(["record", "-o", &file, "--"]).arg(place.join(name)).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let run = Run::new(mallow(), place).args(["report", "--json", "--limit", "0", &file]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let report: Value = serde_json::from_str(&run.out()).expect("JSON");
    let lists = report["largest"].as_array().expect("lists");
    let peak = lists.iter().find(|list| list["by"] == "peak").expect("a list of places");
    let all = peak["largest"].as_array().expect("places").iter();
    let all = all.map(|row| (row["function"].as_str().unwrap_or_default(), row["peak_bytes"].as_u64().unwrap_or(0)));
    all.filter(|(_, bytes)| (30_000..=100_000).contains(bytes)).map(|(name, n)| (name.to_owned(), n)).collect()
}

#[test]
fn a_users_function_is_the_place_whatever_it_is_called() {
    let directory = directory();
    let place = directory.path();
    for debug in [true, false] {
        let theirs = places(place, "theirs", THEIRS, debug);
        let mut ours = places(place, "ours", OURS, debug);
        for (theirs, own) in THEIRS.iter().zip(OURS) {
            let name = |definition: &str| definition.split('=').nth(1).unwrap_or_default().to_owned();
            for (function, _) in &mut ours {
                *function = function.replace(&name(own), &name(theirs));
            }
        }
        let named = |name: &str| theirs.iter().any(|(function, _)| function.contains(name));
        for name in ["Arena::grow", "hash_table<int>::expand", "Chunk::operator new", "safe_malloc"] {
            assert!(named(name), "{name}, debug {debug}: {theirs:?}");
        }
        assert_eq!(theirs, ours, "debug {debug}");
    }
}
