//! Texts of source files, as debug information names them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FileType, Mode, OFlags};

/// Larger ones are no sources. Generated ones of some 10 MB exist.
const LARGEST: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// The file that it was read from.
    pub path: PathBuf,
    /// Content of the file; U+FFFD stands for what is no UTF-8.
    pub text: String,
    /// When the file was last written.
    pub written: SystemTime,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("not found")]
    NotFound,
    #[error("{0}: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("{0} is no text")]
    NoText(PathBuf),
}

/// True for a path that looks like one of a source file: by its extension, or, as C++ has headers without one, by a
/// directory for headers. Debug information may name any file, and not each is to be passed on to others as a source.
pub fn is_source_name(name: &str) -> bool {
    const EXTENSIONS: [&str; 65] = [
        "ada", "adb", "ads", "asm", "c", "c++", "cc", "cp", "cpp", "cppm", "cr", "cu", "cuh", "cxx", "d", "def", "di",
        "f", "f03", "f08", "f77", "f90", "f95", "for", "go", "gperf", "h", "h++", "hh", "hpp", "hs", "hxx", "i", "ii",
        "inc", "inl", "ipp", "ixx", "java", "jl", "kt", "l", "ll", "m", "ml", "mm", "nim", "pas", "pp", "proto", "py",
        "pyx", "re", "rl", "rs", "s", "scala", "swift", "t", "tcc", "tpp", "vala", "y", "yy", "zig",
    ];
    let path = Path::new(name);
    match path.extension() {
        Some(extension) => {
            let extension = extension.to_string_lossy().to_ascii_lowercase();
            EXTENSIONS.contains(&extension.as_str())
        }
        None => {
            let headers = |part: Component| matches!(part.as_os_str().to_str(), Some("include" | "c++"));
            let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            !hidden && path.parent().is_some_and(|folder| folder.components().any(headers))
        }
    }
}

/// Reads the source file that debug information calls `name`. In this order: the path as it is; below each of
/// `directories`, the longest end of the path that is there. A relative path is not looked for where the caller happens
/// to be: that would find any file of this name.
pub fn source_text(name: &str, directories: &[PathBuf]) -> Result<SourceText, SourceError> {
    let name = Path::new(name);
    let mut candidates = Vec::new();
    if name.is_absolute() {
        candidates.push(name.to_owned());
    }
    // What `..` leads to depends on directories that are not there.
    let parts: Vec<_> = name.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    if name.components().all(|part| part != Component::ParentDir) {
        for directory in directories {
            candidates.extend((0..parts.len()).map(|from| directory.join(parts[from..].iter().collect::<PathBuf>())));
        }
    }
    let mut refused = SourceError::NotFound;
    for path in candidates {
        match read(&path) {
            Ok(text) => return Ok(text),
            Err(SourceError::NotFound) => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Reads only regular files: a name may be that of a pipe or a device, which opening would wait for or set in motion.
fn read(path: &Path) -> Result<SourceText, SourceError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SourceError::NotFound,
        _ => SourceError::Unreadable(path.to_owned(), error),
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| refused(e.into()))?.into();
    let stat = rustix::fs::fstat(&file).map_err(|e| refused(e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(SourceError::NoText(path.to_owned()));
    }
    let written = file.metadata().and_then(|m| m.modified()).map_err(refused)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > LARGEST || bytes.contains(&0) {
        return Err(SourceError::NoText(path.to_owned()));
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok(SourceText { path: path.to_owned(), text, written })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn text(name: &str, directories: &[PathBuf]) -> Result<String, String> {
        source_text(name, directories).map(|found| found.text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_path_itself_comes_first_then_its_longest_end_below_a_directory() {
        let place = tempfile::tempdir().unwrap();
        let below = |path: &str| place.path().join(path);
        let put = |path: &str, text: &str| {
            fs::create_dir_all(below(path).parent().unwrap()).unwrap();
            fs::write(below(path), text).unwrap();
        };
        put("there/a.c", "itself");
        put("d/lib/a.c", "lib");
        put("d/a.c", "bare");
        let directories = [below("nowhere"), below("d")];
        assert_eq!(text(below("there/a.c").to_str().unwrap(), &directories).unwrap(), "itself");
        assert_eq!(text("/build/x/lib/a.c", &directories).unwrap(), "lib");
        assert_eq!(text("/build/x/src/a.c", &directories).unwrap(), "bare");
        assert_eq!(text("./lib/a.c", &directories).unwrap(), "lib");
        assert_eq!(text("lib/a.c", &[]).unwrap_err(), "not found");
        assert_eq!(text("/build/../a.c", &directories).unwrap_err(), "not found");
        assert_eq!(text("", &directories).unwrap_err(), "not found");
    }

    #[test]
    fn only_sources_are_taken_for_sources() {
        for name in ["/a/b.c", "b.CC", "/rustc/abc/library/alloc/src/vec/mod.rs", "/usr/include/c++/12/vector", "a.tcc"]
        {
            assert!(is_source_name(name), "{name}");
        }
        for name in ["/etc/shadow", "/home/a/.ssh/id_rsa", "/include/.netrc", "/c++/..", "", "<built-in>", "a.pem", "/"]
        {
            assert!(!is_source_name(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("zero.c"), b"a\0b").unwrap();
        fs::write(path("latin.c"), b"gr\xf6\xdfe\n").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe.c"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["zero.c", "pipe.c", ".", "/dev/zero"] {
            let path = path(name);
            assert_eq!(text(path.to_str().unwrap(), &[]).unwrap_err(), format!("{} is no text", path.display()));
        }
        assert_eq!(text(path("latin.c").to_str().unwrap(), &[]).unwrap(), "gr\u{fffd}\u{fffd}e\n");
    }
}
