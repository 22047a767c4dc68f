//! Whether this machine lets Mallow record: the same places are tried that a run uses, and left as a run leaves them.

use super::finding::Finding;
use super::limits::{self, Limits};
use crate::library::{self, Library, LibraryError};
use crate::rundir::directory::{Mode, Regions, RunDirectory, Scans, Settings};
use crate::tables::TableCache;
use rustix::fs::Access;
use std::path::Path;

/// Bytes that a process with a few threads takes of the run directory.
const ENOUGH: u64 = 16 << 20;

pub fn machine() -> Vec<Finding> {
    let mut all = Vec::new();
    let settings = Settings {
        mode: Mode::Trace,
        max_depth: 1,
        children: true,
        regions: Regions::default(),
        scan: Scans::None,
        memory: false,
        arguments: true,
    };
    match RunDirectory::create(&settings, &[]) {
        Err(error) => all.push(Finding::fails(
            "run directory",
            format!("a private directory for the run cannot be made: {error}"),
            "set TMPDIR to a directory that you can write to",
        )),
        Ok(run) => {
            all.push(run_directory(run.path()));
            all.push(self::library(&library::unpack(run.path())));
        }
    }
    all.extend([cache(), recording()]);
    all.push(limits::of_machine(&Limits::now()));
    all.push(preloaded(&std::env::var("LD_PRELOAD").unwrap_or_default()));
    all
}

fn run_directory(path: &Path) -> Finding {
    const CHECK: &str = "run directory";
    let base = path.parent().unwrap_or(path);
    let shown = base.display();
    let free = free(base);
    if free < ENOUGH {
        return Finding::partly(
            CHECK,
            format!(
                "{shown} has {} kB left: each thread needs 256 kB of it, and what does not fit is not recorded",
                free / 1000
            ),
            "make room there, or set XDG_RUNTIME_DIR to a tmpfs of your own",
        );
    }
    if !crate::rundir::directory::is_tmpfs(base) {
        return Finding::partly(
            CHECK,
            format!("{shown} is not in memory: events go through the disk, which takes longer"),
            "mount a tmpfs at /dev/shm, or set XDG_RUNTIME_DIR to one of your own",
        );
    }
    Finding::works(CHECK, format!("{shown}, in memory, {} MB left", free / 1_000_000))
}

fn library(unpacked: &Result<Library, LibraryError>) -> Finding {
    const CHECK: &str = "libmallow.so";
    match unpacked {
        Ok(library) if rustix::process::geteuid().is_root() && !library.for_all => Finding::partly(
            CHECK,
            format!(
                "{}, which root alone can read: a program that gives up root's rights and starts another makes the dynamic \
                 linker complain into its standard error",
                library.file.display()
            ),
            "make /var/cache writable, or set XDG_CACHE_HOME or TMPDIR to a directory that every user can read",
        ),
        Ok(library) => Finding::works(CHECK, library.file.display().to_string()),
        // It says what to do.
        Err(error) => Finding { remedy: None, ..Finding::fails("libmallow.so", error.to_string(), "") },
    }
}

fn cache() -> Finding {
    match TableCache::for_user() {
        Ok(cache) => Finding::works("cache", cache.directory().display().to_string()),
        Err(error) => Finding::partly(
            "cache",
            format!("unwind tables are not kept, but made anew for each run: {error}"),
            "set XDG_CACHE_HOME to a directory of your own",
        ),
    }
}

/// Checks the current directory, where recordings go.
fn recording() -> Finding {
    const CHECK: &str = "recording";
    const ROOM: u64 = 1 << 30;
    let here = std::env::current_dir().map_or_else(|_| ".".to_owned(), |path| path.display().to_string());
    if rustix::fs::access(".", Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let found = format!("{here}, where recordings go, cannot be written to");
        return Finding::partly(CHECK, found, "name another place: mallow record -o FILE");
    }
    match free(Path::new(".")) {
        free if free < ROOM => Finding::partly(
            CHECK,
            format!("{here} has {} MB left: a recording in the making takes about 12 bytes an event", free / 1_000_000),
            "make room there, or name another place: mallow record -o FILE",
        ),
        _ => Finding::works(CHECK, format!("{here} has room for it")),
    }
}

fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Checks what LD_PRELOAD loads into every program already.
fn preloaded(value: &str) -> Finding {
    const CHECK: &str = "LD_PRELOAD";
    let names: Vec<&str> = value.split([':', ' ']).filter(|name| !name.is_empty()).collect();
    let named = |begins: &[&str]| {
        let file =
            |name: &&&str| name.rsplit('/').next().is_some_and(|file| begins.iter().any(|b| file.starts_with(b)));
        names.iter().find(file).copied()
    };
    if let Some(library) = named(&["libasan", "libhwasan", "libclang_rt.asan"]) {
        return Finding::fails(
            CHECK,
            format!("{library} ends programs where another library is loaded before it"),
            "unset LD_PRELOAD",
        );
    }
    if let Some(library) = named(&["libheaptrack", "libmallow", "vgpreload", "libbytehound", "libmemray"]) {
        return Finding::partly(
            CHECK,
            format!("{library} records allocations, too: both see those of the other"),
            "unset LD_PRELOAD, and record with one at a time",
        );
    }
    match names.is_empty() {
        true => Finding::works(CHECK, "empty"),
        false => Finding::works(CHECK, format!("{}, which comes after libmallow.so", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn preloaded_libraries_are_reported() {
        for (value, status) in [
            ("", Status::Works),
            ("/usr/lib/libjemalloc.so.2", Status::Works),
            ("/a/libx.so:/usr/lib/libasan.so.8", Status::Fails),
            ("/usr/lib/heaptrack/libheaptrack_preload.so libx.so", Status::Partly),
            ("/opt/libasan/libx.so", Status::Works),
        ] {
            assert_eq!(preloaded(value).status, status, "{value}");
        }
    }
}
