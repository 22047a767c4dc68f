//! Which packages there are, and what their builds are made of.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Go, GoError};

#[derive(Clone, Debug)]
pub struct Package {
    pub import_path: String,
    pub directory: PathBuf,
    /// Test files of the package and of its external test package.
    pub test_files: Vec<PathBuf>,
    /// Error of `go list`; None for a package that it can load.
    pub broken: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Input {
    /// Import path, without the test that the package is a variant for.
    pub package: String,
    /// The package whose test this one was compiled anew for.
    pub for_test: Option<String>,
    /// The compiler's inputs and output, as the Go tool identifies them; empty for packages that are not compiled.
    pub build_id: String,
    /// Whether the package is part of the standard library.
    pub standard: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    dir: PathBuf,
    import_path: String,
    name: String,
    standard: bool,
    for_test: String,
    #[serde(rename = "BuildID")]
    build_id: String,
    test_go_files: Vec<PathBuf>,
    #[serde(rename = "XTestGoFiles")]
    x_test_go_files: Vec<PathBuf>,
    error: Option<ListedError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedError {
    err: String,
}

impl Go {
    /// The packages that the patterns match, as `go list` understands them.
    pub fn packages(&self, patterns: &[String]) -> Result<Vec<Package>, GoError> {
        let fields = "-json=Dir,ImportPath,Name,TestGoFiles,XTestGoFiles,Error";
        let output = self.run(&["list", "-e", fields], patterns)?;
        let listed = parse(&output.stdout)?;
        if !output.status.success() {
            return Err(GoError::says("go list", &output.stderr));
        }
        if listed.is_empty() {
            return Err(GoError::NoPackage(patterns.join(" ")));
        }
        let package = |listed: Listed| {
            let tests = listed.test_go_files.iter().chain(&listed.x_test_go_files);
            Package {
                test_files: tests.map(|file| listed.dir.join(file)).collect(),
                // A directory that has nothing but tests has no name of its own, and is no error.
                broken: listed
                    .error
                    .filter(|_| listed.name.is_empty() || listed.test_go_files.is_empty())
                    .map(|error| error.err.lines().next().unwrap_or_default().trim().to_owned()),
                import_path: listed.import_path,
                directory: listed.dir,
            }
        };
        Ok(listed.into_iter().map(package).collect())
    }

    /// Compiles what the packages need, and returns its inputs: everything with `deps`, for the test with `test`.
    pub fn inputs(&self, packages: &[String], deps: bool, test: bool) -> Result<Vec<Input>, GoError> {
        let mut verb = vec!["list", "-export", "-json=ImportPath,BuildID,ForTest,Standard"];
        verb.extend(deps.then_some("-deps"));
        verb.extend(test.then_some("-test"));
        let output = self.run(&verb, packages)?;
        if !output.status.success() {
            return Err(GoError::does_not_compile(&packages.join(" "), &output.stderr));
        }
        let input = |listed: Listed| Input {
            package: listed.import_path.split(' ').next().unwrap_or_default().to_owned(),
            for_test: Some(listed.for_test).filter(|test| !test.is_empty()),
            build_id: listed.build_id,
            standard: listed.standard,
        };
        Ok(parse(&output.stdout)?.into_iter().map(input).collect())
    }
}

fn parse(json: &[u8]) -> Result<Vec<Listed>, GoError> {
    let objects = serde_json::Deserializer::from_slice(json).into_iter();
    objects.collect::<Result<_, _>>().map_err(|error| GoError::Answer("go list", error.to_string()))
}
