//! The programs of `advice/`, which have each allocation that Mallow advises on before and after the advice: none is
//! missing, and the list of suggestions is the one that is printed. The end-to-end test `go_advice` runs them.

use mallow_golang::Advice;

fn file(name: &str) -> String {
    let path = format!("{}/tests/advice/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_suggestion_has_its_programs() {
    let listed: Vec<String> = Advice::ALL.iter().map(|advice| format!("{advice:?}: {}", advice.text())).collect();
    assert_eq!(file("suggestions.txt").lines().collect::<Vec<_>>(), listed);
    let programs = file("advice_test.go");
    let names: Vec<&str> =
        programs.lines().filter_map(|line| line.strip_prefix("func Benchmark")?.split('(').next()).collect();
    for advice in Advice::ALL {
        let name = format!("{advice:?}");
        let variants = names.iter().filter_map(|program| program.strip_prefix(name.as_str())).collect::<Vec<_>>();
        assert!(variants.contains(&"Before") && variants.contains(&"After"), "{name}: {variants:?}");
    }
}
