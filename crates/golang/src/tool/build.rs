//! Test binaries, built once.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::cache::Shelf;
use super::{Go, GoError, Input, Package};

#[derive(Clone, Debug)]
pub struct TestBinary {
    pub package: String,
    /// The package's directory, in which its tests run.
    pub directory: PathBuf,
    pub path: PathBuf,
    /// Packages that the binary was built from.
    pub inputs: Vec<Input>,
}

const PROGRAM: &str = "program.test";
const KEY: &str = "key";

impl TestBinary {
    /// Path of another program beside this one, which `make` makes when it is asked for first. None where it cannot be
    /// made.
    pub fn variant(&self, name: &str, make: impl FnOnce() -> Option<Vec<u8>>) -> io::Result<Option<PathBuf>> {
        let path = self.path.with_file_name(name);
        if path.exists() {
            return Ok(Some(path));
        }
        let (Some(program), Some(directory)) = (make(), self.path.parent()) else { return Ok(None) };
        let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempfile_in(directory)?;
        file.write_all(&program)?;
        // The program cannot be run while it is open to be written.
        file.into_temp_path().persist(&path)?;
        Ok(Some(path))
    }
}

impl Package {
    /// True where a test file may declare a benchmark. Packages without are not built.
    pub fn may_have_benchmarks(&self) -> bool {
        let may = |path: &PathBuf| fs::read(path).is_ok_and(|text| text.windows(14).any(|w| w == b"func Benchmark"));
        self.test_files.iter().any(may)
    }
}

impl Go {
    /// The package's test binary: the one of the last time where nothing changed, else built now.
    pub fn test_binary(&self, package: &Package) -> Result<TestBinary, GoError> {
        let inputs = self.inputs(std::slice::from_ref(&package.import_path), true, true)?;
        let binary = |path| TestBinary {
            package: package.import_path.clone(),
            directory: package.directory.clone(),
            path,
            inputs: inputs.clone(),
        };
        let key = self.key(&inputs);
        let name = format!("{:016x}", fingerprint(&key));
        if let Some(entry) = self.cache.find(Shelf::Binaries, &name)
            && fs::read_to_string(entry.join(KEY)).is_ok_and(|kept| kept == key)
        {
            return Ok(binary(entry.join(PROGRAM)));
        }
        let draft = self.cache.draft()?;
        self.link(package, &draft.path().join(PROGRAM))?;
        fs::write(draft.path().join(KEY), &key).map_err(|error| self.cache.failed(error))?;
        let entry = self.cache.keep(Shelf::Binaries, &name, draft.path())?;
        Ok(binary(entry.join(PROGRAM)))
    }

    /// Builds the test binary into `to`. What `go vet` refuses compiles and runs.
    fn link(&self, package: &Package, to: &Path) -> Result<(), GoError> {
        let more = ["-o".to_owned(), to.to_string_lossy().into_owned(), package.import_path.clone()];
        let output = self.run(&["test", "-c", "-vet=off"], &more)?;
        match output.status.success() && to.exists() {
            true => Ok(()),
            false => Err(GoError::does_not_compile(&package.import_path, &output.stderr)),
        }
    }

    /// Text of all that the binary depends on.
    fn key(&self, inputs: &[Input]) -> String {
        let mut key = format!("{}\n{}\n", self.version_text, self.flags.join(" "));
        for variable in ["GOFLAGS", "GOEXPERIMENT", "GOAMD64", "CGO_ENABLED", "CGO_LDFLAGS"] {
            let more = self.environment.get(variable).cloned();
            let value = more.or_else(|| std::env::var(variable).ok()).unwrap_or_default();
            key.push_str(&format!("{variable}={value}\n"));
        }
        for input in inputs {
            let test = input.for_test.as_deref().unwrap_or_default();
            key.push_str(&format!("{} [{test}] {}\n", input.package, input.build_id));
        }
        key
    }
}

/// A name for a key; the key itself is compared.
fn fingerprint(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
