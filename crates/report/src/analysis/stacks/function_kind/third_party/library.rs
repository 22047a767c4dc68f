//! What identifies the code of a library: its modules, its source files.

/// A library, or a family of programs that share code.
#[derive(Debug)]
pub struct Library {
    /// File names of the library's modules, without a version or suffix behind them.
    pub modules: &'static [&'static str],
    /// Ends of the paths of the library's source files; a directory, in slashes, may be anywhere in a path.
    pub sources: &'static [&'static str],
    /// Short names of functions that hand out memory. Underscores in front are left out.
    pub allocators: &'static [&'static str],
    /// Short names of functions of the library's containers.
    pub containers: &'static [&'static str],
}

impl Library {
    /// Whether a function of this source file and module is the library's.
    pub fn is_from(&self, file: Option<&str>, module: Option<&str>) -> bool {
        module.is_some_and(|module| self.modules.iter().any(|name| is_module(module, name)))
            || file.is_some_and(|file| self.sources.iter().any(|source| is_source(file, source)))
    }
}

/// Whether the module's file, by its path, is called `name`.
pub fn is_module(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_library = |rest: &str| rest.is_empty() || rest.starts_with(['.', '-']);
    let is_version = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-'));
    if let Some(rest) = file.strip_prefix(name) {
        let shared = file.contains(".so");
        return is_version(rest) || shared && (is_library(rest) || rest.starts_with(|c: char| c.is_ascii_digit()));
    }
    // A tool for another target, and what package managers call a program beside its wrapper.
    let tool = file.split_once("-linux-").and_then(|(_, rest)| rest.split_once('-')).map(|(_, tool)| tool);
    tool.and_then(|tool| tool.strip_prefix(name)).is_some_and(is_version)
}

/// Whether a path is that of a source file of a library.
pub fn is_source(path: &str, source: &str) -> bool {
    if source.starts_with('/') && source.ends_with('/') {
        return path.contains(source);
    }
    path.strip_suffix(source).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
