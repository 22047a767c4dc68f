//! A project with cases of `mallow test`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Outcome, Run, document, mallow, program};

/// A directory with a `mallow.toml`.
#[derive(Debug)]
pub struct Project(tempfile::TempDir);

impl Project {
    /// With this text.
    pub fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("mallow.toml"), toml).expect("a file");
        Self(dir)
    }

    /// A program with these regions.
    pub fn of_regions(regions: &[&str]) -> Self {
        Self::new(&Self::case(regions, ""))
    }

    /// The text of a case: `tests/targets/gate.cpp` with these regions, and more keys.
    pub fn case(regions: &[&str], more: &str) -> String {
        let target = program("gate");
        format!("[[case]]\ncommand = [{:?}, {}]\nregions = 'all'\nruns = 3\n{more}\n", target, list(regions))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `mallow test` with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(arguments, &[])
    }

    /// The same with more in its environment.
    pub fn run_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let mut run = Run::new(mallow(), self.path()).arg("test").args(arguments);
        for (name, value) in environment {
            run = run.env(name, Some(value));
        }
        run.go()
    }

    /// Makes the baseline, which must work.
    pub fn update(&self) {
        let done = self.run(&["--update"]);
        assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    }

    /// What the baseline says.
    pub fn baseline(&self) -> Value {
        let text = fs::read_to_string(self.path().join("mallow.baseline.json")).expect("a baseline");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

/// What was printed, as JSON.
pub fn json(outcome: &Outcome) -> Value {
    assert!(!outcome.stdout.is_empty(), "{}", outcome.err());
    document(&outcome.stdout)
}
