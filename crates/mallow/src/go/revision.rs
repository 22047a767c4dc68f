//! Another revision of the sources, beside them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// The files of a revision, in a directory that goes with this. Neither the user's files nor anything that git keeps of
/// them is written to: the index is one of its own, and `git worktree` would note the directory in the repository.
pub struct Revision {
    /// The directory of the revision that corresponds to the current one.
    pub directory: PathBuf,
    _files: TempDir,
}

impl Revision {
    /// Checks a revision out of the repository that `here` is in.
    pub fn of(here: &Path, revision: &str) -> Result<Self> {
        let commit = format!("{revision}^{{commit}}");
        // A name that begins with a dash is none of git's options.
        let commit = git(here, None, ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
            .with_context(|| format!("{revision} is no revision of git here"))?;
        let commit = commit.lines().last().unwrap_or_default().to_owned();
        let prefix = git(here, None, ["rev-parse", "--show-prefix"])?;
        let top = git(here, None, ["rev-parse", "--show-toplevel"])?;
        let files = tempfile::Builder::new().prefix("mallow-go-").tempdir().context("cannot make a directory")?;
        let index = files.path().join("index");
        let tree = files.path().join("files");
        std::fs::create_dir(&tree).with_context(|| format!("cannot make {}", tree.display()))?;
        let top = Path::new(top.trim_end_matches('\n'));
        git(top, Some(&index), ["read-tree", &commit])?;
        let into = format!("--prefix={}/", tree.display());
        git(top, Some(&index), ["checkout-index", "--all", "--quiet", &into])?;
        let directory = tree.join(prefix.trim_end_matches('\n'));
        if !directory.is_dir() {
            bail!("{revision} has no directory {}", prefix.trim_end());
        }
        Ok(Self { directory, _files: files })
    }
}

fn git<'a>(directory: &Path, index: Option<&Path>, arguments: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(arguments.into_iter().map(OsStr::new)).stdin(Stdio::null());
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    let output = command.output().context("cannot run git, which --diff needs")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("git: {}", said.lines().next().unwrap_or("it failed without a word"));
    }
    String::from_utf8(output.stdout).context("the output of git is not text")
}
